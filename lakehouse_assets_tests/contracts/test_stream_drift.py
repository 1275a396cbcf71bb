"""`drift:` of a stream: which keys apply, and the level of one window that follows from a rate."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakehouse_assets.contracts.drift import DriftSpec, is_of_stream, warning_level
from lakehouse_assets.contracts.frame_rules import FrameRules, rules_of_table
from lakehouse_assets.contracts.stream_drift import StreamDriftSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets_tests.support import readings

STREAM = {"cadence": "hourly", "start": "2024-01-01", "stream": {"trigger": "10s"}}
TOPIC = {"kind": "kafka", "topic": "readings", "format": "json"}


def table(stream: bool = True, **drift) -> TableSpec:
    more = {"extraction": STREAM, "source": TOPIC} if stream else {}
    return readings(checks=[], drift={"features": ["value"], **drift}, **more)


@pytest.mark.parametrize(
    ("stream", "key", "value", "message"),
    [
        (True, "hold_at", 0.01, "write quarantines_per_week"),
        (True, "warn_at", 0.05, "write warnings_per_week"),
        (True, "lasting_at", 0.02, "lasting_at: does not apply to a stream"),
        (True, "min_volume_change", 0.5, "min_volume_change: does not apply to a stream"),
        (True, "warnings_per_week", 0.5, "warnings_per_week: 0.5 is below quarantines_per_week 1"),
        (True, "quarantines_per_week", 8, "warnings_per_week: 7 is below quarantines_per_week 8"),
        (True, "remember", 55, "remember: 55 is below twice hold_from 28"),
        (True, "quarantines_per_week", 0, "greater than 0"),
        (True, "remember_days", 1, "learn_for: 3d is more than half of remember_days 1"),
        (True, "learn_for", "8d", "learn_for: 8d is more than half of remember_days 14"),
        (False, "quarantines_per_week", 1, "applies to a stream only .*; use hold_at"),
        (False, "warnings_per_week", 1, "applies to a stream only .*; use warn_at"),
        (False, "remember_days", 7, "applies to a stream only"),
        (False, "learn_for", "2d", "applies to a stream only"),
    ],
)
def test_a_key_of_the_other_kind_of_table_is_refused(stream, key, value, message):
    with pytest.raises(ValidationError, match=message):
        table(stream, **{key: value})


def test_a_frame_has_no_rates():
    with pytest.raises(ValidationError, match="quarantines_per_week: applies to a stream only"):
        FrameRules.model_validate({"drift": {"features": ["value"], "quarantines_per_week": 1}})
    rules, _ = rules_of_table(table(quarantines_per_week=2, remember_days=7))
    assert rules.drift == DriftSpec(features=("value",))


def test_a_stream_is_judged_by_its_rates():
    spec = table(quarantines_per_week=2)
    drift = spec.drift_in_units
    assert isinstance(drift, StreamDriftSpec)
    assert (drift.quarantines_per_week, drift.warnings_per_week, drift.remember_days, drift.learn_for) == (2, 7, 14, "3d")
    assert (drift.trigger_seconds, drift.lasting_at, drift.levels) == (10, 0, None)
    assert not isinstance(table(stream=False).drift_in_units, StreamDriftSpec)


def test_a_recorded_rule_set_reads_back():
    spec = table(quarantines_per_week=2, remember_days=7)
    again = TableSpec.from_ruleset(spec.ruleset())
    assert (again.ruleset(), again.drift_in_units) == (spec.ruleset(), spec.drift_in_units)
    # No level of the rules is one of a window.
    assert (is_of_stream(spec.ruleset()), warning_level(spec.ruleset())) == (True, 0.0)
    assert not is_of_stream(table(stream=False).ruleset())


@given(st.floats(1e-3, 1e9), st.floats(1e-3, 1000), st.floats(1, 100), st.integers(5, 100_000))
def test_a_level_is_the_rate_over_the_windows_and_at_most_a_batch_tables(windows, quarantines, ratio, trigger):
    drift = DriftSpec(features=("value",), quarantines_per_week=quarantines, warnings_per_week=min(10_000, ratio * quarantines))
    spec = StreamDriftSpec.of(drift, timedelta(seconds=trigger)).at_rate(windows)
    rate = min(max(windows, 1.0), 604_800 / trigger)
    assert spec.windows_per_week == rate
    assert spec.hold_at == pytest.approx(min(0.01, quarantines / rate))
    assert spec.hold_at <= spec.warn_at <= 0.05


@pytest.mark.parametrize(
    ("levels", "windows", "hold_at"),
    [((1, 7), float("inf"), 1 / 120_960), ((1, 7), 120_960, 1 / 120_960), ((1, 7), 10_080, 1 / 10_080), ((1, 7), 3, 0.01)],
)
def test_the_levels_of_a_window(levels, windows, hold_at):
    drift = DriftSpec(features=("value",), quarantines_per_week=levels[0], warnings_per_week=levels[1])
    spec = StreamDriftSpec.of(drift, timedelta(seconds=5)).at_rate(windows)
    assert spec.hold_at == pytest.approx(hold_at)
    assert spec.levels is not None
    assert spec.levels.warn_at == pytest.approx(min(0.05, 7 / min(windows, 120_960)))


def test_the_highest_levels_of_a_window_are_the_defaults_of_other_tables():
    drift = DriftSpec(features=("value",), quarantines_per_week=1000, warnings_per_week=10_000)
    spec, defaults = StreamDriftSpec.of(drift, timedelta(seconds=5)).at_rate(1), DriftSpec(features=("value",))
    assert (spec.hold_at, spec.warn_at) == (defaults.hold_at, defaults.warn_at)


@given(st.integers(1, 365), st.integers(20, 2000), st.integers(5, 3600))
def test_slots_are_halves_of_the_longest_and_no_longer_than_a_trigger(days, remember, trigger):
    drift = DriftSpec(features=("value",), remember_days=days, remember=remember, hold_from=20)
    spec = StreamDriftSpec.of(drift, timedelta(seconds=trigger))
    assert spec.longest_slot * remember == pytest.approx(days * 86_400)
    halvings = spec.longest_slot / spec.shortest_slot
    assert halvings == 2 ** round(halvings).bit_length() / 2
    assert spec.shortest_slot <= trigger or spec.shortest_slot == spec.longest_slot
