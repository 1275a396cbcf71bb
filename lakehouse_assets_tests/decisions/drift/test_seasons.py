"""What is usual in such a window: seasons and the pull of the window before, found in a statistic's past.

Belongs here: subtract_seasons beside plain loops, and judge_drift on seasonal columns. Does not: the rates (benchmarks).
"""

import json
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from benchmarks.drift_seasons import FAULTS, KINDS, SEASONS, judge, learn, window
from lakehouse_assets.contracts.drift import DriftSpec, FeatureSpec, Season
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.effects import effect_of_surprise, volume_effect
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.season_parts import Calendar
from lakehouse_assets.decisions.drift.seasons import SeasonChoice, subtract_seasons
from lakehouse_assets.decisions.drift.statistic_history import StatisticHistory

FIRST = datetime(2024, 1, 1, tzinfo=UTC)  # a Monday
DAYS = [FIRST + timedelta(days=day) for day in range(57)]
HOURS = [FIRST + timedelta(hours=hour) for hour in range(24 * 14 + 1)]


def remove_one(values, moments, wanted: Season = "auto", *, pull=True):
    """Of one statistic, the last value being the judged window's."""
    past, now = np.array(values[:-1], dtype=float)[:, None], np.array(values[-1:], dtype=float)
    return subtract_seasons(past, now, Calendar.of(moments[:-1], moments[-1], "UTC"), [wanted], pull=pull)


def noise(moments, seed=0):
    return np.random.default_rng(seed).normal(0, 0.1, len(moments))


LEVELS = {
    "weekday": (DAYS, lambda moment: (0.0, 1.0, -1.0, 0.5, 2.0, -0.5, 1.5)[moment.weekday()]),
    "weekend": (DAYS, lambda moment: float(moment.weekday() >= 5)),
    "hour": (HOURS, lambda moment: float(np.sin(moment.hour))),
    "hour_and_weekday": (HOURS, lambda moment: float(np.sin(moment.hour)) + moment.weekday() % 3),
    "hour_by_weekend": (HOURS, lambda moment: float(np.sin(moment.hour)) * (3 * (moment.weekday() >= 5) - 1)),
    "day": ([FIRST + timedelta(days=day) for day in range(200)], lambda moment: 2.0 * (moment.day == 1)),
    "month": ([datetime(2010 + i // 12, i % 12 + 1, 1, tzinfo=UTC) for i in range(61)], lambda moment: moment.month % 5),
}
# A pull, the weekday, nothing, and the part of the week.
LEVELS_OF_TIMES = [
    lambda moments: np.cumsum(np.random.default_rng(5).normal(size=len(moments))),
    lambda moments: np.array([LEVELS["weekday"][1](moment) for moment in moments]),
    lambda moments: np.zeros(len(moments)),
    lambda moments: np.array([LEVELS["weekend"][1](moment) for moment in moments]),
]


@pytest.mark.parametrize("season", LEVELS)
def test_the_season_that_is_there_is_found(season):
    """Nothing tells it which."""
    moments, level = LEVELS[season]
    rest = remove_one(np.array([level(moment) for moment in moments]) + noise(moments), moments)
    assert rest.choices == [SeasonChoice(season, 0.0)]
    assert np.nanstd(rest.past) == pytest.approx(0.1, rel=0.25)
    assert abs(rest.now[0]) < 0.4
    assert rest.expected[0] == pytest.approx(level(moments[-1]), abs=0.2)


def test_what_has_no_season_is_left_as_it_is():
    """By chance at most one of a hundred statistics seems to have one, over daily and hourly windows."""
    rng, chosen = np.random.default_rng(7), 0
    for moments in (DAYS, DAYS[:29], HOURS):
        past, now = rng.normal(size=(len(moments) - 1, 400)), rng.normal(size=400)
        rest = subtract_seasons(past, now, Calendar.of(moments[:-1], moments[-1], "UTC"), ["auto"] * 400)
        chosen += sum(choice.is_made for choice in rest.choices)
        left = [c for c, choice in enumerate(rest.choices) if not choice.is_made]
        assert np.array_equal(rest.past[:, left], past[:, left])
        assert np.array_equal(rest.now[left], now[left])
        assert np.isnan(rest.expected[left]).all()
    assert chosen <= 12


def by_loops(values, moments):
    """Deviations from the mean of the same weekday on other days."""
    rest = []
    for i, (value, moment) in enumerate(zip(values, moments, strict=True)):
        others = [
            values[j]
            for j in range(len(values) - 1)
            if j != i and moments[j].weekday() == moment.weekday() and not np.isnan(values[j])
        ]
        rest.append(value - np.mean(others) if others else np.nan)
    return rest


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=40, max_size=40),
    st.floats(-1e6, 1e6),
    st.randoms(use_true_random=False),
)
def test_deviations_are_those_of_plain_loops(past, now, random):
    """Whatever is missing, and in whatever order the windows were learnt."""
    values = [np.nan if value is None else value for value in past] + [now]
    moments = DAYS[:41]
    wanted = by_loops(values, moments)
    order = list(range(40))
    random.shuffle(order)
    rest = remove_one([*(values[i] for i in order), now], [*(moments[i] for i in order), moments[-1]], "weekday", pull=False)
    if not rest.choices[0].is_made:  # too few windows of this weekday, or in all
        is_known = [not np.isnan(value) for value in values[:-1]]
        same = sum(k and moments[i].weekday() == moments[-1].weekday() for i, k in enumerate(is_known))
        predictions = sum(not np.isnan(each) for each in wanted[:-1])
        assert same < 2 or predictions < 0.8 * sum(is_known)
        return
    assert rest.past[:, 0] == pytest.approx([wanted[i] for i in order], rel=1e-6, abs=1e-3, nan_ok=True)
    assert rest.now[0] == pytest.approx(wanted[-1], rel=1e-6, abs=1e-3)


@pytest.mark.parametrize("moments", [DAYS, HOURS, [*HOURS[:150], *HOURS[160:260]]], ids=["days", "hours", "a gap"])
def test_statistics_that_some_windows_lack_do_not_change_the_others(moments):
    """Statistics that all windows have share what depends on times alone: to the last digit as each by itself."""
    rng = np.random.default_rng(11)
    values = np.column_stack([level(moments) for level in LEVELS_OF_TIMES]) + rng.normal(0, 0.1, (len(moments), 4))
    holes = values.copy()
    holes[rng.random(len(moments)) < 0.1, 1] = np.nan
    holes[-1] = values[-1]
    complete, partial = (
        subtract_seasons(each[:-1], each[-1], Calendar.of(moments[:-1], moments[-1], "UTC"), ["auto"] * 4)
        for each in (values, holes)
    )
    for column in (0, 2, 3):
        assert complete.choices[column] == partial.choices[column]
        assert np.array_equal(complete.past[:, column], partial.past[:, column], equal_nan=True)
        assert complete.now[column] == partial.now[column]
    assert {choice.is_made for choice in complete.choices} == {True, False}


def test_the_calendar_of_a_history_follows_its_windows():
    """It is shared by all that is judged of one window, and by no other window."""
    history = StatisticHistory(remember=3)
    for day in DAYS[:3]:
        history.add(day, {})
    calendar = history.calendar(DAYS[3], "UTC")
    assert calendar is not None
    assert history.calendar(DAYS[3], "UTC") is calendar
    assert calendar.clock.weekday.tolist() == [0, 1, 2, 3]
    assert history.calendar(DAYS[5], "UTC").clock.weekday.tolist() == [0, 1, 2, 5]
    assert history.calendar(DAYS[5], "America/New_York").clock.weekday.tolist() == [6, 0, 1, 4]
    history.add(DAYS[3], {})
    assert history.calendar(DAYS[5], "UTC").clock.weekday.tolist() == [1, 2, 3, 5]
    history.add("no time", {})
    assert history.calendar(DAYS[5], "UTC") is None


def test_the_pull_of_the_window_before_is_found_and_a_gap_widens_it():
    """An autoregression: what is expected after a gap is less, and the rest is as wide as ever."""
    rng, values = np.random.default_rng(3), [0.0]
    moments = [FIRST + timedelta(days=day) for day in range(300)]
    for _ in range(299):
        values.append(0.9 * values[-1] + rng.normal())
    rest = remove_one(values, moments)
    assert rest.choices[0].season == "none"
    assert rest.choices[0].pull == pytest.approx(0.9, abs=0.06)
    assert np.nanstd(rest.past[1:]) == pytest.approx(1.0, abs=0.12)
    assert rest.now[0] == pytest.approx(values[-1] - rest.expected[0], abs=0.05)
    late = remove_one([*values[:-1], 5.0], [*moments[:-1], moments[-1] + timedelta(days=400)])
    assert abs(late.expected[0] - np.mean(values)) < 1.0  # nothing is left of the last window
    assert abs(late.now[0]) < 5.0


def test_a_window_that_is_judged_late_is_expected_from_those_before_it():
    """Later ones take no part in the pull."""
    moments = [FIRST + timedelta(days=day) for day in range(100)]
    values = list(np.cumsum(np.random.default_rng(1).normal(size=100)))
    early = [*values[:50], *values[51:], values[50]]
    rest = remove_one(early, [*moments[:50], *moments[51:], moments[50]])
    assert rest.choices[0].pull > 0.5
    assert abs(rest.expected[0] - values[49]) < abs(values[49] - np.mean(values)) * 0.5 + 0.5


@pytest.mark.parametrize("moments", [list(range(57)), [str(day) for day in range(57)], [None] * 57])
def test_labels_that_are_no_times_have_no_seasons(moments):
    """Samples in memory may be labelled by anything."""
    values = [LEVELS["weekday"][1](day) for day in DAYS]
    assert remove_one(values, moments).choices == [SeasonChoice()]


def test_hours_are_those_of_the_local_clock():
    """Eight days before the clock changes and two after it: by UTC the pattern would be an hour off."""
    zone = ZoneInfo("America/New_York")
    first = datetime(2024, 3, 2, tzinfo=UTC)
    moments = [first + timedelta(hours=hour) for hour in range(24 * 10 + 1)]
    values = np.array([3.0 * (moment.astimezone(zone).hour == 6) for moment in moments]) + noise(moments)
    spread = {}
    for name in ("UTC", "America/New_York"):
        past, now = values[:-1, None], values[-1:]
        rest = subtract_seasons(past, now, Calendar.of(moments[:-1], moments[-1], name), ["hour"])
        spread[name] = np.nanstd(rest.past)
    assert spread["America/New_York"] < 0.15 < 0.3 < spread["UTC"]
    with pytest.raises(ValidationError, match="no-where"):
        DriftSpec.model_validate({"features": ["a"], "timezone": "no-where"})


def test_dates_are_times():
    """A history column of dates has weekdays."""
    values = np.array([LEVELS["weekday"][1](day) for day in DAYS]) + noise(DAYS)
    assert remove_one(values, [date(day.year, day.month, day.day) for day in DAYS]).choices[0].season == "weekday"


@pytest.mark.parametrize("values", [[1.0] * 57, [np.nan] * 57, [1e300] * 57, [0.0] * 56 + [1e300]])
def test_constant_unknown_and_absurd_values(values):
    """They have no season, and stop nothing."""
    assert remove_one(values, DAYS).choices == [SeasonChoice()]


def test_an_outlier_of_the_past_does_not_hide_the_season():
    """Few far windows do not decide."""
    values = np.array([LEVELS["weekday"][1](day) for day in DAYS]) + noise(DAYS)
    values[20] = 50.0
    assert remove_one(values, DAYS).choices[0].season == "weekday"


def test_a_season_that_was_asked_for_is_taken_and_another_is_not():
    """Unless too little of it is known."""
    values = np.array([LEVELS["weekday"][1](day) for day in DAYS]) + noise(DAYS)
    assert remove_one(values, DAYS, "weekend").choices[0].season == "weekend"
    assert remove_one(values, DAYS, "none").choices == [SeasonChoice()]
    assert remove_one(values, DAYS, "month").choices == [SeasonChoice()]
    assert remove_one(noise(DAYS), DAYS, "weekday").choices[0].season == "weekday"


def test_who_declares_something_else_gets_no_season():
    """An expression, a stratum or `season` wins."""
    features = ("plain", {"name": "renamed", "expr": "plain"}, {"name": "made", "expr": "plain * 2"})
    features += ({"name": "by_station", "expr": "plain", "by": "station"}, {"name": "told", "expr": "a + b", "season": "hour"})
    spec = DriftSpec(features=tuple(FeatureSpec.model_validate(f) if isinstance(f, dict) else f for f in features))
    seasons = {name: spec.season_of(name) for name in ("plain", "renamed", "made", "by_station", "told", "volume")}
    assert seasons == {
        "plain": "auto", "renamed": "auto", "made": "none", "by_station": "none", "told": "hour", "volume": "auto",
    }  # fmt: skip
    assert spec.season_of("relations") == "none"  # of an expression, too
    assert spec.season_of("relations by station") == "none"
    assert DriftSpec(features=("a", "b"), season="none").season_of("a") == "none"
    assert DriftSpec(features=("a", "b")).season_of("relations") == "auto"


def test_rules_without_a_season_are_written_as_before():
    """The hash of a rule set that declares none must not change."""
    assert "season" not in DriftSpec(features=("a",)).model_dump_json()
    assert "timezone" not in DriftSpec(features=("a",)).model_dump_json()
    assert "season" in DriftSpec(features=("a",), season="hour").model_dump_json()


@pytest.mark.parametrize(
    ("statistic", "change", "least", "most"),
    [
        ("location", 0.1, 0.07, 0.09), ("location", -0.1, 0.07, 0.09), ("scale", 0.0, 0.0, 0.0), ("scale", 0.0912, 0.07, 0.085),
        ("ks", 0.04, 0.08, 0.08), ("tail", -0.06, 0.06, 0.06), ("volume", 0.0969, 0.049, 0.051),
        ("distinct", -0.415, 0.049, 0.051), ("high", 0.6931, 0.049, 0.051), ("missing", 9.0, 0.3, 0.3),
        ("pair a ~ b", 0.2, 0.05, 0.2), ("scatter", 1e100, 1.0, 10.0),
    ],
)  # fmt: skip
def test_effects_of_a_surprise_are_in_the_unit_of_all_effects(statistic, change, least, most):
    """The floor means the same with a season as without."""
    assert least <= effect_of_surprise(statistic, change, 0.3, DriftSpec(features=("a",))) <= most


def test_the_effect_of_the_volume_has_its_own_bound():
    """80 % to 125 % at the default; any change where it is 0."""
    assert volume_effect(np.log10(0.8), DriftSpec(features=("a",))) == pytest.approx(0.05)
    assert volume_effect(0.0, DriftSpec(features=("a",), min_volume_change=0)) == 0.0
    assert volume_effect(0.001, DriftSpec(features=("a",), min_volume_change=0)) > 0.05


@pytest.fixture(scope="module")
def weekly():
    """Eight weeks of days."""
    return learn(np.random.default_rng(11), "weekday", 56)


def test_half_a_deviation_is_quarantined_in_a_weekly_season(weekly):
    """Without a season it is a usual day of another weekday."""
    state, moment = weekly
    rows = window(np.random.default_rng(12), SEASONS["weekday"][1](moment))
    assert judge(rows, state, moment).action == "pass"
    verdict = judge(FAULTS["value +0.5 deviations"](rows), state, moment)
    assert verdict.action == "hold"
    assert verdict.worst is not None
    assert verdict.worst.feature == "value"
    assert "on this day of the week" in verdict.message
    assert json.loads(json.dumps(verdict.to_dict()))["worst"]["season"] == {"season": "weekday", "pull": 0.0}
    half = judge(FAULTS["half the rows"](rows), state, moment)
    assert half.action == "hold"
    assert "are usual on this day of the week" in half.message


def test_a_usual_monday_on_a_sunday_is_quarantined(weekly):
    """It is like windows of the past, but not like Sundays; its distance from the whole baseline is small."""
    state, moment = weekly
    sunday = next(moment + timedelta(days=day) for day in range(7) if (moment + timedelta(days=day)).weekday() == 6)
    assert judge(window(np.random.default_rng(13), SEASONS["weekday"][1](sunday)), state, sunday).action == "pass"
    assert judge(window(np.random.default_rng(13), 0.0), state, sunday).action == "hold"


def test_with_no_season_declared_the_same_window_is_not_noticed(weekly):
    """`season: none` is how it was."""
    state, moment = weekly
    rows = FAULTS["value +0.5 deviations"](window(np.random.default_rng(12), SEASONS["weekday"][1](moment)))
    spec = state.spec.model_copy(update={"season": "none"})
    measured = list(measure_columns(rows, KINDS))
    assert judge_drift(measured, state.baseline, state.history, spec, window=moment).action != "hold"
