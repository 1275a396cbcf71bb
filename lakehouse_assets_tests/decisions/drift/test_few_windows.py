"""Single columns with few windows of history: what quarantines, what the message names, and how often clean windows do.

Belongs here: verdicts of judge_drift on columns and faults of the benchmark. Does not: many windows (test_judge).
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from benchmarks.drift_faults import COLUMNS, SPEC, faults_of, learn, window
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.reports.baselines import feature_rows


@cache
def state(name, windows=29):
    return learn(np.random.default_rng([5, windows]), name, windows)


def verdict(values, name, windows=29):
    measured = list(measure_columns(values.to_frame("value"), {"value": COLUMNS[name].kind}))
    baseline_state = state(name, windows)
    return judge_drift(measured, baseline_state.baseline, baseline_state.history, SPEC)


def faulty(name, fault):
    rng = np.random.default_rng(9)
    return faults_of(COLUMNS[name].kind)[fault](rng, window(rng, name), window(rng, "lognormal"))


@pytest.mark.parametrize(
    ("name", "fault", "message"),
    [
        ("normal", "unit: ×1000 in 10%", "value"),
        ("lognormal", "unit: ×10 in 100%", "value"),
        ("counts", "nulls: 10%", "of value are missing, where 0.00% were"),
        ("rounded", "rows: doubled", "rows, where a window usually has"),
        ("normal", "rows: half", "rows, where a window usually has"),
        ("20 categories", "case: lower in 10%", "value has other shares: "),
        ("20 categories", "biased: the first 50%", "rows, where a window usually has"),
        ("keys", "case: lower in 10%", "of the texts of value have lower-case letters, where 0.0% had"),
        ("keys", "characters: delete, 10%", "the texts of value have 9.98 characters on average, and had 11"),
        ("keys", "rows: doubled", "rows, where a window usually has"),
    ],
)
def test_a_fault_is_quarantined_from_29_windows_on(name, fault, message):
    result = verdict(faulty(name, fault), name)
    assert (result.action, result.status) == ("hold", "calibrated")
    assert message in result.message


def test_rows_that_came_twice_under_the_same_count():
    """Half of the window is there twice: no row more, and half of the keys gone."""
    values = window(np.random.default_rng(3), "keys")
    half = values.iloc[: len(values) // 2]
    result = verdict(pd.concat([half, half], ignore_index=True), "keys")
    assert result.action == "hold"
    assert "50.0% of the values of value are distinct, where 100.0% were" in result.message


def test_a_baseline_shows_how_a_text_is_compared():
    compared = {name: feature_rows(state(name).baseline, [])[0]["compared_by"] for name in ("keys", "20 categories")}
    assert compared == {"keys": "lengths, characters and distinct values", "20 categories": "shares"}


def test_one_absurd_value():
    values = window(np.random.default_rng(3), "normal")
    values.iloc[7] = 1e9
    result = verdict(values, "normal")
    assert (result.action, result.worst.statistic) == ("hold", "high")
    assert "the largest value of value is 1e+09, and was " in result.message


def test_a_column_with_far_more_categories_than_before():
    result = verdict(window(np.random.default_rng(3), "keys"), "20 categories")
    assert result.action == "hold"


@pytest.mark.parametrize(("level", "quarantined"), [(51, False), (55, True)])
def test_a_window_of_a_quarter_of_the_rows_is_quarantined_for_a_shift_alone(level, quarantined):
    """The levels of the windows differ by 1, their values by 5."""
    rng = np.random.default_rng(7)
    baseline_state = state("normal")
    small = pd.Series(rng.normal(level, 5, 500), name="value")
    measured = list(measure_columns(small.to_frame(), {"value": "number"}))
    spec = SPEC.model_copy(update={"min_volume_change": 0.9})
    result = judge_drift(measured, baseline_state.baseline, baseline_state.history, spec)
    assert (result.action == "hold") is quarantined


@pytest.mark.parametrize("name", ["normal", "keys", "20 categories"])
def test_clean_windows_are_rarely_quarantined(name):
    rng = np.random.default_rng(21)
    actions = [verdict(window(rng, name), name).action for _ in range(60)]
    assert actions.count("hold") <= 3  # 0.6 expected
    assert actions.count("warn") <= 8


def test_few_of_the_first_twenty_windows_raise_warnings():
    """Windows whose levels differ: by chance alone, nearly every one is off."""
    warned = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        for windows in (4, 8, 12, 16):
            baseline_state = learn(rng, "normal", windows)
            measured = list(measure_columns(window(rng, "normal").to_frame(), {"value": "number"}))
            warned += judge_drift(measured, baseline_state.baseline, baseline_state.history, SPEC).action != "pass"
    assert warned <= 2


def test_a_baseline_that_was_kept_before_texts_were_measured():
    rng, baseline_state = np.random.default_rng(1), learn(np.random.default_rng(2), "20 categories", 29)
    (profile,) = measure_columns(window(rng, "20 categories").to_frame(), {"value": "category"})
    old = Profile.from_dict({name: value for name, value in profile.to_dict().items() if name != "texts"})
    assert old.texts is None
    assert judge_drift([old], baseline_state.baseline, baseline_state.history, SPEC).action == "pass"
    baseline_state.learn("old", [old], {})
    assert judge_drift([profile], baseline_state.baseline, baseline_state.history, SPEC).action == "pass"
