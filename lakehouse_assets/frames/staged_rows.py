"""The staged rows of one judgement, by what becomes of them, as frames of the caller's session.

Belongs here: which rows, and their columns. Does not: staging them (target).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.frames.staging_folder import StagingFolder
from lakehouse_assets.measures.stage import quarantine_reasons

REASONS, BATCH_REASONS = "_reasons", "_batch_reasons"


@dataclass(frozen=True)
class StagedRows:
    """``read``: returns the staged rows in the caller's session, with their flags. ``names``: the frame's columns, each with
    its name among the staged ones.
    """

    read: Callable[[], DataFrame]
    names: Mapping[str, str]
    folder: StagingFolder

    def clean(self, decision: Decision) -> DataFrame:
        """The rows to publish: of each key the newest clean one. None of a quarantined frame."""
        return self._select(F.col("_newest") if decision.accepted else F.lit(False))

    def superseded(self, decision: Decision) -> DataFrame:
        """Clean rows of which the frame has a newer one of the same key. None of a quarantined frame."""
        return self._select(F.col("_clean") & ~F.col("_newest") if decision.accepted else F.lit(False))

    def quarantined(self, decision: Decision) -> DataFrame:
        """The quarantined rows with their reasons, and the reasons that hold for all rows."""
        texts = [F.lit(f"{r.check}: {r.message}") for r in decision.reasons if r.effect == "batch"]
        more = [quarantine_reasons().alias(REASONS), F.array(*texts).cast("array<string>").alias(BATCH_REASONS)]
        return self._select(~F.col("_clean") if decision.accepted else F.lit(True), more)

    def _select(self, where: Column, more: list[Column] | None = None) -> DataFrame:
        without = (REASONS, BATCH_REASONS) if more else ()
        own = [F.col(identifier(staged)).alias(name) for name, staged in self.names.items() if name not in without]
        return self.read().where(where).select(*own, *(more or ()))
