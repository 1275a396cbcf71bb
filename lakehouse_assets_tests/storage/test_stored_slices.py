"""Slices in the baseline's table: read back as they were, of the newest windows alone, without what has changed its meaning.

Belongs here: rows ↔ slices, without a JVM. Does not: other measurements (test_baseline).
"""

import numpy as np
import pytest

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState, needed_windows
from lakehouse_assets.decisions.drift.slice_columns import compute_slices
from lakehouse_assets.decisions.drift.slices import Slices
from lakehouse_assets.storage.baseline import write_profiles
from lakehouse_assets.storage.baseline_state import read_baseline, read_entries
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.storage.test_baseline import SPEC, decided, measured
from lakehouse_assets_tests.support import readings

DRIFT = {"features": ["value", "hour", "sensor"], "warn_from": 20, "hold_from": 20, "remember": 20, "season": "none"}
SHORT, LEVELS = readings(checks=[], drift=DRIFT), DriftSpec.model_validate(DRIFT)


def slices_of(day: int) -> Slices:
    rng = np.random.default_rng(day)
    sensors = rng.choice(np.array(["a", "it's | <b>\n"], dtype=object), 60)
    slices = compute_slices({"value": rng.normal(size=60), "hour": np.arange(60.0)}, {"sensor": sensors})
    assert slices is not None
    return slices


def learn(settings, days, spec=SPEC):
    ruleset, profiles = spec.ruleset(), {day: [*measured(day), slices_of(day)] for day in days}
    decisions = [decided(day, ruleset=ruleset, profiles=tuple(m.to_dict() for m in profiles[day])) for day in days]
    decisions = logbook.write(settings, decisions)
    write_profiles(settings, "readings", decisions)
    return decisions


def test_slices_read_back_as_written(settings):
    decisions = learn(settings, [1, 2])
    for day, entry in zip((1, 2), read_entries(settings, SPEC, decisions, 2), strict=True):
        assert list(entry.measured) == [*measured(day), slices_of(day)]
    assert list(read_baseline(settings, SPEC, decisions, 2).history.slices) == [slices_of(1), slices_of(2)]


def test_what_has_changed_its_meaning_leaves_the_slices(settings):
    decisions = learn(settings, [1])
    number = readings(checks=[], drift={"features": [{"name": "value", "expr": "value * 2"}, "hour", "sensor"]})
    assert read_baseline(settings, number, decisions, 1).history.slices[0] == slices_of(1).only(["hour"])
    text = readings(checks=[], drift={"features": ["value", "hour", {"name": "sensor", "expr": "lower(sensor)"}]})
    assert read_baseline(settings, text, decisions, 1).history.slices == [None]


@pytest.mark.parametrize(
    "features",
    [["hour", {"name": "value", "by": "sensor"}], ["hour", {"name": "station", "expr": "sensor"}], ["hour", "sensor"]],
)
def test_a_column_that_has_changed_its_meaning_makes_no_slices(settings, features):
    """Also one that is the stratum of a feature alone, or a feature by another name."""

    def spec(**sensor):
        columns = {"sensor": {"type": "string", **sensor}, "hour": "int", "value": "double", "updated": "timestamp"}
        return readings(checks=[], drift={"features": features}, columns=columns)

    decisions = learn(settings, [1], spec())
    same, other = spec(description="x"), spec(**{"from": "sensor_v2"})
    assert read_baseline(settings, same, decisions, 1).history.slices == [slices_of(1)]
    assert read_baseline(settings, other, decisions, 1).history.slices == [None]


def test_of_a_long_history_the_windows_that_are_remembered_have_slices(settings):
    days = range(1, needed_windows(LEVELS) + 15)
    decisions = learn(settings, days, SHORT)
    state = BaselineState(LEVELS)
    for entry in read_entries(settings, SHORT, decisions, len(days)):
        state.learn(entry.window, entry.measured, entry.statistics)
    read = read_baseline(settings, SHORT, decisions, len(days)).history
    assert len(read) == LEVELS.remember
    assert list(read.slices) == list(state.history.slices) == [slices_of(day) for day in days[-LEVELS.remember :]]
