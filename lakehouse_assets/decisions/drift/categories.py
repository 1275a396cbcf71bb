"""How far the categories of one batch are from a baseline's: shares, new and vanished ones.

Belongs here: counts by category, merged, and their distances. Does not: what is too far (judge), or numbers (distances).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakehouse_assets.decisions.drift.distances import tail_weight
from lakehouse_assets.decisions.drift.profiles import MOST_CATEGORIES, Profile
from lakehouse_assets.decisions.drift.pseudonyms import is_pseudonym, spell_alike

# Half a row for a new category: the usual continuity correction, so that it is far off, not infinitely.
UNSEEN = 0.5
NAMED = 10  # new, vanished and changed categories that are named, each
# A category has a cell of its own in the folded distances from so many rows of the baseline a window on (Cochran's rule).
OWN_CELL = 5.0
# From so many categories on the folded distances are measured as well, so that they have a history when they are needed.
MANY = MOST_CATEGORIES // 2
CALLED_NEW = 10  # rows of a category that the baseline would keep by name, had it been as frequent before
# The largest share that any category without a name can have: of more values than it counts, the sketch names larger ones.
MOST_UNNAMED = 1 / 750
# A category whose rows exceed what is expected by so many standard deviations of chance is clearly more frequent.
SURGE = 5.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Categories:
    """Rows by category, in ``windows`` windows; ``others``: rows of categories that are not kept one by one. ``masked``: some
    names are pseudonyms.
    """

    counts: Mapping[str, float]
    others: float = 0.0
    windows: int = 1
    masked: bool = False

    @property
    def total(self) -> float:
        """Rows in all."""
        return sum(self.counts.values()) + self.others

    @property
    def most_unnamed(self) -> float:
        """The most rows of any category that is not kept by name: those of the rarest that is. Where none is, the sketch would
        have named one with a thousandth of the rows.
        """
        return min(self.counts.values(), default=self.others / MOST_CATEGORIES) if self.others else 0.0

    def plus(self, other: "Categories") -> "Categories":
        """Return the sum of both. Beyond `MOST_CATEGORIES` the rarest are no longer counted one by one."""
        one, other = spelled_alike(self, other)
        merged = dict(one.counts)
        for name, rows in other.counts.items():
            merged[name] = merged.get(name, 0.0) + rows
        others = one.others + other.others
        if len(merged) > MOST_CATEGORIES:
            ranked = sorted(merged.items(), key=lambda item: (-item[1], item[0]))
            others += sum(rows for _, rows in ranked[MOST_CATEGORIES:])
            merged = dict(ranked[:MOST_CATEGORIES])
        return Categories(merged, others, one.windows + other.windows, one.masked or other.masked)

    def renamed(self, names: Mapping[str, str]) -> "Categories":
        """The same rows under other names."""
        counts: dict[str, float] = {}
        for name, rows in self.counts.items():
            renamed = names.get(name, name)
            counts[renamed] = counts.get(renamed, 0.0) + rows
        return replace(self, counts=counts)


def spelled_alike(one: Categories, other: Categories) -> tuple[Categories, Categories]:
    """Return both with one spelling of each name: if one has its pseudonym, so has the other."""
    if not (one.masked or other.masked) or not (names := spell_alike(one.counts, other.counts)):
        return one, other
    return one.renamed(names), other.renamed(names)


class CategoryDistance(NamedTuple):
    """``g``, ``tail``: the two distances; ``statistics``: all that is compared with history, by name. ``changed``: (category,
    share before, share now), the most changed first; ``new`` and ``vanished``: at most ten each, the most frequent first.
    """

    g: float
    tail: float
    statistics: Mapping[str, float]
    changed: tuple[tuple[str, float, float], ...]
    new: tuple[str, ...]
    vanished: tuple[str, ...]


class Aligned(NamedTuple):
    """Rows of batch and baseline by name, in the order of ``names``, then of the others; ``frequent``: (names,)."""

    names: list[str]
    now: Floats
    before: Floats
    frequent: NDArray[np.bool_]
    folded: bool

    @property
    def cells(self) -> tuple[Floats, Floats]:
        """Rows of both by frequent name, and of all else together."""
        own = np.append(self.frequent, False)
        return tuple(np.append(rows[own], rows[~own].sum()) for rows in (self.now, self.before))  # type: ignore[return-value]


def read_categories(profile: Profile) -> Categories | None:
    """The profile's counts; None where it has no value."""
    if not profile.counts and not profile.others:
        return None
    counts = {str(value): float(rows) for value, rows in profile.counts or ()}
    return Categories(counts, float(profile.others), masked=any(map(is_pseudonym, counts)))


def align(batch: Categories, baseline: Categories, *, batch_is_inside: bool = False) -> Aligned:
    """Return the counts of both, by the same names. ``batch_is_inside``: the baseline holds the batch, which is subtracted."""
    batch, baseline = spelled_alike(batch, baseline)
    names = sorted(set(batch.counts) | set(baseline.counts))
    now = np.array([batch.counts.get(name, 0.0) for name in names] + [batch.others])
    before = np.array([baseline.counts.get(name, 0.0) for name in names] + [baseline.others])
    # Rows that a batch does not name are unseen where the baseline names all of its own.
    folded = baseline.others > 0
    windows = baseline.windows
    if batch_is_inside:
        rest = before.sum() - now.sum()
        before, windows = np.maximum(before - now, 0.0), windows - batch.windows
        # A name of the batch that the baseline does not keep is one of the others there.
        before[-1] = max(rest - before[:-1].sum(), 0.0) if folded else 0.0
    return Aligned(names, now, before, before[:-1] >= OWN_CELL * max(windows, 1), folded)


def fold_for_chance(batch: Categories, baseline: Categories) -> tuple[Floats, Floats]:
    """Return the rows of batch and baseline in the cells that a test by chance compares, (cells,) each.

    While both keep every category by name, each has its own cell. Otherwise a side with unnamed rows may have any other
    category as often as the rarest that it names, up to `MOST_UNNAMED`. An own cell needs twice that share of both samples
    together. Choosing by one sample alone would favour the categories that are frequent there by chance. A category of which
    the batch has clearly more than the baseline can have had keeps its cell, too. All others share one.
    """
    aligned = align(batch, baseline)
    if not batch.others and not baseline.others:
        return aligned.now, aligned.before
    now, before = aligned.now[:-1], aligned.before[:-1]
    rows, baseline_rows = aligned.now.sum(), aligned.before.sum()
    unnamed = min(MOST_UNNAMED, max(side.most_unnamed / side.total for side in (batch, baseline)))
    most_expected = (before / baseline_rows + unnamed) * rows
    is_surge = (now >= CALLED_NEW) & (now > most_expected + SURGE * np.sqrt(most_expected))
    return aligned._replace(frequent=(now + before >= 2 * unnamed * (rows + baseline_rows)) | is_surge).cells


def compare_categories(batch: Categories, baseline: Categories, *, batch_is_inside: bool = False) -> CategoryDistance:
    """How far a batch's shares p are from the baseline's q. ``batch_is_inside``: the baseline holds the batch, which is
    subtracted. Raises ValueError when there is no rest.

    While both keep every category by name, ``g`` and ``tail`` compare each of them: √(G/2n), G the likelihood-ratio statistic
    (Sokal and Rohlf, 1981) of the batch's n rows against the baseline's shares, and the largest |p - q| / √max(q(1 - q), 0.01).

    Otherwise both are folded by the baseline's list first (``folded``, ``folded_tail``): frequent categories of the baseline
    have a cell each, all others share one, or a rare category would be "never seen" in window after window. The tail still
    finds a single rare category that has become frequent.
    """
    aligned = align(batch, baseline, batch_is_inside=batch_is_inside)
    names, now, before = aligned.names, aligned.now, aligned.before
    if before.sum() <= 0:
        raise ValueError("there is no baseline besides the batch itself")
    p, q = now / now.sum(), before / before.sum()
    gaps = np.abs(p - q) / tail_weight(q)
    statistics: dict[str, float] = {}
    g, tail = 0.0, 0.0
    if aligned.folded or len(baseline.counts) > MANY:
        g, cell_gaps = _distances(*aligned.cells)
        alone = float(gaps[:-1].max(initial=0.0))
        tail = max(float(cell_gaps.max()), alone)
        # Chance alone puts a batch farther from a young baseline, by this factor.
        young = float(np.sqrt(1.0 + now.sum() / before.sum()))
        # The shared cell is not ranked: which categories are in it depends on the baseline's age.
        statistics = {"folded": round(g / young, 9), "folded_tail": round(alone / young, 9)}
    if not aligned.folded:
        g, gaps = _distances(now, before)
        tail = float(gaps.max())
        statistics |= {"g": round(g, 9), "tail": round(tail, 9)}
    order = np.argsort(-gaps[:-1], kind="stable")
    changed = tuple((names[i], float(q[i]), float(p[i])) for i in order[:NAMED].tolist() if gaps[i] > 0)
    least = CALLED_NEW if aligned.folded else 0.0
    new = _most_frequent(names, now, (before == 0) & (now > max(least, 2 * batch.most_unnamed)))
    missing_names = _most_frequent(names, before, (now == 0) & (before > 0) & (not batch.others))
    return CategoryDistance(round(g, 9), round(tail, 9), statistics, changed, new, missing_names)


def _distances(now: Floats, before: Floats) -> tuple[float, Floats]:
    """√(G/2n), and each cell's weighted distance."""
    p = now / now.sum()
    smooth = before + np.where((before == 0) & (now > 0), UNSEEN, 0.0)
    q = smooth / smooth.sum()
    present = now > 0
    g = float((p[present] * np.log(p[present] / q[present])).sum())
    return float(np.sqrt(max(g, 0.0))), np.abs(p - q) / tail_weight(q)


def _most_frequent(names: list[str], rows: Floats, among: NDArray[np.bool_]) -> tuple[str, ...]:
    counted = [(names[i], rows[i]) for i in np.flatnonzero(among[:-1]).tolist()]
    return tuple(name for name, _ in sorted(counted, key=lambda item: (-item[1], item[0]))[:NAMED])
