"""`Gate`: the rules of a frame, and what can be done with them in any PySpark job or notebook.

Belongs here: the calls, each with its arguments. Does not: any step of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import DataFrame, SparkSession

from lakehouse_assets.contracts.frame_document import FrameDocument, read_rules, rules_of
from lakehouse_assets.contracts.frame_rules import FrameRules
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.verdict import DriftVerdict
from lakehouse_assets.frames.judgement import Options, PublicationPlan, judge
from lakehouse_assets.frames.result import FrameResult

if TYPE_CHECKING:
    from lakehouse_assets.frames.exchange import Mode
    from lakehouse_assets.frames.guard import Guard

Baseline = BaselineState | DataFrame | str | Path


@dataclass(frozen=True)
class Gate:
    """The rules of a frame.

    These arguments mean the same in every call. ``window``: the window that the rows are of (a time, a date or their text);
    without it, the present one. ``log``: a folder for decisions and profiles; without it nothing is left behind. ``baseline``:
    what drift compares with: `baseline(…)`'s result, or what it takes; without it, the log. ``tables``: frames by name, for
    checks that read other tables. ``staging``: a folder for temporary files that the session's workers can write; a local
    session needs none.
    """

    rules: FrameRules
    document: FrameDocument = field(init=False, repr=False)

    def __post_init__(self) -> None:
        document = FrameDocument(self.rules) if isinstance(self.rules, FrameRules) else rules_of(self.rules)
        object.__setattr__(self, "rules", document.rules)
        object.__setattr__(self, "document", document)

    @classmethod
    def from_yaml(cls, path: str | Path, table: str | None = None, variables: Mapping[str, str] | None = None) -> Self:
        """Return the gate of a file of rules, or of a table's `defs.yaml`. ``table``: which one, if the file has several.

        ``variables``: the values of `${NAME}` in it. Raises ConfigError with file, line and key of every mistake.
        """
        document = read_rules(Path(path), table, variables)
        gate = cls(document.rules)
        object.__setattr__(gate, "document", document)
        return gate

    @classmethod
    def from_dict(cls, rules: Mapping[str, Any]) -> Self:
        """Return the gate of rules as a mapping. Raises ConfigError with the key of every mistake."""
        return cls(rules_of(rules).rules)

    def check(
        self,
        frame: DataFrame,
        window: datetime | date | str | None = None,
        *,
        log: str | Path | None = None,
        baseline: Baseline | None = None,
        tables: Mapping[str, DataFrame] | None = None,
        staging: str | Path | None = None,
    ) -> FrameResult:
        """Judge a frame, and publish nothing. The frame is read once: verdict and frames are of the same rows.

        Raises ConfigError for rules that the frame cannot be judged by, SourceError for a frame that cannot be read.
        """
        return judge(self.document, frame, Options(window, log, baseline, tables or {}, staging))

    def publish(
        self,
        frame: DataFrame,
        to: str | Path,
        mode: "Mode" = "append",
        window: datetime | date | str | None = None,
        *,
        quarantine: str | Path | None = None,
        log: str | Path | None = None,
        baseline: Baseline | None = None,
        tables: Mapping[str, DataFrame] | None = None,
        staging: str | Path | None = None,
    ) -> FrameResult:
        """Judge a frame, and write its clean rows into a Delta table in one commit, which names the decision.

        ``to``: a path, or the name of a table; it is created if it does not exist. ``mode``: `append`, `merge` (by the rules'
        key, newest row wins) or `overwrite`. ``quarantine``: a Delta table for quarantined rows.

        Raises QuarantinedError, which has the result, if a blocking check quarantines the whole frame, and LockedError if
        another writer changed the table meanwhile. Then the table is as it was.
        """
        options = Options(window, log, baseline, tables or {}, staging)
        return judge(self.document, frame, options, PublicationPlan(to, mode, quarantine))

    def guard(
        self,
        table: str | Path,
        frame: DataFrame | None = None,
        *,
        spark: SparkSession | None = None,
        blocking: bool = True,
        window: datetime | date | str | None = None,
        log: str | Path | None = None,
        baseline: Baseline | None = None,
        tables: Mapping[str, DataFrame] | None = None,
        staging: str | Path | None = None,
    ) -> "Guard":
        """Return a context manager around a write of your own. It checks ``frame`` before, and the rows that the write added
        to the Delta table after. ``blocking``: raise QuarantinedError for a frame or rows that the gate would quarantine.
        """
        from lakehouse_assets.frames.guard import Guard

        return Guard(self, table, frame, spark, blocking, Options(window, log, baseline, tables or {}, staging))

    def baseline(
        self, source: DataFrame | str | Path, by: str | None = None, spark: SparkSession | None = None
    ) -> BaselineState:
        """Return what drift compares with: a frame, the folder of a log, or the versions of a Delta table (read with
        ``spark``). With ``by``, a frame has one window for each value of that column.
        """
        from lakehouse_assets.frames.baseline import read_baseline_of

        return read_baseline_of(self.rules, source, spark or SparkSession.getActiveSession(), by)

    def compare(self, frame: DataFrame, baseline: Baseline, by: str | None = None) -> DriftVerdict:
        """Return the drift decision on a frame, and nothing else: one job, and nothing is stored. ``by``: see `baseline`."""
        from lakehouse_assets.frames.comparison import compare_frame

        state = baseline if isinstance(baseline, BaselineState) else self.baseline(baseline, by, frame.sparkSession)
        return compare_frame(self.document, frame, state)

    @staticmethod
    def suggest(frame: DataFrame, name: str = "frame") -> str:
        """Return rules as YAML that the frame passes, for a person to read and change. Two aggregations."""
        from lakehouse_assets.frames.draft import draft_rules

        return draft_rules(frame, name)
