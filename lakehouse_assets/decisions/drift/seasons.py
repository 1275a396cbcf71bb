"""Seasons, and the pull of the window before, found in a statistic's own past: what it usually is in such a window.

Belongs here: the seasons, which of them makes the past predictable, and what then remains. Does not: ranking it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lakehouse_assets.contracts.drift import SEASON_PARTS, Season
from lakehouse_assets.decisions.drift.distances import Floats
from lakehouse_assets.decisions.drift.season_candidates import Candidate, Candidates
from lakehouse_assets.decisions.drift.season_parts import (
    LEAST_RECURRENCES,
    Calendar,
    Grouping,
    Indices,
    KnownValues,
)
from lakehouse_assets.decisions.drift.statistic_history import FARTHEST_OFF

# How much likelier (natural logarithm) a season must make windows, each predicted by the others.
LEAST_GAIN = 6.0
LEAST_WINDOWS, MOST_PULL = 10, 0.99


class SeasonChoice(NamedTuple):
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
    choices: list[SeasonChoice]


def subtract_seasons(
    past: Floats, now: Floats, calendar: Calendar | None, wanted: Sequence[Season], *, pull: bool = True
) -> Remainders:
    """Subtract from each statistic what it usually is in such a window.

    ``past``: (windows, m), NaN where unknown; ``now``: (m,); ``calendar``: of the windows and the judged one, which several
    statistics can share; None: there are no seasons. ``wanted``: (m,), a season; `none`; or `auto`, the one under which the
    past is likeliest, each window predicted by those of other recurrences (Laplace's likelihood, so that few outliers do not
    decide), if it is by `LEAST_GAIN`. ``pull``: whether a window may also be predicted by the one before (an autoregression of
    order 1). The judged window takes no part in the choice.
    """
    unchanged = Remainders(past, now, np.full(now.size, np.nan), [SeasonChoice()] * now.size)
    columns = [c for c, each in enumerate(wanted) if each != "none"]
    if not columns or calendar is None or len(past) < LEAST_WINDOWS:
        return unchanged
    order = calendar.order
    result = Remainders(past.copy(), now.copy(), unchanged.expected, list(unchanged.choices))
    values = np.clip(past[np.ix_(order, np.array(columns))], -FARTHEST_OFF, FARTHEST_OFF)
    last = np.clip(now[columns], -FARTHEST_OFF, FARTHEST_OFF)
    chosen = _choose_candidate(values, last, calendar, [wanted[column] for column in columns], pull=pull)
    choices = [SeasonChoice(season, round(pull, 9)) for season, pull in zip(chosen.seasons, chosen.pull.tolist(), strict=True)]
    is_made = [choice.is_made for choice in choices]
    changed = np.array(columns)[is_made]
    result.past[np.ix_(order, changed)] = chosen.past[:, is_made]
    result.now[changed], result.expected[changed] = chosen.now[is_made], chosen.expected[is_made]
    for column, choice in zip(columns, choices, strict=True):
        result.choices[column] = choice
    return result


def _choose_candidate(values: Floats, now: Floats, calendar: Calendar, wanted: Sequence[Season], *, pull: bool) -> Candidate:
    """The likeliest of all seasons and pulls. ``values``: (windows, m) in the order of time."""
    past, requests = KnownValues.of(values), set(wanted)
    nothing = _subtract(past, now, calendar.group("none"), "none")
    candidates = Candidates(nothing, wanted)
    for season in SEASON_PARTS:
        if requests & {"auto", season} and (groupings := calendar.group(season)):
            candidates.add(_subtract(past, now, groupings, season))
    if pull:
        # Of the seasons the likeliest alone is tried with a pull.
        for each in (nothing, candidates.choose(0.0)):
            candidates.add(_subtract_pull(each, calendar.steps))
    return candidates.choose(LEAST_GAIN)


def _subtract(start: KnownValues, now: Floats, groupings: Sequence[Grouping], season: Season) -> Candidate:
    """Subtract from each window the mean of its season's other recurrences."""
    past, deviation = start.values, now
    for grouping in groupings:
        mean, recurrences = grouping.mean_of_others(start if past is start.values else KnownValues.of(past))
        past, deviation = past - mean[:-1], deviation - mean[-1]
        if season != "none":
            deviation = np.where(recurrences >= LEAST_RECURRENCES, deviation, np.nan)
    seasons: list[Season] = [season] * now.size
    return Candidate(seasons, past, deviation, now - deviation, np.zeros(now.size))


def _subtract_pull(candidate: Candidate, steps: Indices) -> Candidate:
    """Subtract what a window has from the last one before it: of a deviation k windows ago, ``pull`` to the power of k.

    The rest is divided by the root of 1 + pull² + … + pull²ᵏ⁻², so that windows after a gap vary no more than others.
    """
    rows = np.vstack([candidate.past, candidate.now])
    is_known = np.isfinite(rows)
    # Statistics that the same windows have share their predecessors.
    if (is_known == is_known[:, :1]).all():
        is_known = is_known[:, :1]
    at = np.maximum.accumulate(np.where(is_known, np.arange(len(rows))[:, None], -1), axis=0)
    last = np.vstack([np.full((1, at.shape[1]), -1), at[:-1]])
    # A window that is judged late: the last one of those before it.
    late = int(np.searchsorted(steps[:-1], steps[-1]))
    last[-1] = at[late - 1] if late else -1
    before = np.empty_like(rows)
    before[...] = np.where(last >= 0, np.take_along_axis(rows, np.maximum(last, 0), axis=0), 0.0)
    gap = np.where(last >= 0, np.maximum(steps[:, None] - steps[np.maximum(last, 0)], 1), 10_000)
    is_next = is_known[:-1] & (gap[:-1] == 1)
    both = np.where(is_next, rows[:-1] * before[:-1], 0.0).sum(axis=0)
    square = np.where(is_next, before[:-1] ** 2, 0.0).sum(axis=0)
    pull = np.divide(both, square, out=np.zeros_like(both), where=(square > 0) & (is_next.sum(axis=0) >= LEAST_WINDOWS))
    pull = np.clip(pull, 0.0, MOST_PULL)
    carry = _powers(pull, gap, before) * before
    rest = (rows - carry) / np.sqrt((1.0 - _powers(pull, 2 * gap, before)) / (1.0 - pull**2))
    return Candidate(candidate.seasons, rest[:-1], rest[-1], candidate.expected + carry[-1], pull)


def _powers(base: Floats, exponents: Indices, like: Floats) -> Floats:
    """Return (m,) to the power of (windows, m) or (windows, 1), as an array ``like`` another. Most exponents are the same, and
    powers are slow.
    """
    powers = np.empty_like(like)
    if exponents.shape[1] == 1:
        distinct, indices = np.unique(exponents[:, 0], return_inverse=True)
        powers[...] = np.power(base, distinct[:, None])[indices]
        return powers
    usual = exponents.min()
    powers[...] = np.power(base, np.full(base.shape, usual))
    return np.power(base, exponents, out=powers, where=exponents != usual)
