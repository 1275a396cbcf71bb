"""Evidence over windows: what adds up, since when, and how seldom it does where nothing has changed.

Belongs here: sums over windows. Does not: single windows (test_drift).
"""

import numpy as np
import pytest

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.feature_result import FeatureResult
from lakehouse_assets.decisions.drift.moving_sum import find_largest_sum
from lakehouse_assets.decisions.drift.statistic_history import StatisticHistory

SPEC = DriftSpec(features=["f", "g"])


def results(f, g=0.0):
    return [FeatureResult(name, None, statistics={"signed": value}) for name, value in (("f", f), ("g", g))]


def history(rows, labels=None):
    past = StatisticHistory(remember=1000)
    for label, row in zip(labels or range(len(rows)), rows, strict=True):
        past.add(label, {(name, None): {"signed": float(value)} for name, value in zip("fg", row, strict=True)})
    return past


def noise(n, seed=0, scale=0.05):
    return np.random.default_rng(seed).normal(0, scale, (n, 2))


def test_a_small_shift_that_lasts_adds_up():
    # Each window is 2.5 deviations off: two of a hundred are, by chance. Three in a row are not.
    rows = noise(200)
    rows[-2:, 0] = 0.125
    largest = find_largest_sum(results(0.125), history(rows), SPEC, 200)
    assert (largest.feature, largest.windows, largest.since) == ("f", 3, 198)
    assert largest.p_value <= SPEC.lasting_at
    assert largest.mean == pytest.approx(0.125, abs=0.005), "beside what is usual"
    assert find_largest_sum(results(0.0), history(noise(200)), SPEC, 200).p_value > SPEC.lasting_at


def test_the_largest_sum_names_its_start():
    rows = noise(200)
    rows[-7:, 0] = -0.125
    largest = find_largest_sum(results(-0.125), history(rows), SPEC, 200)
    assert (largest.windows, largest.since) == (8, 193)
    assert largest.mean < 0


def test_a_negligible_shift_is_no_evidence():
    rows = noise(200, scale=0.001)
    rows[-2:, 0] = 0.01
    assert find_largest_sum(results(0.01), history(rows), SPEC, 200).p_value == 1.0
    assert find_largest_sum(results(0.01), history(rows), SPEC.model_copy(update={"min_effect": 0.0}), 200).p_value < 0.02


def test_a_late_window_is_compared_with_its_neighbours_in_time():
    rows = noise(200)
    rows[100:102, 0] = 0.125
    labels = [*range(102), *range(103, 201)]  # window 102 comes late, when 200 is known
    largest = find_largest_sum(results(0.125), history(rows, labels), SPEC, 102)
    assert (largest.windows, largest.since, largest.p_value <= 0.02) == (3, 100, True)
    assert find_largest_sum(results(0.125), history(rows, labels), SPEC, 150).p_value > 0.02


@pytest.mark.parametrize("windows", [60, 75])
def test_a_longer_sum_that_is_not_known_yet_takes_nothing_from_a_shorter_one(windows):
    both = SPEC.model_copy(update={"lasting_over": (3, 30)})
    rows = noise(windows)
    rows[-2:, 0] = 0.5
    largest = find_largest_sum(results(0.5), history(rows), both, windows)
    assert largest.p_value <= SPEC.lasting_at
    assert largest == find_largest_sum(results(0.5), history(rows), SPEC, windows)


def test_a_sum_over_more_windows_than_are_known_is_none():
    far = SPEC.model_copy(update={"lasting_over": (300,)})
    assert find_largest_sum(results(0.5), history(noise(200)), far, 200) is None


@pytest.mark.parametrize(("windows", "spec"), [(48, SPEC), (200, SPEC.model_copy(update={"lasting_at": 0.0}))])
def test_too_short_a_history_gives_no_result(windows, spec):
    assert find_largest_sum(results(9.0), history(noise(windows)), spec, windows) is None


def test_the_rate_of_false_alarms_is_as_stated():
    rng, alarms = np.random.default_rng(7), 0
    rows = list(noise(120, 8))
    free = SPEC.model_copy(update={"min_effect": 0.0})
    for i in range(600):
        now = rng.normal(0, 0.05, 2)
        largest = find_largest_sum(results(*now), history(rows[-400:], list(range(i, i + len(rows[-400:])))), free, 10_000)
        alarms += largest.p_value <= free.lasting_at
        rows.append(now)
    # 12 are expected; they come in threes.
    assert alarms <= 30


def test_successive_windows_of_the_history_are_the_reference():
    # The same shift, in a history that wanders by itself: nothing to report.
    rng = np.random.default_rng(9)
    walk = np.zeros((400, 2))
    for i in range(1, 400):
        walk[i] = 0.9 * walk[i - 1] + rng.normal(0, 0.05, 2)
    rows = walk[:399].copy()
    rows[-2:, 0] = 0.125
    assert find_largest_sum(results(0.125), history(rows), SPEC, 399).p_value > SPEC.lasting_at
