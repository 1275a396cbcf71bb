"""What a batch would replace: the published rows of its window's earlier extractions, and in snapshot mode silver's keys.

Belongs here: which rows are compared, for many batches at once. Does not: counting (measures), or the verdict (decisions).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from pyspark.sql import DataFrame

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.batch import SEQUENCE, WINDOW, Batch, start_of
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.ledger import Link
from lakehouse_assets.decisions.supersession import Replaced, loses_too_much
from lakehouse_assets.measures.batches import isolate_failures, select_batches
from lakehouse_assets.measures.keys import KeyCounts, count_redelivered, deleted_keys, key_columns, unread_windows
from lakehouse_assets.pipeline.fold import chain_of, clean_rows, fold, foldable, status_rows
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.storage import delta

ReplacedBy = Callable[[Batch, Sequence[Decision]], Replaced | None]


def measure_replaced(
    run: Run, staged: DataFrame, rows_in: Mapping[Batch, int], log: Sequence[Decision], *, from_bronze: bool, alone: bool
) -> ReplacedBy:
    """Return a function that gives what a batch would replace, from the decisions up to it. ``rows_in``: of each batch.

    ``from_bronze``: fold silver's keys as they were after ``log``, for a replay; otherwise silver itself is read. ``alone``:
    there is one batch, so that ``log`` has every decision before it: keys that other windows publish are not lost. Without
    it, a batch that lacks too many keys is undecided. A batch whose rows cannot be compared has an error, and no other batch.
    """
    batches = rows_in.keys()
    counted = _redelivered(run, staged, rows_in, log, from_bronze, alone)
    if run.spec.extraction.mode != "snapshot":
        return lambda batch, _: counted.get(batch)
    live = ledger.live_decisions(log)
    newest = max((start for start, _ in live.accepted if start is not None), default=None)
    snapshots = _Snapshots(
        run, staged, sorted(b for b in batches if newest is None or start_of(b) >= newest), live, from_bronze
    )

    def replaced_by(batch: Batch, decisions: Sequence[Decision]) -> Replaced | None:
        redelivered = counted.get(batch)
        if redelivered and redelivered.error:
            return redelivered
        if batch not in snapshots.batches:
            # What it deletes has been deleted already, where it was accepted before.
            return redelivered if redelivered or batch in live.accepted else snapshots.late(batch)
        published, lost, error = snapshots.counts(batch, decisions)
        if not published and not error and redelivered is None:
            return None
        return Replaced(published, lost, redelivered.stays if redelivered else {}, error)

    return replaced_by


def _redelivered(
    run: Run, staged: DataFrame, rows_in: Mapping[Batch, int], log: Sequence[Decision], from_bronze: bool, alone: bool
) -> dict[Batch, Replaced]:
    by_window = ledger.of_windows(log, {start_of(batch) for batch in rows_in})
    chains = {}
    for start, seq in rows_in:
        of_window = by_window.get(start_of((start, seq)), ())
        if earlier := ledger.links(of_window, seq):
            # A batch that was accepted before is a part of what is published now.
            chains[start, seq] = ledger.links(of_window, seq + 1), earlier
    if not chains:
        return {}
    counted: dict[datetime, KeyCounts] = {}
    undecided: set[Batch] = set()

    def count(some: Sequence[Batch]) -> None:
        counts = _counts(run, staged, {batch: chains[batch] for batch in some})
        for batch in some:
            each = counts[start_of(batch)]
            if loses_too_much(run.spec, rows_in[batch], each.published, each.lost):
                undecided.add(batch)
        if alone and undecided:
            elsewhere = _published(run, ledger.live_decisions(log), from_bronze)
            counts = _counts(run, staged, {batch: chains[batch] for batch in some}, elsewhere)
            undecided.clear()
        counted.update(counts)

    errors = isolate_failures(sorted(chains), count, personal=run.personal)
    replaced = {
        batch: Replaced(error=f"it could not be compared with what it replaces: {error}") for batch, error in errors.items()
    }
    for batch in chains.keys() - errors.keys():
        numbers = counted[start_of(batch)]
        replaced[batch] = Replaced(numbers.published, numbers.lost, numbers.stays, undecided=batch in undecided)
    return replaced


def _counts(
    run: Run,
    staged: DataFrame,
    chains: dict[Batch, tuple[tuple[Link, ...], tuple[Link, ...]]],
    elsewhere: DataFrame | None = None,
) -> dict[datetime, KeyCounts]:
    """``chains``: by batch what is published now, and what was accepted before the batch. ``elsewhere``: the keys that are
    published, with their windows.
    """

    current, earlier = ({start_of(batch): chain_of(links[which]) for batch, links in chains.items()} for which in (0, 1))
    # An extraction is accepted by the same decision in both.
    decisions = {link.decision.batch: link.decision for links in chains.values() for link in (*links[0], *links[1])}
    new = select_batches(staged, list(chains))
    return count_redelivered(status_rows(run, decisions), new, current, earlier, run.spec, elsewhere)


def _published(run: Run, live: ledger.Live, from_bronze: bool) -> DataFrame:
    """Silver's rows: from the table, or folded where that was made by another contract."""
    path = run.path("silver")
    if not from_bronze and delta.exists(path) and delta.properties(path).get(delta.MEANING) == run.spec.meaning:
        return run.spark.read.format("delta").load(path)
    return fold(foldable(run, live), run.spec)


class _Snapshots:
    """The snapshots of a run that are newer than the published ones: each deletes the keys that it lacks."""

    def __init__(self, run: Run, staged: DataFrame, batches: Sequence[Batch], live: ledger.Live, from_bronze: bool) -> None:
        self.batches, self._run, self._staged, self._live, self._from_bronze = batches, run, staged, live, from_bronze
        self._counted: dict[frozenset[Batch], dict[datetime, tuple[int, int]] | str] = {}

    def counts(self, batch: Batch, decisions: Sequence[Decision]) -> tuple[int, int, str]:
        """Keys published before this snapshot, those that it deletes by the decisions so far, and why they were not counted."""
        latest = {d.batch: d for d in decisions if d.superseded_by is None}
        refused = frozenset(b for b in self.batches if b < batch and not (b in latest and latest[b].accepted))
        if refused not in self._counted:
            errors = isolate_failures([batch], lambda _: self._count(refused), personal=self._run.personal)
            if errors:
                self._counted[refused] = f"its keys could not be compared with silver's: {errors[batch]}"
        counted = self._counted[refused]
        return (0, 0, counted) if isinstance(counted, str) else (*counted[start_of(batch)], "")

    def late(self, batch: Batch) -> Replaced | None:
        """An older snapshot than the newest: it deletes the keys that neither it nor a later one has."""
        key = key_columns(self._run.spec)
        names = [identifier(name) for name in key]
        own = self._keys([batch])
        later = ledger.Live({b: d for b, d in self._live.accepted.items() if start_of(b) > start_of(batch)}, {})
        present = own.select(*names).union(clean_rows(self._run, later).select(*names)).distinct()

        def count(_: Sequence[Batch]) -> None:
            before = self._before()
            lost = 0 if unread_windows(own, key) else before.join(present, key, "left_anti").count()
            numbers.append((before.count(), lost))

        numbers: list[tuple[int, int]] = []
        if errors := isolate_failures([batch], count, personal=self._run.personal):
            return Replaced(error=f"its keys could not be compared with silver's: {errors[batch]}")
        return Replaced(*numbers[0])

    def _count(self, refused: Collection[Batch]) -> None:
        key = key_columns(self._run.spec)
        batches = [batch for batch in self.batches if batch not in refused]
        keys = self._keys(batches)
        unread = sorted(unread_windows(keys, key))
        self._counted[frozenset(refused)] = deleted_keys(self._before(), keys, key, [*map(start_of, batches)], unread)

    def _keys(self, batches: Sequence[Batch]) -> DataFrame:
        names = [identifier(name) for name in key_columns(self._run.spec)]
        return select_batches(self._staged, batches).select(WINDOW, SEQUENCE, *names, "_clean")

    def _before(self) -> DataFrame:
        names = [identifier(name) for name in key_columns(self._run.spec)]
        if not self._live.accepted:
            return select_batches(self._staged, []).select(*names)
        return _published(self._run, self._live, self._from_bronze).select(*names)
