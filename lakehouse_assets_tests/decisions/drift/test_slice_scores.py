"""Which rows are off: slices watched by the gate, named, quarantined, forgotten; intervals and categories with an excess.

Belongs here: slices and excesses → finding and message. Does not: measuring them (test_slices).
"""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.categories import Categories
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.distances import Ecdf
from lakehouse_assets.decisions.drift.excess import find_category, find_interval
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.relations import read_measurement
from lakehouse_assets.decisions.drift.slice_messages import describe_conditions, quote_name
from lakehouse_assets.decisions.drift.slices import Slices

KINDS = {"value": "number", "origin": "category", "kind": "category"}
SPEC = DriftSpec.model_validate({"features": [{"name": "value", "unit": "kPa"}, "origin", "kind"]})
WITHOUT = SPEC.model_copy(update={"slices": False})


def window(rng, rows=600):
    """Rows whose level changes from window to window by more than the faults below."""
    rows = round(rows * float(np.exp(0.05 * rng.normal())))
    frame = pd.DataFrame({"origin": rng.choice(["EWR", "JFK", "LGA"], rows), "kind": rng.choice(["day", "night"], rows)})
    return frame.assign(value=100 + 0.5 * rng.normal() + rng.normal(size=rows))


def measure(rows):
    return list(measure_columns(rows, KINDS, with_slices=True))


@cache
def learned(windows):
    rng, state = np.random.default_rng(3), BaselineState(SPEC)
    for index in range(windows):
        measured = measure(window(rng))
        verdict = judge_drift(measured, state.baseline, state.history, SPEC)
        state.learn(index, measured, verdict.statistics)
    return state


def judge(rows, state, spec=SPEC):
    return judge_drift(measure(rows), state.baseline, state.history, spec)


def faulty(shift=1.0, **where):
    rows = window(np.random.default_rng(77))
    return rows.assign(value=rows["value"] + shift * np.logical_and.reduce([rows[c] == name for c, name in where.items()]))


@pytest.mark.parametrize("where", [{"origin": "LGA"}, {"kind": "night"}, {"kind": "day", "origin": "JFK"}])
def test_a_fault_in_some_rows_is_quarantined_and_names_them(where):
    rows = faulty(**where)
    verdict = judge(rows, learned(40))
    assert verdict.action == "hold"
    assert verdict.worst is not None
    assert verdict.worst.slice is not None
    assert dict(verdict.worst.slice.conditions) == where
    affected = int(np.logical_and.reduce([rows[c] == name for c, name in where.items()]).sum())
    named = describe_conditions(tuple(sorted(where.items(), reverse=True)))
    assert f"where {named} ({affected} of {len(rows)} rows)" in verdict.message
    assert "kPa higher than usual" in verdict.message
    assert judge(rows, learned(40), WITHOUT).action != "hold"
    assert json.loads(json.dumps(verdict.to_dict()))["worst"]["slice"]["conditions"] == [
        list(each) for each in sorted(where.items(), reverse=True)
    ]


def test_a_clean_window_and_one_that_is_off_as_a_whole_name_no_slice():
    rng, state = np.random.default_rng(5), learned(40)
    verdicts = [judge(window(rng), state) for _ in range(20)]
    assert [v.action for v in verdicts].count("hold") <= 1
    assert not [v for v in verdicts if v.worst and v.worst.slice and v.action == "hold"]
    rows = window(rng)
    verdict = judge(rows.assign(value=rows["value"] + 5), state)
    assert verdict.action == "hold"
    assert verdict.worst is not None
    assert verdict.worst.slice is None


def test_slices_are_learnt_before_they_are_judged():
    state, rng = BaselineState(SPEC), np.random.default_rng(3)
    for index in range(45):
        measured = measure(window(rng))
        if index < 25:  # as a log that was written before slices were measured
            measured = [m for m in measured if not isinstance(m, Slices)]
        state.learn(index, measured, judge_drift(measured, state.baseline, state.history, SPEC).statistics)
    young = judge(faulty(origin="LGA"), state)
    assert young.worst is None or young.worst.slice is None
    assert young.to_dict() == judge(faulty(origin="LGA"), state, WITHOUT).to_dict()


def test_a_forgotten_window_leaves_no_trace_and_a_stored_one_gives_the_same_verdict():
    state, again, rng = BaselineState(SPEC), BaselineState(SPEC), np.random.default_rng(3)
    for index in range(32):
        measured = measure(window(rng))
        statistics = judge_drift(measured, state.baseline, state.history, SPEC).statistics
        state.learn(index, measured, statistics)
        stored = [read_measurement(json.loads(json.dumps(m.to_dict()))) for m in measured]
        again.learn(index, stored, statistics)
    fault = measure(faulty(origin="LGA"))
    verdicts = [judge_drift(fault, each.baseline, each.history, SPEC).to_dict() for each in (state, again)]
    assert verdicts[0] == verdicts[1]
    state.learn("odd", measure(faulty(9.0, origin="LGA")), {})
    assert judge_drift(fault, state.baseline, state.history, SPEC).to_dict() != verdicts[0]
    assert judge_drift(fault, *state.without_window("odd"), SPEC).to_dict() == verdicts[0]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("LGA", "LGA"),
        ("it's", '"it\'s"'),
        ("<script>alert(1)</script>", '"<script>alert(1)</script>"'),
        ("two\nlines", '"two\\nlines"'),
        ("| a *b*", '"| a *b*"'),
        ("", '""'),
        (" a", '" a"'),
        ("x" * 200, "x" * 39 + "…"),
        ("#0123456789abcdef", "#0123456789abcdef"),
        ("\u202eevil", '"\\u202eevil"'),
    ],
)
def test_a_category_is_named_on_one_line_as_it_is_spelt(name, shown):
    assert quote_name(name) == shown


def test_the_interval_with_more_rows_than_usual():
    rng = np.random.default_rng(1)
    baseline = Ecdf.of(rng.normal(100, 1, 20_000).round(2))
    batch = np.concatenate([rng.normal(100, 1, 800).round(2), rng.uniform(101.2, 101.4, 200)])
    excess = find_interval(Ecdf.of(batch), baseline)
    assert excess is not None
    assert excess.low is not None
    assert excess.high is not None
    assert 101.1 <= excess.low < 101.25
    assert 101.35 < excess.high <= 101.5
    inside = int(((batch >= excess.low) & (batch <= excess.high)).sum())
    assert excess.rows == inside
    assert excess.usual == pytest.approx(
        1000
        * ((baseline.weight_up_to(np.array([excess.high])) - baseline.weights_around(np.array([excess.low]))[0])[0] / 20_000),
        abs=1e-2,
    )
    stuck = find_interval(Ecdf.of(np.concatenate([rng.normal(100, 1, 800), np.full(100, 55.5)])), baseline)
    assert stuck is not None
    assert (stuck.rows, stuck.usual, stuck.low, stuck.high, stuck.precision) == (100, 0.0, 55.5, 55.5, 1.0)


def test_no_interval_where_nothing_is_more_than_usual():
    rng = np.random.default_rng(2)
    baseline = Ecdf.of(rng.normal(size=20_000))
    assert find_interval(Ecdf.of(rng.normal(size=1000)), baseline) is None
    assert find_interval(Ecdf.of([3.0]), baseline) is None


def test_the_category_with_more_rows_than_usual():
    normal = Categories({"a": 500.0, "b": 480.0, "c": 20.0}, 0.0)
    excess = find_category(Categories({"a": 50.0, "b": 48.0, "c": 2.0, "new": 30.0}, 0.0), normal)
    assert excess is not None
    assert (excess.category, excess.rows, excess.usual, excess.precision) == ("new", 30, 0.0, 1.0)
    assert find_category(Categories({"a": 50.0, "b": 48.0}, 0.0), normal) is None
    # The unnamed ones of the baseline may be as frequent as the rarest named one.
    many = find_category(Categories({"a": 50.0, "new": 50.0}, 0.0), Categories({"a": 600.0, "b": 300.0}, 100.0))
    assert many is None or many.usual >= 30
