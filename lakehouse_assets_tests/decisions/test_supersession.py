"""The check `supersede` on its own, and the chains of a window's accepted extractions."""

from datetime import UTC, datetime

import pytest

from lakehouse_assets.contracts.decision import Counts
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.decisions.supersession import Replaced, supersede_outcome, supersession_records
from lakehouse_assets_tests.logbook import decided
from lakehouse_assets_tests.support import readings

START = datetime(2024, 1, 1, tzinfo=UTC)
ALL = ("sensor", "hour", "value", "updated")


def numbers(rows=3, clean=3):
    return BatchNumbers(rows_in=rows, newest=clean, failing=rows - clean)


@pytest.mark.parametrize(
    ("counted", "replaced", "lacking", "status"),
    [
        # A first delivery: rows and none clean, no rows, all well, nothing of what is declared.
        (numbers(3, 0), None, (), "failed"),
        (numbers(0, 0), None, (), "silent"),
        (numbers(3, 1), None, (), "silent"),
        (numbers(3, 3), None, ALL, "failed"),
        (numbers(3, 3), None, ("sensor",), "silent"),
        # A second one.
        (numbers(3, 3), Replaced(4, 2), (), "passed"),
        (numbers(3, 3), Replaced(4, 3), (), "failed"),
        (numbers(3, 3), Replaced(0, 0), (), "passed"),
        (numbers(3, 0), Replaced(4, 0), (), "failed"),
        (numbers(0, 0), Replaced(4, 4), (), "failed"),
        (numbers(0, 0), Replaced(0, 0), (), "passed"),
        (numbers(3, 3), Replaced(4, 0), ("hour",), "failed"),
        (numbers(3, 3), Replaced(4, 0), ("value",), "passed"),
        (numbers(3, 3), Replaced(error="Spark stopped"), (), "error"),
    ],
)
def test_plausible_redeliveries_pass(counted, replaced, lacking, status):
    outcomes = supersede_outcome(readings(), counted, replaced, lacking)
    assert [o.status for o in outcomes] == ([] if status == "silent" else [status])
    assert all((o.effect == "batch") == (o.status in ("failed", "error")) for o in outcomes)
    # With `any`, too, it is not known what would stay of the earlier rows.
    outcomes = supersede_outcome(readings(supersede="any"), counted, replaced, lacking)
    assert [o.status for o in outcomes] == (["error"] if status == "error" else [])


@pytest.mark.parametrize(
    ("counted", "replaced", "lacking", "override"),
    [
        (numbers(40, 0), None, (), False),
        (numbers(40, 0), Replaced(40, 0), (), False),
        (numbers(40, 40), None, ALL, False),
        (numbers(3, 3), Replaced(4, 3), (), True),
        (numbers(0, 0), Replaced(4, 4), (), True),
    ],
)
def test_an_override_is_advised_only_where_it_publishes_values(counted, replaced, lacking, override):
    (outcome,) = supersede_outcome(readings(), counted, replaced, lacking)
    assert ("if the source means it, release" in outcome.message) == override
    assert ("correct the file" in outcome.message) != override


@pytest.mark.parametrize(("max_loss", "lost", "passes"), [(0, 0, True), (0, 1, False), (0.1, 1, True), (1, 10, True)])
def test_the_bound_is_the_tables_own(max_loss, lost, passes):
    spec = readings(supersede={"max_loss": max_loss})
    (outcome,) = supersede_outcome(spec, numbers(), Replaced(10, lost), ())
    assert (outcome.status == "passed") == passes


def test_in_append_mode_the_numbers_of_clean_rows_are_compared():
    """Corrected rows have other contents: by their contents all would be lost."""
    spec = readings(key=[], extraction={"cadence": "daily", "start": START, "mode": "append"})
    for clean, stays, passes in ((10, {}, True), (5, {}, True), (4, {}, False), (4, {1: 1}, True)):
        (outcome,) = supersede_outcome(spec, numbers(clean, clean), Replaced(10, 10, stays), ())
        assert (outcome.status == "passed") == passes, clean


def extraction(number, seq, quarantined=0, **changes):
    counts = Counts(5, 5 - quarantined, 0, quarantined, 0)
    return decided(number, p_extracted_at=START, extraction_seq=seq, counts=counts, **changes)


def seqs(chain):
    return [(link.decision.extraction_seq, link.publishes) for link in chain]


def test_a_chain_ends_at_an_extraction_without_a_row_in_quarantine():
    first, second, third = extraction(1, 1), extraction(2, 2), extraction(3, 3, quarantined=1)
    assert seqs(ledger.links([first, second, third])) == [(2, True), (3, True)]
    assert seqs(ledger.links([first, second, third], before=3)) == [(2, True)]


def test_a_withdrawn_extraction_publishes_nothing_and_still_supersedes():
    first, second = extraction(1, 1), extraction(2, 2, quarantined=1)
    withdrawn = extraction(3, 2, quarantined=5, verdict="quarantined")
    assert seqs(ledger.links([first, second, withdrawn])) == [(1, True), (2, False)]


def test_supersession_records_name_remaining_rows_and_follow_their_changes():
    first, second = extraction(1, 1), extraction(2, 2, quarantined=1)
    (record,) = supersession_records([first], second, Replaced(5, 0, {1: 1}))
    assert (record.counts, record.superseded_by) == (Counts(5, 1, 4, 0, 0), second.decision_id)
    decisions = [first, second, record]
    live = ledger.live_decisions(decisions)
    assert list(live.accepted) == [second.batch]
    assert {d.batch for d in live.publishing.values()} == {first.batch, second.batch}
    third = extraction(3, 3)
    again = supersession_records(ledger.earlier(third, decisions), third, Replaced(5, 0, {}))
    assert [(d.extraction_seq, d.counts.rows_published, d.counts.rows_superseded) for d in again] == [(1, 0, 5), (2, 0, 5)]
    assert ledger.live_decisions([*decisions, third, *again]).chains == {}
    assert supersession_records(ledger.earlier(third, [*decisions, third, *again]), third, None) == []
