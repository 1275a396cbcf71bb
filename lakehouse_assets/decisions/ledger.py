"""What the logs add up to: each batch's standing decision, what is accepted, what is held, what a baseline holds.

Belongs here: folds over the append-only logs. Does not: reading them, or acting on them.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord

Batch = tuple[datetime | None, int]


def standing(decisions: Iterable[Decision], as_of: int | None = None) -> dict[Batch, Decision]:
    """The last decision of each batch among those numbered up to ``as_of`` (all, without it)."""
    last: dict[Batch, Decision] = {}
    for decision in sorted(decisions, key=lambda d: d.number):
        if as_of is None or decision.number <= as_of:
            last[decision.batch] = decision
    return last


def accepted(decisions: Iterable[Decision], as_of: int | None = None) -> dict[Batch, Decision]:
    """The batches whose clean rows make up silver: at most one extraction per window."""
    return {batch: decision for batch, decision in standing(decisions, as_of).items() if decision.accepted}


def teaching(decisions: Sequence[Decision], as_of: int) -> list[str]:
    """Ids of the decisions whose profiles the baseline holds at a version, in the order in which they were decided."""
    live = accepted(decisions, as_of).values()
    return [decision.decision_id for decision in sorted(live, key=lambda d: d.number) if decision.teaches]


def taught_at(decisions: Iterable[Decision], as_of: int) -> dict[Batch, int]:
    """The number of the decision by which each batch's rows came to teach: to discard what is held teaches nothing anew."""
    found: dict[Batch, int] = {}
    for decision in decisions:
        if decision.number <= as_of and decision.kind != "discarded":
            found[decision.batch] = max(decision.number, found.get(decision.batch, 0))
    return found


def unapplied(decisions: Iterable[Decision]) -> list[Decision]:
    """What an earlier run has decided and not finished, in order; records of supersession follow their superseder."""
    return sorted((d for d in decisions if d.applied_at is None and d.superseded_by is None), key=lambda d: d.number)


def latest_extractions(records: Iterable[ExtractionRecord]) -> dict[datetime, ExtractionRecord]:
    """Each window's newest extraction."""
    newest: dict[datetime, ExtractionRecord] = {}
    for record in records:
        if record.p_extracted_at not in newest or record.extraction_seq > newest[record.p_extracted_at].extraction_seq:
            newest[record.p_extracted_at] = record
    return newest


def undecided(records: Iterable[ExtractionRecord], decisions: Iterable[Decision]) -> list[ExtractionRecord]:
    """Newest extractions that nobody has judged, oldest window first."""
    judged = {decision.batch for decision in decisions}
    newest = latest_extractions(records).values()
    return sorted((r for r in newest if (r.p_extracted_at, r.extraction_seq) not in judged), key=lambda r: r.p_extracted_at)


def held(decisions: Iterable[Decision]) -> list[Decision]:
    """Standing decisions with rows in quarantine, oldest window first."""
    last = standing(decisions).values()
    return sorted(
        (d for d in last if d.counts.rows_quarantined and d.superseded_by is None),
        key=lambda d: (d.p_extracted_at is not None, d.p_extracted_at, d.extraction_seq),
    )


def replaced_by(batch: Batch, decisions: Iterable[Decision]) -> list[Decision]:
    """Standing decisions of earlier extractions of the same window, which an accepted one takes the place of."""
    of_window = (decision for decision in decisions if decision.p_extracted_at == batch[0])
    return [d for d in standing(of_window).values() if d.extraction_seq < batch[1] and d.superseded_by is None]
