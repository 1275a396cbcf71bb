"""Which files a MERGE reads: its bounds hold for its rows, and a file of another day is not opened, by light readers neither.

Belongs here: bounds, on frames and on small Delta tables. Does not: laying a table out (test_layout).
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame

from lakehouse_assets.contracts.layout import LayoutSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.pipeline import merge_bounds
from lakehouse_assets.pipeline.merge_bounds import Extent, bounded_columns, bounds_of, extents_of, files_near
from lakehouse_assets.storage import delta, delta_writes
from lakehouse_assets.storage.layout import create, read_layout
from lakehouse_assets_tests.pipeline.test_layout import BY_DAY, NEAR, laid_out
from lakehouse_assets_tests.support import heal, land, readings, silver


def bounds(rows: DataFrame, spec: TableSpec) -> list[str]:
    return bounds_of(rows, spec, extents_of(rows, bounded_columns(rows, spec)))


def test_the_bounds_of_a_merge_are_true_of_its_rows_and_of_few_others(spark, monkeypatch):
    columns = {
        "s": "string",
        "t": "timestamp",
        "n": "timestamp_ntz",
        "d": "decimal(9,2)",
        "b": "boolean",
        "updated": "timestamp",
    }
    derived = {"day": {"type": "date", "expr": "try_to_date(s)"}, "x": {"type": "string", "expr": "s"}}
    names = ["day", "t", "n", "d", "b", "x"]
    layout = {"partition_by": names, "derived": derived}
    spec = laid_out(layout, columns=columns, key=[*"stndb"], last_modified=None)
    # The first two moments have one text in New York.
    moments = [datetime(2024, 11, 3, hour, 30, 0, 7, tzinfo=UTC) for hour in (5, 6, 7)]
    rows = [
        (text, moment, moment.replace(tzinfo=None), Decimal("-1.50"), True, moment)
        for text, moment in zip(["it's `${x}`", "2024-01-02", "0001-01-01"], moments, strict=True)
    ]
    frame = spark.createDataFrame(rows, ", ".join(f"{name} {kind}" for name, kind in columns.items()))
    frame = frame.selectExpr("*", "try_to_date(s) as day", "s as x")
    target = frame.alias("t")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for most in (100, 1):
            monkeypatch.setattr(merge_bounds, "MOST", most)
            one = bounds(frame.where("s = '2024-01-02'"), spec)
            assert len(one) == len(names) + 1, "of the key, s lies in no partition"
            assert [row["s"] for row in target.where(" AND ".join(one)).collect()] == ["2024-01-02"]
            assert target.where(one[names.index("t")]).count() == 1
            assert target.where(" AND ".join(bounds(frame, spec))).count() == 3
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert bounds(frame.limit(0), spec) == []
    personal = laid_out({"cluster_by": ["s", "t"]}, columns={**columns, "s": {"type": "string", "pii": True}}, key=["s", "t"])
    assert len(bounds(frame, personal)) == 1, "a table's history shows the bounds"
    (of_key,) = bounds(frame, laid_out({"cluster_by": ["updated"]}, columns=columns, key=["s"]))
    assert "updated" not in of_key, "it does not follow from the key"


@pytest.mark.parametrize(
    "layout",
    [pytest.param(BY_DAY, id="partitioned", marks=pytest.mark.exhaustive(seconds=8)), pytest.param(NEAR, id="clustered")],
)
def test_a_merge_reads_no_file_of_another_day(spark, tmp_path, layout):
    path, spec = str(tmp_path / "t"), laid_out(layout)
    schema = "sensor string, hour int, value double, updated timestamp, event_date date"

    def rows(*days: int):
        cells = [
            (name, day, float(day), datetime(2024, 1, day, 1, tzinfo=UTC), date(2024, 1, day)) for day in days for name in "ab"
        ]
        return spark.createDataFrame(cells, schema).coalesce(1)

    create(rows(1).limit(0), path, {"delta.checkpointInterval": "2"}, LayoutSpec.model_validate(layout))
    for day in (1, 2, 3):
        delta_writes.append(rows(day), path)
    assert list((tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet"))
    assert read_layout(path) == (tuple(layout.get("partition_by", ())), tuple(layout.get("cluster_by", ())))
    # Light readers skip by the same columns.
    files = delta.row_counts(path).to_pylist()
    light = delta.read_arrow(path, ["sensor", "event_date"], [("event_date", "=", date(2024, 1, 2))])
    assert light.to_pylist() == [{"sensor": name, "event_date": date(2024, 1, 2)} for name in "ab"]
    first = next(f["path"] for f in files if date(2024, 1, 1) in (f.get("partition.event_date"), f.get("min.event_date")))
    Path(path, first).unlink()
    on = " AND ".join(["t.sensor = s.sensor", *bounds(rows(2), spec)])
    merge = DeltaTable.forPath(spark, path).alias("t").merge(rows(2).alias("s"), on)
    merge.whenMatchedUpdate(set={"value": "20"}).execute()
    light = delta.read_arrow(path, ["value"], [("event_date", "=", date(2024, 1, 2))])
    assert light["value"].to_pylist() == [20.0, 20.0]


KEYS = "text string, moment timestamp, day date, number bigint, personal string, value double"


def test_a_table_has_none_of_some_keys_only_if_it_has_none(spark, tmp_path):
    """Statistics cut texts and moments off: no key that the table has is taken for one that it lacks."""
    columns = dict(pair.split() for pair in KEYS.split(", ")) | {"personal": {"type": "string", "pii": True}}
    early, late = datetime(2024, 1, 1, 0, 0, 0, 999, tzinfo=UTC), datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    long = "z" * 40
    stored = [
        ("a", early, date(2024, 1, 1), -5, "p", 1.0),
        (long + "b", late, date(2024, 1, 2), 5, "q", 2.0),
        (long + "\uffff", late, date(2024, 1, 2), 5, "q", None),
    ]
    path = str(tmp_path / "t")
    delta_writes.append(spark.createDataFrame(stored, KEYS).coalesce(1), path)

    def has_none(key: list[str], *rows: tuple) -> bool:
        spec = laid_out(None, columns=columns, key=key, last_modified=None)
        frame = spark.createDataFrame([*rows], KEYS)
        return not any(files_near(delta.row_counts(path), extents_of(frame, bounded_columns(frame, spec)), spec))

    whole_key = [name for name in columns if name != "value"]
    for row in stored:
        assert not any(has_none([name], row) for name in whole_key)
        assert not has_none(whole_key, row)
    assert not has_none(["value"], (None, None, None, None, None, 9.0)), "equal numbers may have two texts"
    assert has_none(["text"], ("A", *stored[0][1:]))
    assert has_none(["moment"], ("a", datetime(2024, 1, 2, 3, 4, 6, tzinfo=UTC), *stored[0][2:]))
    assert has_none(["day", "text"], (*stored[0][:2], date(2024, 1, 3), *stored[0][3:])), "one column of the key is enough"
    assert has_none(["number"], (*stored[0][:3], 6, *stored[0][4:]), (*stored[0][:3], 7, *stored[0][4:]))
    assert not has_none(["number"], (*stored[0][:3], -9, *stored[0][4:]), (*stored[0][:3], 7, *stored[0][4:]))
    assert has_none(["personal"], (*stored[0][:4], "r", 1.0))
    assert not has_none(["day"], (*stored[0][:2], None, *stored[0][3:]))


def test_new_keys_are_appended_and_known_ones_merged(spark, settings):
    """By silver's own history, and a window later the rows are those of a fold."""
    spec = readings(key=["sensor", "hour"], checks=[])
    for day, rows in enumerate(
        [["a,1,1,2024-01-01T01:00:00Z"], ["b,7,2,2024-01-02T01:00:00Z"], ["b,7,3,2024-01-03T01:00:00Z"]], 1
    ):
        land(settings, day, rows)
        heal(spark, settings, [day], spec)
    history = delta.open_table(settings.path("silver", "readings")).history()
    assert [entry["operation"] for entry in history if entry["operation"] in ("WRITE", "MERGE")][:2] == ["MERGE", "WRITE"]
    assert [(row["sensor"], row["value"]) for row in silver(settings)] == [("a", 1.0), ("b", 3.0)]


def test_a_field_of_a_struct_is_not_taken_for_a_column_with_a_dot():
    files = pa.Table.from_arrays(
        [pa.array([1]), pa.array([5]), pa.array([9]), pa.array([5]), pa.array([9])],
        names=["num_records", "min.user.id", "max.user.id", "min.user.id", "max.user.id"],
    )
    spec = readings(
        columns={"user": "struct<id: bigint>", "user.id": "bigint", "updated": "timestamp"}, key=["user.id"], checks=[]
    )
    assert any(files_near(files, [Extent("user.id", "bigint", "1", "2", has_null=False)], spec))
