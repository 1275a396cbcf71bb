"""When windows share a part of a season, such as an hour of the day, and in which of its recurrences each of them is.

Belongs here: the calendar of windows, these groups, and means over the other recurrences. Does not: which season predicts a
statistic (seasons).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from functools import cached_property
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from lakehouse_assets.contracts.drift import SEASON_PARTS, Season
from lakehouse_assets.decisions.drift.distances import Floats

Indices = NDArray[np.int64]
# A season that has recurred less often says nothing of the judged window.
LEAST_RECURRENCES = 2


class Clock(NamedTuple):
    """Moments on the local clock, each (moments,). ``seconds``: since 1970; ``ordinal``: days, 1 being a Monday."""

    seconds: Floats
    hour: Indices
    ordinal: Indices
    day: Indices
    month: Indices
    year: Indices

    @classmethod
    def of(cls, moments: Sequence[datetime]) -> "Clock":
        """Read each moment once, for all seasons."""
        fields = [(each.hour, each.toordinal(), each.day, each.month, each.year) for each in moments]
        hour, ordinal, day, month, year = np.array(fields, dtype=np.int64).T
        return cls(np.array([each.timestamp() for each in moments]), hour, ordinal, day, month, year)

    @property
    def weekday(self) -> Indices:
        """0 is Monday."""
        return (self.ordinal - 1) % 7

    @property
    def is_weekend(self) -> NDArray[np.bool_]:
        """Saturdays and Sundays."""
        return self.weekday >= 5

    def at(self, indices: Indices) -> "Clock":
        """Some of the moments, in this order."""
        hour, ordinal, day, month, year = (each[indices] for each in self[1:])
        return Clock(self.seconds[indices], hour, ordinal, day, month, year)


# Of each part of a season: which one a moment is in, and which recurrence of it.
_PARTS: dict[str, tuple[Callable[[Clock], NDArray[Any]], Callable[[Clock], NDArray[Any]]]] = {
    "all": (lambda clock: np.zeros(clock.hour.size, dtype=np.int64), lambda clock: clock.seconds),
    "hour": (lambda clock: clock.hour, lambda clock: clock.ordinal),
    "weekday": (lambda clock: clock.weekday, lambda clock: clock.ordinal),
    "weekend": (lambda clock: clock.is_weekend, lambda clock: (clock.ordinal - 1) // 7),
    "hour_by_weekend": (lambda clock: clock.hour + 24 * clock.is_weekend, lambda clock: clock.ordinal),
    "day": (lambda clock: clock.day, lambda clock: 12 * clock.year + clock.month),
    "month": (lambda clock: clock.month, lambda clock: clock.year),
}


class KnownValues(NamedTuple):
    """``values``: (windows, m), NaN where unknown; ``filled``: 0 there. ``present``: 1 where known, else 0; (windows, 1) where
    the same windows have all statistics.
    """

    values: Floats
    filled: Floats
    present: Floats

    @classmethod
    def of(cls, values: Floats) -> "KnownValues":
        """Fill the unknown values."""
        present = np.isfinite(values)
        is_shared = bool((present == present[:, :1]).all())
        filled = np.where(present, values, 0.0)
        return cls(values, filled, (present[:, :1] if is_shared else present).astype(np.float64))


@dataclass(frozen=True)
class Grouping:
    """The windows, the judged one last, by one part of a season. ``labels``: which one each is in; ``cells``: which recurrence
    of which label; both (windows + 1,). The others: which of the past windows belongs to each label and to each cell, and
    which cell to which label.
    """

    labels: Indices
    cells: Indices
    by_label: Any
    by_cell: Any
    label_of_cell: Any

    @classmethod
    def of(cls, clock: Clock, part: str) -> "Grouping | None":
        """None where all windows share the part. ``clock``: of the windows, the judged one last."""
        label_of, recurrence_of = _PARTS[part]
        labels = np.unique(label_of(clock), return_inverse=True)[1]
        # Of daily windows, the hours of weekends are the weekends.
        if part != "all" and labels.max() < (2 if part == "hour_by_weekend" else 1):
            return None
        recurrences = np.unique(recurrence_of(clock), return_inverse=True)[1]
        cells = np.unique(labels * labels.size + recurrences, return_inverse=True)[1]
        label_of_cell = np.zeros(int(cells.max()) + 1, dtype=np.int64)
        label_of_cell[cells] = labels
        windows = labels.size - 1
        matrices = (_indicators(labels, windows), _indicators(cells, windows), _indicators(label_of_cell, label_of_cell.size))
        return cls(labels, cells, *matrices)

    @cached_property
    def may_predict(self) -> bool:
        """Whether the judged window's label has recurred often enough, if every window has a value."""
        own = np.unique(self.cells[:-1][self.labels[:-1] == self.labels[-1]])
        return bool(np.count_nonzero(own != self.cells[-1]) >= LEAST_RECURRENCES)

    def mean_of_others(self, own: KnownValues) -> tuple[Floats, Floats]:
        """Of each window, and last of the judged one: the mean of the values of its label in other cells; and how many cells
        those are of the judged one. (windows, m) → (windows + 1, m), and (m,) or, where all statistics share it, (1,).
        """
        sums, own_sums = self.by_label @ own.filled, self.by_cell @ own.filled
        counts, own_counts = self.by_label @ own.present, self.by_cell @ own.present
        recurrences = self.label_of_cell @ (own_counts > 0).astype(float)
        others = counts[self.labels] - own_counts[self.cells]
        mean = sums[self.labels]
        mean -= own_sums[self.cells]
        mean /= np.where(others > 0, others, np.nan)
        return mean, recurrences[self.labels[-1]] - (own_counts[self.cells[-1]] > 0)


@dataclass(frozen=True)
class Calendar:
    """The times of windows in their ``order`` (indices of the past ones), the judged one last, and their groups by seasons.
    Each part of a season is grouped once, however many statistics ask for it.
    """

    order: Indices
    clock: Clock
    _by_part: dict[str, Grouping | None] = field(default_factory=dict)

    @classmethod
    def of(cls, moments: Sequence[Any], moment: Any, timezone: str) -> "Calendar | None":
        """None where a label is no time. ``moments``: of the past windows; ``moment``: of the judged one; ``timezone``: of
        hours and days.
        """
        zone = ZoneInfo(timezone)
        dates = [own for each in (*moments, moment) if (own := _to_datetime(each, zone)) is not None]
        if len(dates) <= len(moments):
            return None
        clock = Clock.of(dates)
        order = np.argsort(clock.seconds[:-1], kind="stable")
        return cls(order, clock.at(np.append(order, len(moments))))

    def in_order(self) -> "Calendar":
        """The same for statistics that are in the order of time already."""
        return replace(self, order=np.arange(self.order.size))

    @cached_property
    def steps(self) -> Indices:
        """How many windows fit between the first and each: (windows + 1,). On the local clock an hour is missing in spring."""
        seconds = self.clock.seconds - self.clock.seconds[0]
        gaps = np.diff(seconds[:-1])
        usual = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1.0
        return np.rint(seconds / usual).astype(np.int64)

    def group(self, season: Season) -> list[Grouping]:
        """The groupings by the parts of a season; by nothing for `none`. Empty for a season that all windows share, and for one
        that says nothing of the judged window.
        """
        parts = SEASON_PARTS.get(season, ("all",))
        own = [each for part in parts if (each := self._group_by(part)) and (part == "all" or each.may_predict)]
        return own if len(own) == len(parts) else []

    def _group_by(self, part: str) -> Grouping | None:
        if part not in self._by_part:
            self._by_part[part] = Grouping.of(self.clock, part)
        return self._by_part[part]


def _to_datetime(moment: Any, zone: ZoneInfo) -> datetime | None:
    """A moment on the local clock, a naive one being UTC; a date is its midnight there."""
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(zone)
    return datetime.combine(moment, time(), zone) if isinstance(moment, date) else None


def _indicators(index: Indices, width: int) -> Any:
    """(groups, ``width``): which of the first so many belongs to which group."""
    own, groups = index[:width], int(index.max()) + 1
    ends = np.append(0, np.cumsum(np.bincount(own, minlength=groups)))
    members = np.argsort(own, kind="stable")
    return csr_array((np.ones(width), members.astype(np.int32), ends.astype(np.int32)), shape=(groups, width))
