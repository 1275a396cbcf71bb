"""The first two weeks of hours, which are measured again once they are known; by earlier versions of the method they are not.

Belongs here: what the baseline's history and table make of it, and what is statistics. Does not: seasons (decisions/drift).
"""

from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from lakehouse_assets.decisions.drift.baseline_state import TWO_WEEKS, BaselineState
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.method import AFTER_TWO_WEEKS, FIRST_METHOD, METHOD
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.state_copies import copy_state
from lakehouse_assets.storage.baseline import write_profiles
from lakehouse_assets.storage.baseline_state import read_baseline
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.storage.test_baseline import contents
from lakehouse_assets_tests.support import readings

FIRST, HOUR = datetime(2024, 1, 1, tzinfo=UTC), timedelta(hours=1)  # a Monday
RULES = readings(checks=[], drift={"features": ["value"]})
SPEC = RULES.drift_in_units
BEFORE = AFTER_TWO_WEEKS - 1


def level(moment: datetime) -> float:
    """Of hour and weekday, in deviations of the values."""
    return float(np.sin(moment.hour * np.pi / 12)) + (0.7, 0.0, 0.1, -0.1, 0.2, 1.5, 1.3)[moment.weekday()]


def profile(rng: np.random.Generator, moment: datetime, shift: float = 0.0) -> Profile:
    values = np.round(rng.normal(level(moment) + 0.05 * rng.normal() + shift, 1, 300), 6)
    return Profile("value", None, 300, counts=tuple((value, 1) for value in sorted(set(values.tolist()))))


def windows(step: timedelta, count: int = TWO_WEEKS) -> list[tuple[datetime, Profile]]:
    rng = np.random.default_rng(24)
    return [(FIRST + i * step, profile(rng, FIRST + i * step)) for i in range(count)]


def learnt(some, method: int) -> BaselineState:
    """Each window is compared with those before it, as when it was judged."""
    state = BaselineState(SPEC, method=method)
    for moment, one in some:
        verdict = judge_drift([one], state.baseline, state.history, SPEC.model_copy(update={"season": "none"}), method=method)
        state.learn(moment, [one], verdict.statistics if len(state.history) > SPEC.warn_from else {})
    return state


@pytest.fixture(scope="module")
def states() -> dict[int, BaselineState]:
    """Two weeks of hours, by the version of the method before and by today's."""
    hours = windows(HOUR)
    return {method: learnt(hours, method) for method in (BEFORE, METHOD)}


def locations(state: BaselineState) -> list[float]:
    return state.history.matrix([(("value", None), "location")])[:, 0].tolist()


def test_a_window_of_the_first_days_is_measured_by_the_baseline_of_two_weeks(states):
    """On the first three workdays the mean was far below that of a week."""
    before, now = (np.array(locations(states[method])) for method in (BEFORE, METHOD))
    expected = [level(FIRST + i * HOUR) for i in range(TWO_WEEKS)]
    assert np.corrcoef(before, expected)[0, 1] < 0.99 < np.corrcoef(now, expected)[0, 1]


def test_half_a_deviation_is_quarantined_where_hours_and_weekdays_differ(states):
    """Each window of the third Monday in turn, which is learnt as it should have been."""
    holds, clean = Counter(), Counter()
    for method, state in ((method, copy_state(state)) for method, state in states.items()):
        for hour in range(12):
            moment = FIRST + (TWO_WEEKS + hour) * HOUR
            for shift in (-0.5, 0.0, 0.5):
                one = profile(np.random.default_rng(hour), moment, shift)
                verdict = judge_drift([one], state.baseline, state.history, SPEC, window=moment, method=method)
                (holds if shift else clean)[method] += verdict.action == "hold"
            usual = profile(np.random.default_rng(hour), moment)
            statistics = judge_drift([usual], state.baseline, state.history, SPEC, window=moment, method=method).statistics
            state.learn(moment, [usual], statistics)
    assert holds[METHOD] >= 23 > 18 >= holds[BEFORE], holds
    assert clean[METHOD] <= clean[BEFORE] <= 1


def test_days_are_not_measured_again():
    days = windows(timedelta(days=1))
    assert locations(learnt(days, BEFORE)) == locations(learnt(days, METHOD))


def test_a_baseline_is_read_by_the_version_that_a_replay_names(settings, states):
    """To the last digit, also in a process that has just read it by another one."""
    decisions = []
    for number, (moment, one) in enumerate(windows(HOUR), start=1):
        statistics = states[BEFORE]._entries[number - 1].statistics
        drift = {"statistics": [[*key, dict(values)] for key, values in statistics.items()]}
        more = {"ruleset": RULES.ruleset(), "p_extracted_at": moment, "profiles": (one.to_dict(),), "drift": drift}
        decisions.append(logbook.decided(number, teaches=True, **more))
    write_profiles(settings, "readings", logbook.write(settings, decisions))
    for method in (METHOD, BEFORE, FIRST_METHOD, METHOD):
        read = read_baseline(settings, RULES, decisions, TWO_WEEKS, method=method)
        expected = states[METHOD if method >= AFTER_TWO_WEEKS else BEFORE]
        assert contents(read)["history"] == contents(expected)["history"]
