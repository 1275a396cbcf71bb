"""Draws with a known truth, for the statistical gate: families of distributions, dependence, shifts.

Belongs here: generating batches and measuring them against a baseline. Does not: what is counted of them (drift).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from lakehouse_assets.decisions.drift.distances import MOST_STEPS, Ecdf, compare_ecdfs
from lakehouse_assets.decisions.drift.feature_result import FeatureResult
from lakehouse_assets.decisions.drift.predictive_tail import score_p_value
from lakehouse_assets.decisions.drift.relations import Relations, compare_relations, compute_relations
from lakehouse_assets.decisions.drift.statistic_families import family_of
from lakehouse_assets.decisions.drift.statistic_history import StatisticHistory, row_maxima, standardize

Floats = NDArray[np.float64]
ROWS, HISTORY, JUDGED = 5_000, 100, 200
CORRELATION = 0.8


def _ar(rng: np.random.Generator, z: Floats, rho: float) -> Floats:
    """Rows that follow each other: an autoregression of standard normals, stationary from its first row."""
    start = rng.normal(size=(1, z.shape[1])) * rho
    return lfilter([np.sqrt(1 - rho**2)], [1, -rho], z, axis=0, zi=start)[0]


# Standard normals (n, p) of one window → its values; a column is standardized to deviation 1 where a shift is asked in it.
FAMILIES: dict[str, Callable[[np.random.Generator, Floats], Floats]] = {
    "normal": lambda rng, z: z,
    "lognormal": lambda rng, z: np.exp(z),
    "rounded to 0.1": lambda rng, z: np.round(z, 1),
    "bimodal": lambda rng, z: np.where(rng.random(z.shape) < 0.5, z - 3.0, z + 3.0),
    "mixture with atoms": lambda rng, z: np.where(rng.random(z.shape) < 0.3, 0.0, np.where(rng.random(z.shape) < 0.1, 1.0, z)),
    "AR(1) 0.9": lambda rng, z: _ar(rng, z, 0.9),
    "AR(1) 0.99": lambda rng, z: _ar(rng, z, 0.99),
    "batch effect 0.1 sd": lambda rng, z: z + 0.1 * rng.normal(size=(1, z.shape[1])),
}

# What is done to one column of three (normal; the first two correlate with 0.8).
FAULTS: dict[str, Callable[[np.random.Generator, Floats], Floats]] = {
    "shift of 0.1 sd": lambda rng, x: np.column_stack([x[:, 0], x[:, 1], x[:, 2] + 0.1]),
    "variance times 1.2": lambda rng, x: np.column_stack([x[:, 0], x[:, 1], x[:, 2] * np.sqrt(1.2)]),
    "2 % of rows moved to +4 sd": lambda rng, x: np.column_stack(
        [x[:, 0], x[:, 1], np.where(rng.random(len(x)) < 0.02, 4.0, x[:, 2])]
    ),
    "correlation 0.8 to 0.7": lambda rng, x: correlated(rng, len(x), 0.7),
}


def correlated(rng: np.random.Generator, rows: int, correlation: float = CORRELATION) -> Floats:
    """Three standard normal columns, the first two of which correlate."""
    z = rng.normal(size=(rows, 3))
    z[:, 1] = correlation * z[:, 0] + np.sqrt(1 - correlation**2) * z[:, 1]
    return z


@dataclass(frozen=True)
class Learnt:
    """A baseline of windows, with each window's own statistics against the others."""

    steps: list[Ecdf]
    relations: Relations
    names: list[tuple[int, str]]
    statistics: Floats
    windows: list[Floats]


def steps_of_values(values: Floats) -> Ecdf:
    """Exact; quicker where no value is twice there."""
    ordered = np.sort(values)
    if (np.diff(ordered) > 0).all():
        return Ecdf(ordered, np.ones(ordered.size), np.arange(1.0, ordered.size + 1.0))
    return Ecdf.of(values)


def _thinned(steps: Ecdf) -> Ecdf:
    """As `Ecdf.plus` does it for a baseline of many values."""
    return steps.thinned(MOST_STEPS) if steps.values.size > 2 * MOST_STEPS else steps


def _relations(window: Floats) -> Relations:
    return compute_relations({str(i): window[:, i] for i in range(window.shape[1])})


def learn(windows: list[Floats]) -> Learnt:
    """The gate's first windows: merged, and each measured against the others."""
    columns = range(windows[0].shape[1])
    parts = [[steps_of_values(window[:, i]) for i in columns] for window in windows]
    merged = [_thinned(steps_of_values(np.concatenate([window[:, i] for window in windows]))) for i in columns]
    each = [_relations(window) for window in windows]
    together = reduce(Relations.plus, each)
    rows: list[dict[tuple[int, str], tuple[float, float]]] = []
    for own, related in zip(parts, each, strict=True):
        outcomes: dict[tuple[int, str], tuple[float, float]] = {}
        for i in columns:
            distance = compare_ecdfs(own[i], merged[i], batch_is_inside=True)
            outcomes |= {(i, name): (value, distance.tail) for name, value in distance._asdict().items()}
        outcomes |= _apart(related, together.minus(related))
        rows.append(outcomes)
    names = list(rows[0])
    return Learnt(merged, together, names, np.array([[row[name][0] for name in names] for row in rows]), windows)


def measure(window: Floats, learnt: Learnt) -> tuple[Floats, Floats]:
    """Statistics and effects of one more window, in the order of `Learnt.names`."""
    outcomes: dict[tuple[int, str], tuple[float, float]] = {}
    for i, normal in enumerate(learnt.steps):
        distance = compare_ecdfs(steps_of_values(window[:, i]), normal)
        outcomes |= {(i, name): (value, distance.tail) for name, value in distance._asdict().items()}
    outcomes |= _apart(_relations(window), learnt.relations)
    return np.array([outcomes[name][0] for name in learnt.names]), np.array([outcomes[name][1] for name in learnt.names])


def _apart(batch: Relations, baseline: Relations) -> dict[tuple[int, str], tuple[float, float]]:
    outcomes = compare_relations(batch, baseline)
    assert outcomes is not None  # noqa: S101 (thousands of rows)
    return {(-1, name): (value, outcomes.effects[name]) for name, value in outcomes.statistics.items()}


def p_value(history: Floats, now: Floats, effects: Floats, floor: float) -> float:
    """The gate's, of the family of shapes by itself: of the largest standardized statistic whose effect matters."""
    scores = standardize(history, now)
    large = scores[-1][effects > floor]
    return score_p_value(row_maxima(scores[:-1]), float(large.max())) if large.size else 1.0


def ranked(names: list[tuple[int, str]], columns: list[int] | None = None) -> list[int]:
    """Places of the statistics that are ranked: of these columns (-1: their relations), without it of all."""
    return [k for k, (i, name) in enumerate(names) if family_of(name) == "shape" and (columns is None or i in columns)]


def as_results(names: list[tuple[int, str]], values: Floats) -> list[FeatureResult]:
    """The input of `find_largest_sum`: each column's signed distance."""
    return [
        FeatureResult(str(i), None, statistics={"signed": float(value)})
        for (i, name), value in zip(names, values, strict=True)
        if name == "signed"
    ]


def as_history(names: list[tuple[int, str]], rows: Floats) -> StatisticHistory:
    """The signed distances of past windows, as the gate keeps them."""
    history = StatisticHistory(remember=len(rows))
    for window, row in enumerate(rows):
        history.add(window, {(r.feature, None): r.statistics for r in as_results(names, row)})
    return history
