"""Evidence over windows: a small shift that lasts and adds up.

Belongs here: sums over the last windows, ranked among all such sums of the past. Does not: single windows (judge).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from lakehouse_assets.contracts.drift import DriftSpec, Season, least_windows
from lakehouse_assets.decisions.drift.categories import Floats
from lakehouse_assets.decisions.drift.feature_result import FeatureResult
from lakehouse_assets.decisions.drift.method import EQUAL_TERMS, METHOD
from lakehouse_assets.decisions.drift.predictive_tail import conformal_p_value
from lakehouse_assets.decisions.drift.profiles import Key
from lakehouse_assets.decisions.drift.season_parts import Calendar
from lakehouse_assets.decisions.drift.seasons import subtract_seasons
from lakehouse_assets.decisions.drift.statistic_history import SIZE, StatisticHistory, past_maxima, row_maxima, standardize
from lakehouse_assets.decisions.drift.window_sizes import SAMPLING, rescale
from lakehouse_assets.decisions.json_values import to_json_value


@dataclass(frozen=True)
class MovingSum:
    """``p_value``: the rank of the largest sum; ``mean``: the mean signed KS distance of the summed windows from the usual one,
    above 0 where values are higher; ``since``: the first of ``windows`` that are off to the same side without a break.
    """

    feature: str
    stratum: str | None
    p_value: float
    windows: int
    mean: float
    since: Any

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe: the window as text."""
        return to_json_value({**asdict(self), "since": str(self.since)})


def find_largest_sum(
    results: Sequence[FeatureResult],
    history: StatisticHistory,
    spec: DriftSpec,
    window: Any = None,
    sizes: Mapping[Key, int] | None = None,
    method: int = METHOD,
) -> MovingSum | None:
    """The feature that has shifted most over the last windows, the judged one included; None where history is too short.

    Of each feature the signed KS distance, in deviations of its own history, is summed over the last `lasting_over` windows in
    the order of time: a moving sum (Bauer and Hackl, 1978). Each sum is standardized by its own past, and their maximum ranked
    among the past's maxima, as a window's score is. In the long run p is at most ``lasting_at`` in that share of the windows.
    ``window``: the judged one's label, by which the windows before it are found; without it, all are before. What is usual in
    the season is subtracted first. ``sizes``: the number of values that each result is of; windows of other sizes are made
    comparable, as the statistics of single windows are.
    """
    results = [r for r in results if "signed" in r.statistics and not r.silent]
    needed = max(spec.warn_from, least_windows(spec.lasting_at)) if spec.lasting_at else 0
    labels = list(history.windows)
    order = list(range(len(labels)))
    if window is not None:
        order = sorted((index for index in order if labels[index] < window), key=lambda index: labels[index])
    past = history.matrix([(r.key, "signed") for r in results])[order]
    indices = [index for index in range(len(results)) if (~np.isnan(past[:, index])).sum() >= needed]
    if not needed or not indices:
        return None
    results, past = [results[index] for index in indices], past[:, indices]
    now = np.array([r.statistics["signed"] for r in results])
    wanted: list[Season] = [spec.season_of(r.feature) for r in results]
    # The window before is left in: what lasts is looked for here.
    before = [labels[index] for index in order]
    is_all = len(before) == len(labels)
    calendar = history.calendar(window, spec.timezone) if is_all else Calendar.of(before, window, spec.timezone)
    rest = subtract_seasons(past, now, calendar and calendar.in_order(), wanted, pull=False)
    past, now = rest.past, rest.now
    comparable = past
    if sizes and method >= EQUAL_TERMS:
        size = np.array([sizes.get(r.key, 0.0) for r in results], dtype=float)
        comparable = _as_if_of_size(past, history.matrix([(r.key, SIZE) for r in results])[order], size)
    mean, spread = np.nanmean(comparable, axis=0), np.maximum(np.nanstd(comparable, axis=0), 1e-3)
    rows = (np.vstack([comparable, now]) - mean) / spread
    sums_of = _sums_by_length(rows, spec.lasting_over, needed if method >= EQUAL_TERMS else 0)
    if not sums_of:
        return None
    sums = np.hstack(list(sums_of.values()))
    scores = standardize(sums[:-1], sums[-1])
    nth_length, index = divmod(int(np.nan_to_num(scores[-1], nan=-np.inf).argmax()), len(results))
    worst, length, column = results[index], list(sums_of)[nth_length], rows[:, index]
    summed = np.append(past[:, index], now[index])[-length:]
    average = float(np.nanmean(summed) - np.nanmean(past[:, index]))
    # Half the floor of the tail-weighted distance: in the middle, where KS is reached, the weight is two.
    p_value = 1.0
    if abs(average) > spec.min_effect / 2:
        p_value = conformal_p_value(past_maxima(scores[:-1], method), float(row_maxima(scores[-1:])[0]))
    run = _count_run(column * np.sign(average), length)
    return MovingSum(*worst.key, p_value, run, round(average, 9), [*before, window][-run])


def _as_if_of_size(past: Floats, sizes: Floats, size: Floats) -> Floats:
    """The signed distances of past windows as if each had as many values as now. (windows, m), (windows, m), (m,)."""
    return rescale(past, sizes, size, np.full(size.size, SAMPLING["ks"]), np.ones(size.size, dtype=bool))


def _sums_by_length(rows: Floats, lengths: Sequence[int], needed: int) -> dict[int, Floats]:
    """`_moving_sums` by length. Left out are lengths of which fewer past sums are known than one needs to be ranked among."""
    sums_of = {length: _moving_sums(rows, length) for length in lengths}
    return {length: sums for length, sums in sums_of.items() if (~np.isnan(sums[:-1])).any(axis=1).sum() >= needed}


def _count_run(column: Floats, length: int) -> int:
    """How many of the last windows are off to the side of the sum, without a break; ``column``: above 0 on that side."""
    run = 1
    # Within the sum any window on that side belongs to the run; before it, one that is off by a deviation.
    while run < len(column) and column[-run - 1] >= (1e-9 if run < length else 1.0):
        run += 1
    return run


def _moving_sums(rows: Floats, length: int) -> Floats:
    """|sum of the last ``length`` rows| / √(known ones), (windows, m) both; NaN for fewer, and where none is known."""
    sums = np.full(rows.shape, np.nan)
    if len(rows) >= length:
        last = sliding_window_view(rows, length, axis=0)
        count = (~np.isnan(last)).sum(axis=-1)
        sums[length - 1 :] = np.where(count > 0, np.abs(np.nansum(last, axis=-1)) / np.sqrt(np.maximum(count, 1)), np.nan)
    return sums
