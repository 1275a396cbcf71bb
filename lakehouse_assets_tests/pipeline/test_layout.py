"""Layouts on real Delta: partitions and clustering of silver and gold, kept by every write, changed by a migration.

Belongs here: tables on disk. Does not: what may be declared (contracts/test_layout), which files a MERGE reads
(test_merge_bounds), or a layout's cost (benchmarks/layout).
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import pytest
from delta.tables import DeltaTable

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import silver_schemas
from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.measures.computed_columns import as_silver
from lakehouse_assets.operations.maintain import maintain
from lakehouse_assets.operations.rebuild import migrate, plan_of, rebuild
from lakehouse_assets.pipeline.gold import publish_gold
from lakehouse_assets.pipeline.run import GoldRun
from lakehouse_assets.queries.schema_status import column_rows, read_schema_status, table_differences
from lakehouse_assets.storage import delta
from lakehouse_assets.storage import layout as layouts
from lakehouse_assets.storage.layout import read_layout
from lakehouse_assets_tests.support import Killed, heal, land, readings, rows_of, runner, silver

DAY = {"event_date": {"type": "date", "expr": "to_date(updated)"}}
BY_DAY = {"partition_by": ["event_date"], "derived": DAY}
NEAR = {"cluster_by": ["event_date", "sensor"], "derived": DAY}
A1, B1 = "a,1,10,2024-01-01T01:00:00Z", "b,1,30,2024-01-01T01:00:00Z"


def laid_out(layout: Mapping[str, Any] | None, **changes: Any) -> TableSpec:
    """The readings in this layout, with a key from which their day follows."""
    return readings(**{"key": ["sensor", "updated"], "checks": [], "supersede": "any", "layout": layout, **changes})


def has_layout(settings, layout: Mapping[str, Any] | None) -> bool:
    expected = tuple(tuple((layout or {}).get(way, ())) for way in ("partition_by", "cluster_by"))
    return read_layout(settings.path("silver", "readings")) == expected


def values(settings) -> list[tuple]:
    """Silver's rows, as a light reader has them."""
    return [(row["sensor"], row["updated"].day, row["value"]) for row in silver(settings)]


def test_an_expression_that_stops_gives_null_and_so_does_an_empty_text(spark):
    derived = {
        "day": {"type": "date", "expr": "to_date(sensor)"},
        "far": {"type": "date", "expr": "date_add(updated, 4000000)"},
        "text": {"type": "string", "expr": "sensor"},
    }
    spec = laid_out({"partition_by": [*derived], "derived": derived})
    schema = "sensor string, hour int, value double, updated timestamp, p_extracted_at timestamp"
    at = datetime(2024, 1, 1, tzinfo=UTC)
    frame = spark.createDataFrame([(text, 1, 1.0, at, at) for text in ("", "a", "2024-02-03")], schema)
    frame = frame.selectExpr("*", "1 as extraction_seq", "'' as _content_hash")
    assert [tuple(row) for row in as_silver(frame, spec).select("sensor", *derived).collect()] == [
        ("", None, None, None), ("a", None, None, "a"), ("2024-02-03", date(2024, 2, 3), None, "2024-02-03"),
    ]  # fmt: skip


def test_a_migration_lays_silver_out_and_repeats_after_a_kill(spark, settings):
    path, plain, days = settings.path("silver", "readings"), laid_out(None), laid_out(BY_DAY)
    land(settings, 1, [A1, B1])
    heal(spark, settings, [1], plain)
    before, number = values(settings), delta.version(path)
    status = read_schema_status(settings, days)
    assert not status.matches
    assert [d.path for d in table_differences(status)] == ["event_date", "layout"]
    [laid] = [step.as_row() for step in plan_of(status) if step.action == "lay out"]
    assert laid == {
        "step": "lay out", "column": "*", "was": "one folder", "becomes": "partition_by event_date", "rewrites data": "yes",
        "reversible": "yes", "because": "the files are written anew from bronze; no value changes",
    }  # fmt: skip
    assert delta.version(path) == number, "the plan changes nothing"

    def kill(step: str) -> None:
        if step == "silver_rebuilt":
            raise Killed

    with pytest.raises(Killed):
        migrate(runner(spark, settings, days, kill))
    migrate(runner(spark, settings, days))
    assert migrate(runner(spark, settings, days)) == []
    assert read_schema_status(settings, days).matches
    assert (values(settings), has_layout(settings, BY_DAY)) == (before, True)
    assert all(row["event_date"] == row["updated"].date() for row in silver(settings))
    [listed] = [row for row in column_rows(read_schema_status(settings, days)) if row["column"] == "event_date"]
    assert (listed["by"], listed["promised"], listed["table"]) == ("layout", "date", "date")
    near = laid_out({"cluster_by": ["updated"]})
    steps = migrate(runner(spark, settings, near))
    assert [(step.action, step.was, step.becomes) for step in steps if step.action != "rewrite"] == [
        ("drop", "date", ""), ("lay out", "partition_by event_date", "cluster_by updated"),
    ]  # fmt: skip
    assert (values(settings), has_layout(settings, {"cluster_by": ["updated"]})) == (before, True)
    # A version of before has its own columns and layout, for light readers too.
    assert delta.snapshot(path, number).partitions == ()
    assert "event_date" not in delta.read_arrow(path, version=number).column_names
    assert (delta.head_arrow(path, 5).num_rows, delta.read_arrow(path).num_rows) == (2, 2)


@pytest.mark.exhaustive(seconds=120)
@pytest.mark.parametrize("layout", [BY_DAY, NEAR], ids=["partitioned", "clustered"])
def test_every_write_keeps_the_layout(spark, settings, layout):
    spec, path = laid_out(layout), settings.path("silver", "readings")

    def assert_holds(expected: list[tuple]) -> None:
        assert (values(settings), has_layout(settings, layout)) == (expected, True)
        proof = rebuild(runner(spark, settings, spec))
        assert (proof.gained, proof.lost) == (0, 0)

    land(settings, 1, [A1, B1])
    heal(spark, settings, [1], spec)
    # By MERGE: a change, a late row and a new one.
    land(settings, 2, ["a,1,11,2024-01-01T01:00:00Z", "c,1,1,2023-12-31T01:00:00Z", "a,1,2,2024-01-02T01:00:00Z"])
    heal(spark, settings, [2], spec)
    assert_holds([("a", 1, 11.0), ("a", 2, 2.0), ("b", 1, 30.0), ("c", 31, 1.0)])
    # By the fold: a redelivery takes rows away.
    land(settings, 2, ["c,1,2,2024-01-03T01:00:00Z"])
    heal(spark, settings, [2], spec)
    rows = [("a", 1, 10.0), ("b", 1, 30.0), ("c", 3, 2.0)]
    assert_holds(rows)
    compacted = {each.layer: each for each in maintain(runner(spark, settings, spec))}
    assert compacted["silver"].files_after <= compacted["silver"].files_before
    assert_holds(rows)
    # Somebody restores an old version, or loses all of silver.
    DeltaTable.forPath(spark, path).restoreToVersion(0)
    rebuild(runner(spark, settings, spec))
    assert_holds(rows)
    delta.remove_folder(path)
    assert rebuild(runner(spark, settings, spec)).gained == 3
    assert_holds(rows)


@pytest.mark.exhaustive(seconds=120)
def test_a_migration_there_and_back(spark, settings, monkeypatch):
    path, plain = settings.path("silver", "readings"), laid_out(None)
    land(settings, 1, [A1, B1])
    heal(spark, settings, [1], plain)
    before = silver(settings)
    for layout in ({"cluster_by": ["hour"]}, NEAR, BY_DAY, NEAR, None):
        assert migrate(runner(spark, settings, laid_out(layout)))[-1].action == "lay out"
        assert has_layout(settings, layout)
    assert silver(settings) == before
    # Changed by hand: the plan shows it, and a migration mends it.
    near = laid_out({"cluster_by": ["hour"]})
    migrate(runner(spark, settings, near))
    spark.sql(f"ALTER TABLE delta.`{path}` CLUSTER BY NONE")
    assert [(s.action, s.was, s.becomes) for s in plan_of(read_schema_status(settings, near))] == [
        ("lay out", "one folder", "cluster_by hour")
    ]
    [shown] = table_differences(read_schema_status(settings, near))
    assert (shown.path, shown.promised, shown.arrived) == ("layout", "cluster_by hour", "one folder")
    assert shown.advice == "it was changed by hand: migrate"
    with monkeypatch.context() as patch:
        # Killed between the rows and their clustering.
        patch.setattr(layouts, "cluster", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            migrate(runner(spark, settings, near))
    assert migrate(runner(spark, settings, near)) != []
    assert has_layout(settings, {"cluster_by": ["hour"]})
    # A rebuild does it as well, and once; without either, the next batch does it.
    versions = [rebuild(runner(spark, settings, laid_out(BY_DAY))).version for _ in range(2)]
    assert (has_layout(settings, BY_DAY), versions[0]) == (True, versions[1])
    land(settings, 2, ["a,1,11,2024-01-02T01:00:00Z"])
    heal(spark, settings, [2], laid_out(NEAR))
    assert (has_layout(settings, NEAR), len(silver(settings))) == (True, 3)


@pytest.mark.exhaustive(seconds=120)
def test_gold_lies_as_declared_whole_and_by_parts(spark, settings, monkeypatch):
    spec = readings(checks=[], columns={"sensor": "string", "hour": "int", "value": "string", "updated": "timestamp"})
    land(settings, 1, [A1, "b,1,,2024-01-01T01:00:00Z"])
    heal(spark, settings, [1], spec)

    def publish(number: int, layout: Mapping[str, Any] | None):
        sql = "select to_date(updated) as day, sensor, hour, coalesce(value, '') as v from silver_readings"
        grain = {"column": "day", "inputs": {"silver_readings": "to_date(updated)"}}
        gold = {"name": "days", "sql": "days.sql", "key": ["day", "sensor", "hour"], "grain": grain, "layout": layout}
        run = GoldRun(
            settings=settings, spec=GoldSpec.model_validate(gold), session=lambda: spark, run_id=f"gold-{number}",
            query=read_gold(sql, "days.sql", silver_schemas([spec])), clock=lambda: datetime(2024, 7, number, tzinfo=UTC),
        )  # fmt: skip
        return publish_gold(run).decision.recomputed

    path = settings.path("gold", "days")
    assert publish(1, {"partition_by": ["day"]}) is None
    land(settings, 2, ["c,1,1,2024-01-02T01:00:00Z"])
    heal(spark, settings, [2], spec)
    assert publish(2, {"partition_by": ["day"]}) == ("2024-01-02",)
    assert read_layout(path) == (("day",), ())
    rows = rows_of(path)
    assert [(row["day"].day, row["sensor"], row["v"]) for row in rows] == [(1, "a", "10"), (1, "b", ""), (2, "c", "1")]
    # Another layout is another rule set: the table is derived whole. A kill between rows and clustering is made good.
    with monkeypatch.context() as patch:
        patch.setattr(layouts, "cluster", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            publish(3, {"cluster_by": ["day"]})
    for number, layout in ((4, {"cluster_by": ["day"]}), (5, {"partition_by": ["hour"]}), (6, None)):
        publish(number, layout)
        assert rows_of(path) == rows
        assert read_layout(path) == tuple(tuple((layout or {}).get(way, ())) for way in ("partition_by", "cluster_by"))
    # Delta has no empty text in a partition.
    publish(7, {"partition_by": ["v"]})
    assert sorted((row["sensor"], row["v"]) for row in rows_of(path)) == [("a", "10"), ("b", None), ("c", "1")]
