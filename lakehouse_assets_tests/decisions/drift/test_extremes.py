"""What the gate says of values, settings and pasts at their edges: never silence.

Belongs here: numbers that overflow, floors of 0, references that are left, sides that change. Does not: plain drift
(test_drift).
"""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift import judge as judging
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.compare import compare
from lakehouse_assets.decisions.drift.feature_result import FeatureResult
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.moving_sum import find_largest_sum
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.relations import compute_relations
from lakehouse_assets.decisions.drift.verdict import find_drift_start
from lakehouse_assets_tests.decisions.drift.test_moving_sum import SPEC, history, noise, results

TWO = DriftSpec(features=("a", "b"))
ONE = DriftSpec(features=("a",))


def profile(values, feature="a"):
    atoms, counts = np.unique(values, return_counts=True)
    return Profile(feature, None, len(values), counts=tuple(zip(atoms.tolist(), counts.tolist(), strict=True)))


def pair(rng, correlation=0.8, rows=500, first=None):
    values = rng.normal(size=(rows, 2))
    values[:, 1] = correlation * values[:, 0] + np.sqrt(1 - correlation**2) * values[:, 1]
    if first is not None:
        values[0, 0] = first
    a, b = values.T
    return [profile(a), profile(b, "b"), compute_relations({"a": a, "b": b})]


def judge(state, measured, spec, window=10_000):
    return judge_drift(measured, *state.without_window(window), spec, window=window)


def test_a_value_that_overflows_is_an_error_and_hides_nothing_later():
    rng, state = np.random.default_rng(1), BaselineState(TWO)
    for i in range(110):
        measured = pair(rng, first=1.7e308 if i == 105 else None)
        verdict = judge(state, measured, TWO, i)
        if i == 105:
            assert (verdict.status, verdict.action) == ("error", "hold")
            assert "a: a value is so large that its square is no finite number" in verdict.message
        # Learnt even so, as where a person says that it teaches.
        state.learn(i, measured, verdict.statistics)
    assert all(np.isfinite(m.distance) for m in state.baseline.shifts())
    assert judge(state, pair(rng), TWO).action == "pass"
    assert judge(state, pair(rng, correlation=0.0), TWO).action == "hold"


def test_two_files_of_which_one_overflows():
    rng = np.random.default_rng(0)
    baseline = pd.DataFrame(rng.normal(size=(5000, 2)), columns=["a", "b"])
    batch = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    batch.loc[0, "a"] = 1e200
    days = baseline.assign(day=np.repeat(np.arange(25), 200))
    for comparison in (compare(batch, baseline), compare(batch, days, history="day")):
        assert comparison.drifted
        assert comparison.verdict.status == "error"
        json.dumps(comparison.to_dict(), allow_nan=False)


@pytest.mark.parametrize("value", [1e100, 1e150, 1e153])
def test_a_value_whose_square_is_still_a_number_is_off_and_not_unknown(value):
    rng, state = np.random.default_rng(1), BaselineState(TWO)
    for i in range(110):
        measured = pair(rng)
        state.learn(i, measured, judge(state, measured, TWO, i).statistics)
    verdict = judge(state, pair(rng, first=value), TWO)
    assert (verdict.status, verdict.action) == ("calibrated", "hold")


def test_an_internal_error_counts_for_its_window_alone(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    rng, state = np.random.default_rng(2), BaselineState(TWO)
    state.learn(0, pair(rng), {})
    monkeypatch.setattr(judging, "find_largest_sum", broken)
    verdict = judge(state, pair(rng), TWO)
    assert (verdict.status, verdict.action) == ("error", "hold")
    assert verdict.message == "the features cannot be compared: ZeroDivisionError"
    with pytest.raises(ValidationError, match="lasting_over"):
        DriftSpec(features=("a",), lasting_over=())


@pytest.mark.parametrize("floor", [0.0, 0.05])
@pytest.mark.parametrize(("rows", "is_quarantined"), [(20, True), (470, False), (5000, True)])
def test_the_volume_is_judged_whatever_the_floor_of_the_others(floor, rows, is_quarantined):
    spec, rng = DriftSpec(features=("a",), min_effect=floor, lasting_at=0.0), np.random.default_rng(3)
    state = BaselineState(spec)
    for i in range(210):
        measured = [profile(rng.normal(size=500 + int(rng.integers(-20, 21))))]
        state.learn(i, measured, judge(state, measured, spec, i).statistics)
    verdict = judge(state, [profile(rng.normal(size=rows))], spec)
    volume = next(r for r in verdict.results if r.feature == "volume")
    assert (volume.count_evidence is not None and volume.count_evidence.p_value <= spec.hold_at) == is_quarantined
    assert (verdict.action == "hold") == is_quarantined


def test_a_baseline_that_is_reset_learns_again_beside_its_reference():
    """Of one window of 24 rows chance alone is farther off than the reference allows."""
    rng, state = np.random.default_rng(4), BaselineState(ONE)
    for i in range(100):
        state.learn(i, [profile(rng.normal(size=24))], {})
    state.pin()
    state = BaselineState(ONE, state.baseline.reference)
    learnt = 0
    for i in range(60):
        measured = [profile(rng.normal(size=24))]
        verdict = judge(state, measured, ONE, 1000 + i)
        if verdict.learns and verdict.action != "hold":
            state.learn(1000 + i, measured, verdict.statistics)
            learnt += 1
    assert learnt >= 58
    # What has really moved stays away from it, and the message names the way out.
    state = BaselineState(ONE, state.baseline.reference)
    for i in range(10):
        state.learn(2000 + i, [profile(rng.normal(0.5, 1, 500))], {})
    verdict = judge(state, [profile(rng.normal(0.5, 1, 500))], ONE)
    assert not verdict.learns
    assert "pin it anew (`lakehouse baseline pin`), or let go of what is pinned (`--clear`)" in verdict.message


def test_lower_than_usual_is_not_called_higher():
    """Of a feature whose windows usually lie above the baseline."""
    rows = noise(200, scale=0.01)
    rows[:, 0] += 0.2
    rows[-2:, 0] = 0.05
    largest = find_largest_sum(results(0.05), history(rows), SPEC, 200)
    assert largest.p_value <= SPEC.lasting_at
    assert largest.mean == pytest.approx(-0.15, abs=0.01)
    assert (largest.windows, largest.since) == (3, 198)


def test_only_windows_of_that_side_are_counted():
    rows = noise(200, scale=0.01)
    rows[-2:, 0] = (-0.02, 0.1)
    largest = find_largest_sum(results(0.12), history(rows), SPEC, 200)
    assert largest.mean > 0
    assert (largest.windows, largest.since) == (2, 199)


@pytest.mark.parametrize(("shifts", "day"), [((0.1, 0.1), 1), ((0.1, -0.1), 2), ((-0.1, 0.1), 2), ((None, None), 1)])
def test_since_when_looks_back_to_one_side(shifts, day):
    start = datetime(2024, 1, 4, tzinfo=UTC)
    history_rows = [
        SimpleNamespace(
            p_extracted_at=start - timedelta(days=3 - number),
            extraction_seq=1,
            superseded_by=None,
            decision_id=str(number),
            number=number,
            batch=(start - timedelta(days=3 - number), 1),
            drift={"action": "hold", "worst": {"feature": "a", "stratum": "LGA", "median_shift": shift}},
        )
        for number, shift in enumerate((shifts[0], shifts[1], shifts[1]))
    ]
    worst = FeatureResult("a", "LGA", median_shift=shifts[1])
    assert find_drift_start(history_rows, {}, start, worst) == datetime(2024, 1, day, tzinfo=UTC)


def test_features_too_new_to_judge_are_listed():
    """A station that has come to a table that is known for long."""
    rng, state = np.random.default_rng(5), BaselineState(ONE)

    def window(north=0.0, there=True):
        profiles = [replace(profile(rng.normal(size=200)), stratum="L")]
        return [*profiles, replace(profile(rng.normal(north, 1, 200)), stratum="N")] if there else profiles

    for i in range(120):
        measured = window(there=i >= 102)
        state.learn(i, measured, judge(state, measured, ONE, i).statistics)
    verdict = judge(state, window(north=5.0), ONE)
    assert verdict.status == "calibrated"
    assert "; not judged yet: a at N (18 of 20 windows known)" in verdict.message
    assert "not judged yet" not in judge(state, window(there=False), ONE).message
