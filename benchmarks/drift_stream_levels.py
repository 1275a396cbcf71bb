"""`python -m benchmarks.drift_stream_levels`: how often clean windows are beyond the level of one quarantine a week.

Belongs here: scores of one number's shape, and three ways to reach such a level. Does not: the whole gate (drift_streams).
"""

from collections.abc import Callable
from typing import Annotated

import numpy as np
import typer
from scipy.signal import lfilter
from scipy.stats import norm

from lakehouse_assets.decisions.drift.distances import Floats
from lakehouse_assets.decisions.drift.predictive_tail import count_farthest, score_p_value

Rng = np.random.Generator
HISTORY, ROWS, BASELINES, JUDGED, PART = 400, 100, 12, 60_000, 10_000
LEVEL = 1 / 120_960
# Of shape, extremes and missing values, shape weighs four of six.
WEIGHTS = 1.5
TWO_SIDED = np.array([False, False, True, True])
# The deviation of windows' offsets, the freedoms of their t distribution (0: normal), and how much the next window keeps.
SCENES: dict[str, tuple[float, int, float]] = {
    "no offsets": (0.0, 0, 0.0),
    "offsets of 0.1": (0.1, 0, 0.0),
    "offsets of 0.3": (0.3, 0, 0.0),
    "offsets of 0.3 that last ten minutes": (0.3, 0, float(np.exp(-5 / 600))),
    "offsets of 0.1 t(3)": (0.1, 3, 0.0),
}


def exponential_p_value(past: Floats, now: float) -> float:
    """The p-value by an exponential tail of the scores themselves, in place of their logarithms."""
    beyond, farthest = int((past >= now).sum()), count_farthest(past.size)
    if beyond:
        return (1 + beyond) / (past.size + 1)
    top = np.sort(past)[::-1][: farthest + 1]
    total = max(float((top[:farthest] - top[farthest]).sum()), 1e-6)
    tail = (farthest + 1) / (past.size + 1) * (1 + (now - float(top[farthest])) / total) ** -farthest
    return float(min(1 / (past.size + 1), tail))


def draw(rng: Rng, windows: int, offset: float, freedoms: int, keep: float) -> Floats:
    """KS, tail-weighted distance, location and scale of so many windows in a row; (windows, 4)."""
    fresh = np.clip(rng.standard_t(freedoms, windows), -15, 15) if freedoms else rng.normal(size=windows)
    levels = np.asarray(lfilter([np.sqrt(1 - keep**2)], [1, -keep], fresh))
    values = np.sort(rng.normal(size=(windows, ROWS)) + offset * levels[:, None], axis=1)
    shares, ranks = norm.cdf(values), np.arange(1, ROWS + 1) / ROWS
    gaps = np.maximum(np.abs(ranks - shares), np.abs(ranks - 1 / ROWS - shares))
    inner = np.clip(values, *norm.ppf([0.005, 0.995]))
    weighted = gaps / np.sqrt(np.maximum(shares * (1 - shares), 0.01))
    columns = [gaps.max(axis=1), weighted.max(axis=1), inner.mean(axis=1), np.log(inner.std(axis=1))]
    return np.stack(columns, axis=1)


def find_threshold(past: Floats, level: float, p_value: Callable[[Floats, float], float]) -> float:
    """The least score whose p-value is at most ``level``."""
    low, high = 0.0, 1e4
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if WEIGHTS * p_value(past, middle) <= level else (middle, high)
    return high


def simulate(name: str, history: int, seed: int) -> list[float]:
    """Clean windows beyond the level, as a multiple of it: Pareto tail, exponential tail, two windows in a row."""
    rng, scene, hits = np.random.default_rng(seed), SCENES[name], np.zeros(3)
    for _ in range(BASELINES):
        past = draw(rng, history, scene[0], scene[1], 0.0)
        mean, spread = past.mean(axis=0), past.std(axis=0)

        def score(rows: Floats, mean: Floats = mean, spread: Floats = spread) -> Floats:
            deviations = (rows - mean) / spread
            return np.where(TWO_SIDED, np.abs(deviations), deviations).max(axis=1)

        past_scores = score(past)
        pareto, exponential = (find_threshold(past_scores, LEVEL, p) for p in (score_p_value, exponential_p_value))
        in_a_row = find_threshold(past_scores, float(np.sqrt(LEVEL)), score_p_value)
        for _ in range(JUDGED // PART):
            scores = score(draw(rng, PART, *scene))
            both = (scores[1:] >= in_a_row) & (scores[:-1] >= in_a_row)
            hits += [(scores >= pareto).sum(), (scores >= exponential).sum(), both.sum()]
    return (hits / (BASELINES * JUDGED) / LEVEL).tolist()


def run(
    history: Annotated[int, typer.Option(min=100, help="Windows of history.")] = HISTORY,
    seed: Annotated[int, typer.Option(help="Of all draws.")] = 3,
) -> None:
    """Clean windows beyond the level of one quarantine a week, as a multiple of it, in each scene."""
    for name in SCENES:
        multiples = "Pareto {:.2f}, exponential {:.2f}, two in a row {:.2f}".format(*simulate(name, history, seed))
        print(f"{name}: {multiples}", flush=True)  # noqa: T201


if __name__ == "__main__":
    typer.run(run)
