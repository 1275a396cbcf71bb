"""Texts of many categories with a known truth, for the statistical gate: Zipf's shares, clean windows and faults.

Belongs here: drawing windows and judging them by the gate itself. Does not: what is counted of them (drift).
"""

from dataclasses import dataclass

import numpy as np
from datasketches import (  # pyright: ignore[reportAttributeAccessIssue] (a compiled module)
    frequent_items_error_type,
    frequent_strings_sketch,
)
from numpy.typing import NDArray

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.profiles import MOST_CATEGORIES, Profile

Floats = NDArray[np.float64]
# Spark's `approx_top_k` of so many items is a sketch of 2^11 places (`measures/profile.py`, COUNTED).
COUNTED, SKETCH = 1536, 11


@dataclass(frozen=True)
class Scene:
    """``kinds`` categories of which the r-th has a share like r^-``exponent``, in windows of ``rows`` rows."""

    kinds: int
    exponent: float
    rows: int

    def __str__(self) -> str:
        return f"{self.kinds:,} categories, Zipf {self.exponent:g}, {self.rows:,} rows"

    @property
    def shares(self) -> Floats:
        """(kinds,) in random order of names, the same for the same scene."""
        shares = np.arange(1, self.kinds + 1) ** -self.exponent
        order = np.random.default_rng([29, self.kinds]).permutation(self.kinds)
        return (shares / shares.sum())[order]


SCENES = tuple(
    Scene(kinds, exponent, rows)
    for kinds, exponent in ((1_001, 1.0), (2_000, 1.0), (100_000, 1.0), (2_000, 0.7), (100_000, 1.5))
    for rows in (500, 5_000, 50_000)
)


def profile_of(counts: NDArray[np.int64], rng: np.random.Generator, new: int = 0) -> Profile:
    """As the gate measures a text: of at most 1,536 categories the most frequent 1,000 by name, ties by the alphabet; of more
    what the same sketch as Spark's is sure of. ``new``: rows of a name nobody knew.
    """
    there = np.flatnonzero(counts)
    if there.size + (new > 0) <= COUNTED:
        ranked = there[np.lexsort((there, -counts[there]))][:MOST_CATEGORIES]
        listed = [(f"{name:06}", int(counts[name])) for name in ranked.tolist()] + ([("~new", new)] if new else [])
    else:
        rows = np.append(np.repeat(there, counts[there]), np.full(new, -1))
        rng.shuffle(rows)
        sketch = frequent_strings_sketch(SKETCH)
        for name in rows.tolist():
            sketch.update(f"{name:06}" if name >= 0 else "~new")
        results = sketch.get_frequent_items(frequent_items_error_type.NO_FALSE_POSITIVES)
        listed = [(name, count) for name, count, *_ in results]
    listed = sorted(listed, key=lambda pair: (-pair[1], pair[0]))[:MOST_CATEGORIES]
    rows = int(counts.sum()) + new
    others = max(0, rows - sum(count for _, count in listed))
    return Profile("k", None, rows, kind="category", counts=tuple(sorted(listed)), others=others)


def clean(rng: np.random.Generator, scene: Scene, shares: Floats) -> Profile:
    """A window as all others."""
    return profile_of(np.bincount(rng.choice(scene.kinds, scene.rows, p=shares), minlength=scene.kinds), rng)


def _grown(rng: np.random.Generator, scene: Scene, shares: Floats) -> Profile:
    """The category nearest to 0.1 % of the rows has 5 %."""
    chosen, changed = int(np.abs(shares - 0.001).argmin()), shares.copy()
    changed[chosen] = 0.05 * (1 - shares[chosen]) / 0.95
    return clean(rng, scene, changed / changed.sum())


def _new(rng: np.random.Generator, scene: Scene, shares: Floats) -> Profile:
    """A name that nobody knew has 3 % of the rows."""
    new = int(rng.binomial(scene.rows, 0.03))
    return profile_of(rng.multinomial(scene.rows - new, shares), rng, new)


def _fallen(rng: np.random.Generator, scene: Scene, shares: Floats) -> Profile:
    """The most frequent has a fifth less."""
    changed = shares.copy()
    changed[shares.argmax()] *= 0.8
    return clean(rng, scene, changed / changed.sum())


FAULTS = {"0.1 % becomes 5 %": _grown, "new, 3 % of rows": _new, "the most frequent, a fifth less": _fallen}


def learnt(rng: np.random.Generator, scene: Scene, windows: int, spec: DriftSpec) -> BaselineState:
    """A baseline of clean windows, each judged as it comes, all of them accepted."""
    state, shares = BaselineState(spec), scene.shares
    for i in range(windows):
        measured = [clean(rng, scene, shares)]
        # The first are measured again against each other, whatever was found when they came.
        results = judge_drift(measured, state.baseline, state.history, spec).statistics if i >= spec.warn_from else {}
        state.learn(i, measured, results)
    return state


def judged(state: BaselineState, measured: Profile, spec: DriftSpec) -> float:
    """The p-value by which the gate holds."""
    results = judge_drift([measured], state.baseline, state.history, spec).p_value
    return 1.0 if results is None else results


def simulate(scene: Scene, windows: int, clean_windows: int, seed: int) -> tuple[list[float], dict[str, list[float]]]:
    """p-values of clean windows without the effect floor, and of twenty windows with each fault with it, and one baseline."""
    rng = np.random.default_rng([31, scene.kinds, round(100 * scene.exponent), scene.rows, windows, seed])
    floorless, spec = DriftSpec(features=("k",), min_effect=0.0), DriftSpec(features=("k",))
    state, shares = learnt(rng, scene, windows, floorless), scene.shares
    results = [judged(state, clean(rng, scene, shares), floorless) for _ in range(clean_windows)]
    faults = {name: [judged(state, fault(rng, scene, shares), spec) for _ in range(20)] for name, fault in FAULTS.items()}
    return results, faults
