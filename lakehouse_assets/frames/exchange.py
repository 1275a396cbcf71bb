"""The exchange: accepted rows into a Delta table in one commit that names its decision, and what a failed one leaves.

Belongs here: the write, and its errors in words. Does not: the verdict, or reading the table (destination).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pyspark.sql import DataFrame

from lakehouse_assets.checks.sql.text import identifier, literal
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.frame_rules import FrameRules
from lakehouse_assets.errors import LockedError, RefusedError, java_causes
from lakehouse_assets.frames.destination import Destination
from lakehouse_assets.measures.error_text import error_text
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import commit_metadata, delta_writes
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

        def exchange() -> None:
            if self.mode == "merge" and exists:
                order = [self.rules.last_modified] if self.rules.last_modified else []
                columns = rows.columns
                update = f"WHEN MATCHED AND {is_newer(order)} THEN UPDATE SET {assignments(columns)}"
                merge_rows(self.to, rows, self.rules.key, decision, [update, f"WHEN NOT MATCHED THEN {insertion(columns)}"])
            else:
                # A table that appears meanwhile is somebody else's: it is not taken for the new one.
                how = ("overwrite" if self.mode == "overwrite" else "append") if exists else "error"
                self.to.save(rows.write.format("delta").mode(how))

        return commit_decision(self.to, self.rules, decision, STEP, exchange)


def commit_decision(to: Destination, rules: FrameRules, decision: Decision, step: str, write: Callable[[], None]) -> int | None:
    """Run a write of one commit, which names the decision. Returns its version. Raises LockedError if another writer was
    faster, RefusedError if the table does not take the rows.
    """
    try:
        with delta_writes.tag_commits(to.spark, commit_metadata.encode_decisions(step, [decision], [decision])):
            write()
    except SCAN_ERRORS as error:
        if find_disk_fault(error):
            raise
        names = " ".join(str(cause.getClass().getName()) for cause in java_causes(error))
        text = error_text(error, bool(rules.pii_columns))
        if "Concurrent" in f"{names} {type(error).__name__}" or "DELTA_CONCURRENT" in str(error):
            raise LockedError(
                f"{to.text} was written by somebody else at the same time; nothing was written: {text}"
            ) from error
        raise RefusedError(f"{to.text} refuses the rows; nothing was written: {text}") from error
    return to.version_of(decision.decision_id)


def merge_rows(to: Destination, rows: DataFrame, key: Sequence[str], decision: Decision, clauses: Sequence[str]) -> None:
    """MERGE the rows `s` into the table `t` by their key. ``clauses``: what becomes of rows that match, or do not."""
    view = f"_gate_{decision.decision_id}"
    same = " AND ".join(f"t.{identifier(name)} = s.{identifier(name)}" for name in key)
    rows.createOrReplaceTempView(view)
    try:
        merge = f"MERGE INTO {to.sql} AS t USING {identifier(view)} AS s ON {same} {' '.join(clauses)}"
        rows.sparkSession.sql(merge).collect()
    finally:
        rows.sparkSession.catalog.dropTempView(view)


def is_newer(order: Sequence[str]) -> str:
    """Return SQL: whether a row `s` is newer than `t` by these columns, the first first. As in silver, NULL is the oldest, and
    of equal ones the later write wins.

    >>> is_newer([])
    'TRUE'
    """
    condition = "TRUE"
    for name in map(identifier, reversed(order)):
        larger = f"s.{name} > t.{name} OR (t.{name} IS NULL AND s.{name} IS NOT NULL)"
        condition = f"({larger} OR (s.{name} <=> t.{name} AND {condition}))"
    return condition


def assignments(columns: Sequence[str]) -> str:
    """Return SQL that gives a row of `t` these values of `s`."""
    return ", ".join(f"t.{name} = s.{name}" for name in map(identifier, columns))


def insertion(columns: Sequence[str]) -> str:
    """Return SQL that inserts these values of `s`."""
    names = [identifier(name) for name in columns]
    return f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"  # noqa: S608 (names are quoted)


def forget_quarantined(table: Destination, decision: Decision) -> None:
    """Delete the quarantined rows of a decision whose exchange failed, so that nothing is half written."""
    if table.detail() is not None:
        same = f"`_decision_id` = {literal(decision.decision_id)}"
        table.spark.sql(f"DELETE FROM {table.sql} WHERE {same}").collect()  # noqa: S608 (names and values are quoted)
