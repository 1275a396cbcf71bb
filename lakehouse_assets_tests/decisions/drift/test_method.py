"""Windows compared on equal terms: beside a history that does not know all features, and of other sizes; and by which version.

Belongs here: what versions of the method differ in. Does not: what all of them do (test_judge).
"""

import numpy as np
import pytest

from benchmarks.drift_new_features import simulate
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.method import FIRST_METHOD, METHOD
from lakehouse_assets.decisions.drift.statistic_history import past_maxima
from lakehouse_assets.decisions.drift.verdict import DriftVerdict, read_method
from lakehouse_assets_tests.decisions.drift.test_profiles import profile

NAN = np.nan
OFTEN = 0.04  # of clean windows of which 0.01 may be quarantined


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        # All know everything; one knows four of five, which is enough; one knows three.
        ([[1, 2], [4, 3]], [2, 4]),
        ([[1, 1, 1, 1, 1], [2, 2, 2, 2, NAN]], [1, 2]),
        ([[1, 1, 1, 1, 1], [9, 9, 9, NAN, NAN], [3, 3, 3, 3, 3]], [1, -np.inf, 3]),
        # Scores that were never known together: as many windows as know the least known one, and those that know as much.
        ([[1, NAN], [NAN, 2], [3, NAN]], [1, 2, 3]),
        ([[1, 1, NAN], [2, NAN, NAN], [NAN, NAN, 3]], [1, -np.inf, -np.inf]),
        ([[NAN, NAN], [2, 1]], [-np.inf, 2]),
        ([[NAN], [NAN]], [-np.inf, -np.inf]),
        (np.empty((0, 3)), []),
        (np.empty((2, 0)), [-np.inf, -np.inf]),
    ],
)
def test_windows_that_know_most_of_the_scores_are_the_reference(scores, expected):
    assert past_maxima(np.array(scores, dtype=float)).tolist() == expected


def test_the_first_version_ranks_among_all_windows():
    scores = np.array([[1, 1, 1, 1, 1], [9, 9, 9, NAN, NAN]])
    assert past_maxima(scores, FIRST_METHOD).tolist() == [1, 9]


@pytest.mark.parametrize(
    ("scene", "level"),
    [("8 new features beside 2", "quarantined"), ("2,000 rows, then 200", "over windows")],
)
def test_clean_windows_are_rarely_off_where_the_history_is_of_another_kind(scene, level):
    outcomes = [outcome for seed in range(4) for outcome in simulate(scene, 40, seed)]
    rates = {method: np.mean([outcome[method][level] for outcome in outcomes]) for method in (FIRST_METHOD, METHOD)}
    assert rates[METHOD] <= OFTEN < rates[FIRST_METHOD]


def test_a_fault_of_an_old_feature_is_found_beside_new_ones():
    names = [f"n{i}" for i in range(10)]
    spec, rng = DriftSpec(features=names, relations=False, season="none"), np.random.default_rng(4)
    state = BaselineState(spec)
    for index in range(130):
        features = names if index >= 100 else names[:2]
        profiles = [profile(rng.normal(size=200), feature=name) for name in features]
        judged = spec if index >= 100 else DriftSpec(features=features, relations=False, season="none")
        verdict = judge_drift(profiles, state.baseline, state.history, judged, window=index)
        state.learn(index, profiles, verdict.statistics)
    for faulty in ("n1", "n7"):
        profiles = [profile(rng.normal(1.0 * (name == faulty), 1, 200), feature=name) for name in names]
        verdict = judge_drift(profiles, state.baseline, state.history, spec, window=130)
        assert (verdict.action, verdict.worst.feature) == ("hold", faulty)


def test_a_window_is_named_by_its_volume_only_where_that_would_quarantine_it():
    spec, rng = DriftSpec(features=["f"]), np.random.default_rng(2)
    state = BaselineState(spec)
    for index in range(40):
        profiles = [profile(rng.normal(size=round(1000 * np.exp(0.2 * rng.normal()))), k=64)]
        state.learn(index, profiles, judge_drift(profiles, state.baseline, state.history, spec, window=index).statistics)
    # A volume that alone would be a warning, and a fault of the values that is far beyond all windows.
    values = rng.normal(size=1900)
    values[:190] *= 1000
    by_version = {
        method: judge_drift([profile(values, k=64)], state.baseline, state.history, spec, window=40, method=method)
        for method in (FIRST_METHOD, METHOD)
    }
    assert [verdict.action for verdict in by_version.values()] == ["hold", "hold"]
    assert [verdict.worst.feature for verdict in by_version.values()] == ["volume", "f"]
    few = judge_drift([profile(rng.normal(size=60), k=64)], state.baseline, state.history, spec, window=40)
    assert (few.action, few.worst.feature) == ("hold", "volume")


def test_a_verdict_records_its_version():
    assert DriftVerdict("cold_start", "pass", "").to_dict()["method"] == METHOD
    recorded = judge_drift([], BaselineState(DriftSpec(features=["f"])).baseline, None, DriftSpec(features=["f"]))
    assert recorded.method == METHOD


@pytest.mark.parametrize(
    ("verdict", "method"), [(None, METHOD), ({"action": "pass"}, FIRST_METHOD), ({"action": "pass", "method": 2}, 2)]
)
def test_the_version_of_a_recorded_verdict(verdict, method):
    assert read_method(verdict) == method
