"""How well each feature is watched: the season that it is compared by, and the least change that would be quarantined.

Belongs here: the gate's own ranks turned round. Does not: judging a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import isfinite
from typing import Any

import numpy as np

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.effects import effect_of_surprise
from lakehouse_assets.decisions.drift.feature_result import FeatureResult
from lakehouse_assets.decisions.drift.past_statistics import Family, PastStatistics
from lakehouse_assets.decisions.drift.profiles import Key
from lakehouse_assets.decisions.drift.relations import shift_effect
from lakehouse_assets.decisions.drift.seasons import SeasonChoice
from lakehouse_assets.decisions.drift.slice_scores import SLICE
from lakehouse_assets.decisions.drift.statistic_families import FAMILIES
from lakehouse_assets.decisions.drift.statistic_history import SIZE, StatisticHistory

# A feature of which not even a shift by one standard deviation, or what is as large, would be quarantined.
UNWATCHED = 1.0
_FARTHEST_SCORE, _ROUNDS = 1e6, 50


@dataclass(frozen=True)
class Watch:
    """``season``: of its location, or of its first statistic. ``effect``: the least that would be quarantined, as a
    tail-weighted distance; ``shift``: of a number, the least shift of its mean, in standard deviations of the baseline.
    """

    key: Key
    season: SeasonChoice
    effect: float
    shift: float | None

    @property
    def is_watched(self) -> bool:
        """Whether a shift by a standard deviation, or what is as large, would be quarantined."""
        return self.effect <= shift_effect(UNWATCHED)


def find_watches(
    results: Sequence[FeatureResult], past: PastStatistics, spec: DriftSpec, *, with_slices: bool = False
) -> list[Watch]:
    """How well each result is watched that is known in `hold_from` windows, by the statistics of its shape. ``with_slices``:
    whether slices have their share of the level.
    """
    chosen = past.counts >= spec.hold_from
    families = {name: family for name in FAMILIES if (family := past.family(chosen, name)).indices}
    shape = families.get("shape")
    if shape is None:
        return []
    weights = sum(FAMILIES[name] for name in families) + (FAMILIES[SLICE] if with_slices else 0)
    score = _find_least_score(shape, weights, spec.hold_at)
    least: dict[int, list[tuple[float, str, SeasonChoice, float]]] = {}
    own_columns = [c for c in shape.indices if not past.columns[c][1].startswith(("spread ", "pair "))]
    spreads = np.nanstd(past.values[:, own_columns], axis=0)
    for c, spread in zip(own_columns, spreads.tolist(), strict=True):
        index, name = past.columns[c]
        change = score * max(spread, 1e-9)
        effect = effect_of_surprise(name, change, change, spec) if isfinite(change) else float("inf")
        least.setdefault(index, []).append((effect, name, past.usual.choices[c], change))
    watches = []
    for index, own in least.items():
        location = next((each for each in own if each[1] == "location"), None)
        season = (location or own[0])[2]
        watches.append(Watch(results[index].key, season, min(each[0] for each in own), location and round(location[3], 6)))
    return watches


def find_next_watches(history: StatisticHistory, spec: DriftSpec) -> list[Watch]:
    """The same for the window that comes next, of a usual size."""
    if len(history) < spec.hold_from:
        return []
    newest = history.latest()
    results = [
        FeatureResult(*key, statistics={name: value for name, value in by_name.items() if name != SIZE})
        for key, by_name in newest.items()
    ]
    sizes = {key: int(by_name.get(SIZE, 0)) for key, by_name in newest.items()}
    past = PastStatistics.of(results, history, sizes, spec, _next_moment(history.windows))
    slices = [each for each in history.slices if each is not None]
    return find_watches(results, past, spec, with_slices=spec.slices and len(slices) >= spec.hold_from)


def _next_moment(moments: Sequence[Any]) -> Any:
    """A usual step after the newest; None where labels are no times."""
    try:
        ordered = sorted(moments)
        steps = [later - earlier for earlier, later in zip(ordered, ordered[1:], strict=False) if later > earlier]
        return ordered[-1] + (sorted(steps)[len(steps) // 2] if steps else timedelta())
    except TypeError:
        return None


def _find_least_score(family: Family, weights: int, level: float) -> float:
    """The least score whose p-value is at most ``level``; infinite where none is."""
    low, high = 0.0, _FARTHEST_SCORE
    if family.p_value(high, weights) > level:
        return float("inf")
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if family.p_value(middle, weights) <= level else (middle, high)
    return high
