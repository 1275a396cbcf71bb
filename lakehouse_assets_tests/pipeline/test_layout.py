"""Layouts on real Delta: partitions and clustering of silver and gold, rows that move, law 1, and changing a layout.

Belongs here: tables on disk. Does not: what may be declared (contracts/test_layout), or a layout's cost (benchmarks/layout).
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import pytest

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import silver_schemas
from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.operations.rebuild import migrate, rebuild
from lakehouse_assets.pipeline.gold import publish_gold
from lakehouse_assets.pipeline.run import GoldRun
from lakehouse_assets.queries.schema_status import column_rows, read_schema_status
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.layout import clustering
from lakehouse_assets_tests.support import heal, land, readings, rows_of, runner, silver

DAY = {"event_date": {"type": "date", "expr": "to_date(updated)"}}
BY_DAY = {"partition_by": ["event_date"], "derived": DAY}
A1, B1 = "a,1,10,2024-01-01T01:00:00Z", "b,1,30,2024-01-01T01:00:00Z"


def assert_lies_by_day(spark, settings, spec) -> None:
    """Each row has its day, light readers see it, and a rebuild changes nothing."""
    path = settings.path("silver", "readings")
    assert {(row["event_date"], row["updated"].date()) for row in silver(settings)} == {
        (row["updated"].date(), row["updated"].date()) for row in silver(settings)
    }
    assert delta.snapshot(path).partitions == ("event_date",)
    days = set(delta.row_counts(path)["partition.event_date"].to_pylist())
    assert days == {row["event_date"] for row in silver(settings)}
    proof = rebuild(runner(spark, settings, spec))
    assert (proof.gained, proof.lost) == (0, 0)


@pytest.mark.exhaustive(seconds=30)
def test_rows_move_between_partitions_by_merge_by_fold_and_by_rebuild(spark, settings):
    spec = readings(layout=BY_DAY, checks=[])
    land(settings, 1, [A1, B1])
    heal(spark, settings, [1], spec)
    land(settings, 2, ["a,1,11,2024-01-02T01:00:00Z", "c,1,1,2024-01-02T01:00:00Z"])
    heal(spark, settings, [2], spec)
    assert_lies_by_day(spark, settings, spec)
    assert [(row["sensor"], row["event_date"].day) for row in silver(settings)] == [("a", 2), ("b", 1), ("c", 2)]
    # The redelivery takes the key's newest row away: it goes back to its old partition.
    land(settings, 2, ["c,1,2,2024-01-03T01:00:00Z"])
    heal(spark, settings, [2], spec)
    assert [(row["sensor"], row["event_date"].day) for row in silver(settings)] == [("a", 1), ("b", 1), ("c", 3)]
    assert_lies_by_day(spark, settings, spec)


def test_an_expression_that_stops_gives_null_and_stops_no_batch(spark, settings):
    derived = {
        "day": {"type": "date", "expr": "to_date(sensor)"},
        "far": {"type": "date", "expr": "date_add(updated, 4000000)"},
    }
    spec = readings(layout={"partition_by": ["day", "far"], "derived": derived}, checks=[])
    land(settings, 1, [A1, "2024-02-03,1,1,2024-01-01T00:00:00Z"])
    heal(spark, settings, [1], spec)
    assert [(row["sensor"], row["day"], row["far"]) for row in silver(settings)] == [
        ("2024-02-03", date(2024, 2, 3), None),
        ("a", None, None),
    ]


def test_a_migration_changes_the_layout_there_and_back(spark, settings):
    path = settings.path("silver", "readings")
    land(settings, 1, [A1, B1])
    plain = readings(checks=[])
    heal(spark, settings, [1], plain)
    before = silver(settings)
    days = readings(layout=BY_DAY, checks=[])
    assert [(step.action, step.column) for step in migrate(runner(spark, settings, days))] == [("add", "event_date")]
    assert_lies_by_day(spark, settings, days)
    [listed] = [row for row in column_rows(read_schema_status(settings, days)) if row["column"] == "event_date"]
    assert (listed["by"], listed["promised"], listed["table"]) == ("layout", "date", "date")
    clustered = readings(layout={"cluster_by": ["hour", "updated"]}, checks=[])
    assert [(step.action, step.reversible) for step in migrate(runner(spark, settings, clustered))] == [("drop", True)]
    assert (delta.snapshot(path).partitions, clustering(spark, path)) == ((), ["hour", "updated"])
    by_hour = readings(layout={"partition_by": ["hour"]}, checks=[])
    [step] = migrate(runner(spark, settings, by_hour))
    assert (step.action, step.rewrites) == ("rewrite", True)
    assert (delta.snapshot(path).partitions, clustering(spark, path)) == (("hour",), [])
    assert [step.action for step in migrate(runner(spark, settings, plain))] == ["rewrite"]
    assert delta.snapshot(path).partitions == ()
    assert silver(settings) == before
    # A rebuild does it as well, and once.
    versions = [rebuild(runner(spark, settings, clustered)).version for _ in range(2)]
    assert (clustering(spark, path), versions[0]) == (["hour", "updated"], versions[1])
    # Without a migration, the next batch does it.
    land(settings, 2, ["a,1,11,2024-01-02T01:00:00Z"])
    heal(spark, settings, [2], days)
    assert_lies_by_day(spark, settings, days)


@pytest.mark.exhaustive(seconds=30)
def test_gold_lies_as_declared_whole_and_by_parts(spark, settings):
    spec = readings(checks=[])
    land(settings, 1, [A1, B1])
    heal(spark, settings, [1], spec)

    def publish(number: int, layout: Mapping[str, Any] | None):
        sql = "select to_date(updated) as day, hour, count(*) as n from silver_readings group by to_date(updated), hour"
        grain = {"column": "day", "inputs": {"silver_readings": "to_date(updated)"}}
        gold = {"name": "days", "sql": "days.sql", "key": ["day", "hour"], "grain": grain, "layout": layout}
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
    assert delta.snapshot(path).partitions == ("day",)
    rows = rows_of(path)
    assert [(row["day"].day, row["n"]) for row in rows] == [(1, 2), (2, 1)]
    # Another layout is another rule set: the table is derived whole.
    for number, layout in ((3, {"cluster_by": ["day"]}), (4, {"partition_by": ["hour"]}), (5, None)):
        assert publish(number, layout) is None
        assert rows_of(path) == rows
        assert delta.snapshot(path).partitions == tuple((layout or {}).get("partition_by", ()))
        assert clustering(spark, path) == (layout or {}).get("cluster_by", [])
