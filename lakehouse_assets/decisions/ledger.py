"""The current state that the logs add up to: each batch's decision, what is accepted, quarantined, or in a baseline.

Belongs here: folds over the append-only logs. Does not: reading them, or acting on them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import ACCEPTED, Decision, ExtractionRecord
from lakehouse_assets.decisions.decision_log import DecisionLog, Sums
from lakehouse_assets.decisions.order_span import RecordedSpans, with_newer_rows

if TYPE_CHECKING:
    from lakehouse_assets.contracts.extraction import ExtractionSpec
    from lakehouse_assets.contracts.table_contract import TableContract


@dataclass(frozen=True)
class Link:
    """One accepted extraction in the chain of its window. ``decision``: the last one that accepted it.

    ``publishes``: its own rows may be published. An extraction that was replaced in full, or withdrawn by a later judgement,
    publishes none and never comes back; what it had replaced stays replaced.
    """

    decision: Decision
    publishes: bool


@dataclass(frozen=True)
class Live:
    """The extractions that silver is folded from. ``accepted``: each window's last accepted one. ``chains``: all accepted ones,
    oldest first, of windows in which rows of an earlier extraction are still published. ``spans``: of the accepted ones; None:
    not known.
    """

    accepted: Mapping[Batch, Decision]
    chains: Mapping[datetime, tuple[Link, ...]]
    spans: RecordedSpans | None = field(default=None, compare=False, repr=False)

    @property
    def publishing(self) -> Mapping[Batch, Decision]:
        """Every extraction that has rows in silver, each by the decision that accepted it last."""
        earlier = {link.decision.batch: link.decision for chain in self.chains.values() for link in chain if link.publishes}
        return {**earlier, **self.accepted} if earlier else self.accepted

    def with_newer_rows(self, own: Sequence[Decision], spec: "TableContract") -> list[Batch]:
        """Return the other extractions with rows in silver that may have one which is newer than a row of ``own``."""
        batches, others = {decision.batch for decision in own}, self.publishing.values()
        newer = self.spans.with_newer_rows(own, spec) if self.spans is not None else []
        if self.spans is not None:
            others = [link.decision for chain in self.chains.values() for link in chain if link.publishes]
        newer += [decision.batch for decision in with_newer_rows(own, others, spec)]
        return [batch for batch in dict.fromkeys(newer) if batch not in batches]


def sums_of(decisions: Iterable[Decision], as_of: int | None = None) -> Sums | None:
    """Return what these decisions up to ``as_of`` add up to, where a log knows it."""
    if not isinstance(decisions, DecisionLog):
        return None
    return decisions.sums if as_of is None or as_of >= decisions.sums.last_number else None


def current_decisions(decisions: Iterable[Decision], as_of: int | None = None) -> Mapping[Batch, Decision]:
    """The last decision of each batch among those numbered up to ``as_of`` (all, without it)."""
    if sums := sums_of(decisions, as_of):
        return sums.current
    last: dict[Batch, Decision] = {}
    for decision in sorted(decisions, key=lambda d: d.number):
        if as_of is None or decision.number <= as_of:
            last[decision.batch] = decision
    return last


def of_windows(decisions: Iterable[Decision], starts: Collection[datetime]) -> dict[datetime, Sequence[Decision]]:
    """Return all decisions on each of these windows that has one: the windows in order, the decisions by number, or as they
    come.
    """
    if sums := sums_of(decisions):
        return {start: sums.by_window[start] for start in sorted(starts) if start in sums.by_window}
    by_window: dict[datetime, list[Decision]] = {}
    for decision in decisions:
        if decision.p_extracted_at in starts and decision.p_extracted_at is not None:
            by_window.setdefault(decision.p_extracted_at, []).append(decision)
    return dict(sorted(by_window.items()))


def ids_of(decisions: Iterable[Decision]) -> Set[str]:
    """Return the ids of these decisions."""
    sums = sums_of(decisions)
    return sums.ids.keys() if sums else {decision.decision_id for decision in decisions}


def superseding_ids(decisions: Iterable[Decision]) -> Set[str]:
    """Return the ids of decisions that superseded another one of these."""
    sums = sums_of(decisions)
    return sums.superseding.keys() if sums else {d.superseded_by for d in decisions if d.superseded_by}


def are_single(decisions: Iterable[Decision]) -> bool:
    """Whether each decision is there once, with a number of its own. False also where that is not known without looking."""
    sums = sums_of(decisions)
    return sums is not None and sums.is_single


def has_evolution(decisions: Iterable[Decision]) -> bool:
    """Whether one of these decisions changed the contract."""
    sums = sums_of(decisions)
    return sums.evolves if sums else any(decision.evolved for decision in decisions)


def last_number(decisions: Iterable[Decision]) -> int:
    """Return the number of the last decision; 0 before the first."""
    if sums := sums_of(decisions):
        return sums.last_number
    return max((decision.number for decision in decisions), default=0)


def accepted_decisions(decisions: Iterable[Decision], as_of: int | None = None) -> Mapping[Batch, Decision]:
    """The batches whose clean rows make up silver: at most one extraction per window."""
    if sums := sums_of(decisions, as_of):
        return sums.accepted
    return {batch: decision for batch, decision in current_decisions(decisions, as_of).items() if decision.accepted}


def live_decisions(decisions: Iterable[Decision], as_of: int | None = None) -> Live:
    """The extractions that silver is folded from, after the decisions numbered up to ``as_of`` (all, without it)."""
    sums = sums_of(decisions, as_of)
    if not sums:
        decisions = [d for d in decisions if as_of is None or d.number <= as_of]
    last = current_decisions(decisions)
    partly = {d.p_extracted_at for d in (sums.superseded if sums else last).values() if _partly_superseded(d)}
    by_window = of_windows(decisions, {start for start in partly if start is not None})
    chains = {start: links(of_window) for start, of_window in by_window.items()}
    if sums:
        return Live(sums.accepted, chains, sums.spans)
    return Live({batch: d for batch, d in last.items() if d.accepted}, chains)


def links(decisions: Iterable[Decision], before: int | None = None) -> tuple[Link, ...]:
    """The accepted extractions of one window, oldest first. ``decisions``: all of that window.

    ``before``: only extractions with a smaller sequence number. What lies below the oldest extraction with published rows, or
    below one that has no row in quarantine, is left out.
    """
    last: dict[int, Decision] = {}
    accepting: dict[int, Decision] = {}
    # A record of supersession has the number of the decision that supersedes.
    for decision in sorted(decisions, key=lambda d: (d.number, d.superseded_by is not None)):
        if before is None or decision.extraction_seq < before:
            last[decision.extraction_seq] = decision
            if decision.superseded_by is None and decision.verdict in ACCEPTED:
                accepting[decision.extraction_seq] = decision
    chain: list[Link] = []
    for seq in sorted(accepting, reverse=True):
        chain.append(Link(accepting[seq], last[seq].accepted or _partly_superseded(last[seq])))
        if not _has_quarantined_rows(accepting[seq]):
            break
    while chain and not chain[-1].publishes:
        chain.pop()
    return tuple(reversed(chain))


def _partly_superseded(decision: Decision) -> bool:
    return decision.superseded_by is not None and decision.counts.rows_published > 0


def _has_quarantined_rows(decision: Decision) -> bool:
    return bool(decision.counts.rows_quarantined or decision.counts.rows_discarded)


def joined_decisions(decisions: Sequence[Decision], as_of: int) -> tuple[list[Decision], Mapping[Batch, Decision]]:
    """Return the decisions whose profiles the baseline holds at a version, in the order in which they were decided; and those
    by which their batches' rows joined, where it was another one: a discard adds none.
    """
    sums = sums_of(decisions, as_of)
    if sums:
        joined = [*sums.joining.values()]
    else:
        joined = [d for d in current_decisions(decisions, as_of).values() if d.teaches and d.accepted]
        joined.sort(key=lambda d: d.number)
    origins: dict[Batch, Decision] = {}
    discards = sums is None or sums.discards
    if batches := {d.batch for d in joined if d.kind == "discarded"} if discards else set[Batch]():
        for d in decisions:
            if d.number <= as_of and d.kind != "discarded" and d.batch in batches:
                origins[d.batch] = max(origins.get(d.batch, d), d, key=lambda each: each.number)
    return joined, origins


def unapplied_decisions(decisions: Iterable[Decision]) -> list[Decision]:
    """Decisions that an earlier run has not finished, in order; records of supersession follow their superseder."""
    if sums := sums_of(decisions):
        return [*sums.unapplied]
    return sorted((d for d in decisions if d.applied_at is None and d.superseded_by is None), key=lambda d: d.number)


def lost_marks(decisions: Sequence[Decision]) -> list[Decision]:
    """Return decisions without a mark that a later run has completed: before a run decides, it applies what others left."""
    unapplied = unapplied_decisions(decisions)
    if not unapplied:
        return []
    own = [decision for decision in decisions if decision.superseded_by is None]
    last = {decision.run_id: decision.number for decision in sorted(own, key=lambda d: d.number)}
    newest_runs = sorted(last.items(), key=lambda run: run[1])[-2:]
    return [d for d in unapplied if any(run_id != d.run_id and number > d.number for run_id, number in newest_runs)]


def latest_extractions(records: Iterable[ExtractionRecord]) -> dict[datetime, ExtractionRecord]:
    """Return each window's newest extraction."""
    return {record.p_extracted_at: record for record in sorted(records, key=lambda record: record.extraction_seq)}


def newest_by_window(decisions: Iterable[Decision]) -> dict[datetime, Decision]:
    """Return for each window the decision on its newest extraction. ``decisions``: at most one on each batch."""
    in_order = sorted(decisions, key=lambda decision: decision.extraction_seq)
    return {decision.p_extracted_at: decision for decision in in_order if decision.p_extracted_at}


def undecided_extractions(records: Iterable[ExtractionRecord], decisions: Iterable[Decision]) -> list[ExtractionRecord]:
    """Newest extractions that nobody has judged, oldest window first."""
    judged = current_decisions(decisions).keys()
    newest = latest_extractions(records).values()
    return sorted((r for r in newest if r.batch not in judged), key=lambda r: r.p_extracted_at)


def quarantined_decisions(decisions: Iterable[Decision]) -> list[Decision]:
    """Current decisions with rows in quarantine, or whose batch without rows is quarantined; oldest window first."""
    sums = sums_of(decisions)
    last = (sums.quarantined if sums else current_decisions(decisions)).values()
    return sorted(
        (d for d in last if d.superseded_by is None and (d.counts.rows_quarantined or d.verdict == "quarantined")),
        key=lambda d: (d.p_extracted_at is not None, d.p_extracted_at, d.extraction_seq),
    )


def earlier(decision: Decision, decisions: Iterable[Decision]) -> list[Decision]:
    """The current decisions of earlier extractions of the same window, oldest first; none without a window."""
    start, seq = decision.batch
    if start is None:
        return []
    of_window = of_windows(decisions, {start}).get(start, ())
    before = current_decisions(d for d in of_window if d.extraction_seq < seq).values()
    return sorted(before, key=lambda d: d.extraction_seq)


def may_merge(extraction: "ExtractionSpec", touched: Iterable[Decision], replaced: Collection[str | None]) -> bool:
    """Whether a MERGE of the newest rows of these decisions, each with all columns, gives what the fold of their keys would.

    Rows that another batch deletes by a newer row are left out before: a deletion leaves nothing in silver to compare with.
    Extractions that replace earlier ones, or were judged before, have rows in silver that may have to go. ``replaced``: ids of
    decisions that superseded another.
    """
    if extraction.mode == "snapshot":
        return False
    return not any(decision.decision_id in replaced or decision.kind != "judged" for decision in touched)
