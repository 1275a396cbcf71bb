"""The verdict on texts of many categories, by simulation: clean windows are held as rarely as is said, faults are found.

Belongs here: a reduced and seeded form of `python -m benchmarks.drift categories`. Does not: the distances (test_categories).
"""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.drift_categories import FAULTS, Scene, clean, judged, learnt
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.categories import read_categories
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.profiles import Profile

SPEC = DriftSpec(features=["k"])
RANKS = DriftSpec(features=["k"], min_effect=0.0)
SCENE = Scene(2_000, 1.0, 500)


@pytest.fixture(scope="module")
def state():
    return learnt(np.random.default_rng(5), SCENE, 120, RANKS)


def test_clean_windows_of_many_categories_are_rarely_off(state):
    assert read_categories(clean(np.random.default_rng(0), SCENE, SCENE.shares)) is not None
    assert state.baseline.shape(("k", None)).others > 0
    rng = np.random.default_rng(6)
    p_values = [judged(state, clean(rng, SCENE, SCENE.shares), RANKS) for _ in range(150)]
    # Before they were folded, about 14 % of such windows were beyond 0.05.
    assert sum(p <= 0.05 for p in p_values) <= 14
    assert sum(p <= 0.01 for p in p_values) <= 5
    assert np.mean(p_values) > 0.35


@pytest.mark.parametrize("fault", ["0.1 % becomes 5 %", "new, 3 % of rows"])
def test_a_fault_among_many_categories_is_detected(state, fault):
    rng = np.random.default_rng(7)
    p_values = [judged(state, FAULTS[fault](rng, SCENE, SCENE.shares), SPEC) for _ in range(20)]
    assert sum(p <= SPEC.hold_at for p in p_values) >= 18


@pytest.mark.parametrize("fault", ["0.1 % becomes 5 %", "silent"])
def test_a_fault_among_many_categories_raises_a_warning_in_the_first_windows(fault):
    """Of more categories than are kept by name."""
    scene = Scene(2_000, 1.0, 5_000)
    young = learnt(np.random.default_rng(5), scene, 2, SPEC)
    assert young.baseline.shape(("k", None)).others > 0
    silent = Profile("k", None, scene.rows, kind="category", nulls=scene.rows)
    window = silent if fault == "silent" else FAULTS[fault](np.random.default_rng(7), scene, scene.shares)
    verdict = judge_drift([window], young.baseline, young.history, SPEC)
    assert (verdict.status, verdict.action) == ("uncalibrated", "warn")
    assert verdict.message.startswith("uncalibrated: ")


@pytest.mark.parametrize(("kinds", "rows"), [(300, 500), (900, 500), (2_000, 500), (2_000, 20_000), (10_000, 20_000)])
def test_few_of_the_first_windows_of_many_categories_raise_warnings(kinds, rows):
    """And most windows with a fault do."""
    scene, warnings = Scene(kinds, 1.0, rows), Counter()
    for seed in range(3):
        rng = np.random.default_rng([kinds, rows, seed])
        for windows in (1, 2, 4):
            young = learnt(rng, scene, windows, SPEC)
            for name, draw in {"clean": clean, **FAULTS}.items():
                verdict = judge_drift([draw(rng, scene, scene.shares)], young.baseline, young.history, SPEC)
                warnings[name] += verdict.action == "warn"
    assert warnings["clean"] <= 2  # of 9
    assert warnings["0.1 % becomes 5 %"] >= 8
    assert warnings["new, 3 % of rows"] >= 6


def replaced(profile: Profile) -> Profile:
    """The same window, and all its categories are other ones."""
    return replace(profile, counts=tuple((f"~{name}", rows) for name, rows in profile.counts or ()))


@pytest.mark.parametrize(
    "scene",
    [Scene(3, 0.0, 12), Scene(10, 0.0, 40), Scene(300, 0.0, 500), Scene(300, 1.0, 500), Scene(2_000, 1.0, 500)],
    ids=str,
)
def test_other_categories_raise_a_warning_in_the_first_windows_however_rare_each_is(scene):
    rng, warnings = np.random.default_rng(9), Counter()
    for windows in (1, 2, 4, 8, 19):
        young = learnt(rng, scene, windows, SPEC)
        usual = clean(rng, scene, scene.shares)
        for name, window in (("usual", usual), ("replaced", replaced(usual))):
            warnings[name] += judge_drift([window], young.baseline, young.history, SPEC).action == "warn"
    assert warnings["replaced"] == 5
    assert warnings["usual"] <= 1


def test_a_window_without_a_frequent_category_is_compared_and_learnt():
    """The sketch names none of 3,000 nearly equal ones, or a few by chance. That is no missing value."""
    scene, rng = Scene(3_000, 0.2, 20_000), np.random.default_rng(10)
    unnamed = Profile("k", None, scene.rows, kind="category", counts=(), others=scene.rows)
    for windows in ([unnamed] * 40, [clean(rng, scene, scene.shares) for _ in range(40)]):
        state = BaselineState(SPEC)
        for index, window in enumerate(windows):
            verdict = judge_drift([window], state.baseline, state.history, SPEC)
            assert (verdict.action, "missing" in verdict.message) == ("pass", False)
            state.learn(index, [window], verdict.statistics)
        assert state.baseline.windows(("k", None)) == 40
        assert judge_drift([unnamed], state.baseline, state.history, SPEC).action == "pass"
        young = learnt(rng, scene, 2, SPEC)
        grown = FAULTS["0.1 % becomes 5 %"](rng, scene, scene.shares)
        assert judge_drift([grown], young.baseline, young.history, SPEC).action == "warn"
        few = replace(unnamed, counts=(("a", 12_000), ("b", 8_000)), others=0)
        assert judge_drift([few], state.baseline, state.history, SPEC).action == "hold"


def test_the_first_windows_are_as_far_off_as_the_later_ones(state):
    history = state.history.matrix([(("k", None), "folded"), (("k", None), "folded_tail")])
    early, late = history[:20].mean(axis=0), history[60:].mean(axis=0)
    assert early == pytest.approx(late, rel=0.2)


def test_a_stored_profile_gives_the_same_verdict(state):
    profile = FAULTS["new, 3 % of rows"](np.random.default_rng(8), SCENE, SCENE.shares)
    first = judge_drift([profile], state.baseline, state.history, SPEC).to_dict()
    stored = Profile.from_dict(json.loads(json.dumps(profile.to_dict())))
    again = BaselineState(RANKS)
    for window, measured, statistics, _ in state._entries:
        read = [Profile.from_dict(json.loads(json.dumps(m.to_dict()))) for m in measured]
        again.learn(window, read, statistics)
    assert judge_drift([stored], again.baseline, again.history, SPEC).to_dict() == first
