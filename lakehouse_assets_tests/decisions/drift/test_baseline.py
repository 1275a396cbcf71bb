"""The past that a batch is judged by: baseline, history, and the baseline state that keeps them in step.

Belongs here: learning, forgetting, the first windows. Does not: verdicts (test_drift).
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.baseline import Baseline
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.distances import Ecdf, compare_ecdfs
from lakehouse_assets.decisions.drift.profiles import CountsProfile, Profile, SketchError
from lakehouse_assets.decisions.drift.statistic_history import StatisticHistory
from lakehouse_assets_tests.decisions.drift.test_judge import SPEC, TWO, batch, judge, learn_windows
from lakehouse_assets_tests.decisions.drift.test_profiles import profile


def test_the_first_windows_are_measured_against_each_other():
    rng, state = np.random.default_rng(0), BaselineState(SPEC)
    samples = [rng.normal(size=30) for _ in range(25)]
    for i, sample in enumerate(samples):
        state.learn(i, [profile(sample)], judge(state, profile(sample)).statistics)
    matrix = state.history.matrix([(("f", None), name) for name in ("ks", "tail", "signed")])
    for i in range(20):
        others = np.concatenate([s for j, s in enumerate(samples[:20]) if j != i])
        assert matrix[i] == pytest.approx(compare_ecdfs(Ecdf.of(samples[i]), Ecdf.of(others)), abs=1e-8)
    for i in range(20, 25):
        assert matrix[i] == pytest.approx(compare_ecdfs(Ecdf.of(samples[i]), Ecdf.of(np.concatenate(samples[:i]))), abs=1e-8)


@settings(max_examples=20, deadline=None)
@given(st.sets(st.integers(0, 29), max_size=12))
def test_forgetting_equals_never_having_learnt(dropped):
    state, untouched = BaselineState(SPEC), BaselineState(SPEC)
    for i in range(30):
        profiles = [batch(np.random.default_rng(i))]
        statistics = {("f", None): {"ks": 0.1 + i / 100, "tail": 0.5}}
        state.learn(i, profiles, statistics)
        if i not in dropped:
            untouched.learn(i, profiles, statistics)
    for i in dropped:
        state.forget(i)
    now = [batch(np.random.default_rng(99))]
    assert judge(state, *now).to_dict() == judge(untouched, *now).to_dict()


def test_a_window_is_not_judged_by_itself():
    state = learn_windows(25)
    baseline, history = state.without_window(7)
    assert (len(baseline), len(history)) == (24, 24)
    assert state.without_window("unknown") == (state.baseline, state.history)


def test_an_unreadable_stored_profile_is_not_learnt_in_part():
    state = BaselineState(TWO)
    with pytest.raises(SketchError):
        state.learn(1, [profile([1.0]), Profile("g", "LGA", 1, sketch=b"garbage")], {})
    assert (len(state.baseline), state.baseline.keys, len(state.history)) == (0, (), 0)


def test_history_with_gaps():
    a, b = ("a", None), ("b", "x")
    history = StatisticHistory(remember=3)
    for window, statistics in ((1, {a: {"ks": 0.1, "tail": 0.2}}), (2, {}), (3, {b: {"ks": 0.3}})):
        history.add(window, statistics)
    matrix = history.matrix([(b, "ks"), (a, "tail"), (("c", None), "ks")])
    assert matrix.shape == (3, 3)
    assert (matrix[2, 0], matrix[0, 1]) == (0.3, 0.2)
    assert np.isnan(matrix).sum() == 9 - 2
    history.amend(2, b, {"ks": 0.5, "g": 0.1})
    history.amend("unknown", b, {"ks": 9.0})
    assert history.matrix([(b, "ks"), (b, "g")])[1].tolist() == [0.5, 0.1]


def test_only_the_newest_windows_are_remembered():
    history = StatisticHistory(remember=3)
    for i in range(5):
        history.add(i, {("a", None): {"ks": i / 10}})
    assert (list(history.windows), len(history)) == ([2, 3, 4], 3)
    assert history.matrix([(("a", None), "ks")])[:, 0].tolist() == [0.2, 0.3, 0.4]
    state = BaselineState(DriftSpec(features=["f"], remember=100))
    samples = np.random.default_rng(0).normal(size=(130, 5))
    for i, sample in enumerate(samples):
        state.learn(i, [profile(sample)], {})
    windows = state.baseline.windows(("f", None))
    assert 100 <= windows <= 105
    assert state.baseline.shape(("f", None)).total == 5 * windows
    assert np.array_equal(state.baseline.shape(("f", None)).values, np.unique(samples[-windows:]))


def test_windows_whose_categories_have_no_name_leave_the_baseline_as_others_do():
    """Old windows are read without their distributions, if they have left the baseline anyway."""
    windows = [Profile("k", None, 10, kind="category", counts=(), others=10 + i) for i in range(60)]
    complete, partial = Baseline(20), Baseline(20)
    for i, window in enumerate(windows):
        complete.add([window])
        partial.add([window if i >= 39 else CountsProfile("k", None, 10, kind="category", others=window.others)])
    shapes = [baseline.shape(("k", None)) for baseline in (complete, partial)]
    assert complete.windows(("k", None)) == partial.windows(("k", None))
    assert [(shape.others, shape.windows) for shape in shapes] == [(shapes[0].others, complete.windows(("k", None)))] * 2
