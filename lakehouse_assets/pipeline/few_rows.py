"""Which steps of the gate read few rows, so that Spark plans them for few (`session_properties.plan_for_few_rows`).

Belongs here: that choice, from records and statistics. Does not: the plans.
"""

from collections.abc import Collection, Mapping, Sequence

from lakehouse_assets.checks.dependencies import tables_read
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.decisions import ledger
from lakehouse_assets.pipeline.gate import PASS, Step, measure, stage
from lakehouse_assets.storage import delta

# Rows of a batch that need no second task.
FEW = 10_000


def are_few(records: Sequence[ExtractionRecord]) -> bool:
    """Whether these batches have few rows together."""
    return sum(record.rows for record in records) <= FEW


def steps_of_batches(
    spec: TableContract, records: Sequence[ExtractionRecord], log: Sequence[Decision], bronze: str
) -> Collection[Step]:
    """Return all steps, if the table at ``bronze`` has few rows; else those that read these batches and no other table."""
    if not records or not are_few(records) or tables_read(spec.checks):
        return ()
    if delta.has_few_rows(bronze):
        return PASS
    decided = ledger.of_windows(log, {record.p_extracted_at for record in records})
    replaces = spec.extraction.mode == "snapshot" or bool(decided)
    return (stage,) if replaces else (stage, measure)


def steps_over(inputs: Mapping[str, int]) -> Collection[Step]:
    """Return all steps, if these versions of tables, by their paths, have few rows each."""
    return PASS if inputs and all(delta.has_few_rows(path, version) for path, version in inputs.items()) else ()
