"""The extents of stored rows: those that a query over the rows gives, or none at all.

Belongs here: reading footers. Does not: what a MERGE does by them (test_merge_bounds).
"""

from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse_assets.contracts.decision import Counts
from lakehouse_assets.pipeline.merge_bounds import extents_of
from lakehouse_assets.pipeline.staging import write_once
from lakehouse_assets.pipeline.stored_extents import stored_extents
from lakehouse_assets.storage.session_properties import set_session_property
from lakehouse_assets_tests.support import heal, land, readings, silver

KINDS = {"it's": "string", "moment": "timestamp", "day": "date", "number": "bigint", "small": "tinyint", "empty": "string"}
SCHEMA = "`it's` string, moment timestamp, day date, number bigint, small tinyint, empty string, list array<struct<number:int>>"
ROWS = [
    ("z" * 50, datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC), date(1, 1, 1), -(2**63), -128, None, [(7,)]),
    (
        "Ωm \U0001f600",
        datetime(1899, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        date(9999, 12, 31),
        2**63 - 1,
        127,
        None,
        None,
    ),
    ("", None, None, 0, None, None, []),
]


def decision(**counts: int) -> Any:
    return SimpleNamespace(counts=Counts(**counts))


@pytest.mark.parametrize("tasks", [1, 3, 5])
def test_gives_what_a_query_gives(spark, tmp_path, tasks):
    """Also with files that have no row, and in a folder with a strange name."""
    frame = spark.createDataFrame(ROWS, SCHEMA).repartition(tasks)
    stored = write_once(spark, frame, str(tmp_path / "a b=c%20é"))
    all_clean = [decision(rows_in=2, rows_published=2), decision(rows_in=1, rows_superseded=1)]
    assert stored_extents(stored, all_clean, KINDS) == extents_of(frame, KINDS)
    assert stored_extents(stored.coalesce(1), all_clean, KINDS) == extents_of(frame, KINDS)


def test_is_not_known_of_other_rows(spark, tmp_path):
    stored = write_once(spark, spark.createDataFrame(ROWS, SCHEMA), str(tmp_path / "staged"))
    clean, kinds = decision(rows_in=3, rows_published=3), {"number": "bigint"}
    assert stored_extents(stored, [clean], kinds)
    for counts in ({"rows_in": 2}, {"rows_in": 4}, {"rows_in": 3, "rows_quarantined": 1}, {"rows_in": 3, "rows_discarded": 3}):
        assert stored_extents(stored, [decision(**counts)], kinds) is None
    assert stored_extents(stored, [clean], {"absent": "bigint"}) is None
    assert stored_extents(stored, [clean], {"list": "string"}) is None, "its leaf has another name"
    assert stored_extents(stored, [clean], {"number": "decimal(9,2)"}) is None
    assert stored_extents(spark.createDataFrame(ROWS, SCHEMA), [clean], kinds) is None, "nowhere stored"
    long = write_once(spark, spark.createDataFrame([("z" * 5000,)], "text string"), str(tmp_path / "long"))
    one = decision(rows_in=1, rows_published=1)
    assert stored_extents(long, [one], {"text": "string"}) is None, "Parquet has no statistics of long texts"
    far = spark.createDataFrame([(2**62,)], "moment long").selectExpr("timestamp_micros(moment) AS moment")
    stored = write_once(spark, far, str(tmp_path / "far"))
    assert stored_extents(stored, [one], {"moment": "timestamp"}) is None, "a year that Python does not have"


def test_is_not_known_of_the_julian_calendar(spark, tmp_path):
    """pyarrow reads its 1 January 1500 as the 10th."""
    frame, one = spark.createDataFrame([(date(1500, 1, 1),)], "day date"), decision(rows_in=1, rows_published=1)
    assert stored_extents(write_once(spark, frame, str(tmp_path / "today")), [one], {"day": "date"})
    with set_session_property(spark, "spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY"):
        stored = write_once(spark, frame, str(tmp_path / "julian"))
    assert stored_extents(stored, [one], {"day": "date"}) is None


def test_a_window_asks_no_query_for_its_extents(spark, settings, monkeypatch):
    """But for one with a quarantined row, whose key lies far from the others."""
    queries = []
    monkeypatch.setattr("lakehouse_assets.pipeline.silver_merge.extents_of", lambda *a: queries.append(a) or extents_of(*a))
    spec = readings(checks=[{"check": "in_range", "column": "value", "max": 100, "threshold": 0.5}])
    land(settings, 1, ["a,1,1,2024-01-01T01:00:00Z", "b,2,2,2024-01-01T01:00:00Z"])
    land(settings, 2, ["a,1,5,2024-01-02T01:00:00Z", "c,3,3,2024-01-02T01:00:00Z"])
    land(settings, 3, ["a,1,6,2024-01-03T01:00:00Z", "z,99,999,2024-01-03T01:00:00Z"])
    for day, expected in ((1, 0), (2, 0), (3, 1)):
        heal(spark, settings, [day], spec)
        assert len(queries) == expected
    assert {row["sensor"]: row["value"] for row in silver(settings)} == {"a": 6.0, "b": 2.0, "c": 3.0}
