"""The exchange: accepted rows into a Delta table in one commit that names its decision, and what a failed one leaves.

Belongs here: the write, and its errors in words. Does not: the verdict, or reading the table (destination).
"""

from dataclasses import dataclass
from typing import Literal, get_args

from pyspark.sql import DataFrame

from lakehouse_assets.checks.sql.text import identifier, literal
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.frame_rules import FrameRules
from lakehouse_assets.errors import LakehouseError, LockedError, RefusedError, java_causes
from lakehouse_assets.frames.destination import Destination
from lakehouse_assets.measures.error_text import error_text
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import commit_metadata, delta
from lakehouse_assets.storage.disk_errors import find_disk_fault

Mode = Literal["append", "merge", "overwrite"]
STEP = "frame"


@dataclass(frozen=True)
class Exchange:
    """One way into one table. Raises RefusedError for a mode that the rules or the table do not allow."""

    to: Destination
    mode: Mode
    rules: FrameRules

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise RefusedError(f"mode={self.mode!r}: there are {', '.join(get_args(Mode))}")
        if self.mode == "merge" and not self.rules.key:
            raise RefusedError("mode='merge' needs a `key:` in the rules, the columns that identify a row")

    def refuse_unfit(self, frame: DataFrame) -> bool:
        """Return whether the table exists. Raises RefusedError if it has not the frame's columns: it takes no others."""
        if self.to.detail() is None:
            if self.to.holds_files():
                raise RefusedError(f"{self.to.text} holds files, and is no Delta table; choose another path")
            return False
        columns = {name.lower() for name in self.to.read().columns}
        if unknown := [name for name in frame.columns if name.lower() not in columns]:
            raise RefusedError(
                f"{self.to.text} has no column {unknown[0]!r}; it has {', '.join(self.to.read().columns)}. "
                "Drop it from the frame, or add it to the table"
            )
        return True

    def write(self, rows: DataFrame, decision: Decision, exists: bool) -> int | None:
        """Write the rows in one commit, which names the decision. Returns its version."""
        metadata = commit_metadata.encode_decisions(STEP, [decision], [decision])
        try:
            with delta.tag_commits(rows.sparkSession, metadata):
                if self.mode == "merge" and exists:
                    self._merge(rows, decision)
                else:
                    # A table that appears meanwhile is somebody else's: it is not taken for the new one.
                    how = ("overwrite" if self.mode == "overwrite" else "append") if exists else "error"
                    self.to.save(rows.write.format("delta").mode(how))
        except SCAN_ERRORS as error:
            if find_disk_fault(error):
                raise
            raise self._in_words(error) from error
        return self.to.version_of(decision.decision_id)

    def _merge(self, rows: DataFrame, decision: Decision) -> None:
        view = f"_gate_{decision.decision_id}"
        same = " AND ".join(f"t.{identifier(name)} = s.{identifier(name)}" for name in self.rules.key)
        newer = ""
        if self.rules.last_modified:
            moment = identifier(self.rules.last_modified)
            # As in silver: NULL is the oldest, and of equal ones the later write wins.
            newer = f" AND (t.{moment} IS NULL OR s.{moment} >= t.{moment})"
        columns = [identifier(name) for name in rows.columns]
        update = ", ".join(f"t.{name} = s.{name}" for name in columns)
        insert = f"({', '.join(columns)}) VALUES ({', '.join(f's.{name}' for name in columns)})"
        rows.createOrReplaceTempView(view)
        try:
            rows.sparkSession.sql(
                f"MERGE INTO {self.to.sql} AS t USING {identifier(view)} AS s ON {same} "
                f"WHEN MATCHED{newer} THEN UPDATE SET {update} WHEN NOT MATCHED THEN INSERT {insert}"
            ).collect()
        finally:
            rows.sparkSession.catalog.dropTempView(view)

    def _in_words(self, error: Exception) -> LakehouseError:
        names = " ".join(str(cause.getClass().getName()) for cause in java_causes(error))
        text = error_text(error, bool(self.rules.pii_columns))
        if "Concurrent" in f"{names} {type(error).__name__}" or "DELTA_CONCURRENT" in str(error):
            return LockedError(f"{self.to.text} was written by somebody else at the same time; nothing was written: {text}")
        return RefusedError(f"{self.to.text} refuses the rows; nothing was written: {text}")


def forget_quarantined(table: Destination, decision: Decision) -> None:
    """Delete the quarantined rows of a decision whose exchange failed, so that nothing is half written."""
    if table.detail() is not None:
        same = f"`_decision_id` = {literal(decision.decision_id)}"
        table.spark.sql(f"DELETE FROM {table.sql} WHERE {same}").collect()  # noqa: S608 (names and values are quoted)
