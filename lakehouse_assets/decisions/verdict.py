"""The verdict rule: the outcomes of a batch's checks → its verdict, its reasons and the counts of its rows.

Belongs here: what outcomes do to a decision, at once or later. Does not: the outcomes (gate, schema, drift, supersession),
or the names of the verdicts (contracts/decision).
"""

from collections.abc import Sequence
from dataclasses import replace

from lakehouse_assets.contracts.decision import Counts, Decision, Reason, Verdict
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.decisions.outcome import Outcome


def verdict_of(outcomes: Sequence[Outcome], numbers: BatchNumbers) -> tuple[Verdict, Counts]:
    """Return the verdict, and where each row of the batch goes."""
    if any(outcome.effect == "batch" for outcome in outcomes):
        return "quarantined", Counts(numbers.rows_in, 0, 0, numbers.rows_in, 0)
    counts = Counts(numbers.rows_in, numbers.newest, numbers.older, numbers.failing, 0)
    troubled = any(outcome.status in ("failed", "error") for outcome in outcomes)
    return verdict_with("published", troubled), counts


def verdict_with(verdict: Verdict, troubled: bool) -> Verdict:
    """Return the verdict of a batch once a check did not pass: a published batch is published with warnings."""
    return "published_with_warnings" if troubled and verdict == "published" else verdict


def discard_rows(decision: Decision) -> tuple[Verdict, Counts]:
    """Return the verdict and the counts of a decision once its quarantined rows are discarded."""
    counts = decision.counts
    discarded = counts.rows_discarded + counts.rows_quarantined
    verdict: Verdict = "published_with_warnings" if decision.accepted else "discarded"
    return verdict, replace(counts, rows_quarantined=0, rows_discarded=discarded)


def add_deferred_outcomes(decision: Decision, later: Sequence[Outcome]) -> Decision:
    """Return the decision with the outcomes of its deferred checks. They quarantine nothing; a failed one adds a warning."""
    reasons = reasons_of(later)
    verdict = verdict_with(decision.verdict, bool(reasons))
    checks = (*decision.checks, *(outcome.as_dict() for outcome in later))
    return replace(decision, verdict=verdict, reasons=(*decision.reasons, *reasons), checks=checks)


def reasons_of(outcomes: Sequence[Outcome]) -> tuple[Reason, ...]:
    """Return the checks that did not pass, blocking ones first."""
    bad = [o for o in outcomes if o.status in ("failed", "error")]
    bad.sort(key=lambda o: ("batch", "rows", "report", "none").index(o.effect))
    return tuple(
        Reason(o.check, o.severity, o.status, "waived" if o.waived else o.effect, o.failed_rows, o.message) for o in bad
    )
