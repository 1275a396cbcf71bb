"""Laws 1, 2 and 5 on paths that are seldom taken: what was accepted and is held later, contracts that change, mixed files.

Belongs here: one test per such path, each ending with a rebuild that finds nothing to mend. Does not: the usual ways.
"""

from pathlib import Path

import pytest

from lakehouse_assets.decisions import ledger
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.operations.release import discard, release
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.support import heal, land, readings, runner, silver, window

COLUMNS = {"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp"}
RANGE = {"check": "in_range", "column": "value", "min": -100, "max": 100}


def at(day: int, *rows: str) -> list[str]:
    return [f"{row},2024-01-{day:02d}T00:00:00Z" for row in rows]


def proven(spark, settings, spec) -> bool:
    proof = rebuild(runner(spark, settings, spec))
    return (proof.gained, proof.lost) == (0, 0)


@pytest.mark.exhaustive(seconds=12)
def test_a_batch_quarantined_by_a_rejudge_leaves_silver(spark, settings):
    land(settings, 1, at(1, "a,1,1", "b,1,2", "c,1,999"))
    land(settings, 2, at(2, "b,1,3"))
    heal(spark, settings, [1, 2], readings(checks=[RANGE]))
    assert len(silver(settings)) == 2
    strict = readings(checks=[RANGE, {"check": "row_count", "min": 10}])
    decision = release(runner(spark, settings, strict), window(1).start, None, waived=["in_range_value"], by="me", because="x")
    assert (decision.verdict, decision.counts.rows_quarantined) == ("quarantined", 3)
    assert [(row["sensor"], row["value"]) for row in silver(settings)] == [("b", 3.0)]
    assert proven(spark, settings, strict)


@pytest.mark.exhaustive(seconds=12)
def test_files_of_one_window_with_other_columns(spark, settings):
    """The row of a file that lacks a column keeps the value that its key had; a MERGE would have erased it."""
    spec = readings(source={**readings().source.model_dump(), "path": "readings/{window:%Y-%m-%d}*.csv"}, checks=[])
    land(settings, 1, at(1, "a,1,1", "b,1,2"))
    heal(spark, settings, [1], spec)
    land(settings, 2, at(2, "b,1,5"), suffix="-whole.csv")
    land(settings, 2, at(2, "a,1"), header="sensor,hour,updated", suffix="-short.csv")
    (decision,) = heal(spark, settings, [2], spec).current.values()
    assert any("this batch lacks value" in reason.message for reason in decision.reasons)
    assert [(row["sensor"], row["value"]) for row in silver(settings)] == [("a", 1.0), ("b", 5.0)]
    assert proven(spark, settings, spec)


def test_a_snapshot_of_nothing_empties_the_table_where_the_source_means_it(spark, settings):
    extraction = {"cadence": "daily", "start": "2024-01-01", "mode": "snapshot"}
    spec = readings(checks=[], extraction=extraction, supersede="any")
    land(settings, 1, at(1, "a,1,1"))
    heal(spark, settings, [1], spec)
    assert len(silver(settings)) == 1
    land(settings, 2, [])
    (decision,) = heal(spark, settings, [2], spec).current.values()
    assert decision.accepted
    assert silver(settings) == []
    assert proven(spark, settings, spec)


@pytest.mark.exhaustive(seconds=10)
@pytest.mark.parametrize(
    "change",
    [
        {"columns": {**COLUMNS, "value": {"type": "double", "expr": "value / 10"}}},
        {"source": {**readings().source.model_dump(), "timezone": "America/New_York"}},
    ],
    ids=["expr", "timezone"],
)
def test_a_contract_that_gives_other_values_folds_silver_anew(spark, settings, change):
    header = "sensor,hour,value,updated,other"
    rows = ["a,1,1,2024-01-01T00:00:00,7", "b,1,2,2024-01-01T00:00:00,8"]
    land(settings, 1, rows, header=header)
    heal(spark, settings, [1], readings(checks=[]))
    before = silver(settings)
    land(settings, 2, ["c,1,3,2024-01-02T00:00:00,9"], header=header)
    changed = readings(checks=[], **change)
    heal(spark, settings, [2], changed)
    assert proven(spark, settings, changed)
    assert before[0] not in silver(settings)


def test_units_and_descriptions_leave_the_meaning_unchanged():
    plain = readings()
    annotated = readings(
        columns={**COLUMNS, "value": {"type": "double", "unit": "kPa", "description": "x"}}, description="y", checks=[]
    )
    assert annotated.meaning == plain.meaning
    assert readings(key=["sensor"]).meaning != plain.meaning


@pytest.mark.exhaustive(seconds=15)
def test_a_discard_keeps_todays_contract(spark, settings):
    """The batch was judged by a contract without `note`; giving up its held row must not take the column from silver."""
    header = "sensor,hour,value,updated,note"
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z,first", "c,1,999,2024-01-01T00:00:00Z,held"], header=header)
    heal(spark, settings, [1], readings(checks=[RANGE]))
    land(settings, 2, ["b,1,2,2024-01-02T00:00:00Z,second"], header=header)
    today = readings(checks=[RANGE], columns={**COLUMNS, "note": "string"})
    heal(spark, settings, [2], today)
    decision = discard(runner(spark, settings, today), window(1).start, None, by="me", because="x")
    assert decision.counts.rows_discarded == 1
    assert [row["note"] for row in silver(settings)] == ["first", "second"]
    assert proven(spark, settings, today)


def test_one_bad_row_in_a_feature_quarantines_its_own_window_alone(spark, settings):
    drift = {"features": [{"name": "share", "expr": "value / hour"}]}
    spec = readings(checks=[], drift=drift)
    for day in (1, 2, 3):
        land(settings, day, at(day, "a,1,1", "b,0,2" if day == 2 else "b,2,2"))
    published = heal(spark, settings, [1, 2, 3], spec)
    assert {w.start.day: d.verdict for w, d in published.current.items()} == {1: "published", 2: "quarantined", 3: "published"}
    (reason,) = published.current[window(2)].reasons
    assert (reason.check, reason.status) == ("drift", "error")
    assert "DIVIDE_BY_ZERO" in reason.message


@pytest.mark.exhaustive(seconds=10)
def test_one_bad_value_in_a_batch_check_is_no_other_windows_trouble(spark, settings):
    """The comparison fails in one window, by a cast in the user's own SQL; the others are compared."""
    path = Path(settings.landing)
    (path / "totals").mkdir()
    totals = readings(
        name="totals", key=["id"], last_modified=None, columns={"id": "int", "n": "int"}, checks=[],
        source={"kind": "files", "path": "totals/{window:%Y-%m-%d}.csv", "format": "csv"},
    )  # fmt: skip
    (path / "totals" / "2024-01-01.csv").write_text("id,n\n1,1\n2,1\n3,1\n")
    heal(spark, settings, [1], totals)
    by = {"cast(sensor as int)": "id"}
    check = {"check": "reconcile", "measure": "count(*)", "table": "totals", "against": "max(n)", "by": by}
    for day, sensor in ((1, "1"), (2, "x"), (3, "3")):
        land(settings, day, at(day, f"{sensor},1,1"))
    published = heal(spark, settings, [1, 2, 3], readings(checks=[check]))
    assert {w.start.day: d.verdict for w, d in published.current.items()} == {1: "published", 2: "quarantined", 3: "published"}
    assert [r.status for r in published.current[window(2)].reasons] == ["error"]
    assert not ledger.unapplied_decisions(logs.decisions(settings, "readings"))
