"""A window for each of ninety kinds of Parquet file, extracted in one go: each is right in bronze, or one row that names it.

Belongs here: kinds of Parquet files through `extract`. Does not: how one is written (sources/parquet_kinds).
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakehouse_assets.contracts.batch import BRONZE_COLUMNS
from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.sources.other_parquet_kinds import BY_DUCKDB, BY_JAVA, SPARK_NAMES, by_java, by_spark
from lakehouse_assets_tests.sources.parquet_kinds import BY_PYARROW, Kind
from lakehouse_assets_tests.support import readings, rows_of, runner

NAMES = [
    *(f"pyarrow: {name}" for name in BY_PYARROW),
    *(f"DuckDB: {name}" for name in BY_DUCKDB),
    *(f"Spark: {name}" for name in SPARK_NAMES),
    *(f"Java: {name}" for name in BY_JAVA),
]
START = datetime(2024, 1, 1, tzinfo=UTC)


# Of each way in which files differ from others one, in every run of the tests.
QUICK = [
    "pyarrow: int96 within",
    "pyarrow: nanoseconds within",
    "pyarrow: uuid",
    "pyarrow: a broken page",
    "pyarrow: streams of split bytes",
    "pyarrow: no columns",
    "DuckDB: ts",
    "DuckDB: encrypted",
    "Spark: int96, Spark's default",
    "Java: a decimal of bytes of any length",
]


def path_of(name: str) -> str:
    return f"readings/{START + timedelta(days=NAMES.index(name)):%Y-%m-%d}.parquet"


def extraction(spark, home: Path, names: list[str]):
    """Bronze's rows by file, what was to be found, and the record of each window."""
    (home / "landing" / "readings").mkdir(parents=True)
    settings = Settings(root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home, spark_master="local[2]")
    groups = {"pyarrow": BY_PYARROW, "DuckDB": BY_DUCKDB, "Spark": by_spark(spark, home), "Java": by_java(spark, home)}
    kinds: dict[str, Kind] = {f"{writer}: {name}": kind for writer, group in groups.items() for name, kind in group.items()}
    for name in names:
        kinds[name].write(home / "landing" / path_of(name))
    source = {"kind": "files", "path": "readings/{window:%Y-%m-%d}.parquet", "format": "parquet"}
    windows = [window_at(START + timedelta(days=NAMES.index(name)), "daily") for name in names]
    records = extract(runner(spark, settings, readings(source=source)), windows)
    assert len(records) == len(windows)
    by_file: dict[str, list[dict]] = {}
    for row in rows_of(settings.path("bronze", "readings")):
        by_file.setdefault(row["_source_file"], []).append(row)
    return by_file, kinds, {window.start: record for window, record in records.items()}


@pytest.fixture(scope="module")
def some(spark, tmp_path_factory):
    return extraction(spark, tmp_path_factory.mktemp("kinds"), QUICK)


@pytest.fixture(scope="module")
def all_of_them(spark, tmp_path_factory):
    return extraction(spark, tmp_path_factory.mktemp("kinds"), NAMES)


@pytest.mark.parametrize("name", QUICK)
def test_kind(some, name: str) -> None:
    assert_is_right(name, *some)


@pytest.mark.exhaustive(seconds=10)
@pytest.mark.parametrize("name", NAMES)
def test_every_kind(all_of_them, name: str) -> None:
    assert_is_right(name, *all_of_them)


def assert_is_right(name: str, by_file, kinds, records) -> None:
    """Every value as text, and nothing of another window; of a file that is no use, the row that names it."""
    expected, rows = kinds[name].expected, by_file.get(path_of(name), [])
    record = records[START + timedelta(days=NAMES.index(name))]
    assert record.rows == len(rows)
    if isinstance(expected, str):
        [row] = rows
        assert row["_corrupt_record"].startswith(f"unreadable file {path_of(name)}: ") and expected in row["_corrupt_record"]
        assert (row["_columns"], record.columns) == ([], ())
        return
    actual = [{column: row[column] for column in record.columns} for row in rows]
    assert sorted(actual, key=repr) == sorted(expected, key=repr)
    assert not any(row["_corrupt_record"] for row in rows)
    others = [column for column in (rows[0] if rows else {}) if column not in {*BRONZE_COLUMNS, *record.columns}]
    assert all(row[column] is None for row in rows for column in others)
