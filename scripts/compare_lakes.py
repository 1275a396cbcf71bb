"""Show that two versions of the project give equal lakes from the same inputs.

Belongs here: the stories that are played through the command line, and the comparison of what lies on disk. Does not: anything
of the project's own code, so that any version can be played.

    python scripts/compare_lakes.py play CHECKOUT DIRECTORY    a version's lakes: the demo, all examples, a random history
    python scripts/compare_lakes.py compare BEFORE AFTER       two such directories; exit code 1 where they differ
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

COPIED = ("lakehouse_assets", "scripts", "data/examples", "pyproject.toml", "dagster.yaml", "workspace.yaml")
# Ids of a run and times of the clock, which differ between two runs of one version; fingerprints contain modification times.
LEFT_OUT = {"run_id", "decided_at", "applied_at", "extracted_at", "recorded_at", "at", "operation", "fingerprint"}
JSON_COLUMNS = {
    "ruleset",
    "inputs",
    "evolved",
    "checks",
    "drift",
    "profiles",
    "types",
    "respelled",
    "control",
    "extra",
    "observed",
}
HISTORY = """
type: lakehouse_assets.LakehouseTable
attributes:
  name: history
  source: {kind: files, path: "history/{window:%Y-%m-%d}.csv", format: csv, nulls: ["NA"]}
  extraction: {cadence: daily, start: 2024-01-01, end: 2024-02-10, mode: upsert, delete_when: "op = 'D'"}
  key: [sensor, hour]
  last_modified: updated
  columns:
    sensor: {type: string}
    hour: {type: int}
    value: {type: double}
    updated: {type: timestamp}
    op: {type: string}
  schema: {new_columns: evolve, missing_columns: keep, type_changes: widen}
  checks:
    - {check: not_empty}
    - {check: in_range, column: value, min: -100, max: 100, threshold: 0.8}
    - {check: unique, columns: [sensor, hour]}
    - {check: distinct_count, columns: [value], max: 150, severity: warning}
    - {check: sql, name: no_nine, sql: "select * from batch where value = 9", severity: warning}
  drift: {features: [value]}
  gold:
    - {name: by_sensor, sql: by_sensor.sql, key: [sensor], checks: [{check: in_range, column: readings, min: 2}]}
"""
GOLD = "select sensor, count(*) as readings, sum(value) as total from silver_history group by sensor\n"
DAYS = 40


def play(checkout: Path, directory: Path) -> None:
    """Play the stories with the code of ``checkout``, each into a lake of its own under ``directory``."""
    if directory.exists():
        shutil.rmtree(directory)
    project = directory / "project"
    for name in COPIED:
        source, target = checkout / name, project / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    table = project / "lakehouse_assets" / "tables" / "history"
    table.mkdir()
    (table / "defs.yaml").write_text(HISTORY)
    (table / "by_sensor.sql").write_text(GOLD)
    for name, story in STORIES.items():
        print(f"{name} …", flush=True)
        story(Story(project, directory / name))


class Story:
    """Commands on one lake."""

    def __init__(self, project: Path, root: Path) -> None:
        self.project, self.landing = project, root / "landing"
        self._environment = os.environ | {
            "PYTHONPATH": str(project),
            "LAKEHOUSE_ROOT": str(root / "lake"),
            "LAKEHOUSE_LANDING": str(self.landing),
            "DAGSTER_HOME": str(root / "home"),
        }
        (root / "home").mkdir(parents=True)
        self.landing.mkdir()
        (root / "home" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")

    def lakehouse(self, *arguments: str, accepted: tuple[int, ...] = (0,)) -> None:
        """Run a command; raises RuntimeError where its exit code is not among the accepted ones."""
        command = [sys.executable, "-m", "lakehouse_assets.cli", *arguments]
        process = subprocess.run(command, check=False, cwd=self.project, env=self._environment, capture_output=True, text=True)
        if process.returncode not in accepted:
            raise RuntimeError(
                f"{' '.join(arguments)}: exit code {process.returncode}\n{process.stdout[-2000:]}\n{process.stderr[-2000:]}"
            )

    def land_example(self, part: str, table: str) -> None:
        """Land a part of an example."""
        script = self.project / "scripts" / "land_example.py"
        command = [sys.executable, str(script), "--only", part, "--table", table]
        subprocess.run(command, cwd=self.project, env=self._environment, check=True, capture_output=True)


def play_demo(story: Story) -> None:
    """The demo, a release, a discard and the corrections."""
    run = ("run", "--table", "weather")
    story.land_example("on_time", "weather")
    story.lakehouse(*run)
    story.land_example("late", "weather")
    story.lakehouse(*run)
    answer = ("--by", "me", "--because", "compared")
    story.lakehouse("quarantine", "release", "weather", "--window", "2013-09-09", "--override", "*", *answer)
    story.lakehouse("quarantine", "discard", "weather", "--window", "2013-09-10", *answer)
    story.land_example("corrections", "weather")
    story.lakehouse(*run)
    story.lakehouse("run", "--table", "weather", "--window", "2013-02-01..2013-02-03")
    story.lakehouse("rebuild", "weather")


def play_examples(story: Story) -> None:
    """All other examples, with gold across tables."""
    for part in ("on_time", "late", "corrections"):
        for table in ("airlines", "airports", "planes", "flights"):
            story.land_example(part, table)
        for table in ("airlines", "airports", "planes", "flights"):
            story.lakehouse("run", "--table", table)


def play_history(story: Story) -> None:
    """Windows in random order, edited, emptied, late; with absent and new columns, wider types, unreadable and deleted rows."""
    draw = random.Random(20)
    folder = story.landing / "history"
    folder.mkdir()
    order = list(range(1, DAYS + 1))
    draw.shuffle(order)
    landed: list[int] = []
    for _ in range(5):
        days = [order.pop() for _ in range(len(order) // 2 or len(order))]
        days += draw.sample(landed, min(4, len(landed)))
        for day in days:
            month, number = (1, day) if day <= 31 else (2, day - 31)
            (folder / f"2024-{month:02d}-{number:02d}.csv").write_text(_file(draw, day))
        landed += days
        story.lakehouse("run", "--table", "history")
    story.lakehouse("rebuild", "history")


def _file(draw: random.Random, day: int) -> str:
    columns = ["sensor", "hour", "value", "updated", "op"]
    if draw.random() < 0.1:
        columns.remove("value")
    if draw.random() < 0.1:
        columns.append("added")
    rows = [",".join(columns)]
    for _ in range(draw.choice((0, 3, 60, 200, 200, 200, 200))):
        cells = {
            "sensor": draw.choice("abcdefgh"),
            "hour": "x" if draw.random() < 0.01 else str(draw.randrange(48)),
            "value": draw.choice(("NA", "999", "9")) if draw.random() < 0.05 else f"{draw.gauss(day % 7 == 0, 1):.2f}",
            "updated": f"2024-01-{draw.randint(1, 28):02d}T{draw.randrange(24):02d}:00:00Z",
            "op": "D" if draw.random() < 0.05 else "U",
            "added": str(draw.randrange(5)),
        }
        rows.append(",".join(cells[name] for name in columns))
    if draw.random() < 0.1:
        rows.append('"one, "two, three')
    return "\n".join(rows) + "\n"


STORIES: dict[str, Callable[[Story], None]] = {"demo": play_demo, "examples": play_examples, "history": play_history}


def compare(before: Path, after: Path) -> list[str]:
    """Return a line for each table that differs, with the first rows that only one of the two has."""
    messages = []
    for name in STORIES:
        one, two = before / name / "lake", after / name / "lake"
        ids = [_decision_ids(one), _decision_ids(two)]
        tables = sorted({path.parent.relative_to(lake) for lake in (one, two) for path in lake.rglob("_delta_log")})
        for table in tables:
            rows = [Counter(_rows(lake, table, names)) for lake, names in zip((one, two), ids, strict=True)]
            print(f"{name}/{table}: {rows[0].total()} and {rows[1].total()} rows", flush=True)
            for side, less in (("before", rows[0] - rows[1]), ("after", rows[1] - rows[0])):
                if less:
                    shown = "\n    ".join(sorted(less)[:2])
                    messages.append(f"{name}/{table}: {less.total()} row(s) only {side}\n    {shown[:3000]}")
    return messages


def _decision_ids(lake: Path) -> dict[str, str]:
    """Return each decision's substitute id: its table and number."""
    log = lake / "ops" / "decisions"
    rows = DeltaTable(log).to_pyarrow_table(columns=["decision_id", "table", "number"]).to_pylist() if log.exists() else []
    return {row["decision_id"]: f"{row['table']} {row['number']}" for row in rows}


def _rows(lake: Path, table: Path, ids: dict[str, str]) -> Iterator[str]:
    if not (lake / table / "_delta_log").exists():
        return
    landing = str(lake.parent / "landing")
    for row in DeltaTable(lake / table).to_pyarrow_table().to_pylist():
        yield json.dumps(
            {name: _plain(_parsed(name, value), ids, landing) for name, value in row.items() if name not in LEFT_OUT},
            sort_keys=True,
        )


def _parsed(name: str, value: Any) -> Any:
    """Return a column's value; of one in JSON what it encodes. Delta draws the ids of gold's input tables at random."""
    parsed = json.loads(value) if name in JSON_COLUMNS and value else value
    return {key: each for key, each in parsed.items() if key != "tables"} if name == "inputs" and parsed else parsed


def _plain(value: Any, ids: dict[str, str], landing: str) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each, ids, landing) for name, each in value.items() if name not in LEFT_OUT}
    if isinstance(value, list | tuple):
        return [_plain(each, ids, landing) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str):
        return ids.get(value, value.replace(landing, "landing"))
    return value if isinstance(value, int | float | None) else str(value)


def main() -> int:
    """Play or compare, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("play", "compare"))
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    arguments = parser.parse_args()
    first, second = arguments.first.resolve(), arguments.second.resolve()
    if arguments.what == "play":
        play(first, second)
        return 0
    messages = compare(first, second)
    print("\n".join(messages) or "equal")
    return 1 if messages else 0


if __name__ == "__main__":
    raise SystemExit(main())
