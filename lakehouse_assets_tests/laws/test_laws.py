"""The five laws of the design on real Delta. No later change may loosen what is asserted here."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from deltalake import DeltaTable

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.operations.release import discard, release
from lakehouse_assets.operations.replay import replay
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.support import Killed, content_hash, folded, heal, land, readings, rows_of, runner, silver, window

A1 = "a,1,10,2024-01-01T01:00:00Z"
A2 = "a,2,20,2024-01-01T02:00:00Z"
B1 = "b,1,30,2024-01-01T01:00:00Z"


def row(text: str) -> dict[str, str | None]:
    return dict(zip(("sensor", "hour", "value", "updated"), text.split(","), strict=True))


def current_decision(settings):
    return ledger.current_decisions(logs.decisions(settings, "readings", evidence=True))


def of(settings, day: int, seq: int = 1):
    return current_decision(settings)[(window(day).start, seq)]


# Law 1 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "split",
    [
        [[3], [1, 2]],
        pytest.param([[1, 2, 3]], marks=pytest.mark.exhaustive(seconds=20)),
        pytest.param([[2], [3], [1]], marks=pytest.mark.exhaustive(seconds=25)),
    ],
    ids=["newer_first", "one_run", "one_run_per_window"],
)
def test_silver_is_the_fold_whatever_the_order_and_the_split(spark, settings, split):
    """Late, newer-first, ties by content: the same table from one run, from one run per window, and in reverse."""
    days = {
        1: [A1, A2, B1],
        2: ["a,1,11,2024-01-02T01:00:00Z", "a,2,NA,2024-01-02T02:00:00Z"],
        3: ["a,1,9,2024-01-01T00:30:00Z", "b,1,31,2024-01-02T00:00:00Z", "b,1,32,2024-01-02T00:00:00Z"],
    }
    expected = folded((window(day).start, 1, [row(text) for text in rows]) for day, rows in days.items())
    for day, rows in days.items():
        land(settings, day, rows)
    for group in split:
        heal(spark, settings, group)
    assert silver(settings) == expected
    rebuilt = rebuild(runner(spark, settings))
    assert (rebuilt.gained, rebuilt.lost) == (0, 0)


def test_a_column_that_a_batch_did_not_have_keeps_its_value(spark, settings):
    land(settings, 1, [A1, B1])
    land(settings, 2, ["a,1,2024-01-02T00:00:00Z"], header="sensor,hour,updated")
    land(settings, 3, ["b,1,NA,2024-01-03T00:00:00Z"])
    heal(spark, settings, [1])
    heal(spark, settings, [2, 3])
    absent = {"sensor": "a", "hour": "1", "updated": "2024-01-02T00:00:00Z"}
    three = row("b,1,NA,2024-01-03T00:00:00Z")
    expected = folded([(window(1).start, 1, [row(A1), row(B1)]), (window(2).start, 1, [absent]), (window(3).start, 1, [three])])
    assert silver(settings) == expected
    assert {(r["sensor"], r["value"]) for r in silver(settings)} == {("a", 10.0), ("b", None)}


@pytest.mark.exhaustive(seconds=20)
def test_deletes_are_part_of_the_fold_and_an_older_row_does_not_bring_a_key_back(spark, settings):
    spec = readings(
        columns={"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp", "op": "string"},
        extraction={"cadence": "daily", "start": datetime(2024, 1, 1, tzinfo=UTC), "mode": "upsert", "delete_when": "op = 'D'"},
    )
    header = "sensor,hour,value,updated,op"
    land(settings, 1, [f"{A1},I", f"{B1},I"], header)
    land(settings, 2, ["a,1,NA,2024-01-02T00:00:00Z,D"], header)
    land(settings, 3, ["a,1,5,2024-01-01T23:00:00Z,U", "b,1,6,2024-01-03T00:00:00Z,U"], header)
    for day in (1, 2, 3):
        heal(spark, settings, [day], spec)
    assert [(r["sensor"], r["value"]) for r in silver(settings)] == [("b", 6.0)]
    rebuilt = rebuild(runner(spark, settings, spec))
    assert (rebuilt.gained, rebuilt.lost) == (0, 0)


@pytest.mark.exhaustive(seconds=20)
def test_in_snapshot_mode_a_key_that_the_newest_lacks_is_gone(spark, settings):
    spec = readings(
        extraction={"cadence": "daily", "start": datetime(2024, 1, 1, tzinfo=UTC), "mode": "snapshot"},
    )
    land(settings, 1, [A1, B1])
    land(settings, 2, ["a,1,12,2024-01-02T00:00:00Z"])
    land(settings, 3, ["a,1,12,2024-01-02T00:00:00Z", "b,1,33,2024-01-03T00:00:00Z"])
    heal(spark, settings, [1], spec)
    assert len(silver(settings)) == 2
    heal(spark, settings, [2], spec)
    assert [(r["sensor"], r["value"]) for r in silver(settings)] == [("a", 12.0)]
    heal(spark, settings, [3], spec)
    assert [(r["sensor"], r["value"]) for r in silver(settings)] == [("a", 12.0), ("b", 33.0)]


@pytest.mark.exhaustive(seconds=12)
def test_append_mode_keeps_every_row_repeated_ones_too(spark, settings):
    spec = readings(extraction={"cadence": "daily", "start": datetime(2024, 1, 1, tzinfo=UTC), "mode": "append"}, key=[])
    land(settings, 1, [A1, A1, B1])
    land(settings, 2, [A1])
    heal(spark, settings, [1, 2], spec)
    assert [r["sensor"] for r in silver(settings)] == ["a", "a", "a", "b"]
    land(settings, 1, [A1, B1, "c,1,1,2024-01-01T00:00:00Z"])
    heal(spark, settings, [1, 2], spec)
    assert [r["sensor"] for r in silver(settings)] == ["a", "a", "b", "c"]
    assert (rebuild(runner(spark, settings, spec)).lost) == 0


# Law 2 ------------------------------------------------------------------------------------------------------------------


def test_every_row_is_somewhere_and_only_there(spark, settings):
    """Repeated, superseded, contradicting, out of range, NaN, uncastable, keyless and unreadable rows."""
    land(
        settings,
        1,
        [A1, A1, "a,1,11,2024-01-01T03:00:00Z", B1, "b,2,1000,2024-01-01T00:00:00Z", "c,1,NaN,2024-01-01T00:00:00Z",
         "c,2,abc,2024-01-01T00:00:00Z", ",3,1,2024-01-01T00:00:00Z", "too,few"],
    )  # fmt: skip
    heal(spark, settings, [1])
    decision = of(settings, 1)
    counts = decision.counts
    assert decision.verdict == "published_with_warnings"
    assert (counts.rows_in, counts.rows_published, counts.rows_superseded, counts.rows_quarantined) == (9, 2, 2, 5)
    quarantined_rows = rows_of(settings.path("quarantine", "readings"))
    assert len(quarantined_rows) == 5
    assert {r["decision_id"] for r in quarantined_rows} == {decision.decision_id}
    failed_checks = {reason["check"] for r in quarantined_rows for reason in r["reasons"]}
    assert failed_checks == {"in_range_value", "cast_value", "key_not_null", "readable_row"}
    in_silver = {r["_content_hash"] for r in silver(settings)}
    assert not in_silver & {r["_content_hash"] for r in quarantined_rows}
    assert in_silver == {content_hash(row("a,1,11,2024-01-01T03:00:00Z")), content_hash(row(B1))}


@pytest.mark.exhaustive(seconds=12)
def test_every_decision_conserves_its_rows(spark, settings):
    land(settings, 1, [A1, "b,1,500,2024-01-01T00:00:00Z"])
    land(settings, 2, [])
    heal(spark, settings, [1, 2])
    land(settings, 1, [A1, A2])
    heal(spark, settings, [1])
    discardable = of(settings, 2)
    assert discardable.verdict == "quarantined"
    assert discardable.counts.rows_in == 0
    for decision in logs.decisions(settings, "readings"):
        c = decision.counts
        assert c.rows_in == c.rows_published + c.rows_superseded + c.rows_quarantined + c.rows_discarded


# Law 3 ------------------------------------------------------------------------------------------------------------------


def drifting() -> TableSpec:
    return readings(drift={"features": ["value"], "warn_from": 20})


def test_deciding_again_with_the_same_versions_gives_the_same_verdict(spark, settings):
    """Even after later windows, another rule set, and a second extraction of the same window."""
    spec = drifting()
    for day in (1, 2):
        land(
            settings,
            day,
            [f"a,{hour},{hour + day},2024-01-{day:02d}T00:00:00Z" for hour in range(5)] + ["b,1,999,2024-01-01T00:00:00Z"],
        )
    heal(spark, settings, [1, 2], spec)
    first = [d for d in logs.decisions(settings, "readings", evidence=True) if d.kind == "judged"]
    land(settings, 2, ["a,1,1,2024-01-02T00:00:00Z"])
    heal(spark, settings, [2], spec)
    stricter = spec.model_copy(update={"checks": (*spec.checks, *readings(checks=[{"check": "row_count", "min": 100}]).checks)})
    for decision in first:
        again = replay(runner(spark, settings, stricter), decision)
        assert (again.verdict, again.counts, again.reasons) == (decision.verdict, decision.counts, decision.reasons)
        assert again.drift == decision.drift
        assert again.baseline_version == decision.baseline_version


def test_windows_of_a_run_are_judged_oldest_first_each_by_those_before_it(spark, settings):
    for day in (1, 2, 3):
        land(settings, day, [f"a,{hour},{hour},2024-01-{day:02d}T00:00:00Z" for hour in range(5)])
    heal(spark, settings, [3, 1, 2], drifting())
    decisions = [of(settings, day) for day in (1, 2, 3)]
    assert [d.number for d in decisions] == [1, 2, 3]
    assert [d.baseline_version for d in decisions] == [0, 1, 2]
    assert [d.drift["windows_known"] for d in decisions] == [0, 1, 2]


# Law 4 ------------------------------------------------------------------------------------------------------------------


def test_running_twice_changes_nothing(spark, settings):
    land(settings, 1, [A1, "b,1,500,2024-01-01T00:00:00Z"])
    heal(spark, settings, [1])
    paths = [
        settings.path(*p)
        for p in (("bronze", "readings"), ("silver", "readings"), ("quarantine", "readings"), ("ops", "decisions"))
    ]
    before = [DeltaTable(path).version() for path in paths]
    heal(spark, settings, [1])
    heal(spark, settings, [1, 2])
    assert [DeltaTable(path).version() for path in paths] == before


def test_a_second_extraction_replaces_the_first_rows_that_vanished_included(spark, settings):
    land(settings, 1, [A1, A2, "b,1,500,2024-01-01T00:00:00Z"])
    land(settings, 2, ["a,3,1,2024-01-02T00:00:00Z"])
    heal(spark, settings, [1, 2])
    land(settings, 1, ["a,1,15,2024-01-01T01:00:00Z"])
    heal(spark, settings, [1])
    assert [(r["sensor"], r["hour"], r["value"]) for r in silver(settings)] == [("a", 1, 15.0), ("a", 3, 1.0)]
    old, new = of(settings, 1, 1), of(settings, 1, 2)
    assert (old.verdict, old.counts.rows_superseded, old.counts.rows_published) == ("published_with_warnings", 3, 0)
    assert old.superseded_by == new.decision_id
    assert ledger.quarantined_decisions(logs.decisions(settings, "readings")) == []
    with pytest.raises(RefusedError, match="superseded"):
        release(runner(spark, settings), window(1).start, 1, waived=["*"], by="me", because="test")


@pytest.mark.exhaustive(seconds=12)
def test_a_quarantined_second_extraction_leaves_the_first_in_silver(spark, settings):
    land(settings, 1, [A1, A2])
    heal(spark, settings, [1])
    before = silver(settings)
    land(settings, 1, [])
    heal(spark, settings, [1])
    assert of(settings, 1, 2).verdict == "quarantined"
    assert of(settings, 1, 1).accepted
    assert silver(settings) == before


def test_a_release_merges_rows_in_the_total_order_and_a_discard_never_does(spark, settings):
    land(settings, 1, ["a,1,500,2024-01-01T00:00:00Z", A2])
    land(settings, 2, ["a,1,7,2024-01-02T00:00:00Z", "b,9,900,2024-01-02T00:00:00Z"])
    heal(spark, settings, [1, 2])
    released = release(
        runner(spark, settings), window(1).start, None, waived=["in_range_value"], by="me", because="right after all"
    )
    assert (released.counts.rows_published, released.counts.rows_quarantined) == (2, 0)
    # Older than day 2's row of the same key: published, and rightly not the newest.
    assert [(r["sensor"], r["hour"], r["value"]) for r in silver(settings)] == [("a", 1, 7.0), ("a", 2, 20.0)]
    given_up = discard(runner(spark, settings), window(2).start, None, by="me", because="worthless")
    assert (given_up.counts.rows_published, given_up.counts.rows_discarded) == (1, 1)
    assert ledger.quarantined_decisions(logs.decisions(settings, "readings")) == []
    rebuilt = rebuild(runner(spark, settings))
    assert (rebuilt.gained, rebuilt.lost) == (0, 0)
    with pytest.raises(RefusedError, match="has no quarantined rows"):
        discard(runner(spark, settings), window(2).start, None, by="me", because="again")


# Law 5 ------------------------------------------------------------------------------------------------------------------


def test_an_error_in_a_blocking_check_quarantines_its_window_alone(spark, settings):
    spec = readings(checks=[{"check": "sql", "name": "ratio", "sql": "select * from batch where 100 / (value - 20) > 1e9"}])
    land(settings, 1, [A1])
    land(settings, 2, ["a,2,20,2024-01-02T00:00:00Z"])
    land(settings, 3, ["a,3,30,2024-01-03T00:00:00Z"])
    heal(spark, settings, [1, 2, 3], spec)
    assert [of(settings, day).verdict for day in (1, 2, 3)] == ["published", "quarantined", "published"]
    reason = of(settings, 2).reasons[0]
    assert (reason.check, reason.status, reason.effect) == ("ratio", "error", "batch")
    assert "DIVIDE_BY_ZERO" in reason.message


@pytest.mark.exhaustive(seconds=8)
def test_an_error_in_a_non_blocking_check_is_visible_and_quarantines_nothing(spark, settings):
    spec = readings(
        checks=[
            {"check": "sql", "name": "ratio", "severity": "warning", "sql": "select * from batch where 1 / (value - 20) > 9"}
        ]
    )
    land(settings, 1, ["a,2,20,2024-01-02T00:00:00Z"])
    heal(spark, settings, [1], spec)
    assert of(settings, 1).verdict == "published_with_warnings"
    assert [(r.check, r.status, r.effect) for r in of(settings, 1).reasons] == [("ratio", "error", "report")]


def test_every_check_that_throws_is_an_error_and_never_a_pass(spark, settings, monkeypatch):
    from lakehouse_assets.checks.kinds.volume import NotEmpty

    def broken(*_):
        raise RuntimeError("no judgement today")

    monkeypatch.setattr(NotEmpty, "judge", broken)
    land(settings, 1, [A1])
    heal(spark, settings, [1])
    assert of(settings, 1).verdict == "quarantined"
    assert silver(settings) == []


@pytest.mark.exhaustive(seconds=12)
def test_an_unreadable_file_is_one_row_that_names_it_and_a_new_file_heals(spark, settings):
    path = land(settings, 1, [A1])
    path.write_bytes("sensor,hour,value,updated\n".encode("utf-16"))
    land(settings, 2, [B1])
    heal(spark, settings, [1, 2])
    assert [of(settings, day).verdict for day in (1, 2)] == ["quarantined", "published"]
    quarantined_rows = rows_of(settings.path("quarantine", "readings"))
    assert len(quarantined_rows) == 1
    assert "readings/2024-01-01.csv" in quarantined_rows[0]["_corrupt_record"]
    land(settings, 1, [A1])
    heal(spark, settings, [1])
    assert of(settings, 1, 2).verdict == "published"


def test_a_recovery_applies_a_decision_by_its_own_rules(spark, settings):
    """The configuration changes between the crash and the next run."""
    land(settings, 1, [A1, "b,1,60,2024-01-01T00:00:00Z"])

    def stop(step: str) -> None:
        if step == "log_done":
            raise Killed

    run = runner(spark, settings, step=stop)
    from lakehouse_assets.pipeline.extract import extract

    extract(run, [window(1)])
    with pytest.raises(Killed):
        publish(run, [window(1)])
    assert silver(settings) == []
    stricter = readings(checks=[{"check": "in_range", "column": "value", "max": 50}])
    publish(runner(spark, settings, stricter), [window(1)])
    assert len(silver(settings)) == 2
    decision = of(settings, 1)
    assert decision.applied_at is not None
    assert replace(decision, applied_at=None, silver_version=None).counts.rows_published == 2


@pytest.mark.exhaustive(seconds=10)
def test_a_changed_contract_is_folded_anew_from_bronze(spark, settings):
    """A column that is declared later gets its values from bronze, also those of windows long published."""
    land(settings, 1, [f"{A1},x"], header="sensor,hour,value,updated,note")
    land(settings, 2, [f"{B1},y"], header="sensor,hour,value,updated,note")
    heal(spark, settings, [1])
    wider = readings(columns={"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp", "note": "string"})
    heal(spark, settings, [2], wider)
    assert [(r["sensor"], r["note"]) for r in silver(settings)] == [("a", "x"), ("b", "y")]
