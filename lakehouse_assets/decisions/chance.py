"""What chance alone would do, were all rows independent: for a reader to compare with, and where no history can say better.

Belongs here: p-values from theory and from Monte Carlo, and Holm's correction. Does not: calibrated ranks (ranks).
"""

import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincinv, kolmogorov

from lakehouse_assets.decisions.categories import Categories
from lakehouse_assets.decisions.distances import TAIL_FLOOR, Floats, Steps
from lakehouse_assets.decisions.profiles import Key
from lakehouse_assets.decisions.ranks import largest, standardized
from lakehouse_assets.decisions.relations import apart, relations_of

DRAWS = 499
# Of the draws, the farthest, from which the tail beyond all of them is told.
FARTHEST_DRAWS = 40
CELLS = 250
RELATION_DRAWS = 299
POOL = 10_000
# Beyond this a p-value is a matter of the fit, not of the data.
LEAST_P = 1e-12


def naive_p_value(ks: float, rows: float, baseline_rows: float) -> float:
    """Kolmogorov's and Smirnov's, as if rows were independent: what the gate does not believe, and shows all the same."""
    effective = rows * baseline_rows / (rows + baseline_rows)
    return float(kolmogorov(ks * np.sqrt(effective)))


def monte_carlo(batch: Steps, baseline: Steps, key: Key) -> tuple[float, float]:
    """p-values of the KS and the tail-weighted distance of two samples of one distribution, of these sizes.

    The distribution is both together, in at most 250 cells; the observed distances are measured on the same cells, so that
    observed and drawn are alike. The seed is the feature's name.
    """
    both = baseline.plus(batch)
    edges = np.unique(both.quantiles((np.arange(CELLS) + 1) / CELLS))
    p = np.diff(np.concatenate(([0.0], both.weight_up_to(edges)))) / both.total
    observed = _gaps(
        batch.weight_up_to(edges)[None] / batch.total,
        baseline.weight_up_to(edges)[None] / baseline.total,
    )
    rng = _random(key)
    drawn = _gaps(
        np.cumsum(rng.multinomial(round(batch.total), p, size=DRAWS), axis=1) / round(batch.total),
        np.cumsum(rng.multinomial(round(baseline.total), p, size=DRAWS), axis=1) / round(baseline.total),
    )
    ks, tail = (drawn_p_value(d, o[0]) for d, o in zip(drawn, observed, strict=True))
    return ks, tail


def monte_carlo_categories(batch: Categories, baseline: Categories, key: Key) -> float:
    """The p-value of the G statistic of two samples of one distribution, of these sizes, by drawing them."""
    names = sorted(set(batch.counts) | set(baseline.counts))
    now = np.array([batch.counts.get(n, 0.0) for n in names] + [batch.others])
    before = np.array([baseline.counts.get(n, 0.0) for n in names] + [baseline.others])
    p = (now + before) / (now.sum() + before.sum())
    rng = _random(key)
    a = rng.multinomial(round(now.sum()), p, size=DRAWS)
    b = rng.multinomial(round(before.sum()), p, size=DRAWS)
    return drawn_p_value(_g(a, b), _g(now[None], before[None])[0])


def drawn_p_value(drawn: Floats, observed: float) -> float:
    """The p-value of ``observed`` among ``drawn``. Beyond all of them the tail is taken for exponential, fitted to the farthest
    forty (after Knijnenburg et al., 2009): so that many tests corrected together can still find what is far off. These
    statistics fall off faster than that, which makes it cautious.
    """
    beyond = np.count_nonzero(drawn >= observed - 1e-9)
    p = (1 + beyond) / (len(drawn) + 1)
    farthest = np.sort(drawn)[-FARTHEST_DRAWS:]
    mean = float((farthest - farthest[0]).mean())
    if beyond or mean <= 0.0:
        return float(p)
    tail = len(farthest) / len(drawn) * np.exp(-(observed - farthest[0]) / mean)
    return float(min(p, max(tail, LEAST_P)))


def holm(p_values: Sequence[float]) -> list[float]:
    """The same p-values, corrected for their number (Holm, 1979), in the same order."""
    order = np.argsort(p_values, kind="stable")
    found, least = [1.0] * len(p_values), 0.0
    for place, i in enumerate(order.tolist()):
        least = max(least, min(1.0, (len(p_values) - place) * p_values[i]))
        found[i] = least
    return found


def relations_p_value(batch: Floats, baseline: Floats, names: Sequence[str]) -> tuple[str, float] | None:
    """The strangest of the statistics of ``batch`` (n, p) beside ``baseline`` (m, p), see `relations.Apart`, and the
    p-value of its being the strangest (Westfall and Young, 1993): by drawing batches of n rows from the baseline (at
    most 10,000 of its rows) with replacement. No distribution is assumed. None for too few rows.
    """
    now, before = (relations_of(dict(zip(names, rows.T, strict=True))) for rows in (batch, baseline))
    observed = apart(now, before)
    if observed is None:
        return None
    rng = np.random.default_rng(0)
    rows = baseline[np.isfinite(baseline).all(axis=1)]
    pool = rows if len(rows) <= POOL else rows[rng.choice(len(rows), POOL, replace=False)]
    mean, upper = pool.mean(axis=0), np.triu_indices(len(names))
    centred = pool - mean
    squares = (centred[:, :, None] * centred[:, None, :])[:, upper[0], upper[1]]
    reference = relations_of(dict(zip(names, pool.T, strict=True)))
    drawn = []
    for _ in range(RELATION_DRAWS):
        weights = rng.multinomial(now.rows, np.full(len(pool), 1.0 / len(pool))).astype(float)
        step = weights @ centred / now.rows
        moments = weights @ squares - now.rows * np.outer(step, step)[upper]
        found = apart(replace(now, mean=tuple(mean + step), comoments=tuple(moments)), reference)
        if found is not None:
            drawn.append([found.statistics.get(name, 0.0) for name in observed.statistics])
    scores = standardized(np.array(drawn), np.array(list(observed.statistics.values())))
    strangest = list(observed.statistics)[int(scores[-1].argmax())]
    return strangest, drawn_p_value(largest(scores[:-1]), float(scores[-1].max()))


def missing_surprise(missing: int, rows: int, past: ArrayLike) -> float:
    """How unlikely so many rows without a value are, or so few: -log10 of a two-sided p-value, 0 to 12.

    ``past``: (windows, 2), of each window rows without a value and rows. The share of a window varies by more than chance.
    Its law is that of a beta-binomial fitted by moments (Kleinman, 1973), evaluated as the beta distribution of the same
    mean and variance, which needs no sum over rows. 0 without windows.
    """
    given = np.array(past, dtype=float).reshape(-1, 2)
    given = given[given[:, 1] > 0]
    if rows <= 0 or not len(given):
        return 0.0
    counts, sizes = given[:, 0], given[:, 1]
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
    low = betainc(a, b, min(1.0, (missing + 0.5) / rows))
    high = betainc(b, a, 1.0 - max(0.0, (missing - 0.5) / rows))
    return round(float(-np.log10(max(LEAST_P, min(1.0, 2.0 * min(low, high))))), 9)


def surely(missing: int, rows: int, share: float) -> float:
    """The share without a value that is nearest to ``share`` and still likely to give so many: the end of the one-sided
    95 % interval (Clopper and Pearson, 1934). One missing row of twenty is next to nothing, 5 % of a million is 5 %.
    """
    low = float(betaincinv(missing, rows - missing + 1, 0.05)) if missing else 0.0
    high = float(betaincinv(missing + 1, rows - missing, 0.95)) if missing < rows else 1.0
    return min(max(share, low), high)


def volume_surprise(rows: int, past: Sequence[int]) -> float:
    """|log10| of the rows beside the median window's; 0 without windows, or for none."""
    return round(abs(float(np.log10(rows / np.median(past)))), 9) if rows and len(past) else 0.0


def _gaps(batch: np.ndarray, baseline: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    gap = np.abs(batch - baseline)
    weight = np.sqrt(np.maximum(baseline * (1.0 - baseline), TAIL_FLOOR))
    return gap.max(axis=1), (gap / weight).max(axis=1)


def _g(now: np.ndarray, before: np.ndarray) -> np.ndarray:
    """(draws, categories) counts of both samples → the G statistic of their being alike."""
    both = now + before
    n, m = now.sum(axis=1, keepdims=True), before.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.where(now > 0, now * np.log(now * (n + m) / (both * n)), 0.0)
        two = np.where(before > 0, before * np.log(before * (n + m) / (both * m)), 0.0)
    return 2.0 * (one + two).sum(axis=1)


def _random(key: Key) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))
