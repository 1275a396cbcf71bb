"""Other tables' silver, as a check sees it: as it is now, or as it was at a decision.

Belongs here: finding the tables that checks read, and what a decision keeps of them. Does not: the checks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.dependencies import tables_read
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.schema.evolution import effective_table
from lakehouse_assets.pipeline.evidence import refuse_damaged_table
from lakehouse_assets.pipeline.fold import fold, foldable
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.published_version import read_published_version


@dataclass(frozen=True)
class ReferenceTables:
    """Tables that checks read. ``frames``: silver by table. ``numbers``: its last decision. ``missing``: why it is missing."""

    frames: Mapping[str, DataFrame] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    def errors(self, checks: Sequence[Check]) -> dict[str, str]:
        """Return the checks that read a missing table, each with the reason."""
        return {c.id: self.missing[c.reads.table] for c in checks if c.reads and c.reads.table in self.missing}

    @property
    def inputs(self) -> dict[str, int]:
        """Return the decision numbers that a decision stores, so that `reference_tables_at` reads the same rows again."""
        return {f"silver_{table}": number for table, number in self.numbers.items()}


def never_published(table: str) -> str:
    """Return the error of a check that reads this table."""
    return f"{table} has never been published: nothing can be looked up in it"


def decisions_read(settings: Settings, checks: Sequence[Check]) -> dict[str, int]:
    """The last applied decision of each table that these checks look into. No JVM."""
    by_table = {table: logs.decisions(settings, table) for table in tables_read(checks)}
    return {table: ledger.last_number(d for d in log if d.applied_at) for table, log in by_table.items()}


def current_reference_tables(settings: Settings, checks: Sequence[Check], spark: SparkSession) -> ReferenceTables:
    """The other tables as their last applied decision left them. A view of each is there for SQL, `silver_<table>`. Raises
    EvidenceError if the silver of one is lost, older or damaged: a key that is missing in it says nothing of the batch.
    """

    def read(table: str) -> tuple[DataFrame, int] | None:
        refuse_damaged_table(settings, table, unread=("bronze", "quarantine"))
        log = [d for d in logs.decisions(settings, table) if d.silver_version is not None]
        if not ledger.accepted_decisions(log):
            return None
        # Not the newest version: a run of that table may have committed decisions that it has not yet marked as applied.
        version = read_published_version(settings, table, log)
        frame = spark.read.format("delta").option("versionAsOf", version).load(settings.path("silver", table))
        return frame, max(d.number for d in log)

    return _read_tables(checks, read)


def reference_tables_at(run: Run, inputs: Mapping[str, int]) -> ReferenceTables:
    """The other tables as a decision saw them, folded from their bronze up to the decision that it names (laws 1 and 3). A
    table that was missing then is missing now. Raises EvidenceError if a log, bronze or quarantine of one is damaged.
    """

    def read(table: str) -> tuple[DataFrame, int] | None:
        number = inputs.get(f"silver_{table}")
        if number is None:
            return None
        refuse_damaged_table(run.settings, table, unread=("silver",))
        live = ledger.live_decisions(logs.decisions(run.settings, table), number)
        if not live.accepted:
            return None
        newest = max(live.accepted.values(), key=lambda d: d.number)
        other = run.with_contract(effective_table(TableSpec.from_ruleset(newest.ruleset), live.publishing.values()))
        return fold(foldable(other, live), other.spec), number

    return _read_tables(run.spec.checks, read)


def _read_tables(checks: Sequence[Check], read: Callable[[str], tuple[DataFrame, int] | None]) -> ReferenceTables:
    by_table = {table: read(table) for table in tables_read(checks)}
    present = {table: pair for table, pair in by_table.items() if pair is not None}
    for table, (frame, _) in present.items():
        frame.createOrReplaceTempView(f"silver_{table}")
    frames, numbers = {table: pair[0] for table, pair in present.items()}, {table: pair[1] for table, pair in present.items()}
    return ReferenceTables(frames, numbers, {table: never_published(table) for table in by_table.keys() - present.keys()})
