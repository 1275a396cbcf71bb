"""Seasons, and the pull of the window before, found in a statistic's own past: what it usually is in such a window.

Belongs here: the seasons, which of them makes the past predictable, and what then remains. Does not: ranking it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from lakehouse_assets.contracts.drift import SEASON_PARTS, Season
from lakehouse_assets.decisions.drift.distances import Floats
from lakehouse_assets.decisions.drift.statistic_history import FARTHEST_OFF, LEAST_SPREAD

Indices = NDArray[np.int64]
# Of each part of a season: which one a moment is in, and which recurrence of it.
_PARTS: dict[str, tuple[Callable[[datetime], int], Callable[[datetime], int]]] = {
    "hour": (lambda moment: moment.hour, date.toordinal),
    "weekday": (date.weekday, date.toordinal),
    "weekend": (lambda moment: int(moment.weekday() >= 5), lambda moment: (moment.toordinal() - 1) // 7),
    "hour_by_weekend": (lambda moment: moment.hour + 24 * (moment.weekday() >= 5), date.toordinal),
    "day": (lambda moment: moment.day, lambda moment: 12 * moment.year + moment.month),
    "month": (lambda moment: moment.month, lambda moment: moment.year),
}
# A season that has recurred less often says nothing of the judged window.
LEAST_RECURRENCES = 2
# How much likelier (natural logarithm) a season must make windows, each predicted by the others.
LEAST_GAIN = 6.0
# The share of a statistic's windows that a season must say something of.
LEAST_SHARE = 0.8
LEAST_WINDOWS, MOST_PULL = 10, 0.99


class Choice(NamedTuple):
    """``season``: `none` for none. ``pull``: how much of a window's deviation the next one keeps, from 0 to 0.99."""

    season: Season = "none"
    pull: float = 0.0

    @property
    def is_made(self) -> bool:
        """Whether anything is expected of a window beyond what all have in common."""
        return self.season != "none" or self.pull > 0


@dataclass(frozen=True)
class Remainders:
    """What no season explains. ``past``: (windows, m); ``now``: (m,); ``expected``: what it usually is; ``choices``: of each.

    Where nothing was chosen, ``past`` and ``now`` are unchanged and ``expected`` is NaN. Otherwise both are deviations from
    the expected. Those of the past are from one window less, and therefore never narrower than now's.
    """

    past: Floats
    now: Floats
    expected: Floats
    choices: list[Choice]


class _Candidate(NamedTuple):
    """``past``: (windows, m), deviations in the order of time; the others (m,). NaN: nothing is said."""

    seasons: Sequence[Season]
    past: Floats
    now: Floats
    expected: Floats
    pull: Floats


def remove_seasons(
    past: Floats,
    now: Floats,
    moments: Sequence[Any],
    moment: Any,
    wanted: Sequence[Season],
    *,
    timezone: str = "UTC",
    pull: bool = True,
) -> Remainders:
    """Subtract from each statistic what it usually is in such a window.

    ``past``: (windows, m), NaN where unknown; ``now``: (m,); ``moments``: of the windows; ``moment``: of the judged one. Where
    one of them is no time, there are no seasons. ``wanted``: (m,), a season; `none`; or `auto`, the one under which the past is
    likeliest, each window predicted by those of other recurrences (Laplace's likelihood, so that few outliers do not decide),
    if it is by `LEAST_GAIN`. ``pull``: whether a window may also be predicted by the one before (an autoregression of order 1).
    The judged window takes no part in the choice. ``timezone``: of hours and days.
    """
    unchanged = Remainders(past, now, np.full(now.size, np.nan), [Choice()] * now.size)
    times = [_to_datetime(each, ZoneInfo(timezone)) for each in (*moments, moment)]
    columns = [c for c, each in enumerate(wanted) if each != "none"]
    dates = [each for each in times if each is not None]
    if not columns or len(dates) < len(times) or len(moments) < LEAST_WINDOWS:
        return unchanged
    order = sorted(range(len(moments)), key=lambda index: dates[index].timestamp())
    ordered = [*(dates[index] for index in order), dates[-1]]
    values, last = (np.clip(each, -FARTHEST_OFF, FARTHEST_OFF) for each in (past[np.ix_(order, columns)], now[columns]))
    requests: list[Season] = [wanted[column] for column in columns]
    seasons: list[Season] = [name for name in SEASON_PARTS if "auto" in requests or name in requests]
    names: list[Season] = ["none", *seasons]
    all_candidates = [_subtract(values, last, ordered, name) for name in names]
    candidates = [each for each in all_candidates if each is not None]
    if pull:
        steps = _count_steps(ordered)
        # Of the seasons the likeliest alone is tried with a pull.
        likeliest = _choose(candidates, requests, 0.0)
        candidates += [_subtract_pull(each, steps) for each in (candidates[0], likeliest)]
    chosen = _choose(candidates, requests, LEAST_GAIN)
    result = Remainders(past.copy(), now.copy(), unchanged.expected, list(unchanged.choices))
    for c, column in enumerate(columns):
        choice = Choice(chosen.seasons[c], round(float(chosen.pull[c]), 9))
        if choice.is_made:
            result.choices[column] = choice
            result.past[order, column] = chosen.past[:, c]
            result.now[column], result.expected[column] = chosen.now[c], chosen.expected[c]
    return result


def _to_datetime(moment: Any, zone: ZoneInfo) -> datetime | None:
    """A moment on the local clock, a naive one being UTC; a date is its midnight there."""
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(zone)
    return datetime.combine(moment, time(), zone) if isinstance(moment, date) else None


def _subtract(values: Floats, now: Floats, times: Sequence[datetime], season: Season) -> _Candidate | None:
    """Subtract from each window the mean of its season's other recurrences; None for a season that all windows share.

    ``values``: (windows, m) in the order of ``times``, whose last is the judged window's.
    """
    past, deviation = values, now
    for part in SEASON_PARTS.get(season, ("all",)):
        label_of, recurrence_of = _PARTS.get(part, (lambda _: 0, datetime.timestamp))
        labels = np.unique([label_of(moment) for moment in times], return_inverse=True)[1]
        cells = np.unique(
            labels * len(times) + np.unique([recurrence_of(each) for each in times], return_inverse=True)[1],
            return_inverse=True,
        )[1]
        # Of daily windows, the hours of weekends are the weekends.
        if season != "none" and labels.max() < (2 if part == "hour_by_weekend" else 1):
            return None
        mean, count = _mean_of_others(past, labels, cells)
        past, deviation = past - mean[:-1], deviation - mean[-1]
        if season != "none":
            deviation = np.where(count[-1] >= LEAST_RECURRENCES, deviation, np.nan)
    seasons: list[Season] = [season] * now.size
    return _Candidate(seasons, past, deviation, now - deviation, np.zeros(now.size))


def _mean_of_others(values: Floats, labels: Indices, cells: Indices) -> tuple[Floats, Floats]:
    """Of each window, and last of the judged one: the mean of the values of its label in other cells, and how many cells those
    are. A cell is one recurrence of a label. (windows, m), (windows + 1,) twice → (windows + 1, m) twice.
    """
    present = np.isfinite(values)
    filled = np.where(present, values, 0.0)
    by_label, by_cell = (_indicators(index, len(values)) for index in (labels, cells))
    sums, counts = by_label @ filled, by_label @ present.astype(float)
    own_sums, own_counts = by_cell @ filled, by_cell @ present.astype(float)
    label_of_cell = np.zeros(own_counts.shape[0], dtype=np.int64)
    label_of_cell[cells] = labels
    recurrences = _indicators(label_of_cell, len(label_of_cell)) @ (own_counts > 0).astype(float)
    others = counts[labels] - own_counts[cells]
    mean = np.divide(sums[labels] - own_sums[cells], others, out=np.full(others.shape, np.nan), where=others > 0)
    return mean, recurrences[labels] - (own_counts[cells] > 0)


def _indicators(index: Indices, width: int) -> Any:
    """(groups, ``width``): which of the first so many belongs to which group."""
    ones = np.ones(width)
    return csr_array((ones, (index[:width], np.arange(width))), shape=(int(index.max()) + 1, width))


def _count_steps(times: Sequence[datetime]) -> Indices:
    """How many windows fit between the first and each: (windows + 1,)."""
    # On the local clock an hour is missing in spring.
    seconds = np.array([moment.timestamp() for moment in times]) - times[0].timestamp()
    gaps = np.diff(seconds[:-1])
    usual = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1.0
    return np.rint(seconds / usual).astype(np.int64)


def _subtract_pull(candidate: _Candidate, steps: Indices) -> _Candidate:
    """Subtract what a window has from the last one before it: of a deviation k windows ago, ``pull`` to the power of k.

    The rest is divided by the root of 1 + pull² + … + pull²ᵏ⁻², so that windows after a gap vary no more than others.
    """
    rows = np.vstack([candidate.past, candidate.now])
    is_known = np.isfinite(rows)
    at = np.maximum.accumulate(np.where(is_known, np.arange(len(rows))[:, None], -1), axis=0)
    last = np.vstack([np.full((1, rows.shape[1]), -1), at[:-1]])
    # A window that is judged late: the last one of those before it.
    late = int(np.searchsorted(steps[:-1], steps[-1]))
    last[-1] = at[late - 1] if late else -1
    before = np.where(last >= 0, np.take_along_axis(rows, np.maximum(last, 0), axis=0), 0.0)
    gap = np.where(last >= 0, np.maximum(steps[:, None] - steps[np.maximum(last, 0)], 1), 10_000)
    is_next = is_known[:-1] & (gap[:-1] == 1)
    both = np.where(is_next, rows[:-1] * before[:-1], 0.0).sum(axis=0)
    square = np.where(is_next, before[:-1] ** 2, 0.0).sum(axis=0)
    pull = np.divide(both, square, out=np.zeros_like(both), where=(square > 0) & (is_next.sum(axis=0) >= LEAST_WINDOWS))
    pull = np.clip(pull, 0.0, MOST_PULL)
    carry = pull**gap * before
    rest = (rows - carry) / np.sqrt((1.0 - pull ** (2 * gap)) / (1.0 - pull**2))
    return _Candidate(candidate.seasons, rest[:-1], rest[-1], candidate.expected + carry[-1], pull)


def _choose(candidates: Sequence[_Candidate], wanted: Sequence[Season], least_gain: float) -> _Candidate:
    """Of each statistic the likeliest candidate, if it is so by ``least_gain`` for a season and again for a pull. The first of
    all is the one without either.
    """
    nothing = candidates[0]
    is_known = np.isfinite(nothing.past)
    # Of differences of large numbers, rounding is no deviation.
    sizes = np.where(is_known, np.abs(nothing.past), 0.0)
    least = np.maximum(LEAST_SPREAD, 1e-9 * np.maximum(sizes.max(axis=0, initial=0.0), np.abs(nothing.expected)))
    best, best_gain = np.zeros(len(wanted), dtype=int), np.array([0.0 if each == "auto" else -np.inf for each in wanted])
    for index, candidate in enumerate(candidates[1:], start=1):
        both = is_known & np.isfinite(candidate.past)
        count = np.maximum(both.sum(axis=0), 1)
        before = np.where(both, sizes, 0.0).sum(axis=0) / count + least
        after = np.where(both, np.abs(candidate.past), 0.0).sum(axis=0) / count + least
        is_seasonal = np.array([season != "none" for season in candidate.seasons], dtype=int)
        gain = count * np.log(before / after) - least_gain * (is_seasonal + (candidate.pull > 0))
        is_usable = np.isfinite(candidate.now) & (count >= LEAST_SHARE * is_known.sum(axis=0)) & (gain > best_gain)
        is_wanted = [each in ("auto", season) for each, season in zip(wanted, candidate.seasons, strict=True)]
        best, best_gain = np.where(is_usable & is_wanted, index, best), np.where(is_usable & is_wanted, gain, best_gain)
    columns = np.arange(len(wanted))
    past = np.stack([each.past for each in candidates])[best, :, columns].T
    now, expected, pull = (
        np.stack([getattr(each, name) for each in candidates])[best, columns] for name in ("now", "expected", "pull")
    )
    return _Candidate(
        [candidates[index].seasons[column] for column, index in enumerate(best.tolist())], past, now, expected, pull
    )
