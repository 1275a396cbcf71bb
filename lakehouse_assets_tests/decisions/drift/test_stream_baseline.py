"""A stream's baseline: which windows it holds, how many windows a week are counted, and the state that follows.

Belongs here: the pure rules. Does not: reading them from a log (storage), or the rates (docs/drift.md).
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.contracts.stream_drift import StreamDriftSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.stream_baseline import StreamBaselineState
from lakehouse_assets.decisions.drift.thinning import STEP, Thinning
from lakehouse_assets.decisions.drift.window_rate import WindowRate
from lakehouse_assets_tests.decisions.drift.test_judge import batch

START = datetime(2024, 1, 1, tzinfo=UTC)
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
WEEK = 604_800


def stream(trigger=5, **drift) -> StreamDriftSpec:
    return StreamDriftSpec.of(DriftSpec(features=("f",), **drift), timedelta(seconds=trigger))


SMALL = stream(remember=20, hold_from=20, remember_days=1, learn_for="0s")


@pytest.mark.parametrize(
    ("hours", "rate"),
    [
        ([], float("inf")),
        ([0, 1, 2], float("inf")),  # not a day yet
        ([0], 14),  # and the judged one, a day later
        (range(24), 7 * 25),
        (range(0, 24 * 7), 7 * 24 + 1),
    ],
)
def test_the_windows_of_seven_days_are_counted(hours, rate):
    counted = WindowRate(START + timedelta(hours=hour) for hour in hours)
    judged = START + (timedelta(hours=max(hours) + 1) if hours else timedelta())
    if list(hours) == [0]:
        judged = START + DAY
    if len(hours) == 168:
        judged = START + 7 * DAY - timedelta(seconds=1)
        rate = (168 + 1) * WEEK / (WEEK - 1)
    assert counted.windows_per_week(judged) == pytest.approx(rate)


def test_after_a_pause_of_a_week_the_rate_is_not_known():
    counted = WindowRate(START + timedelta(minutes=minute) for minute in range(10_000))
    assert counted.windows_per_week(START + timedelta(days=30)) == float("inf")
    assert counted.windows_per_week(START + timedelta(days=7)) == pytest.approx(10_000, rel=0.01)


def test_an_old_window_is_judged_at_the_rate_of_now():
    """A person has it judged again; it is none of the last seven days."""
    counted = WindowRate(START + timedelta(minutes=minute) for minute in range(7 * 1440))
    now = counted.windows_per_week(START + 7 * DAY - timedelta(minutes=1))
    for days in (7, 60):
        assert counted.windows_per_week(START - days * DAY) == pytest.approx(now, rel=1e-3)
    assert counted.windows_per_week(START - timedelta(seconds=30)) == pytest.approx(now, rel=1e-3)


@given(st.lists(st.integers(0, 20 * 86_400), min_size=1, max_size=60), st.integers(0, 20 * 86_400))
def test_a_rate_follows_from_the_windows_and_not_from_their_order(seconds, judged):
    windows, one = [START + each * SECOND for each in seconds], WindowRate()
    for window in windows:
        one.add(window)
    assert one.windows_per_week(START + judged * SECOND) == WindowRate(reversed(windows)).windows_per_week(
        START + judged * SECOND
    )


@settings(deadline=None)
@given(st.lists(st.integers(0, 5 * 86_400), max_size=300))
def test_a_baseline_holds_one_window_of_each_slot_the_first_that_joined(seconds):
    windows = [START + each * SECOND for each in seconds]
    thinning = Thinning.of(SMALL, windows)
    expected = {}
    for window in windows:
        expected.setdefault(int(window.timestamp() // thinning.length), window)
    assert set(thinning.newest(10**6)) == set(expected.values())
    assert len(expected) <= SMALL.remember or thinning.length == SMALL.longest_slot


def test_every_window_has_a_slot_first_and_an_hour_has_one_in_the_end():
    spec = stream(remember=336)  # of 14 days: an hour each
    windows = [START + index * 5 * SECOND for index in range(336)]
    thinning = Thinning.of(spec, windows)
    assert thinning.newest(336) == windows
    for index in range(336, 3 * 86_400 // 5):
        thinning.add(START + index * 5 * SECOND)
    assert spec.longest_slot == 3600
    assert 168 <= len(thinning.newest(10**6)) <= 336
    for day in range(3, 40):
        for minute in range(0, 1440, 7):
            thinning.add(START + day * DAY + timedelta(minutes=minute))
    newest = thinning.newest(336)
    assert 336 <= len(newest) < 336 + STEP
    gaps = {later - earlier for earlier, later in zip(newest, newest[1:], strict=False)}
    assert max(gaps) < timedelta(hours=1, minutes=7)


def learn(state: BaselineState, seconds: float, seed: int = 0, *, doubtful: bool = False, shift: float = 0.0):
    window = START + seconds * SECOND
    profiles = [batch(np.random.default_rng([seed, round(seconds * 1000)]), shift)]
    verdict = judge_drift(profiles, *state.without_window(window), state.spec_at(window), window=window)
    state.count(window)
    state.forget(window)
    state.learn(window, profiles, verdict.statistics, doubtful=doubtful)
    return verdict, profiles


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([5, 60, 700, 4000]), st.sampled_from(["learn", "learn", "learn", "doubt", "forget", "again"])
        ),
        max_size=90,
    ),
    st.integers(0, 9),
)
def test_the_state_is_the_fold_of_the_windows_that_have_a_slot(steps, seed):
    """Learnt one by one, with slots that become longer, windows that are forgotten and replaced; or read at once."""
    state, seconds, current, joined = StreamBaselineState(SMALL), 0.0, {}, []
    for index, (gap, step) in enumerate(steps):
        if step == "forget" and current:
            window = list(current)[index % len(current)]
            state.forget(window)
            del current[window]
            continue
        if step == "again" and current:
            window = list(current)[index % len(current)]
            at = (window - START).total_seconds()
            del current[window]
        else:
            seconds += gap
            at, window = seconds, START + seconds * SECOND
        verdict, profiles = learn(state, at, seed + index, doubtful=step == "doubt")
        if step != "doubt":
            current[window] = (profiles, verdict.statistics)
            joined.append(window)
    again = StreamBaselineState(SMALL, None, dict.fromkeys(joined), [])
    chosen, fold = set(again.choose_windows()), BaselineState(SMALL)
    for window, (profiles, statistics) in current.items():
        if window in chosen:
            fold.learn(window, profiles, statistics)
    again.hold(fold)
    assert again.history.windows == state.history.windows
    columns = [(("f", None), name) for name in ("ks", "tail", "location", "size")]
    assert np.array_equal(again.history.matrix(columns), state.history.matrix(columns), equal_nan=True)
    one, other = (each.baseline.shape(("f", None)) for each in (again, state))
    assert repr(one) == repr(other)
    now = [batch(np.random.default_rng(99))]
    verdicts = [judge_drift(now, s.baseline, s.history, SMALL.at_rate(1000), window=START + 9 * DAY) for s in (again, state)]
    assert verdicts[0].to_dict() == verdicts[1].to_dict()


def test_nothing_is_reported_before_the_baseline_spans_its_time():
    state = StreamBaselineState(stream(remember=56, remember_days=1, learn_for="2h"))
    verdicts = [learn(state, index * 300, shift=3.0 * (index % 20 == 19))[0] for index in range(60)]
    assert {verdict.action for verdict in verdicts[:24]} == {"pass"}
    assert "once the baseline spans 2h" in verdicts[23].message
    assert verdicts[25].calibrated
    far = judge_drift(
        [batch(np.random.default_rng(1), 50.0, n=4000)], state.baseline, state.history,
        state.spec.at_rate(1000), window=START + 5 * timedelta(hours=1),
    )  # fmt: skip
    assert (far.action, far.levels.hold_at) == ("hold", 0.001)
    assert far.to_dict()["levels"] == {"hold_at": 0.001, "warn_at": 0.007, "windows_per_week": 1000}
    assert all(result.feature != "volume" for result in far.results)


@pytest.mark.parametrize("hours_before", [0, 1, 24 * 60])
def test_an_old_window_is_judged_once_the_baseline_spans_its_time(hours_before):
    """Released or judged again, when the baseline has moved on. Its own age is no time that the baseline spans."""
    spec = stream(remember=56, remember_days=1, learn_for="2h")
    state, young = StreamBaselineState(spec), StreamBaselineState(spec)
    for index in range(60):
        learn(state, index * 300)
    for index in range(23):
        learn(young, index * 300)
    window, far = state.history.windows[0] - timedelta(hours=hours_before, seconds=1), [batch(np.random.default_rng(1), 50.0)]
    old = judge_drift(far, state.baseline, state.history, spec.at_rate(1000), window=window)
    assert (old.action, old.status) == ("hold", "calibrated")
    assert judge_drift(far, young.baseline, young.history, spec.at_rate(1000), window=window).action == "pass"


def test_a_window_with_a_warning_does_not_join():
    state = StreamBaselineState(SMALL)
    for index in range(30):
        learn(state, index * 5, doubtful=index == 7)
    assert START + 35 * SECOND not in state.history.windows
    assert state.waiting == ()
