"""The scorecard of a rehearsal: what counts as seen beside the clean copy, what the key makes good, and what nothing saw.

Belongs here: the sums. Does not: copies on Spark (operations/test_rehearse), the page (reports/test_rehearsal).
"""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lakehouse_assets.decisions.gate import Outcome
from lakehouse_assets.decisions.rehearsal import (
    CleanSummary,
    Copy,
    JudgedCopy,
    Rehearsal,
    compare,
    list_unseen,
    summarize_clean,
    summarize_faults,
)

AT = datetime(2024, 1, 1, tzinfo=UTC)


def outcome(check="in_range_value", status="failed", effect="rows", rows=1):
    return Outcome(check, "in_range", "critical", status, effect, rows, "")


def judged(*outcomes, number=0, fault="", size="", column="", verdict="published", published=10, drifted="", proposals=()):
    copy = Copy(AT, number, fault, size, column)
    changed = 1 if fault else 0
    return JudgedCopy(copy, verdict, 10, published, outcomes, changed, drifted, frozenset(proposals))


PASSED = outcome(status="passed", effect="none", rows=0)
DRIFT = outcome("drift", effect="report", rows=0)


@pytest.mark.parametrize(
    ("clean", "faulty", "expected"),
    [
        ((), (), ("unseen", ())),
        ((PASSED,), (outcome(),), ("rows quarantined", ("in_range_value",))),
        ((outcome(),), (outcome(),), ("unseen", ())),
        ((outcome(rows=1),), (outcome(rows=2),), ("rows quarantined", ("in_range_value",))),
        ((outcome(rows=2),), (outcome(rows=1),), ("unseen", ())),
        ((outcome(),), (outcome(effect="batch"),), ("quarantined", ("in_range_value",))),
        ((DRIFT,), (DRIFT,), ("unseen", ())),
        ((), (outcome("unique", effect="none"), outcome()), ("rows quarantined", ("in_range_value", "unique"))),
        ((), (outcome(status="error", effect="batch", rows=0),), ("quarantined", ("in_range_value",))),
        ((), (outcome(status="skipped", effect="none", rows=0),), ("unseen", ())),
    ],
)
def test_only_what_the_clean_copy_does_not_have_is_seen(clean, faulty, expected):
    assert compare(judged(*clean), judged(*faulty, fault="unit")) == expected


def test_repeated_rows_fail_repeatedly():
    clean, twice = judged(outcome(rows=2)), replace(judged(outcome(rows=4), fault="duplicated_rows"), rows=20)
    assert compare(clean, twice).level == "unseen"
    assert compare(clean, replace(twice, outcomes=(outcome(rows=5),))).level == "rows quarantined"


def test_drift_is_named_by_its_feature():
    quarantined = outcome("drift", effect="batch", rows=0)
    assert compare(judged(DRIFT, drifted="volume"), judged(quarantined, drifted="value")) == (
        "quarantined",
        ("drift of value",),
    )


def test_rows_that_the_key_removes_do_no_harm():
    clean = judged(published=10)
    twice = [judged(number=n, fault="duplicated_rows", size="twice", published=p) for n, p in ((1, 10), (2, 20))]
    warned = judged(outcome(effect="report", rows=0), number=3, fault="duplicated_rows", size="twice")
    pairs = [(clean, each) for each in (*twice, warned)]
    (summary,) = summarize_faults(pairs, ["duplicated_rows"])
    assert (summary.copies, summary.harmful, summary.detections, summary.harmless) == (3, 2, 1, 1)
    assert [each.copies for each in list_unseen(pairs, ["duplicated_rows"], {each.copy: "" for each in twice}, {}, [])] == [1]
    # Without a key, each row is published.
    (summary,) = summarize_faults(pairs, [])
    assert (summary.harmful, summary.harmless) == (3, 0)
    # A copy without any published row is no proof of anything.
    nothing = judged(number=4, fault="duplicated_rows", size="twice", published=0)
    assert summarize_faults([(judged(published=0), nothing)], ["duplicated_rows"])[0].harmless == 0


def test_a_proposal_counts_where_it_sees_every_unseen_copy_and_no_clean_one():
    clean, noisy = judged(), judged(proposals=["p1"])
    missed = [judged(number=n, fault="unit", size="×10", column="value", proposals=p) for n, p in ((1, "ab"), (2, "a"))]
    unseen = list_unseen([(clean, each) for each in missed], [], {missed[0].copy: "in_range"}, {"a": "A", "b": "B"}, [clean])
    assert [(each.copies, each.of, each.proposals, each.advice) for each in unseen] == [(2, 2, ("A",), "in_range")]
    one = judged(number=1, fault="unit", column="value", proposals=["p1"])
    assert list_unseen([(noisy, one)], [], {one.copy: ""}, {"p1": "P"}, [noisy])[0].proposals == ()
    # The clean copy of another window.
    assert list_unseen([(clean, one)], [], {one.copy: ""}, {"p1": "P"}, [clean, noisy])[0].proposals == ()


def test_false_alarms_are_counted_by_their_effect():
    copies = [
        judged(PASSED),
        judged(outcome(effect="batch"), verdict="quarantined"),
        judged(outcome(), verdict="published_with_warnings"),
        judged(outcome("fresh", effect="report", rows=0), verdict="published_with_warnings"),
    ]
    assert summarize_clean(copies) == CleanSummary(4, 1, 1, 1, {"in_range_value": 2, "fresh": 1})


def test_the_shares_of_a_rehearsal():
    clean = judged()
    caught = judged(outcome(), number=1, fault="unit", size="×10", column="value")
    missed = judged(number=2, fault="nulls", size="all rows", column="value", proposals=["a"])
    pairs = [(clean, caught), (clean, missed)]
    unseen = list_unseen(pairs, [], {missed.copy: "not_null"}, {"a": "{check: not_null}"}, [clean])
    one = Rehearsal("t", 0, (AT,), CleanSummary(1), tuple(summarize_faults(pairs, [])), tuple(unseen), 3, {}, {})
    assert (one.harmful, one.detections, one.quarantined, one.share_detected) == (2, 1, 1, 0.5)
    assert one.remedies == {"{check: not_null}": 1}
    assert Rehearsal("t", 0, (), CleanSummary(), (), (), 0, {}, {}).share_detected == 1.0
