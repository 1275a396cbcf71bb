"""Other tables' silver, as a check sees it: as it is now, or as it was at a decision.

Belongs here: finding the tables that checks read, and what a decision keeps of them. Does not: the checks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from lakehouse_assets.checks.base import Check
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.evolution import effective
from lakehouse_assets.layers.fold import clean_rows, fold
from lakehouse_assets.layers.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs


@dataclass(frozen=True)
class Others:
    """``frames``: silver by table. ``numbers``: of each, the last decision that it holds. ``missing``: why one is not there."""

    frames: Mapping[str, DataFrame] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    def errors(self, checks: Sequence[Check]) -> dict[str, str]:
        """Which of these checks look into a table that is not there, and why it is not."""
        return {c.id: self.missing[c.reads.table] for c in checks if c.reads and c.reads.table in self.missing}

    @property
    def inputs(self) -> dict[str, int]:
        """What a decision keeps of them, so that `others_at` finds the same again."""
        return {f"silver_{table}": number for table, number in self.numbers.items()}


def never_published(table: str) -> str:
    """Why a check that looks into this table is in error."""
    return f"{table} has never been published: nothing can be looked up in it"


def tables_read(checks: Sequence[Check]) -> list[str]:
    """Names of the tables that these checks look into."""
    return sorted({check.reads.table for check in checks if check.reads})


def others_now(settings: Settings, checks: Sequence[Check], spark: SparkSession) -> Others:
    """The other tables as their last applied decision left them. A view of each is there for SQL, `silver_<table>`."""
    frames, numbers, missing = {}, {}, {}
    for table in tables_read(checks):
        known = [d for d in logs.decisions(settings, table, evidence=False) if d.silver_version is not None]
        path = settings.path("silver", table)
        if not ledger.accepted(known) or not delta.exists(path):
            missing[table] = never_published(table)
            continue
        # Not simply what is there now: a run of that table may have committed what it has not yet marked as applied.
        version = max(d.silver_version or 0 for d in known)
        frames[table] = spark.read.format("delta").option("versionAsOf", version).load(path)
        numbers[table] = max(d.number for d in known)
    return _viewed(Others(frames, numbers, missing))


def others_at(run: Run, inputs: Mapping[str, int]) -> Others:
    """The other tables as a decision saw them, folded from their bronze up to the decision that it names (laws 1 and 3).

    A table that the decision could not find then is not found now either.
    """
    frames, numbers, missing = {}, {}, {}
    for table in tables_read(run.spec.checks):
        number = inputs.get(f"silver_{table}")
        if number is None:
            missing[table] = never_published(table)
            continue
        live = ledger.accepted(logs.decisions(run.settings, table, evidence=False), number)
        if not live:
            missing[table] = never_published(table)
            continue
        newest = max(live.values(), key=lambda d: d.number)
        other = replace(run, spec=effective(TableSpec.kept(newest.ruleset), live.values()))
        frames[table] = fold(clean_rows(other, live), other.spec, live)
        numbers[table] = number
    return _viewed(Others(frames, numbers, missing))


def _viewed(others: Others) -> Others:
    for table, frame in others.frames.items():
        frame.createOrReplaceTempView(f"silver_{table}")
    return others
