"""What the source tests share: days as windows, files into a landing folder, rows as plain values.

Belongs here: helpers. Does not: tests.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.windows import Window, window_at
from lakehouse_assets.sources.base import Extraction


def day(number: int) -> Window:
    return window_at(datetime(2024, 3, number, tzinfo=UTC), "daily")


def csv_source(**settings: Any) -> FilesSource:
    return FilesSource.model_validate({"kind": "files", "path": "t/{window:%Y-%m-%d}.csv", "format": "csv"} | settings)


def json_source(**settings: Any) -> FilesSource:
    return csv_source(**({"path": "t/{window:%Y-%m-%d}.json", "format": "json"} | settings))


def land(landing: Path, path: str, content: bytes | str) -> Path:
    target = landing / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.encode() if isinstance(content, str) else content)
    return target


def rows(extraction: Extraction, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of all rows, sorted by file and value."""
    cells = [identifier(name) for name in ("_source_file", *columns)]
    values = sorted((tuple(row) for row in extraction.frame.select(*cells).collect()), key=repr)
    return [row[1:] for row in values]
