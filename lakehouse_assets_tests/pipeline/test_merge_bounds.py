"""Which files a MERGE reads: its bounds hold for its rows, and a file of another day is not opened, by light readers neither.

Belongs here: bounds, on frames and on small Delta tables. Does not: laying a table out (test_layout).
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from delta.tables import DeltaTable

from lakehouse_assets.contracts.layout import LayoutSpec
from lakehouse_assets.pipeline import merge_bounds
from lakehouse_assets.pipeline.merge_bounds import bounds_of
from lakehouse_assets.storage import delta, delta_writes
from lakehouse_assets.storage.layout import create, read_layout
from lakehouse_assets_tests.pipeline.test_layout import BY_DAY, NEAR, laid_out


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
            one = bounds_of(frame.where("s = '2024-01-02'"), spec)
            assert len(one) == len(names)
            assert [row["s"] for row in target.where(" AND ".join(one)).collect()] == ["2024-01-02"]
            assert target.where(one[names.index("t")]).count() == 1
            assert target.where(" AND ".join(bounds_of(frame, spec))).count() == 3
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert bounds_of(frame.limit(0), spec) == []
    personal = laid_out({"cluster_by": ["s", "t"]}, columns={**columns, "s": {"type": "string", "pii": True}}, key=["s", "t"])
    assert len(bounds_of(frame, personal)) == 1, "a table's history shows the bounds"
    assert bounds_of(frame, laid_out({"cluster_by": ["updated"]}, columns=columns, key=["s"])) == []


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
    bounds = bounds_of(rows(2), spec)
    merge = DeltaTable.forPath(spark, path).alias("t").merge(rows(2).alias("s"), " AND ".join(["t.sensor = s.sensor", *bounds]))
    merge.whenMatchedUpdate(set={"value": "20"}).execute()
    light = delta.read_arrow(path, ["value"], [("event_date", "=", date(2024, 1, 2))])
    assert light["value"].to_pylist() == [20.0, 20.0]
