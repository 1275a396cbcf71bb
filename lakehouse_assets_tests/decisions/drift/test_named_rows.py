"""Which rows of a window that drifts are quarantined alone, and when the window is.

Belongs here: verdict → check of these rows. Does not: the gate (pipeline/test_named_rows_story), or the check's SQL.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_assets.checks.drift_rows import DriftRows
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.distances import Ecdf
from lakehouse_assets.decisions.drift.excess import Excess, count_beyond, find_exact_interval
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.named_rows import (
    choose_check,
    count_apart,
    find_offset,
    find_worst,
    name_excess,
    name_slice,
    slice_conditions,
    unchanged_features,
)
from lakehouse_assets.decisions.drift.pseudonyms import pseudonym
from lakehouse_assets.decisions.numbers import BatchNumbers

KINDS = {"value": "number", "origin": "category", "kind": "category"}
SPEC = DriftSpec.model_validate({"features": ["value", "origin", "kind"], "on_drift": "quarantine_rows", "season": "none"})


def window(rng, rows=600):
    frame = pd.DataFrame({"origin": rng.choice(["EWR", "JFK", "LGA"], rows), "kind": rng.choice(["day", "night"], rows)})
    return frame.assign(value=100 + 0.6 * (frame["origin"] == "JFK") + 0.2 * rng.normal() + rng.normal(size=rows))


@cache
def learned():
    rng, state = np.random.default_rng(3), BaselineState(SPEC)
    for index in range(30):
        measured = list(measure_columns(window(rng), KINDS, with_slices=True))
        verdict = judge_drift(measured, state.baseline, state.history, SPEC)
        state.learn(index, measured, verdict.statistics)
    return state


def judge(rows, spec=SPEC):
    state = learned()
    return judge_drift(list(measure_columns(rows, KINDS, with_slices=True)), state.baseline, state.history, spec)


def profile(rows):
    return next(iter(measure_columns(rows[["value"]], {"value": "number"})))


def named(rows, verdict, spec=SPEC):
    """The check of the gate: of the slice, or of the excess."""
    worst, checks = find_worst(verdict, spec), [name_excess(verdict, spec)]
    if worst and (conditions := slice_conditions(worst, spec)):
        inside = np.logical_and.reduce([rows[each.name] == each.category for each in conditions])
        history = learned().history
        checks.insert(0, name_slice(verdict, spec, profile(rows[inside]), profile(rows[~inside]), history.slices))
    return choose_check(checks)


def failing(check: DriftRows, rows):
    chosen = [rows[each.name] == each.category for each in check.categories]
    if check.low is not None:
        chosen.append(rows[check.feature].between(check.low, check.high))
    return np.logical_and.reduce(chosen)


def put(rows, where, value):
    return rows.assign(value=np.where(where, value, rows["value"]))


def tenth(rows):
    return np.arange(len(rows)) % 10 == 0


FAULTS = {
    "a slice, far away": lambda rows: put(rows, rows["origin"] == "LGA", rows["value"] + 6),
    "two categories": lambda rows: put(rows, (rows["origin"] == "JFK") & (rows["kind"] == "day"), rows["value"] + 6),
    "a slice that is stuck": lambda rows: put(rows, rows["origin"] == "LGA", 99.5),
    "another unit in a tenth": lambda rows: put(rows, tenth(rows), rows["value"] * 1000),
    "a new category": lambda rows: rows.assign(origin=np.where(tenth(rows), "x\"'\\", rows["origin"])),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_faulty_rows_are_named(fault):
    before = window(np.random.default_rng(77))
    rows = FAULTS[fault](before)
    check = named(rows, judge(rows))
    assert check is not None
    assert check.precision >= 0.9
    faulty = (rows != before).any(axis=1)
    assert failing(check, rows).tolist() == faulty.tolist()
    assert check.rows == faulty.sum()


OTHERS = {
    "too small a shift": lambda rows: put(rows, rows["origin"] == "LGA", rows["value"] + 1),
    "all rows": lambda rows: rows.assign(value=rows["value"] + 6),
    "half of the rows are missing": lambda rows: rows[: len(rows) // 2],
    "values are missing": lambda rows: put(rows, tenth(rows), np.nan),
}


@pytest.mark.parametrize("fault", OTHERS)
def test_the_window_is_quarantined(fault):
    rows = OTHERS[fault](window(np.random.default_rng(77)))
    verdict = judge(rows)
    assert verdict.action == "hold"
    assert named(rows, verdict) is None


def test_only_what_the_table_asks_for_is_named():
    rows = FAULTS["a slice, far away"](window(np.random.default_rng(77)))
    verdict = judge(rows)
    other = SPEC.model_copy(update={"on_drift": "quarantine_window"})
    assert find_worst(verdict, SPEC) is not None
    assert find_worst(verdict, other) is find_worst(None, SPEC) is find_worst(verdict, None) is None
    assert find_worst(replace(verdict, action="warn"), SPEC) is None


def test_what_is_off_must_be_a_value_of_one_row():
    verdict = judge(FAULTS["another unit in a tenth"](window(np.random.default_rng(77))))
    expr = "value - avg(value) over (partition by kind)"
    several = SPEC.model_copy(update={"features": (SPEC.features[0].model_copy(update={"expr": expr}),)})
    assert find_worst(verdict, several) is None
    assert verdict.worst is not None
    for name in ("volume", "relations"):
        assert find_worst(replace(verdict, worst=replace(verdict.worst, feature=name)), SPEC) is None
    assert find_worst(replace(verdict, worst=replace(verdict.worst, silent=True)), SPEC) is None


def test_a_pseudonym_names_no_row():
    verdict = judge(FAULTS["a new category"](window(np.random.default_rng(77))))
    assert verdict.worst is not None and verdict.worst.excess is not None
    hidden = replace(verdict.worst, excess=verdict.worst.excess._replace(category=pseudonym("Bonn")))
    assert name_excess(verdict, SPEC) is not None
    assert name_excess(replace(verdict, worst=hidden), SPEC) is None
    of_slice = judge(FAULTS["a slice, far away"](window(np.random.default_rng(77)))).worst
    assert of_slice is not None and of_slice.slice is not None
    masked = of_slice.slice._replace(conditions=(("origin", pseudonym("LGA")),))
    assert slice_conditions(replace(of_slice, slice=masked), SPEC) == ()


def test_a_stratum_is_a_condition():
    verdict = judge(FAULTS["another unit in a tenth"](window(np.random.default_rng(77))))
    assert verdict.worst is not None
    spec = SPEC.model_copy(update={"features": (SPEC.features[0].model_copy(update={"by": "origin"}), *SPEC.features[1:])})
    of_stratum = replace(verdict, worst=replace(verdict.worst, stratum="LGA", slice=None, excess=Excess(20, 1.0, 1.0, 2.0)))
    check = name_excess(of_stratum, spec)
    assert check is not None
    assert [(each.name, each.category) for each in check.categories] == [("origin", "LGA")]
    of_many = replace(of_stratum.worst, excess=Excess(400, 1.0, 1.0, 2.0)) if of_stratum.worst else None
    assert name_excess(replace(of_stratum, worst=of_many), spec) is None
    # No condition names the rows without a category, and without one the interval would be that of every stratum.
    of_none = replace(of_stratum, worst=replace(of_stratum.worst, stratum=None))
    assert name_excess(of_none, spec) is None
    assert name_excess(of_none, SPEC) is not None
    long = replace(of_stratum, worst=replace(of_stratum.worst, stratum="x" * 200))
    assert name_excess(long, spec) is None


def test_shares_of_the_named_categories_and_the_volume_are_those_of_all_rows():
    rows = FAULTS["a slice, far away"](window(np.random.default_rng(77)))
    check = named(rows, judge(rows))
    assert check is not None
    assert unchanged_features(check, SPEC) == {"origin"}
    # Ten versions of each key: the condition holds for superseded rows as well.
    of_rest = BatchNumbers(newest=600 - check.rows, failed_rows={check.id: 10 * check.rows})
    assert check.of_rows == 600
    assert count_apart(check, SPEC, of_rest) == check.rows
    assert count_apart(check, SPEC, replace(of_rest, newest=600)) == 0
    first = SPEC.model_copy(update={"features": SPEC.features[::-1][1:]})
    assert count_apart(check, first, of_rest) == count_apart(None, SPEC, of_rest) == 0
    state, rest = learned(), rows[~failing(check, rows)]
    measured = [m for m in measure_columns(rest, KINDS, with_slices=True) if m.key[0] != "origin"]
    measured += [m for m in measure_columns(rows, KINDS) if m.key[0] == "origin"]
    alone = judge_drift(measured, state.baseline, state.history, SPEC)
    with_all = judge_drift(measured, state.baseline, state.history, SPEC, rows_apart=int(failing(check, rows).sum()))
    assert (alone.action, with_all.action) == ("hold", "pass")


def test_a_recorded_check_without_the_windows_rows_is_judged_as_it_was():
    """Its decision replays, and its rule set is the same text."""
    rows = FAULTS["a slice, far away"](window(np.random.default_rng(77)))
    check = named(rows, judge(rows))
    assert check is not None
    recorded = check.model_dump(mode="json", exclude={"of_rows"})
    before = DriftRows.model_validate(recorded)
    assert count_apart(before, SPEC, BatchNumbers(newest=400, failed_rows={check.id: 7})) == 7
    assert count_apart(before, SPEC, BatchNumbers(newest=400)) == 0
    assert before.model_dump(mode="json") == recorded


def test_a_slice_is_compared_as_it_usually_differs():
    """JFK is 0.6 higher than the others in all windows."""
    offset = find_offset(learned().history.slices, (("origin", "JFK"),), "value")
    assert offset == pytest.approx(0.55, abs=0.15)  # of values within their batch's inner interval
    assert find_offset(learned().history.slices, (("origin", "none"),), "value") == 0
    assert find_offset([None], (("origin", "JFK"),), "value") == 0


@given(st.integers(0, 2**32), st.integers(0, 60), st.floats(0.5, 1.0))
def test_an_interval_is_as_precise_as_asked(seed, faulty, precision):
    rng = np.random.default_rng(seed)
    usual = Ecdf.of(rng.normal(size=5_000))
    values = np.concatenate((rng.normal(size=300), rng.normal(8, 0.3, size=faulty)))
    excess = find_exact_interval(Ecdf.of(values), usual, precision)
    if faulty > 15:
        assert excess is not None
    if excess is not None and excess.low is not None and excess.high is not None:
        assert excess.precision >= precision
        assert excess.rows == ((values >= excess.low) & (values <= excess.high)).sum()


@given(st.integers(0, 2**32), st.floats(0, 1))
def test_rows_beyond_what_is_usual_are_not_overestimated(seed, share):
    rng = np.random.default_rng(seed)
    usual, faulty = Ecdf.of(rng.normal(size=5_000)), int(200 * share)
    values = np.concatenate((rng.normal(size=200 - faulty), rng.normal(9, 0.1, size=faulty)))
    beyond = count_beyond(Ecdf.of(values), usual)
    assert faulty - 1 <= beyond <= faulty + 45  # the noise of an interval of some 200 rows
