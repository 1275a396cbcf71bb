"""One version of a guarded table as a target of the gate: its batch, judged by the steps that judge a frame.

Belongs here: the rows and the evidence of a version. Does not: which version (observed_table), or the order of versions (run).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.frame_rules import frame_mistakes, is_hidden
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.mistakes import dotted
from lakehouse_assets.decisions.guard import VersionBatch
from lakehouse_assets.decisions.guard_decision import VersionEvidence, decide_version
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.frames.target import FrameTarget
from lakehouse_assets.measures.batches import Broken


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
        self.mistakes = [f"{dotted(keys)}: {text}" for keys, text in frame_mistakes(self.guard, types)]
        declared = {name.lower() for name in self.guard.columns}
        visible = [name for name in types if not is_hidden(name)]
        self.unknown = [name for name in visible if name.lower() not in declared] if declared else []

    @property
    def is_measured(self) -> bool:
        """Whether the rules can be evaluated on rows of this version."""
        return self.version_batch.rows != "none" and not self.mistakes

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

    def decide(self) -> list[Decision]:
        """One decision, and the records of those that it closes."""
        numbers = self.numbers.get(self.batch, BatchNumbers(rows_in=self.rows_logged))
        profiles = self.profiles.get(self.batch, [])
        evidence = VersionEvidence(self.version_batch, numbers, profiles, self.mistakes, self.unknown)
        number, run_id, at = self.number, self.run.run_id, self.run.clock()
        return decide_version(
            self.guard, self.batch, evidence, self.knowledge, self.history, number=number, run_id=run_id, at=at
        )
