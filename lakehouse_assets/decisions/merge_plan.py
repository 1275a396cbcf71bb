"""Whether a MERGE of some batches' newest rows gives what the fold of their keys would, and what it has to look at besides.

Belongs here: that rule, on decisions and extractions. Does not: the MERGE (pipeline/silver_merge), or the fold.

A MERGE sees a key's row in silver, and no row of other batches. So a row that another batch deletes by a newer one is left out
first; and a column that a batch lacks keeps its value in silver, where the batch is newer than all others.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.extraction_log import records_of_shapes
from lakehouse_assets.decisions.ledger import Live


@dataclass(frozen=True)
class MergePlan:
    """``touched``: the decisions to publish. ``newer``: what is live of other batches that may have a newer row.
    ``kept_columns``: those that the batch lacks, and whose values stay.
    """

    touched: Sequence[Decision]
    newer: Live
    kept_columns: frozenset[str] = frozenset()

    @property
    def rows_published(self) -> int:
        """How many rows these decisions publish."""
        return sum(decision.counts.rows_published for decision in self.touched)


def plan_merge(
    spec: TableContract,
    touched: Sequence[Decision],
    live: Live,
    replaced: Collection[str | None],
    records: Iterable[ExtractionRecord],
    columns: Collection[str],
) -> MergePlan | None:
    """Return how to merge; None if the keys have to be folded. ``replaced``: ids of decisions that superseded another.
    ``records``: the table's extractions. ``columns``: silver's.
    """
    if not ledger.may_merge(spec.extraction, touched, replaced):
        return None
    publishing, own = live.publishing, {decision.batch for decision in touched}
    newer = dict.fromkeys(live.with_newer_rows(touched, spec)).keys()
    plan = MergePlan(touched, _select(live, newer))
    if spec.schema_policy.missing_columns != "keep":
        return plan  # the newest row has them as NULL
    sources = {name: frozenset(map(safe_name, spec.source_columns(name))) for name in spec.columns}
    complete = partial(_has_all, frozenset(sources.values()))
    incomplete = records_of_shapes(records, lambda columns, some_lack: not complete(columns, some_lack))
    lacking = {r.batch: r for r in incomplete if r.rows and r.batch in publishing}
    if not lacking.keys() & own:
        # A row that is newer than all of theirs has a value of its own for each column that they lack.
        return None if lacking.keys() & newer else plan
    if newer or len(own) > 1 or spec.computed_columns:
        return None
    (record,) = (lacking[batch] for batch in own)
    had = {column.lower() for column in record.columns}
    kept_columns = frozenset(name for name, some in sources.items() if had.isdisjoint(map(str.lower, some)))
    return MergePlan(touched, plan.newer, kept_columns) if not record.lacking and kept_columns <= {*columns} else None


def _has_all(sources: frozenset[frozenset[str]], columns: tuple[str, ...], lacking: tuple[str, ...]) -> bool:
    """Whether each row of an extraction has a column of each source."""
    in_each = {*columns} - {*lacking}
    return not any(in_each.isdisjoint(names) for names in sources)


def _select(live: Live, batches: Collection[Batch]) -> Live:
    """Return what is live of these batches, and of their windows."""
    starts = {start for start, _ in batches}
    return Live(
        {batch: live.accepted[batch] for batch in batches if batch in live.accepted},
        {start: chain for start, chain in live.chains.items() if start in starts},
    )
