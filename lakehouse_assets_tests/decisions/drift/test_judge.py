"""The drift verdict: when it learns, warns and holds, what it says, and what it makes of odd batches.

Belongs here: judge_drift and the baseline state. Does not: the real weather's figures (test_weather).
"""

import json
import time
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from scipy import stats

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.baseline import Baseline
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.distances import FARTHEST
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.statistic_history import StatisticHistory, standardize
from lakehouse_assets.decisions.drift.verdict import read_statistics
from lakehouse_assets_tests.decisions.drift.test_profiles import profile

SPEC = DriftSpec(features=["f"])
TWO = DriftSpec(features=["f", {"name": "g", "expr": "a - b", "by": "origin"}])


def batch(rng, shift=0.0, n=40, feature="f", stratum=None):
    # A batch effect beside the readings' own noise: what a naive test takes for drift.
    return profile(rng.normal(rng.normal(0, 0.2) + shift, 1.0, n), feature=feature, stratum=stratum)


@cache
def learned(windows, spec, seed, make):
    rng, state = np.random.default_rng(seed), BaselineState(spec)
    for i in range(windows):
        profiles = [make(rng)]
        state.learn(i, profiles, judge_drift(profiles, state.baseline, state.history, spec).statistics)
    return state


def learn_windows(windows, spec=SPEC, seed=0, make=batch):
    return deepcopy(learned(windows, spec, seed, make))


def judge(state, *profiles, spec=SPEC):
    return judge_drift(list(profiles), state.baseline, state.history, spec)


@pytest.mark.parametrize(
    ("windows", "status", "action", "until"),
    [
        (0, "cold_start", "pass", (20, 28)),
        (1, "uncalibrated", "warn", (19, 27)),
        (19, "uncalibrated", "warn", (1, 9)),
        (20, "calibrated_warn_only", "warn", (0, 8)),
        (27, "calibrated_warn_only", "warn", (0, 1)),
        (28, "calibrated", "hold", (0, 0)),
        (150, "calibrated", "hold", (0, 0)),
    ],
)
def test_the_verdict_depends_on_the_windows_known(windows, status, action, until):
    verdict = judge(learn_windows(windows), profile(np.random.default_rng(9).normal(5, 1, 40)))
    assert (verdict.status, verdict.action, verdict.windows_known) == (status, action, windows)
    assert (verdict.windows_until_warn, verdict.windows_until_hold) == until
    if action != "pass":
        assert verdict.worst.key == ("f", None)
        assert verdict.message.removeprefix("uncalibrated: ").startswith("f is ")
    if status == "uncalibrated":
        assert verdict.p_value < 0.01
        more = f"{windows} window{'s' if windows > 1 else ''} known, {20 - windows} more until that can be believed"
        assert verdict.message.endswith(more)
    elif action != "pass":
        assert verdict.p_value < 1 / (windows + 1)
        assert f" higher; beyond every one of the {windows} windows before" in verdict.message
        assert verdict.worst.naive_p_value < 1e-9
    assert json.loads(json.dumps(verdict.to_dict(), allow_nan=False)) == verdict.to_dict()


def test_a_lasting_fault_is_quarantined_daily_and_clean_data_passes_afterwards():
    state, rng = learn_windows(120), np.random.default_rng(3)
    for day in range(200, 210):
        assert judge_drift([batch(rng, 2.0)], *state.without_window(day), SPEC).action == "hold"
    assert judge(state, batch(rng)).action == "pass"


def test_clean_windows_are_rarely_quarantined():
    rng, state, quarantined_count = np.random.default_rng(4), BaselineState(SPEC), 0
    for i in range(500):
        profiles = [batch(rng)]
        verdict = judge(state, *profiles)
        quarantined_count += verdict.action == "hold"
        if verdict.action != "hold":
            state.learn(i, profiles, verdict.statistics)
    assert quarantined_count <= 500 * 0.03


def test_nothing_is_quarantined_before_hold_from():
    spec = DriftSpec(features=["f"], hold_at=0.05, hold_from=60)
    far = profile(np.random.default_rng(9).normal(5, 1, 40))
    assert judge(learn_windows(59, spec), far, spec=spec).action == "warn"
    assert judge(learn_windows(60, spec), far, spec=spec).action == "hold"


def test_a_tie_counts_against_strangeness():
    state, far, history = learn_windows(118), profile([50.0] * 40), StatisticHistory(SPEC.remember)
    for i in range(118):
        history.add(i, {("f", None): {"ks": 0.1 + 0.001 * (i % 7), "tail": 0.2}})
    for i in (118, 119):
        history.add(i, {("f", None): judge(state, far).statistics["f", None]})
    verdict = judge_drift([far], state.baseline, history, SPEC)
    assert verdict.p_value == pytest.approx(3 / 121)


def test_the_worse_of_the_two_statistics_counts():
    # A few values far out: nothing to KS, and beyond everything to the other.
    state = learn_windows(120, make=lambda rng: profile(rng.normal(size=400)))
    dirty = stats.norm.ppf((np.arange(400) + 0.5) / 400)
    dirty[::27] = 9.0
    verdict = judge(state, profile(dirty))
    assert verdict.action == "hold"
    assert verdict.results[0].ks < np.median(state.history.matrix([(("f", None), "ks")])[:, 0])


def test_the_same_twice_is_the_same():
    first, second = (judge(learn_windows(110), batch(np.random.default_rng(5), 0.3)).to_dict() for _ in range(2))
    assert first == second


def test_a_stored_verdict_reads_back():
    state = learn_windows(30)
    verdict = judge(state, batch(np.random.default_rng(5)))
    stored = json.loads(json.dumps(verdict.to_dict(), allow_nan=False))
    assert read_statistics(stored) == verdict.statistics
    assert stored["results"][0]["quantiles"] == list(verdict.results[0].quantiles)


@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        ([], "not measured, although declared: f"),
        ([Profile("other", None, 3, 3)], "not measured, although declared: f"),
        ([Profile("f", None, 3, sketch=b"garbage")], "cannot be read"),
        ([Profile("f", None, 3)], "no sketch"),
    ],
)
@pytest.mark.parametrize("windows", [0, 120])
def test_an_error_quarantines_even_while_learning(windows, profiles, message):
    verdict = judge(learn_windows(windows), *profiles)
    assert (verdict.status, verdict.action, verdict.p_value) == ("error", "hold", None)
    assert message in verdict.message
    assert json.loads(json.dumps(verdict.to_dict(), allow_nan=False)) == verdict.to_dict()


def test_a_silent_feature_is_as_far_off_as_can_be():
    verdict = judge(learn_windows(120), Profile("f", None, 40, nulls=30, nans=10))
    assert verdict.action == "hold"
    assert verdict.statistics[("f", None)].items() > FARTHEST._asdict().items()
    assert "every value of f is missing" in verdict.message


def test_a_batch_without_rows_is_nothing_to_compare():
    verdict = judge(learn_windows(120), Profile("f", None, 0))
    assert (verdict.action, verdict.p_value, verdict.statistics) == ("pass", None, {})
    assert verdict.message == "the batch has no rows to compare"


def by_station(rng, stations=("EWR", "LGA"), shift=None):
    profiles = [batch(rng)]
    return profiles + [batch(rng, (shift or {}).get(s, 0.0), feature="g", stratum=s) for s in stations]


def two_stations(windows=120):
    rng, state = np.random.default_rng(0), BaselineState(TWO)
    for i in range(windows):
        profiles = by_station(rng)
        state.learn(i, profiles, judge(state, *profiles, spec=TWO).statistics)
    return state


def test_the_drifted_feature_and_stratum_are_named():
    verdict = judge(two_stations(), *by_station(np.random.default_rng(7), shift={"LGA": -3.0}), spec=TWO)
    assert verdict.action == "hold"
    assert verdict.message.startswith("g is ")
    assert " lower at LGA; beyond" in verdict.message
    assert verdict.worst.p_value < 1 / 121


def test_an_absent_stratum_is_reported_and_the_rest_judged():
    state = two_stations()
    verdict = judge(state, *by_station(np.random.default_rng(7), ("EWR",)), spec=TWO)
    assert verdict.absent == (("g", "LGA"),)
    assert verdict.message.endswith("; no row of LGA, which the baseline knows")
    assert (verdict.action, [r.feature for r in verdict.results]) == ("pass", ["f", "g", "volume"])


def with_a_new_station(windows):
    """EWR and LGA are known for 120 windows and more, JFK for the last of them."""
    state, rng = two_stations(), np.random.default_rng(8)
    for i in range(windows):
        profiles = by_station(rng, ("EWR", "LGA", "JFK"))
        state.learn(1000 + i, profiles, judge(state, *profiles, spec=TWO).statistics)
    return state


@pytest.mark.parametrize(("windows", "action"), [(10, "pass"), (25, "warn"), (27, "warn"), (28, "hold")])
def test_a_new_stratum_is_learnt_then_warned_of_then_quarantined(windows, action):
    state = with_a_new_station(windows)
    alone = TWO.model_copy(update={"lasting_at": 0.0})
    verdict = judge(state, *by_station(np.random.default_rng(7), ("EWR", "LGA", "JFK"), {"JFK": 5.0}), spec=alone)
    assert verdict.action == action
    if action != "pass":
        assert verdict.worst.key == ("g", "JFK")
        assert f"every one of the {windows} windows before" in verdict.message
    assert judge(state, *by_station(np.random.default_rng(11), ("EWR", "LGA", "JFK")), spec=alone).action == "pass"


@pytest.mark.parametrize("windows", [25, 38, 120])
def test_missing_values_are_warned_of_as_soon_as_anything_is(windows):
    values = np.random.default_rng(5).normal(size=200)
    state = learn_windows(windows, make=lambda rng: profile(rng.normal(size=200)))
    verdict = judge(state, profile(values[:100], nulls=100))
    assert verdict.action in ("warn", "hold")
    assert verdict.message.startswith("50.00% of f are missing, where 0.00% were")
    assert judge(state, profile(values)).action == "pass"


def test_fewer_rows_than_usual_are_a_volume_drift():
    state = learn_windows(120, make=lambda rng: profile(rng.normal(size=1000)))
    verdict = judge(state, profile(np.random.default_rng(5).normal(size=20)))
    assert verdict.action != "pass"
    assert verdict.message.startswith("20 rows, where a window usually has 1,000")


@pytest.mark.parametrize("share", [1.0, 0.7, 0.51])
def test_a_clean_window_of_fewer_rows_is_no_stranger(share):
    """Of samples of one distribution: chance alone puts a smaller one farther off."""
    spec = SPEC.model_copy(update={"min_volume_change": 0.6})  # the rows themselves are no subject here
    state = learn_windows(200, spec, make=lambda rng: profile(rng.normal(size=400), k=400))
    rng = np.random.default_rng(17)
    verdicts = [judge(state, profile(rng.normal(size=int(400 * share)), k=400), spec=spec) for _ in range(150)]
    assert sum(verdict.action == "hold" for verdict in verdicts) <= 6  # 1.5 expected
    assert sum(verdict.p_value <= SPEC.warn_at for verdict in verdicts) <= 16  # 7.5 expected
    far = judge(state, profile(rng.normal(0.8, 1, size=int(400 * share)), k=400), spec=spec)
    assert far.action == "hold"


def test_many_features_do_not_hide_a_large_shift():
    names = [f"f{i}" for i in range(40)]
    spec, rng = DriftSpec(features=names, relations=False), np.random.default_rng(3)
    state = BaselineState(spec)
    state.learn(0, [profile(rng.normal(size=2000), k=4096, feature=name) for name in names], {})
    clean = [profile(rng.normal(size=60), feature=name) for name in names]
    assert judge(state, *clean, spec=spec).action == "pass"
    off = [profile(rng.normal(size=60) + (10 if name == "f7" else 0), feature=name) for name in names]
    verdict = judge(state, *off, spec=spec)
    assert (verdict.action, verdict.worst.feature) == ("warn", "f7")


def test_the_first_windows_are_measured_again_once():
    """Also where the baseline remembers no more than those."""
    spec = DriftSpec.model_validate(
        {"features": ["f"], "warn_from": 20, "hold_from": 20, "hold_at": 0.05, "remember": 20, "lasting_at": 0}
    )
    rng, state, statistics_by_window = np.random.default_rng(2), BaselineState(spec), {}
    for i in range(45):
        measured = [batch(rng)]
        statistics_by_window[i] = judge(state, *measured, spec=spec).statistics
        state.learn(i, measured, statistics_by_window[i])
    column = state.history.matrix([(("f", None), "ks")])[:, 0].tolist()
    assert column == [statistics_by_window[i]["f", None]["ks"] for i in state.history.windows]


def test_a_constant_feature():
    state = learn_windows(120, make=lambda rng: profile([7.0] * 30))
    assert judge(state, profile([7.0] * 30)).p_value == 1.0
    assert judge(state, profile([7.0] * 25)).action == "pass"
    assert judge(state, profile([7.5] * 30)).action == "hold"


def test_a_negligible_shift_is_not_quarantined():
    # Every batch is the same ten thousand values, so that any change whatever is beyond all of them.
    values = np.arange(10_000.0)
    state = learn_windows(100, make=lambda rng: profile(values, k=65535))
    slight, large = profile(values + 20.0, k=65535), profile(values + 2000.0, k=65535)
    assert 0 < judge(state, slight).results[0].tail < 0.05
    assert (judge(state, slight).action, judge(state, slight).p_value) == ("pass", 1.0)
    assert judge(state, slight, spec=SPEC.model_copy(update={"min_effect": 0.0})).action == "hold"
    assert judge(state, large).action == "hold"


def test_no_baseline_but_a_history_is_not_a_pass_by_chance():
    state = learn_windows(120)
    verdict = judge_drift([batch(np.random.default_rng(1))], Baseline(SPEC.remember), state.history, SPEC)
    assert (verdict.status, verdict.action, verdict.p_value, verdict.statistics) == ("cold_start", "pass", None, {})


def test_standardizing_leaves_each_row_out():
    rows = np.random.default_rng(0).gamma(2, size=(30, 5))
    rows[3, 2] = np.nan
    standardized = standardize(rows[:-1], rows[-1])
    for i in range(30):
        others = np.delete(rows, i, axis=0)
        expected = (rows[i] - np.nanmean(others, axis=0)) / np.nanstd(others, axis=0)
        assert standardized[i] == pytest.approx(expected, nan_ok=True)


def test_every_row_is_treated_alike():
    # What makes the rank a p-value: to exchange the new window with a past one exchanges their scores, and no more.
    rows = np.random.default_rng(0).gamma(2, size=(40, 6))
    swapped = rows[[39, *range(1, 39), 0]]
    assert standardize(rows[:-1], rows[-1])[0] == pytest.approx(standardize(swapped[:-1], swapped[-1])[-1])


def test_a_year_of_twelve_features_is_quick():
    names = [f"f{i}" for i in range(12)]
    spec, rng, state = DriftSpec(features=names), np.random.default_rng(0), BaselineState(DriftSpec(features=names))
    windows = [[batch(rng, n=24, feature=name) for name in names] for _ in range(365)]
    for i, profiles in enumerate(windows[:-1]):
        state.learn(i, profiles, {p.key: {"ks": rng.uniform(), "tail": rng.uniform()} for p in profiles})
    durations = []
    for _ in range(7):
        start = time.perf_counter()
        judge(state, *windows[-1], spec=spec)
        durations.append(time.perf_counter() - start)
    # 5 ms alone; the allowance is for a busy machine.
    assert min(durations) < 0.5
