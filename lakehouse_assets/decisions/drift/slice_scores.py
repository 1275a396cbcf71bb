"""How unusual the slices of a batch are beside those of the windows before, and which of them to name.

Belongs here: past slices → scores, ranks, the slice that is farthest off. Does not: measuring slices (slices), or messages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakehouse_assets.decisions.drift.method import METHOD
from lakehouse_assets.decisions.drift.predictive_tail import conformal_p_value, score_p_value
from lakehouse_assets.decisions.drift.relations import shift_effects
from lakehouse_assets.decisions.drift.slices import Conditions, Floats, Slices
from lakehouse_assets.decisions.drift.statistic_families import FAMILIES
from lakehouse_assets.decisions.drift.statistic_history import past_maxima

SLICE = "slice"  # the family, and the name of the statistic
# A slice's own variation counts with what is usual among slices, which is worth so many windows.
PRIOR_WINDOWS = 10.0
# Of two slices that are moved to opposite sides and nearly as far, only their own past says which one moved.
NEARLY = 0.85
# A fault that is as large in the other rows of one condition is of that condition: half as large is the middle between.
WIDE_ENOUGH = 0.5


class SliceFinding(NamedTuple):
    """A slice that is off. ``rows``: its rows, of ``of_rows``. ``change``: of its mean beside the rest's from what is usual,
    in the feature's unit, values drawn in to the inner interval of the batch. ``score`` and ``p_value``: among the past of all
    slices; ``windows``: those in which it is known.
    """

    feature: str
    conditions: Conditions
    rows: int
    of_rows: int
    change: float
    score: float
    p_value: float
    windows: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {**self._asdict(), "conditions": [list(each) for each in self.conditions]}


@dataclass(frozen=True)
class SliceScores:
    """The differences of a batch's slices that are known in enough windows. ``slices``, ``features``: (columns,) indices into
    those of ``now``; ``scores``: (windows + 1, columns), the batch's last, in deviations of the others; ``changes``: (columns,)
    from the mean of the past; ``effects``: as tail-weighted distances; ``counts``: windows. ``method``: the version by which
    windows are ranked.
    """

    now: Slices
    past: Sequence[Slices]
    slices: NDArray[np.int64]
    features: NDArray[np.int64]
    scores: Floats
    changes: Floats
    effects: Floats
    counts: NDArray[np.int64]
    method: int = METHOD

    @classmethod
    def of(
        cls, now: Slices | None, past: Sequence[Slices | None], least_windows: int, method: int = METHOD
    ) -> "SliceScores | None":
        """None where no difference is known in so many windows."""
        windows = [each for each in past if each is not None]
        if now is None or len(windows) < least_windows:
            return None
        values, variances = np.stack([each.aligned(now) for each in windows], axis=1)
        counts = (~np.isnan(values)).sum(axis=0)
        slices, features = np.nonzero((counts >= least_windows) & ~np.isnan(now.differences) & (now.variances > 0))
        if not slices.size:
            return None
        values, variances = values[:, slices, features], variances[:, slices, features]
        variance = now.variances[slices, features]
        usual = _mean(values)
        comparable = _rescale(values - usual, variances, variance)
        changes = now.differences[slices, features] - usual
        scores = _standardize(np.vstack([comparable, changes]), variance * _spread_ratios(comparable, variance, features))
        deviations = np.abs(changes) / np.array(now.std)[features]
        effects = shift_effects(deviations)
        return cls(now, windows, slices, features, scores, changes, effects, counts[slices, features], method)

    @cached_property
    def past_maxima(self) -> Floats:
        """(windows,): the largest score of each window before, on either side; -inf where it knows too few slices."""
        return past_maxima(np.abs(self.scores[:-1]), self.method)

    def p_value(self, score: float, weights: int) -> float:
        """The p-value of a score as the strangest of all families, whose ``weights`` sum up to this."""
        return min(1.0, weights / FAMILIES[SLICE] * score_p_value(self.past_maxima, score))

    def farthest(self, min_effect: float, feature: str | None = None) -> SliceFinding | None:
        """The slice that is farthest off and large enough to matter, of all features or of one; None where there is none."""
        own = np.abs(self.scores[-1])
        usable = (self.effects > min_effect) & ~np.isnan(own)
        if feature is not None:
            usable &= np.array([self.now.features[f] == feature for f in self.features.tolist()])
        if not usable.any():
            return None
        column = self._resolve_opposite(int(np.where(usable, own, -1.0).argmax()), usable)
        column = self._widen(column, usable)
        s, f, score = self.slices[column], self.features[column], float(own[column])
        return SliceFinding(
            feature=self.now.features[f],
            conditions=self.now.conditions[s],
            rows=self.now.slice_rows[s],
            of_rows=self.now.rows,
            change=float(self.changes[column] * self.now.width[f]),
            score=score,
            p_value=conformal_p_value(self.past_maxima, score),
            windows=int(self.counts[column]),
        )

    def _resolve_opposite(self, column: int, usable: NDArray[np.bool_]) -> int:
        """The column itself, or the one on the other side that is nearly as far off, where that one's own level moved more."""
        side = np.sign(self.changes)
        opposite = usable & (self.features == self.features[column]) & (side == -side[column])
        opposite &= np.abs(self.scores[-1]) >= NEARLY * abs(self.scores[-1, column])
        if not opposite.any():
            return column
        other = int(np.where(opposite, np.abs(self.scores[-1]), -1.0).argmax())
        return max((column, other), key=self._own_move)

    def _widen(self, column: int, usable: NDArray[np.bool_]) -> int:
        """The slice by one of two conditions, if its other rows moved by at least half as much; else the column itself."""
        conditions, rows = self.now.conditions[self.slices[column]], self.now.slice_rows[self.slices[column]]
        wider = []
        for other in np.nonzero(usable & (self.features == self.features[column]))[0].tolist():
            of_other, all_rows = self.now.conditions[self.slices[other]], self.now.slice_rows[self.slices[other]]
            if len(of_other) < len(conditions) and set(of_other) < set(conditions) and all_rows > rows:
                others = (all_rows * self.changes[other] - rows * self.changes[column]) / (all_rows - rows)
                if others / self.changes[column] >= WIDE_ENOUGH:
                    wider.append(other)
        return max(wider, key=lambda other: abs(self.scores[-1, other]), default=column)

    def _own_move(self, column: int) -> float:
        """How far a slice's level is from its own past, in deviations of it."""
        conditions, feature = self.now.conditions[self.slices[column]], self.now.features[self.features[column]]
        past = np.array([level for each in self.past if (level := _find_level(each, conditions, feature)) is not None])
        now = _find_level(self.now, conditions, feature)
        if now is None or past.size < 2:
            return 0.0
        return float(abs(now - past.mean()) / max(past.std(), 1e-12))


def _find_level(slices: Slices, conditions: Conditions, feature: str) -> float | None:
    """The mean of a slice in the feature's unit."""
    if conditions not in slices.conditions or feature not in slices.features:
        return None
    s, f = slices.conditions.index(conditions), slices.features.index(feature)
    level = slices.low[f] + slices.width[f] * slices.slice_mean[s][f]
    return level if np.isfinite(level) else None


def _mean(values: Floats) -> Floats:
    """(windows, columns) → (columns,), of the known ones."""
    present = ~np.isnan(values)
    return np.where(present, values, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)


def _rescale(offsets: Floats, variances: Floats, variance: Floats) -> Floats:
    """Past differences as if each slice had as many rows as now: their square is on average A + B/n, B/n that of independent
    rows. A is fitted; below 0 it is 0.
    """
    between = np.maximum(_mean(offsets**2) - _mean(variances), 0.0)
    return offsets * np.sqrt((between + variance) / np.maximum(between + variances, 1e-30))


def _spread_ratios(comparable: Floats, variance: Floats, features: NDArray[np.int64]) -> Floats:
    """(columns,): by how much the differences of a feature vary more than those of independent rows, in its usual slice."""
    ratios = _mean(comparable**2) / variance
    usual = {feature: float(np.median(ratios[features == feature])) for feature in set(features.tolist())}
    return np.maximum(np.array([usual[feature] for feature in features.tolist()]), 1e-6)


def _standardize(rows: Floats, usual_variance: Floats) -> Floats:
    """Each row in deviations from the mean of all others; a slice's own variance is drawn to the usual one."""
    present = ~np.isnan(rows)
    filled = np.where(present, rows, 0.0)
    squares, others = filled**2, np.maximum(present.sum(axis=0) - 1.0, 1.0)
    mean = (filled.sum(axis=0) - filled) / others
    total = squares.sum(axis=0) - squares - others * mean**2
    spread = np.sqrt((np.maximum(total, 0.0) + PRIOR_WINDOWS * usual_variance) / (others + PRIOR_WINDOWS))
    return np.where(present, (filled - mean) / np.maximum(spread, 1e-12), np.nan)
