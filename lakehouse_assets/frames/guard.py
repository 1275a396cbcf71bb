"""A guard around somebody's own write: the frame is checked before it, and the rows that the write added after it.

Belongs here: the two checks, and what each raises. Does not: which rows were added (added_rows), or judging them.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pyspark.sql import DataFrame, SparkSession

from lakehouse_assets.errors import QuarantinedError, RefusedError
from lakehouse_assets.frames.added_rows import added_rows
from lakehouse_assets.frames.destination import Destination
from lakehouse_assets.frames.judgement import Options, judge
from lakehouse_assets.frames.result import FrameResult
from lakehouse_assets.frames.session import require_frame, require_session
from lakehouse_assets.reports.frame import describe_decision

if TYPE_CHECKING:
    from lakehouse_assets.frames.gate import Gate


class Guard:
    """``before``: the result on the frame that was passed; None without one. ``after``: the result on the rows that the write
    added; None while it has not ended, and if it added no version. ``judged``: in words, which rows these are.
    """

    def __init__(
        self,
        gate: "Gate",
        table: str | Path,
        frame: DataFrame | None,
        spark: SparkSession | None,
        blocking: bool,
        options: Options,
    ) -> None:
        self._gate, self._frame, self._blocking, self._options = gate, frame, blocking, options
        session = require_frame(frame).sparkSession if frame is not None else spark or SparkSession.getActiveSession()
        if session is None:
            raise RefusedError("there is no Spark session; start one, or pass it as `spark=`")
        require_session(session)
        self._table = Destination.of(session, table)
        self._version = -1
        self.before: FrameResult | None = None
        self.after: FrameResult | None = None
        self.judged = "nothing was written"

    @property
    def clean(self) -> DataFrame:
        """The frame's clean rows, to write. Raises RefusedError without a frame."""
        if self.before is None:
            raise RefusedError("the guard has no frame; pass it as `guard(table, frame)`")
        return self.before.clean

    @property
    def passed(self) -> bool:
        """Whether every check passed, before and after."""
        return all(result.passed for result in (self.before, self.after) if result is not None)

    def __enter__(self) -> Self:
        self._version = -1 if self._table.detail() is None else self._table.version()
        if self._frame is not None:
            # The log gets the rows as they were written, once.
            self.before = judge(self._gate.document, self._frame, replace(self._options, log=None))
            if self.before.blocked and self._blocking:
                text = f"nothing was written: {describe_decision(self.before.decision)}"
                raise QuarantinedError(text, self.before)
        return self

    def close(self) -> None:
        """Delete the staged rows of both checks; verdicts and counts stay."""
        for result in (self.before, self.after):
            if result is not None:
                result.close()

    def __exit__(self, kind: object, *_: object) -> None:
        if self.before is not None:
            self.before.close()
        if kind is not None:
            return
        if self._table.detail() is None or (now := self._table.version()) <= self._version:
            return
        added = added_rows(self._table, self._version, now)
        self.judged = added.how
        self.after = judge(self._gate.document, added.rows, self._options)
        if self.after.blocked and self._blocking:
            undo = (
                f"RESTORE TABLE {self._table.sql} TO VERSION AS OF {self._version}" if self._version >= 0 else "drop the table"
            )
            text = f"{self._table.text} has them already (undo: {undo}): {added.how}: "
            raise QuarantinedError(text + describe_decision(self.after.decision), self.after)
