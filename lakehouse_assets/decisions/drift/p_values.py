"""p-values without history: from theory and by Monte Carlo, as if all rows were independent.

Belongs here: those, Holm's correction, statistics of missing values and volume. Does not: calibrated ones (statistic_history).
"""

import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy  # it loads what is used, when it is used
from numpy.typing import ArrayLike

from lakehouse_assets.decisions.drift.categories import Categories, Floats, fold_for_chance
from lakehouse_assets.decisions.drift.distances import Ecdf, tail_weight
from lakehouse_assets.decisions.drift.profiles import Key
from lakehouse_assets.decisions.drift.relations import compare_relations, compute_relations, upper_triangle
from lakehouse_assets.decisions.drift.statistic_history import row_maxima, standardize

DRAWS = 499
# The farthest of the draws, by which the tail beyond all of them is fitted.
FARTHEST_DRAWS = 40
CELLS = 250
# NumPy divides fewer than 10^9 rows at random. The counts of more are scaled down, which can only raise the p-value.
MOST_DIVIDED = 5e8
RELATION_DRAWS = 299
POOL = 10_000
# Below this a p-value is a matter of the fit, not of the data.
LEAST_P = 1e-12


def naive_p_value(ks: float, rows: float, baseline_rows: float) -> float:
    """Kolmogorov's and Smirnov's asymptotic two-sample p-value, as if rows were independent: shown, and not judged by."""
    effective = rows * baseline_rows / (rows + baseline_rows)
    return float(scipy.special.kolmogorov(ks * np.sqrt(effective)))


def monte_carlo(batch: Ecdf, baseline: Ecdf, key: Key) -> tuple[float, float]:
    """p-values of the KS and the tail-weighted distance of two samples, of these sizes, of one distribution: both together, in
    at most 250 cells. The observed distances are measured on the same cells. The seed is the feature's name.
    """
    both = baseline.plus(batch)
    edges = np.unique(both.quantiles((np.arange(CELLS) + 1) / CELLS))
    p = np.diff(np.concatenate(([0.0], both.weight_up_to(edges)))) / both.total
    observed = _distances(*(sample.weight_up_to(edges)[None] / sample.total for sample in (batch, baseline)))
    rng = _generator(key)
    sizes = (round(sample.total) for sample in (batch, baseline))
    drawn = _distances(*(np.cumsum(rng.multinomial(size, p, size=DRAWS), axis=1) / size for size in sizes))
    ks, tail = (drawn_p_value(d, o[0]) for d, o in zip(drawn, observed, strict=True))
    return ks, tail


def monte_carlo_categories(batch: Categories, baseline: Categories, key: Key) -> tuple[float, float]:
    """p-values of two samples of one distribution, after `fold_for_chance`: of the G statistic, and of its largest cell, which
    finds a single category that many rare ones would hide. Both are compared with random divisions of all rows into samples of
    these sizes, which is exact however rare a category is. The seed is the feature's name.
    """
    samples = fold_for_chance(batch, baseline)
    scale = max(1.0, sum(float(sample.sum()) for sample in samples) / MOST_DIVIDED)
    now, before = (np.rint(sample / scale).astype(np.int64) for sample in samples)
    both = now + before
    drawn = _generator(key).multivariate_hypergeometric(both, int(now.sum()), size=DRAWS, method="marginals")
    cells, observed = _g_statistics(drawn, both - drawn), _g_statistics(now[None], before[None])
    g = drawn_p_value(cells.sum(axis=1), float(observed.sum()))
    return g, drawn_p_value(cells.max(axis=1), float(observed.max()))


def drawn_p_value(drawn: Floats, observed: float) -> float:
    """The p-value of ``observed`` among ``drawn``, (draws,). Beyond them the tail is an exponential, fitted to the farthest
    forty (after Knijnenburg et al., 2009), so that many tests corrected together can still find a large change. These
    statistics fall off faster, so the fit is cautious.
    """
    beyond = np.count_nonzero(drawn >= observed - 1e-9)
    p = (1 + beyond) / (len(drawn) + 1)
    farthest = np.sort(drawn)[-FARTHEST_DRAWS:]
    mean = float((farthest - farthest[0]).mean())
    if beyond or mean <= 0.0:
        return float(p)
    tail = len(farthest) / len(drawn) * np.exp(-(observed - farthest[0]) / mean)
    return float(min(p, max(tail, LEAST_P)))


def correct_by_holm(p_values: Sequence[float]) -> list[float]:
    """The same p-values, corrected for their number (Holm, 1979), in the same order."""
    raw = np.array(p_values, dtype=float)
    order = np.argsort(raw, kind="stable")
    corrected = np.empty(raw.size)
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, np.arange(raw.size, 0, -1) * raw[order]))
    return corrected.tolist()


def relations_p_value(batch: Floats, baseline: Floats, names: Sequence[str]) -> tuple[str, float] | None:
    """The strangest statistic (`relations.RelationDistance`) of ``batch`` (n, p) beside ``baseline`` (m, p), and the p-value of
    its being the strangest (Westfall and Young, 1993), by bootstrap: batches of n rows drawn with replacement from at most
    10,000 rows of the baseline. None for too few rows.
    """
    now, before = (compute_relations(dict(zip(names, rows.T, strict=True))) for rows in (batch, baseline))
    observed = compare_relations(now, before)
    if observed is None:
        return None
    rng = np.random.default_rng(0)
    rows = baseline[np.isfinite(baseline).all(axis=1)]
    pool = rows if len(rows) <= POOL else rows[rng.choice(len(rows), POOL, replace=False)]
    mean, upper = pool.mean(axis=0), upper_triangle(len(names))
    centred = pool - mean
    squares = (centred[:, :, None] * centred[:, None, :])[:, upper[0], upper[1]]
    reference = compute_relations(dict(zip(names, pool.T, strict=True)))
    drawn = []
    for _ in range(RELATION_DRAWS):
        weights = rng.multinomial(now.rows, np.full(len(pool), 1.0 / len(pool))).astype(float)
        step = weights @ centred / now.rows
        moments = weights @ squares - now.rows * np.outer(step, step)[upper]
        distance = compare_relations(replace(now, mean=tuple(mean + step), comoments=tuple(moments)), reference)
        if distance is not None:
            drawn.append([distance.statistics.get(name, 0.0) for name in observed.statistics])
    scores = standardize(np.array(drawn), np.array(list(observed.statistics.values())))
    strangest = list(observed.statistics)[int(scores[-1].argmax())]
    return strangest, drawn_p_value(row_maxima(scores[:-1]), float(scores[-1].max()))


def missing_surprisal(missing: int, rows: int, past: ArrayLike) -> float:
    """How unlikely so many rows without a value are, or so few: -log10 of a two-sided p-value, 0 to 12. 0 without windows.

    ``past``: (windows, 2), of each window rows without a value and rows. Shares vary by more than chance: a beta-binomial is
    fitted by moments (Kleinman, 1973), and evaluated as the beta distribution of the same mean and variance.
    """
    windows = np.array(past, dtype=float).reshape(-1, 2)
    windows = windows[windows[:, 1] > 0]
    if rows <= 0 or not len(windows):
        return 0.0
    counts, sizes = windows[:, 0], windows[:, 1]
    mean = (counts.sum() + 0.5) / (sizes.sum() + 1.0)
    binomial = mean * (1.0 - mean)
    # Spread of the windows' shares, less what a binomial of these sizes has by itself.
    squares, by_chance = float(((counts / sizes - mean) ** 2).mean()), float((binomial / sizes).mean())
    inner = max(1.0 - float((1.0 / sizes).mean()), 1e-9)
    within = min(max((squares - by_chance) / (binomial * inner), 1.0 / (sizes.sum() + 2.0)), 0.99)
    variance = binomial * (1.0 / rows + within * (1.0 - 1.0 / rows))
    size = max(binomial / variance - 1.0, 1e-6)
    a, b = mean * size, (1.0 - mean) * size
    # The usual half row either way: a count stands for an interval.
    low = scipy.special.betainc(a, b, min(1.0, (missing + 0.5) / rows))
    high = scipy.special.betainc(b, a, 1.0 - max(0.0, (missing - 0.5) / rows))
    return round(float(-np.log10(max(LEAST_P, min(1.0, 2.0 * min(low, high))))), 9)


def nearest_likely_share(missing: int, rows: int, share: float) -> float:
    """The share without a value that is nearest to ``share`` and still likely to give so many, by the one-sided 95 % interval
    (Clopper and Pearson, 1934). One missing row of twenty is next to nothing, 5 % of a million is 5 %.
    """
    low = float(scipy.special.betaincinv(missing, rows - missing + 1, 0.05)) if missing else 0.0
    high = float(scipy.special.betaincinv(missing + 1, rows - missing, 0.95)) if missing < rows else 1.0
    return min(max(share, low), high)


def volume_deviation(rows: int, past: Sequence[int]) -> float:
    """log10 of the rows beside the median window's; 0 without windows, or for none."""
    return round(float(np.log10(rows / np.median(past))), 9) if rows and len(past) else 0.0


def _distances(batch: np.ndarray, baseline: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(draws, cells) cumulated shares of both → KS and tail-weighted distances, (draws,) each."""
    gap = np.abs(batch - baseline)
    return gap.max(axis=1), (gap / tail_weight(baseline)).max(axis=1)


def _g_statistics(now: np.ndarray, before: np.ndarray) -> np.ndarray:
    """(draws, categories) counts of both samples → each category's part of the likelihood-ratio statistic of their being alike,
    at least 0, of the same shape.
    """
    both = now + before
    n, m = now.sum(axis=1, keepdims=True), before.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.where(now > 0, now * np.log(now * ((n + m) / n) / both), 0.0)
        two = np.where(before > 0, before * np.log(before * ((n + m) / m) / both), 0.0)
    return 2.0 * (one + two)


def _generator(key: Key) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))
