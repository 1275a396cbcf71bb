"""Nothing good is lost to something bad: a later extraction replaces an earlier one only if it is plausible beside it.

Belongs here: redeliveries and snapshots on real Delta. Does not: random ones (histories), or the verdict alone (decisions).
"""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse_assets.decisions import ledger
from lakehouse_assets.operations.maintain import closed_decisions, maintain
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.operations.release import discard, rejudge, release
from lakehouse_assets.operations.replay import replay
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.support import heal, land, readings, runner, silver, window

HEADER = "sensor,hour,value,updated"
NO_CHECK_OF_VOLUME = [{"check": "in_range", "column": "value", "min": -100, "max": 100}]


def table(**changes):
    """Without `not_empty`: whether an empty redelivery is held is not its affair."""
    return readings(checks=NO_CHECK_OF_VOLUME, **changes)


def rows(day: int, values: dict[str, object], at: str = "01") -> list[str]:
    return [f"{sensor},1,{value},2024-01-{day:02d}T{at}:00:00Z" for sensor, value in values.items()]


def current_decision(settings, day: int, seq: int):
    return ledger.current_decisions(logs.decisions(settings, "readings"))[(window(day).start, seq)]


def values(settings):
    return {row["sensor"]: row["value"] for row in silver(settings)}


def law_two(settings):
    for decision in logs.decisions(settings, "readings"):
        c = decision.counts
        assert c.rows_in == c.rows_published + c.rows_superseded + c.rows_quarantined + c.rows_discarded


def same_after_rebuild(spark, settings, spec):
    proof = rebuild(runner(spark, settings, spec))
    assert (proof.gained, proof.lost) == (0, 0)


def same_when_replayed(spark, settings, spec):
    """Each decision of the gate, made again from what was known before it."""
    for decision in logs.decisions(settings, "readings", evidence=True):
        if decision.kind == "judged" and decision.superseded_by is None:
            again = replay(runner(spark, settings, spec), decision)
            assert (again.verdict, again.counts, again.reasons) == (decision.verdict, decision.counts, decision.reasons)
            assert again.checks == decision.checks


@pytest.mark.exhaustive(seconds=70)
def test_a_worse_redelivery_is_quarantined_and_a_release_accepts_it(spark, settings):
    """Another separator, no byte, a header alone, every row failing, most keys gone, a column of the key gone."""
    spec = table()
    for day in range(1, 7):
        land(settings, day, rows(day, {f"{name}{day}": day for name in "abc"}))
    heal(spark, settings, range(1, 7), spec)
    assert len(silver(settings)) == 18
    before = silver(settings)
    path = land(settings, 1, rows(1, {"a1": 1, "b1": 1, "c1": 1}))
    path.write_text(path.read_text().replace(",", ";"))
    land(settings, 2, []).write_text("")
    land(settings, 3, [])
    land(settings, 4, rows(4, {"a4": 999, "b4": 999, "c4": 999}))
    land(settings, 5, rows(5, {"a5": 6}))
    land(settings, 6, ["a6,6,2024-01-06T02:00:00Z"], header="sensor,value,updated")
    heal(spark, settings, range(1, 7), spec)
    assert silver(settings) == before
    expected = {1: "none of its 3 row(s) is clean", 2: "no rows, where 3 key(s)", 3: "no rows, where 3 key(s)"}
    expected |= {4: "none of its 3 row(s) is clean", 5: "67% of 3 published key(s)", 6: "lacks the key column(s) hour"}
    for day, text in expected.items():
        decision = current_decision(settings, day, 2)
        reason = next(r for r in decision.reasons if r.check == "supersede")
        assert (decision.verdict, reason.effect) == ("quarantined", "batch")
        assert text in reason.message, reason.message
        assert current_decision(settings, day, 1).accepted
    assert len(ledger.quarantined_decisions(logs.decisions(settings, "readings"))) == 6
    for day in (4, 5):
        release(runner(spark, settings, spec), window(day).start, None, waived=["supersede"], by="me", because="it is meant")
    # The rows of day 4 are in quarantine still, so its keys stay as they were; day 5 has one key.
    assert values(settings) == {**{f"{n}{d}": d for n in "abc" for d in (1, 2, 3, 4, 6)}, "a5": 6.0}
    assert current_decision(settings, 4, 1).counts.rows_published == 3
    law_two(settings)
    same_after_rebuild(spark, settings, spec)


def test_a_first_delivery_without_a_clean_row_is_quarantined_and_an_empty_one_is_not(spark, settings):
    land(settings, 1, rows(1, {"a": 999, "b": 999}))
    land(settings, 2, [])
    heal(spark, settings, [1, 2], table())
    assert [current_decision(settings, day, 1).verdict for day in (1, 2)] == ["quarantined", "published"]


@pytest.mark.exhaustive(seconds=10)
def test_any_lets_every_redelivery_replace_the_one_before(spark, settings):
    spec = table(supersede="any")
    land(settings, 1, rows(1, {"a": 1, "b": 2}))
    heal(spark, settings, [1], spec)
    land(settings, 1, [])
    heal(spark, settings, [1], spec)
    assert silver(settings) == []
    assert current_decision(settings, 1, 1).counts.rows_superseded == 2


@pytest.mark.exhaustive(seconds=12)
@pytest.mark.parametrize("lost", [5, 6])
def test_max_loss_is_a_bound_that_may_be_reached(spark, settings, lost):
    """Ten keys; a redelivery without five of them is accepted, without six it is not. A quarantined key is not lost."""
    spec = table()
    land(settings, 1, rows(1, {f"s{i}": i for i in range(10)}))
    heal(spark, settings, [1], spec)
    before = silver(settings)
    land(settings, 1, rows(1, {f"s{i}": 50 if i % 2 else 999 for i in range(lost, 10)}))
    heal(spark, settings, [1], spec)
    assert current_decision(settings, 1, 2).accepted == (lost == 5)
    assert (silver(settings) == before) == (lost == 6), "the first extraction stays where the second is quarantined"


@pytest.mark.exhaustive(seconds=60)
def test_a_quarantined_row_is_never_absent(spark, settings):
    """Quarantined twice, then released; quarantined, then clean; quarantined and discarded; absent."""
    spec = table()
    land(settings, 1, rows(1, {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}))
    heal(spark, settings, [1], spec)
    land(settings, 1, rows(1, {"a": 10, "b": 999, "c": 999, "d": 999}))
    heal(spark, settings, [1], spec)
    assert values(settings) == {"a": 10.0, "b": 2.0, "c": 3.0, "d": 4.0}
    first = current_decision(settings, 1, 1)
    assert (first.counts.rows_published, first.counts.rows_superseded) == (3, 2)
    discard(runner(spark, settings, spec), window(1).start, None, by="me", because="worthless")
    assert values(settings) == {"a": 10.0, "b": 2.0, "c": 3.0, "d": 4.0}
    land(settings, 1, rows(1, {"a": 999, "b": 999, "c": 30, "d": 999, "f": 6}))
    heal(spark, settings, [1], spec)
    assert values(settings) == {"a": 10.0, "b": 2.0, "c": 30.0, "d": 4.0, "f": 6.0}
    assert [current_decision(settings, 1, seq).counts.rows_published for seq in (1, 2, 3)] == [2, 1, 2]
    law_two(settings)
    same_after_rebuild(spark, settings, spec)
    release(runner(spark, settings, spec), window(1).start, None, waived=["in_range_value"], by="me", because="right")
    assert values(settings) == {"a": 999.0, "b": 999.0, "c": 30.0, "d": 999.0, "f": 6.0}
    assert [current_decision(settings, 1, seq).counts.rows_published for seq in (1, 2, 3)] == [0, 0, 5]
    strict = readings(checks=[{"check": "in_range", "column": "value", "max": 20}], supersede="any")
    rejudge(runner(spark, settings, strict), [window(1)], by="me", because="a stricter rule")
    same_after_rebuild(spark, settings, strict)
    law_two(settings)
    same_when_replayed(spark, settings, spec)


@pytest.mark.exhaustive(seconds=15)
def test_an_unreadable_key_may_be_any_key(spark, settings):
    spec = table()
    land(settings, 1, rows(1, {"a": 1, "b": 2, "c": 3}))
    heal(spark, settings, [1], spec)
    land(settings, 1, [*rows(1, {"a": 10}), "only,three,cells"])
    heal(spark, settings, [1], spec)
    assert values(settings) == {"a": 10.0, "b": 2.0, "c": 3.0}
    assert current_decision(settings, 1, 1).counts.rows_published == 2
    same_after_rebuild(spark, settings, spec)


@pytest.mark.exhaustive(seconds=15)
def test_a_quarantined_delete_leaves_the_delete_of_the_extraction_before(spark, settings):
    columns = {"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp", "op": "string"}
    extraction = {"cadence": "daily", "start": datetime(2024, 1, 1, tzinfo=UTC), "mode": "upsert", "delete_when": "op = 'D'"}
    spec, header = table(columns=columns, extraction=extraction), f"{HEADER},op"
    land(settings, 1, [f"{row},U" for row in rows(1, {"a": 1, "b": 2})], header)
    land(settings, 2, [f"{row},D" for row in rows(2, {"a": 1})] + [f"{row},U" for row in rows(2, {"b": 3})], header)
    heal(spark, settings, [1, 2], spec)
    land(settings, 2, [f"{row},D" for row in rows(2, {"a": 999})] + [f"{row},U" for row in rows(2, {"b": 4})], header)
    heal(spark, settings, [2], spec)
    assert values(settings) == {"b": 4.0}
    same_after_rebuild(spark, settings, spec)


@pytest.mark.exhaustive(seconds=20)
def test_append_mode_counts_rows_and_keeps_equal_quarantined_ones(spark, settings):
    extraction = {"cadence": "daily", "start": datetime(2024, 1, 1, tzinfo=UTC), "mode": "append"}
    spec = table(extraction=extraction, key=[])
    land(settings, 1, rows(1, {"a": 1, "b": 2, "c": 3, "d": 4}))
    land(settings, 2, rows(2, {"a": 1, "b": 2, "c": 3, "d": 4}))
    heal(spark, settings, [1, 2], spec)
    land(settings, 1, rows(1, {"a": 10, "b": 20}))
    land(settings, 2, rows(2, {"a": 10}))
    heal(spark, settings, [1, 2], spec)
    assert current_decision(settings, 1, 2).accepted
    assert current_decision(settings, 2, 2).verdict == "quarantined"
    assert len(silver(settings)) == 6
    strict = readings(checks=[{"check": "in_range", "column": "value", "max": 15}], extraction=extraction, key=[])
    land(settings, 1, rows(1, {"a": 10, "b": 20, "e": 5}))
    heal(spark, settings, [1], strict)
    # b is the same row as before, and in quarantine by the stricter rule: it stays as it was published.
    assert sorted(r["value"] for r in silver(settings) if r["p_extracted_at"].day == 1) == [5.0, 10.0, 20.0]
    same_after_rebuild(spark, settings, strict)
    law_two(settings)


@pytest.mark.exhaustive(seconds=60)
def test_a_snapshot_deletes_neither_quarantined_keys_nor_too_many(spark, settings):
    extraction = {"cadence": "daily", "start": datetime(2024, 1, 1, tzinfo=UTC), "mode": "snapshot"}
    spec = table(extraction=extraction)
    days = {
        1: {"a": 1, "b": 1, "c": 1, "d": 1},
        2: {"a": 2, "b": 999, "c": 2, "d": 2},  # b is not absent
        3: {"a": 3},  # three of four keys gone: quarantined
        4: {"a": 4, "b": 999, "c": 4},  # d is deleted
        6: {"a": 6, "c": 6},  # b is deleted
    }
    for day, cells in days.items():
        land(settings, day, rows(day, cells))
    heal(spark, settings, [1, 2, 3, 4], spec)
    assert [current_decision(settings, day, 1).accepted for day in (1, 2, 3, 4)] == [True, True, False, True]
    assert values(settings) == {"a": 4.0, "b": 1.0, "c": 4.0}
    heal(spark, settings, [6], spec)
    assert values(settings) == {"a": 6.0, "c": 6.0}
    land(settings, 7, [])
    land(settings, 8, [*rows(8, {"a": 8}), "a line,of three,cells"])
    heal(spark, settings, [7, 8], spec)
    assert [current_decision(settings, day, 1).verdict for day in (7, 8)] == ["quarantined", "published_with_warnings"]
    assert values(settings) == {"a": 8.0, "c": 6.0}  # the unreadable row may be c
    land(settings, 5, rows(5, {"x": 5}))  # late, and older than what is published: it deletes nothing that came after it
    land(settings, 6, rows(6, {"c": 7}))
    heal(spark, settings, [5, 6], spec)
    assert values(settings)["a"] == 8.0
    same_after_rebuild(spark, settings, spec)
    law_two(settings)
    for day, seq in ((4, 1), (7, 1)):
        decision = logs.with_evidence(settings, "readings", [current_decision(settings, day, seq)])[0]
        again = replay(runner(spark, settings, spec), decision)
        assert (again.verdict, again.counts, again.reasons) == (decision.verdict, decision.counts, decision.reasons)


@pytest.mark.exhaustive(seconds=15)
def test_a_late_snapshot_keeps_keys_that_later_ones_have_in_quarantine(spark, settings):
    """Day 3 has nearly all keys in quarantine, so that they stand by day 1 alone; then day 2 arrives, with one key."""
    extraction = {"cadence": "daily", "start": datetime(2024, 1, 1, tzinfo=UTC), "mode": "snapshot"}
    spec = table(extraction=extraction)
    land(settings, 1, rows(1, dict.fromkeys("abcd", 1)))
    land(settings, 3, rows(3, {**dict.fromkeys("bcd", 999), "a": 3}))
    heal(spark, settings, [1, 3], spec)
    land(settings, 2, rows(2, {"a": 2}))
    heal(spark, settings, [2], spec)
    assert current_decision(settings, 2, 1).verdict == "quarantined"
    assert values(settings) == {"a": 3.0, "b": 1.0, "c": 1.0, "d": 1.0}


@pytest.mark.exhaustive(seconds=30)
def test_maintenance_keeps_the_bronze_of_published_rows(spark, settings):
    spec = table(maintenance={"quarantine_days": 1})
    land(settings, 1, [*rows(1, {"a": 1, "b": 2, "c": 3}), *rows(1, {"d": 999})])
    heal(spark, settings, [1], spec)
    land(settings, 1, rows(1, {"a": 10, "b": 999, "c": 5, "d": 999}))
    heal(spark, settings, [1], spec)
    later = replace(runner(spark, settings, spec), clock=lambda: datetime(2024, 7, 1, tzinfo=UTC))
    assert closed_decisions(logs.decisions(settings, "readings"), spec, later.clock()) == []
    maintain(later)
    assert Path(settings.path("quarantine", "readings")).exists()
    assert values(settings) == {"a": 10.0, "b": 2.0, "c": 5.0}
    same_after_rebuild(spark, settings, spec)


@pytest.mark.exhaustive(seconds=40)
def test_a_second_release_of_a_redelivery_skips_the_comparison_with_its_predecessor(spark, settings):
    """Six of ten keys were given up by a person; later a quarantined row is released, and the window is judged again."""
    spec = table()
    land(settings, 1, rows(1, {f"s{i}": i for i in range(10)}))
    heal(spark, settings, [1], spec)
    land(settings, 1, rows(1, {"s0": 1, "s1": 1, "s2": 1, "s3": 999}))
    heal(spark, settings, [1], spec)
    release(runner(spark, settings, spec), window(1).start, None, waived=["supersede"], by="me", because="it is meant")
    assert values(settings) == {"s0": 1.0, "s1": 1.0, "s2": 1.0, "s3": 3.0}
    rejudge(runner(spark, settings, spec), [window(1)], by="me", because="once more")
    assert values(settings) == {"s0": 1.0, "s1": 1.0, "s2": 1.0, "s3": 3.0}
    request = {"waived": ["in_range_value"], "by": "me", "because": "right"}
    release(runner(spark, settings, spec), window(1).start, None, **request)
    assert values(settings) == {"s0": 1.0, "s1": 1.0, "s2": 1.0, "s3": 999.0}
    assert current_decision(settings, 1, 1).counts.rows_published == 0
    same_after_rebuild(spark, settings, spec)
    law_two(settings)


@pytest.mark.exhaustive(seconds=60)
def test_a_fully_replaced_extraction_never_comes_back(spark, settings):
    """A bad row of the first two deliveries; their quarantine is forgotten by maintenance before the third comes."""
    spec = table(maintenance={"quarantine_days": 1})
    for value in (1, 2, 3):
        land(settings, 1, rows(1, {"a": value, "b": value, "k": 999}))
        heal(spark, settings, [1], spec)
        maintain(replace(runner(spark, settings, spec), clock=lambda: datetime(2024, 7, 1, tzinfo=UTC)))
        assert values(settings) == {"a": value, "b": value}
        same_after_rebuild(spark, settings, spec)


@pytest.mark.exhaustive(seconds=40)
def test_rows_that_moved_to_another_window_survive(spark, settings):
    """As in a database where an updated row is of the day of its update: the day that it leaves is delivered with less."""
    spec = table()
    land(settings, 1, rows(1, {"a": 1, "b": 1, "c": 1}))
    heal(spark, settings, [1], spec)
    land(settings, 1, rows(1, {"c": 1}))
    land(settings, 2, rows(2, {"a": 2, "b": 2}))
    heal(spark, settings, [1, 2], spec)
    assert current_decision(settings, 1, 2).accepted
    land(settings, 1, [])
    land(settings, 3, rows(3, {"c": 3}))
    heal(spark, settings, [1, 3], spec)
    assert current_decision(settings, 1, 3).accepted
    assert values(settings) == {"a": 2.0, "b": 2.0, "c": 3.0}
    same_after_rebuild(spark, settings, spec)
    same_when_replayed(spark, settings, spec)


@pytest.mark.exhaustive(seconds=25)
def test_a_row_is_lost_when_the_window_that_brings_it_is_quarantined(spark, settings):
    """Day 1 comes again without its keys. Day 2 of the same run has them, and too many rows."""
    spec = readings(checks=[*NO_CHECK_OF_VOLUME, {"check": "row_count", "max": 4}])
    land(settings, 1, rows(1, dict.fromkeys("abcd", 1)))
    heal(spark, settings, [1], spec)
    land(settings, 1, rows(1, {"z": 5}))
    land(settings, 2, rows(2, dict.fromkeys("abcde", 2)))
    heal(spark, settings, [1, 2], spec)
    assert [current_decision(settings, day, seq).verdict for day, seq in ((1, 2), (2, 1))] == ["quarantined"] * 2
    assert values(settings) == dict.fromkeys("abcd", 1.0)
    same_after_rebuild(spark, settings, spec)
    same_when_replayed(spark, settings, spec)


@pytest.mark.exhaustive(seconds=35)
def test_of_two_windows_that_lose_the_same_keys_one_keeps_them(spark, settings):
    spec = table()
    for day in (1, 2):
        land(settings, day, rows(day, {"a": day, "b": day}))
    heal(spark, settings, [1, 2], spec)
    for day, key in ((1, "x"), (2, "y")):
        land(settings, day, rows(day, {key: day}))
    heal(spark, settings, [1, 2], spec)
    assert [current_decision(settings, day, 2).accepted for day in (1, 2)] == [True, False]
    assert values(settings) == {"a": 2.0, "b": 2.0, "x": 1.0}
    same_after_rebuild(spark, settings, spec)
    same_when_replayed(spark, settings, spec)
