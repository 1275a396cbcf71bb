"""Which steps of the gate read few rows, so that Spark plans them for few (`session_properties.plan_for_few_rows`).

Belongs here: that choice, from numbers of rows. Does not: the plans.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from lakehouse_assets.checks.dependencies import tables_read
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.decisions import ledger
from lakehouse_assets.pipeline.gate import PASS, Step, measure, stage
from lakehouse_assets.storage import delta

# Rows of a batch that need no second task.
FEW = 10_000


def steps_of_batches(
    spec: TableContract, starts: Collection[datetime], rows: int, log: Sequence[Decision], bronze: str
) -> Collection[Step]:
    """Return all steps, if the table at ``bronze`` has few rows; else those that read these batches and no other table.
    ``starts``: of the batches' windows. ``rows``: how many they have together.
    """
    if not starts or rows > FEW or tables_read(spec.checks):
        return ()
    if delta.has_few_rows(bronze):
        return PASS
    decided = ledger.of_windows(log, starts)
    replaces = spec.extraction.mode == "snapshot" or bool(decided)
    return (stage,) if replaces else (stage, measure)


def steps_over(inputs: Mapping[str, int]) -> Collection[Step]:
    """Return all steps, if these versions of tables, by their paths, have few rows each."""
    return PASS if inputs and all(delta.has_few_rows(path, version) for path, version in inputs.items()) else ()
