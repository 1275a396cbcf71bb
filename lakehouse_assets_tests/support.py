"""A tiny table to test with, and a pandas oracle of law 1 that shares no code with the project."""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window, window_at
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import Published, publish
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.java import JAVA_OPTIONS, class_archive_option

# The folder of this repository, which is a project itself.
PROJECT_ROOT = Path(__file__).resolve().parent.parent
# Java's first compiler alone (which has little room for its code, unless it is given more).
FAST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseParallelGC"
# Both compilers, for a process that runs hundreds of tests. The thorough one waits twenty times as long as by itself: it
# compiles what runs often, and not what a few tests run (70 operations on a small lake: 248 s of processor, 332 without it).
BOTH_COMPILERS = (
    "-XX:ReservedCodeCacheSize=400m -XX:+UseParallelGC -XX:Tier4InvocationThreshold=100000"
    " -XX:Tier4MinInvocationThreshold=12000 -XX:Tier4CompileThreshold=300000 -XX:Tier4BackEdgeThreshold=800000"
)
# For JVMs that live for seconds: to compile less costs less than it gains.
SHORT_LIVED = f"{JAVA_OPTIONS} {FAST_COMPILER} -Duser.timezone=UTC{class_archive_option()}\n"
# Of three rows it takes longer to make and compile a program for a query, and to plan it again on its way, than to run it.
_COMPILED = {
    "spark.sql.codegen.wholeStage": ("false", "true"),
    "spark.sql.codegen.factoryMode": ("NO_CODEGEN", "FALLBACK"),
    "spark.sql.adaptive.enabled": ("false", "true"),
    # A small table is sent to each task by a job of its own; by a shuffle it is part of the query's.
    "spark.sql.autoBroadcastJoinThreshold": ("-1", "10485760b"),
}
FOR_THREE_ROWS = "".join(f"{key} {value}\n" for key, (value, _) in _COMPILED.items())
_runs = itertools.count(1)


class Killed(BaseException):
    """Raised by a step to stop the process there. No `except Exception` catches it."""


@contextmanager
def as_for_users(spark: Any) -> Iterator[None]:
    """Within it the tests' Spark compiles its queries and plans them again on their way, as it does in a process of its own."""
    try:
        for key, (_, value) in _COMPILED.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, (value, _) in _COMPILED.items():
            spark.conf.set(key, value)


def readings(**changes: Any) -> TableSpec:
    """A table of sensor readings: key (sensor, hour), newest `updated` wins."""
    attributes = {
        "name": "readings",
        "source": {"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv", "nulls": ["NA"]},
        "extraction": {"cadence": "daily", "start": datetime(2024, 1, 1, tzinfo=UTC), "mode": "upsert"},
        "key": ["sensor", "hour"],
        "last_modified": "updated",
        "columns": {"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp"},
        "checks": [{"check": "not_empty"}, {"check": "in_range", "column": "value", "min": -100, "max": 100}],
    }
    return TableSpec.model_validate({**attributes, **changes})


def window(day: int) -> Window:
    """A day, counted from the first of January 2024."""
    return window_at(datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=day - 1), "daily")


def land(
    settings: Settings, day: int, rows: Iterable[str], header: str = "sensor,hour,value,updated", suffix: str = ".csv"
) -> Path:
    """Write one window's file; each call gives it another fingerprint."""
    path = Path(settings.landing) / "readings" / f"2024-01-{day:02d}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def lake_settings(home: Path) -> Settings:
    """A lake and a landing folder under a new folder."""
    (home / "landing").mkdir(parents=True)
    return Settings(root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home, spark_master="local[2]")


def copy_lake(settings: Settings, to: Path) -> Settings:
    """The same lake in another place; a copy keeps the files' times."""
    shutil.copytree(settings.dagster_home, to, dirs_exist_ok=True)
    return settings.model_copy(update={"root": str(to / "lake"), "landing": str(to / "landing"), "dagster_home": to})


def runner(spark: Any, settings: Settings, spec: TableSpec | None = None, step: Callable[[str], None] = lambda _: None) -> Run:
    """A run with a clock that ticks by itself and an id of its own."""
    number = next(_runs)
    return Run(
        settings,
        spec or readings(),
        lambda: spark,
        f"run-{number:04d}",
        lambda: datetime(2024, 6, 1, 0, 0, 0, number, tzinfo=UTC),
        step,
    )


def heal(spark: Any, settings: Settings, days: Iterable[int], spec: TableSpec | None = None) -> Published:
    """Extract and publish these days in one run."""
    return heal_windows(spark, settings, [window(day) for day in days], spec)


def heal_windows(spark: Any, settings: Settings, windows: Sequence[Window], spec: TableSpec | None = None) -> Published:
    """Extract and publish these windows in one run."""
    run = runner(spark, settings, spec)
    extract(run, windows)
    return publish(run, windows)


def rows_of(path: str, columns: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """A Delta table's rows, sorted, without a JVM; nothing where there is no table."""
    if not DeltaTable.is_deltatable(path):
        return []
    rows = DeltaTable(path).to_pyarrow_table(columns=list(columns) if columns else None).to_pylist()
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def silver(settings: Settings) -> list[dict[str, Any]]:
    """Silver's rows."""
    return rows_of(settings.path("silver", "readings"))


def content_hash(row: Mapping[str, str | None]) -> str:
    """The documented content hash: MD5 of `name=value`, names sorted, NULLs left out, the corrupt record last."""
    cells = [f"{name}={value}" for name, value in sorted(row.items()) if value is not None]
    return hashlib.md5("\x1f".join(cells).encode(), usedforsecurity=False).hexdigest()


def folded(batches: Iterable[tuple[datetime, int, list[dict[str, str | None]]]]) -> list[dict[str, Any]]:
    """Law 1 by hand for `readings`: clean rows of accepted extractions, sorted by the total order, applied one by one."""
    ordered = []
    for start, seq, rows in batches:
        for row in rows:
            updated = datetime.fromisoformat(row["updated"].replace("Z", "+00:00")) if row.get("updated") else None
            order_key = (updated is not None, updated or datetime.min.replace(tzinfo=UTC), start, seq, content_hash(row))
            ordered.append((order_key, start, seq, updated, row))
    state: dict[tuple[str, int], dict[str, Any]] = {}
    for order_key, start, seq, updated, row in sorted(ordered, key=lambda entry: entry[0]):
        key = (row["sensor"], int(row["hour"]))
        now = state.setdefault(key, {"sensor": key[0], "hour": key[1], "value": None, "updated": None})
        if "value" in row:
            now["value"] = None if row["value"] in (None, "NA", "") else float(row["value"])
        now |= {"updated": updated, "p_extracted_at": start, "extraction_seq": seq, "_content_hash": order_key[-1]}
    columns = ["sensor", "hour", "value", "updated", "p_extracted_at", "extraction_seq", "_content_hash"]
    silver_rows = [{name: row[name] for name in columns} for row in state.values()]
    return sorted(silver_rows, key=lambda row: [str(value) for value in row.values()])
