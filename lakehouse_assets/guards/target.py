"""One version of a guarded table as a target of the gate: its batch, judged by the steps that judge a frame.

Belongs here: the rows and the evidence of a version. Does not: which version (observed_table), or the order of versions (run).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.frame_rules import frame_mistakes, is_hidden
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.mistakes import join_keys
from lakehouse_assets.decisions.guard import VersionBatch
from lakehouse_assets.decisions.guard_decision import VersionEvidence, decide_version
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.frames.staged_rows import REASONS
from lakehouse_assets.frames.target import FrameTarget
from lakehouse_assets.measures.batches import Broken
from lakehouse_assets.measures.stage import REASONS as REASONS_TYPE
from lakehouse_assets.storage.json_texts import as_json


@dataclass
class GuardTarget(FrameTarget):
    """``guard``: the contract. ``version_batch``: the batch in the table. ``rows_logged``: its rows by file statistics.
    ``history``: all decisions of the guard.
    """

    guard: GuardSpec = field(kw_only=True)
    version_batch: VersionBatch = field(kw_only=True)
    rows_logged: int = field(kw_only=True)
    history: Sequence[Decision] = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        types = dict(self.rows.dtypes)
        self.mistakes = [f"{join_keys(keys)}: {text}" for keys, text in frame_mistakes(self.guard, types)]
        declared = {name.lower() for name in self.guard.columns}
        visible = [name for name in types if not is_hidden(name)]
        self.unknown = [name for name in visible if name.lower() not in declared] if declared else []

    @property
    def is_measured(self) -> bool:
        """Whether the rules can be evaluated on rows of this version."""
        return self.version_batch.rows not in ("none", "outside") and not self.mistakes

    @property
    def batches(self) -> list[Batch]:
        """The one batch; none where no row is measured."""
        return [self.batch] if self.is_measured else []

    def stage_rows(self) -> tuple[DataFrame, Broken]:
        """Stage the rows, unless the rules do not fit their columns."""
        return super().stage_rows() if self.is_measured else (self.rows.limit(0), {})

    def add_measures(self) -> None:
        """Profile the drift features of measured rows."""
        if self.is_measured:
            super().add_measures()

    @property
    def quarantine_path(self) -> str | None:
        """The guard's quarantine in the lake, if it publishes: else quarantined rows stay where they are, in the table."""
        return self.run.settings.path("quarantine", self.run.table) if self.guard.publish else None

    def quarantined_rows(self, decisions: Sequence[Decision]) -> DataFrame:
        """The rows as JSON, with their reasons and the decision's id: their columns may be others in each version."""
        (decision,) = decisions
        names = [F.col(identifier(name)) for name in self.rows.columns]
        row, reasons = as_json(F.struct(*names)).alias("row"), F.array().cast(REASONS_TYPE).alias("reasons")
        if self.is_measured:
            rows = self.staged_rows.quarantined(decision)
            reasons = F.col(REASONS).alias("reasons")
        else:
            rows = self.rows if decision.verdict == "quarantined" else self.rows.limit(0)
        texts = [F.lit(f"{r.check}: {r.message}") for r in decision.reasons if r.effect == "batch"]
        of_batch = F.array(*texts).cast("array<string>").alias("batch_reasons")
        return rows.select(F.lit(decision.decision_id).alias("decision_id"), row, reasons, of_batch)

    def decide(self) -> list[Decision]:
        """One decision, and the records of those that it closes."""
        numbers = self.numbers.get(self.batch, BatchNumbers(rows_in=self.rows_logged))
        profiles = self.profiles.get(self.batch, [])
        evidence = VersionEvidence(self.version_batch, numbers, profiles, self.mistakes, self.unknown)
        number, run_id, at = self.number, self.run.run_id, self.run.clock()
        return decide_version(
            self.guard, self.batch, evidence, self.knowledge, self.history, number=number, run_id=run_id, at=at
        )
