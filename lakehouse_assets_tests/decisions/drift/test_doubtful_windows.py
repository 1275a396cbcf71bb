"""When windows that were accepted with a warning join the baseline.

Belongs here: the rule, and baselines by it. Does not: reading it from a log (storage), or the rates (docs/drift.md).
"""

from datetime import UTC, datetime, timedelta
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.drift_faults import SPEC, learn, window
from lakehouse_assets.contracts.decision import Counts, Decision, Reason
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.doubtful_windows import DoubtfulWindows, is_doubtful
from lakehouse_assets.decisions.drift.judge import judge_drift

OVER_WINDOWS = Reason("drift", "warning", "failed", "report", 0, "has been higher for 3 windows")
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 5))
def test_a_doubtful_window_joins_if_it_stays_alone(doubts, after):
    """Beside runs that are cut out of the whole list."""
    rule, joined = DoubtfulWindows(after), []
    for index, doubtful in enumerate(doubts):
        joined += rule.join(index, doubtful=doubtful)
    wanted, counted = [], 0
    for doubtful, run in groupby(range(len(doubts)), key=lambda i: doubts[i]):
        own = list(run)
        while own and doubtful and counted < after:  # nothing is known yet
            wanted.append(own.pop(0))
            counted += 1
        is_last = bool(own) and own[-1] == len(doubts) - 1
        if not doubtful or (len(own) == 1 and not is_last):
            wanted += own
            counted += len(own)
    assert joined == wanted
    assert sorted([*joined, *rule.waiting]) == joined + list(rule.waiting)


def decision(**fields):
    ruleset = '{"drift": {"warn_at": 0.05}}'
    values = {
        "table": "t", "p_extracted_at": NOON, "extraction_seq": 1, "number": 1, "kind": "judged", "counts": Counts(),
        "verdict": "published_with_warnings", "reasons": (), "ruleset_hash": "", "ruleset": ruleset, "bronze_version": 1,
        "baseline_version": 0, "run_id": "", "decided_at": NOON,
    }  # fmt: skip
    return Decision(**{**values, **fields})


@pytest.mark.parametrize(
    ("fields", "doubtful"),
    [
        ({}, False), ({"drift_p_value": 0.05}, True), ({"drift_p_value": 0.0501}, False), ({"drift_p_value": 0.001}, True),
        ({"drift_p_value": 0.001, "kind": "released"}, False), ({"drift_p_value": 0.001, "kind": "rejudged"}, False),
        ({"drift_p_value": 0.5, "reasons": (OVER_WINDOWS,)}, False), ({"drift_p_value": 0.05, "ruleset": "{}"}, False),
        ({"drift_p_value": 0.05, "ruleset": '{"drift": null}'}, False),
    ],
)  # fmt: skip
def test_a_person_who_decided_is_not_doubted(fields, doubtful):
    """Nor is what has no drift, or a warning over several windows alone."""
    assert is_doubtful(decision(**fields)) is doubtful


def measured(seed, shift=0.0):
    return list(measure_columns((window(np.random.default_rng(seed), "normal") + shift).to_frame("value"), {"value": "number"}))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.booleans(), min_size=2, max_size=8), st.data())
def test_without_a_window_is_as_if_it_had_never_been(doubts, data):
    """A run that it cut in two is one, and the other way round."""
    spec = SPEC.model_copy(update={"warn_from": 2})
    moments = [NOON + timedelta(days=day) for day in range(2 + len(doubts))]
    doubted = dict(zip(moments, [False, False, *doubts], strict=True))

    def fold(left_out=None):
        state = BaselineState(spec)
        for seed, moment in enumerate(moments):
            if moment != left_out:
                state.learn(moment, measured(seed), {("value", None): {"ks": seed / 100}}, doubtful=doubted[moment])
        return state

    left_out = data.draw(st.sampled_from(moments))
    state, wanted = fold(), fold(left_out)
    baseline, history = state.without_window(left_out)
    assert history.windows == wanted.history.windows
    assert len(baseline) == len(wanted.baseline)
    state.forget(left_out)
    assert (state.history.windows, state.waiting) == (wanted.history.windows, wanted.waiting)


def test_a_small_fault_that_lasts_does_not_become_normal():
    """Ten windows in a row with a warning: the eleventh is as strange as the first, and not where they were learnt."""

    def verdict(state, seed):
        return judge_drift(measured(seed, shift=1.8), state.baseline, state.history, SPEC)

    after = {}
    for rule in (True, False):
        state = learn(np.random.default_rng(2), "normal", 60)
        for index in range(10):
            state.learn(100 + index, measured(index, shift=1.8), verdict(state, index).statistics, doubtful=rule)
        after[rule] = verdict(state, 50).p_value
        assert (len(state.history), len(state.waiting)) == ((60, 10) if rule else (70, 0))
    assert after[True] <= 0.05
    assert after[False] > 2 * after[True]
