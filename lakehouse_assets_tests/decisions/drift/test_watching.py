"""How well each feature is watched: what `baseline show` lists, and what a verdict says of a feature that is not.

Belongs here: the least change beside the gate's own judgement. Does not: seasons (test_seasons).
"""

import numpy as np
import pandas as pd
import pytest

from lakehouse_assets.contracts.drift import DriftSpec, FeatureSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.messages import finding_of
from lakehouse_assets.decisions.drift.watching import find_next_watches
from lakehouse_assets.reports.baselines import feature_rows, short_rows

KINDS = {"steady": "number", "restless": "number", "name": "category"}
SPEC = DriftSpec(features=tuple(FeatureSpec(name=name, expr=name) for name in KINDS), relations=False)


STEADY = DriftSpec(features=(FeatureSpec(name="steady", expr="steady"),), relations=False)


def measured(rng, shift=0.0, spread=5.0):
    rows = pd.DataFrame(
        {
            "steady": rng.normal(10 + shift, 2, 500),
            "restless": rng.normal(spread * rng.normal(), 1, 500),  # windows differ by five of their own deviations
            "name": rng.choice(["a", "b", "c"], 500),
        }
    )
    return list(measure_columns(rows, KINDS))


def learn(spec, windows):
    state, rng = BaselineState(spec), np.random.default_rng(4)
    for index in range(windows):
        own = measured(rng)
        state.learn(index, own, judge_drift(own, state.baseline, state.history, spec).statistics)
    return state


@pytest.fixture(scope="module")
def state():
    return learn(SPEC, 40)


def test_the_least_shift_is_what_the_gate_quarantines():
    """A quarter of it is let through, and twice as much is not, in 20 windows of each."""
    state = learn(STEADY, 60)
    watch = next(each for each in find_next_watches(state.history, STEADY) if each.key == ("steady", None))
    assert watch.is_watched
    assert watch.shift is not None
    assert 0.1 < watch.shift < 1.0
    share = {}
    for times in (0.25, 2.0):
        rng = np.random.default_rng(int(times * 10))
        actions = [
            judge_drift(measured(rng, times * watch.shift * 2), state.baseline, state.history, STEADY).action for _ in range(20)
        ]
        share[times] = actions.count("hold") / 20
    assert share[0.25] <= 0.1
    assert share[2.0] >= 0.95


def test_the_verdict_names_features_of_which_no_shift_would_be_noticed(state):
    """In each verdict, and to who looks at the baseline."""
    verdict = judge_drift(measured(np.random.default_rng(9)), state.baseline, state.history, SPEC)
    assert verdict.unwatched == (("restless", None),)
    assert "not watched: restless, whose windows differ by so much" in verdict.message
    finding = finding_of(verdict.message)
    assert verdict.message.startswith(finding) and "not watched" not in finding
    assert verdict.to_dict()["unwatched"] == [["restless", None]]
    # Where it is off by so much that it is noticed all the same, the message does not say that it would not be.
    own = measured(np.random.default_rng(9))
    far = [profile for profile in measured(np.random.default_rng(9), spread=400.0) if profile.key == ("restless", None)]
    verdict = judge_drift([*(m for m in own if m.key != ("restless", None)), *far], state.baseline, state.history, SPEC)
    assert (verdict.action, verdict.worst.key, verdict.unwatched) == ("hold", ("restless", None), (("restless", None),))
    assert "not watched" not in verdict.message
    rows = feature_rows(state.baseline, [], find_next_watches(state.history, SPEC))
    by_name = {row["feature"]: row for row in rows}
    assert (by_name["restless"]["is_watched"], by_name["steady"]["is_watched"]) == (False, True)
    assert by_name["steady"]["season"] == "none"
    short = {row["feature"]: row["finds"] for row in short_rows(rows)}
    assert short["restless"] == "not watched"
    assert short["steady"].endswith(" std")
    assert short["name"] is None


def test_before_enough_windows_nothing_is_claimed():
    """Neither that a feature is watched, nor that it is not."""
    assert find_next_watches(BaselineState(SPEC).history, SPEC) == []
    young, rng = learn(SPEC, SPEC.hold_from - 1), np.random.default_rng(5)
    assert find_next_watches(young.history, SPEC) == []
    rows = feature_rows(young.baseline, [], [])
    assert {(row["season"], row["finds"], row["is_watched"]) for row in rows} == {(None, None, None)}
    assert judge_drift(measured(rng), young.baseline, young.history, SPEC).unwatched == ()
