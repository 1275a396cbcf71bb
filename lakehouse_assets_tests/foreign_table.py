"""A Delta table of somebody else's: written by Spark or by deltalake, with commits at the times that a test wants."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable


def sql_name(path: Path | str) -> str:
    """The table's name in Spark SQL."""
    return f"delta.`{path}`"


def stamp(path: Path | str, moment: datetime) -> int:
    """Let the newest commit have been made at this time; returns its version. Other programs' commits are never touched so."""
    version = DeltaTable(str(path)).version()
    log = Path(path) / "_delta_log"
    commit = log / f"{version:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] = int(moment.timestamp() * 1000)
    commit.write_text("\n".join(map(json.dumps, actions)) + "\n")
    # Hadoop's checksum of the file as it was.
    (log / f".{commit.name}.crc").unlink(missing_ok=True)
    return version


def run_at(spark: Any, path: Path | str, moment: datetime, *statements: str) -> None:
    """Run statements on the table (`{t}` is its name), each a commit of this time, if it makes one."""
    for statement in statements:
        before = _version(path)
        spark.sql(statement.format(t=sql_name(path)))
        if _version(path) != before:
            stamp(path, moment)


def _version(path: Path | str) -> int:
    return DeltaTable(str(path)).version() if DeltaTable.is_deltatable(str(path)) else -1
