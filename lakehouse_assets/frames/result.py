"""The result of judging a frame: the verdict with its reasons, accepted and quarantined rows, and a report.

Belongs here: the values of one judgement. Does not: reaching it (target), its rows (staged_rows), or the markdown (reports).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pyspark.sql import DataFrame

from lakehouse_assets.contracts.decision import Counts, Decision, Reason
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.profiles import describe_key
from lakehouse_assets.decisions.drift.relations import Measurement, read_measurement
from lakehouse_assets.decisions.gate import Outcome
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.frames.staged_rows import StagedRows
from lakehouse_assets.reports.frame import describe_decision, frame_markdown


@dataclass(frozen=True)
class FrameResult:
    """The judgement of one frame. Its rows lie in temporary storage until `close`, or until the process ends."""

    decision: Decision
    samples: dict[str, list[str]]
    rows: StagedRows = field(repr=False)
    baseline: BaselineState | None = field(default=None, repr=False)
    version: int | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    _closed: list[bool] = field(default_factory=list, repr=False)

    @property
    def verdict(self) -> str:
        """`published`, `published_with_warnings` or `quarantined`: what the gate does with the frame."""
        return self.decision.verdict

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return self.verdict == "published"

    @property
    def blocked(self) -> bool:
        """Whether the frame as a whole is quarantined."""
        return not self.decision.accepted

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The checks that did not pass, blocking ones first."""
        return self.decision.reasons

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcome of every check, in the order of the rules."""
        return [Outcome(**outcome) for outcome in self.decision.checks]

    @property
    def counts(self) -> Counts:
        """Where each row goes; each number is counted from the rows' own flags."""
        return self.decision.counts

    @property
    def clean(self) -> DataFrame:
        """The rows to publish: of each key the newest clean one. None of a quarantined frame."""
        return self._open_rows().clean(self.decision)

    @property
    def superseded(self) -> DataFrame:
        """Clean rows of which the frame has a newer one of the same key."""
        return self._open_rows().superseded(self.decision)

    @property
    def quarantined(self) -> DataFrame:
        """The quarantined rows, with `_reasons` (check, column, severity, value, message) and `_batch_reasons`. These replace
        columns of such names.
        """
        return self._open_rows().quarantined(self.decision)

    def _open_rows(self) -> StagedRows:
        if self._closed:
            raise RefusedError("the result is closed, and its rows are gone; read its frames before `close()`")
        return self.rows

    @property
    def profile(self) -> list[Measurement]:
        """The measured distribution of every drift feature."""
        return [read_measurement(each) for each in self.decision.profiles]

    @property
    def drift(self) -> dict[str, Any] | None:
        """The drift verdict, JSON-safe; None without `drift`."""
        return self.decision.drift

    @property
    def pictures(self) -> list[str]:
        """Plots as markdown with a PNG each: the worst drift feature beside its baseline."""
        worst = (self.drift or {}).get("worst")
        if not worst or self.baseline is None:
            return []
        from lakehouse_assets.reports.plots import draw_drift  # it loads matplotlib

        key = (worst["feature"], worst["stratum"])
        now = next((m for m in self.profile if m.key == key), None)
        before, _ = self.baseline.without_window(self.decision.p_extracted_at)
        picture = draw_drift(f"{self.decision.table}: {describe_key(key)}", worst, now, before)
        return [picture] if picture else []

    @property
    def markdown(self) -> str:
        """The whole result for people: verdict, counts, every check, failing values, drift with its picture."""
        return frame_markdown(self.decision, self.samples, self.pictures, self.left_out)

    def _repr_markdown_(self) -> str:
        return self.markdown

    def __str__(self) -> str:
        return describe_decision(self.decision)

    def close(self) -> None:
        """Delete the staged rows. The frames cannot be read any more; verdict, counts and reasons stay."""
        if not self._closed:
            self._closed.append(True)
            self.rows.folder.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
