"""How far the categories of one batch are from a baseline's: shares, new and vanished ones.

Belongs here: counts by category, merged, and two distances. Does not: what is too far (drift), or numbers (distances).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lakehouse_assets.decisions.distances import TAIL_FLOOR
from lakehouse_assets.decisions.profiles import MOST_CATEGORIES, Profile

# Half a row for what was never seen: the usual continuity correction, so that a new category is far off, not infinitely.
UNSEEN = 0.5
NAMED = 10  # new, vanished and changed categories that are named, each


@dataclass(frozen=True, eq=False)
class Categories:
    """Rows by category; ``others``: rows of categories that are not kept one by one."""

    counts: Mapping[str, float]
    others: float = 0.0

    @property
    def total(self) -> float:
        """Rows in all."""
        return sum(self.counts.values()) + self.others

    def plus(self, other: "Categories") -> "Categories":
        """Both together; beyond `MOST_CATEGORIES` the rarest are no longer kept one by one."""
        merged = dict(self.counts)
        for name, rows in other.counts.items():
            merged[name] = merged.get(name, 0.0) + rows
        others = self.others + other.others
        if len(merged) > MOST_CATEGORIES:
            ranked = sorted(merged.items(), key=lambda item: (-item[1], item[0]))
            others += sum(rows for _, rows in ranked[MOST_CATEGORIES:])
            merged = dict(ranked[:MOST_CATEGORIES])
        return Categories(merged, others)


class CategoriesApart(NamedTuple):
    """``g``: √(G/2n), G the likelihood-ratio statistic (Sokal and Rohlf) of the batch's n rows against the baseline's shares;
    ``tail``: the largest |p - q| / √max(q(1 - q), 0.01) over categories. ``changed``: (category, share before, share
    now), the most changed first; ``new`` and ``vanished``: at most ten each, the most frequent first.
    """

    g: float
    tail: float
    changed: tuple[tuple[str, float, float], ...]
    new: tuple[str, ...]
    vanished: tuple[str, ...]


def categories_of(profile: Profile) -> Categories | None:
    """None where the profile has no value."""
    if not profile.counts:
        return None
    return Categories({str(value): float(rows) for value, rows in profile.counts}, float(profile.others))


def categories_apart(batch: Categories, baseline: Categories, *, batch_is_inside: bool = False) -> CategoriesApart:
    """How far a batch's shares are from the baseline's. ``batch_is_inside``: the baseline holds the batch, and the rest counts.

    A category that neither keeps by name is one of `others`, in both. Raises ValueError when there is no rest.
    """
    names = sorted(set(batch.counts) | set(baseline.counts))
    # What only one side keeps by name may hide among the other's `others`.
    now = np.array([batch.counts.get(name, 0.0) for name in names] + [batch.others])
    before = np.array([baseline.counts.get(name, 0.0) for name in names] + [baseline.others])
    if batch_is_inside:
        before = np.maximum(before - now, 0.0)
    if before.sum() <= 0:
        raise ValueError("there is no baseline besides the batch itself")
    p = now / now.sum()
    smooth = before + np.where((before == 0) & (now > 0), UNSEEN, 0.0)
    q = smooth / smooth.sum()
    seen = now > 0
    g = float((p[seen] * np.log(p[seen] / q[seen])).sum())
    gaps = np.abs(p - q) / np.sqrt(np.maximum(q * (1.0 - q), TAIL_FLOOR))
    order = np.argsort(-gaps, kind="stable")
    shown = [i for i in order[:NAMED].tolist() if i < len(names) and gaps[i] > 0]
    changed = tuple((names[i], float(q[i]) if before[i] else 0.0, float(p[i])) for i in shown)
    new = _most([(names[i], now[i]) for i in range(len(names)) if before[i] == 0 and now[i] > 0 and not baseline.others])
    gone = _most([(names[i], before[i]) for i in range(len(names)) if now[i] == 0 and before[i] > 0 and not batch.others])
    return CategoriesApart(round(np.sqrt(max(g, 0.0)), 9), round(float(gaps.max()), 9), changed, new, gone)


def _most(given: list[tuple[str, float]]) -> tuple[str, ...]:
    return tuple(name for name, _ in sorted(given, key=lambda item: (-item[1], item[0]))[:NAMED])
