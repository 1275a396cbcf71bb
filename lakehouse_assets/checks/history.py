"""The family of checks that look back: a batch beside accepted windows before it.

Belongs here: their common parameters, and what a window before is to them. Does not: any kind (kinds/history), or which
windows there are (decisions/history).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import Field, model_validator

from lakehouse_assets.checks.base import BatchCheck, CheckContext, Judgement


@dataclass(frozen=True)
class Past:
    """An accepted window as a later judgement knows it: its start, its rows, and what the same check observed in it."""

    start: datetime
    rows: int
    observed: Mapping[str, Any]


class HistoryCheck(BatchCheck):
    """The batch is compared with accepted windows before it, as they are known when it is judged."""

    windows: int = Field(default=30, ge=1, le=1000)
    """With how many windows it is compared: the last ones before it."""
    least: int = Field(default=5, ge=1, le=1000)
    """With fewer windows than these before it, a batch is not judged: the check is *skipped* there, and says so."""
    season: Literal["hour", "weekday", "month"] | None = None
    """Only windows of the same hour of the day, day of the week or month of the year (UTC, by their start) are compared."""

    @model_validator(mode="after")
    def _enough(self) -> "HistoryCheck":
        if self.least > self.windows:
            raise ValueError(f"least: {self.least} is above windows: {self.windows}; it would never be judged")
        return self

    def in_season(self, start: datetime, other: datetime) -> bool:
        """Whether two windows are comparable."""
        if self.season == "hour":
            return start.hour == other.hour
        if self.season == "weekday":
            return start.weekday() == other.weekday()
        return self.season is None or start.month == other.month

    def usable(self, past: Past) -> bool:
        """Whether a window before has what this one is compared with."""
        return True

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Without its history it cannot be judged."""
        return Judgement("error", {}, "the windows before were not looked up")

    def judge_against(self, values: Mapping[str, Any], context: CheckContext, past: Sequence[Past]) -> Judgement:
        """The judgement, given the windows before: as many as there are, at most ``windows``."""
        if len(past) < self.least:
            told = f"{len(past)} of the {self.least} accepted windows before it that are needed"
            return Judgement("skipped", self.figures(values), f"not judged: there are {told}")
        return self.compare(values, past)

    def figures(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What is observed of the batch itself: later windows are compared with it."""
        raise NotImplementedError  # each kind says

    def compare(self, values: Mapping[str, Any], past: Sequence[Past]) -> Judgement:
        """The judgement with enough windows before."""
        raise NotImplementedError  # each kind says
