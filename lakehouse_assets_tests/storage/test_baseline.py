"""The baseline's table: categories and relations among the profiles, requests, and what is read of a long history.

Belongs here: rows ↔ baseline state, without a JVM. Does not: judging (decisions), or the requests themselves (operations).
"""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from datasketches import kll_doubles_sketch

from lakehouse_assets.decisions.drift.baseline_state import BaselineState, needed_windows
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.relations import Relations, compute_relations
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.baseline import (
    PROFILES,
    BaselineEvent,
    Entry,
    baseline_events,
    log_baseline_event,
    write_profiles,
    write_seed,
)
from lakehouse_assets.storage.baseline_state import read_baseline, read_entries
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import readings

SPEC = readings(checks=[], drift={"features": ["value", "hour", "sensor"]})


def number(name: str, values, **more) -> Profile:
    sketch = kll_doubles_sketch(256)
    sketch.update(np.asarray(values, dtype=float))
    mean, std = float(np.mean(values)), float(np.std(values, ddof=1))
    stored = {"minimum": min(values), "maximum": max(values), "sketch": bytes(sketch.serialize())}
    return Profile(name, **{"stratum": None, "rows": len(values), "mean": mean, "std": std, **stored, **more})


def measured(day: int) -> list:
    values, hours = [float(day + i) for i in range(9)], [float(i % 3) for i in range(9)]
    counted = number("hour", hours, sketch=None, counts=((0.0, 3), (1.0, 3), (2.0, 3)), distinct=3.0)
    names = Profile("sensor", None, 9, 1, kind="category", distinct=2.0, counts=(("a", 5), ("it's", 2)), others=1)
    together = compute_relations({"value": np.array(values), "hour": np.array(hours)})
    return [number("value", values), counted, names, together]


def decided(day: int, **changes):
    drift = {"statistics": [["value", None, {"ks": 0.1 * day, "tail": 0.2}], ["relations", None, {"means": 0.3}]]}
    fields = {"ruleset": SPEC.ruleset(), "teaches": True, "drift": drift, "profiles": tuple(m.to_dict() for m in measured(day))}
    return logbook.decided(day, **{**fields, **changes})


def learnt(settings, *days: int):
    decisions = logbook.write(settings, [decided(day) for day in days])
    write_profiles(settings, "readings", decisions)
    return decisions


def event(kind, after: int, number: int, **extra) -> BaselineEvent:
    at = datetime(2024, 7, 1, 0, number, tzinfo=UTC)
    more = {"operation": f"{kind}-{number}", **extra}
    return BaselineEvent("readings", kind, after, at, "ann", "because", f"run-{kind}-{number}", more)


def described(state):
    baseline = state.baseline
    return {key: (baseline.windows(key), repr(baseline.shape(key))) for key in baseline.keys} | {"history": len(state.history)}


def test_profiles_read_back_as_written(settings):
    decisions = learnt(settings, 1)
    (entry,) = read_entries(settings, SPEC, decisions, 1)
    assert list(entry.measured) == measured(1)
    assert entry.statistics == {("value", None): {"ks": 0.1, "tail": 0.2}, ("relations", None): {"means": 0.3}}
    assert (entry.number, entry.seeded) == (1, False)


def test_relations_of_a_feature_whose_meaning_changed_are_left_out(settings):
    decisions = learnt(settings, 1)
    changed = readings(checks=[], drift={"features": [{"name": "value", "expr": "value * 2"}, "hour", "sensor"]})
    (entry,) = read_entries(settings, changed, decisions, 1)
    assert [one.key[0] for one in entry.measured] == ["hour", "sensor"]
    assert entry.statistics == {}
    assert not any(isinstance(one, Relations) for one in entry.measured)


def test_a_baseline_version_contains_the_operations_up_to_it(settings):
    """Learnt 1 and 2, pinned, learnt 3, reset, learnt 4, let go: each version is what it was then."""
    decisions = learnt(settings, 1, 2)
    log_baseline_event(settings, event("pin", 2, 1))
    decisions += learnt(settings, 3)
    log_baseline_event(settings, event("reset", 3, 2))
    decisions += learnt(settings, 4)
    log_baseline_event(settings, event("unpin", 4, 3))
    decisions += learnt(settings, 5)
    key = ("value", None)
    states = {}
    for version in range(1, 6):
        state = read_baseline(settings, SPEC, decisions, version)
        states[version] = (state.baseline.windows(key), state.baseline.pinned)
    assert states == {1: (1, False), 2: (2, True), 3: (0, True), 4: (1, False), 5: (2, False)}
    assert [e.kind for e in baseline_events(settings, "readings", 3)] == ["pin", "reset"]
    pinned = read_baseline(settings, SPEC, decisions, 3).baseline.reference[key]
    assert sorted(pinned.values) == sorted({float(day + i) for day in (1, 2) for i in range(9)})


def test_a_pinned_baseline_survives_the_replacement_of_a_window(settings):
    decisions = learnt(settings, 1, 2)
    log_baseline_event(settings, event("pin", 2, 1))
    again = decided(3, p_extracted_at=decisions[0].p_extracted_at, extraction_seq=2)
    decisions += logbook.write(settings, [again])
    write_profiles(settings, "readings", [again])
    superseded = decided(
        3, p_extracted_at=decisions[0].p_extracted_at, extraction_seq=1, superseded_by=again.decision_id, teaches=False
    )
    decisions += logbook.write(settings, [superseded], applied=False)
    state = read_baseline(settings, SPEC, decisions, 3)
    assert [entry.number for entry in read_entries(settings, SPEC, decisions, 3)] == [2, 3]
    assert min(state.baseline.reference["value", None].values) == 1.0
    assert min(state.baseline.shape(("value", None)).values) == 2.0


def test_a_seed_counts_once_it_is_logged_and_until_the_window_itself_is_accepted(settings):
    seeded = event("seed", 0, 1, ruleset=SPEC.ruleset(), source="x")
    days = [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2)]
    entries = [Entry(at, 0, tuple(measured(day)), {("value", None): {"ks": 0.5}}, True) for day, at in enumerate(days, 1)]
    write_seed(settings, seeded, entries)
    assert read_entries(settings, SPEC, [], 0) == []
    log_baseline_event(settings, seeded)
    assert read_entries(settings, SPEC, [], 0) == entries
    decisions = learnt(settings, 2)
    assert [(e.window.day, e.seeded) for e in read_entries(settings, SPEC, decisions, 2)] == [(1, True), (2, False)]
    assert [(e.window.day, e.seeded) for e in read_entries(settings, SPEC, decisions, 1)] == [(1, True), (2, True)]
    log_baseline_event(settings, event("reset", 2, 2))
    assert read_entries(settings, SPEC, decisions, 2) == []


def test_quarantining_a_window_again_does_not_restore_its_seed(settings):
    """Seeded 1 and 2; then 1 is accepted, and held; then both are seeded once more."""
    days = [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2)]
    entries = [Entry(at, 0, tuple(measured(day)), {}, True) for day, at in enumerate(days, 1)]
    first = event("seed", 0, 1, ruleset=SPEC.ruleset(), source="x")
    write_seed(settings, first, entries)
    log_baseline_event(settings, first)
    decisions = learnt(settings, 1)
    decisions += logbook.write(settings, [decided(2, p_extracted_at=days[0], verdict="quarantined", teaches=False)])
    assert [e.window.day for e in read_entries(settings, SPEC, decisions, 2)] == [2]
    log_baseline_event(settings, event("reset", 2, 2))
    again = event("seed", 2, 3, ruleset=SPEC.ruleset(), source="x")
    write_seed(settings, again, entries)
    log_baseline_event(settings, again)
    assert [(e.window.day, e.seeded) for e in read_entries(settings, SPEC, decisions, 2)] == [(1, True), (2, True)]


def test_profiles_and_seeds_are_written_once(settings):
    decisions = learnt(settings, 1)
    write_profiles(settings, "readings", decisions)
    write_profiles(settings, "readings", [])
    assert len(delta.read_arrow(settings.path("baseline", "readings"))) == len(measured(1))
    decisions += logbook.write(settings, [decided(2)])
    write_profiles(settings, "readings", decisions)
    assert len(delta.read_arrow(settings.path("baseline", "readings"))) == len(measured(1)) + len(measured(2))
    entries = [Entry(datetime(2023, 12, 1, tzinfo=UTC), 0, tuple(measured(3)), {}, True)]
    for run in (1, 2):
        write_seed(settings, event("seed", 2, run, ruleset=SPEC.ruleset(), source="x", operation="same"), entries)
    decision_ids = delta.read_arrow(settings.path("baseline", "readings"))["decision_id"].to_pylist()
    assert decision_ids.count("seed-same") == len(measured(3))


SHORT = readings(
    checks=[],
    drift={"features": ["value", "hour", {"name": "rare", "expr": "value", "by": "sensor"}], "remember": 20, "hold_from": 20}
    | {"hold_at": 0.05, "warn_at": 0.1, "max_shift": 0.5},
)
DAYS, EVERY = 110, 9


def long_ago(rng, day: int) -> list:
    """`hour` becomes a text on the way; a stratum that only every ninth day has; days without any value."""
    values = rng.normal(day / 50, 1.0, 30)
    if day % 13 == 5:
        return [Profile("value", None, 30, 30), Profile("hour", None, 30, 30)]
    hour = number("hour", rng.integers(0, 5, 30).astype(float), sketch=None, counts=((0.0, 20), (day * 1.0, 10)))
    if day > 70:
        # Of very many texts none may be frequent enough to be kept.
        rare_only = {"counts": (), "others": 30} if day % 4 == 0 else {}
        texts = {"counts": (("a", 20), (f"it's {day % 7}", 6)), "others": 4 - day % 4}
        hour = Profile("hour", None, 30, kind="category", **{"nulls": day % 4, **texts, **rare_only})
    rare = [number("rare", values[:9], stratum="b")] if day % EVERY == 0 else []
    both = compute_relations({"value": values, "hour": rng.normal(size=30)})
    return [number("value", values), hour, number("rare", values[9:], stratum="a"), *rare, both]


def a_long_history(settings, seed: int):
    """Some windows are held, some come twice. Returns the decisions."""
    rng, decisions = np.random.default_rng(seed), []
    for day in range(1, DAYS):
        profiles = long_ago(rng, day)
        drift = {"statistics": [[*m.key, {"ks": rng.uniform(), "tail": rng.uniform()}] for m in profiles]}
        more = {"ruleset": SHORT.ruleset(), "teaches": day % 17 != 0, "drift": drift}
        again = {"p_extracted_at": decisions[day // 2].p_extracted_at, "extraction_seq": day} if day % 11 == 0 else {}
        decisions.append(decided(day, profiles=tuple(m.to_dict() for m in profiles), **more, **again))
    for first, last in ((0, 40), (40, 80), (80, DAYS)):
        write_profiles(settings, "readings", decisions[first:last])
    return logbook.write(settings, decisions)


def contents(state):
    """Everything that a judgement asks of a baseline_state."""
    baseline, history = state.baseline, state.history
    columns = [(key, name) for key in baseline.keys for name in ("ks", "tail", "signed", "g", "missing", "volume", "size")]
    columns += [(("volume", None), "volume")]
    return {
        "history": (list(history.windows), np.nan_to_num(history.matrix(columns), nan=-1).tolist()),
        "volumes": list(baseline.volumes()),
        "moved": baseline.shifts(),
        "length": len(baseline),
        "known": {key: (baseline.windows(key), vectors(baseline.shape(key)), baseline.missing(key)) for key in baseline.keys},
        "pinned": {key: vectors(shape) for key, shape in baseline.reference.items()},
    }


def vectors(shape):
    fields = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(shape).items()}
    return type(shape).__name__, fields


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive(seconds=5)) for seed in (1, 2))])
def test_a_long_history_is_as_if_all_of_it_were_read(settings, seed):
    decisions = a_long_history(settings, seed)
    if seed == 1:
        log_baseline_event(settings, event("pin", 75, 1))
    if seed == 2:
        log_baseline_event(settings, event("reset", 15, 1))
    full = BaselineState(SHORT.drift_in_units)
    for entry in read_entries(settings, SHORT, decisions, DAYS):
        full.learn(entry.window, entry.measured, entry.statistics)
    state = read_baseline(settings, SHORT, decisions, DAYS, spare=4)
    if seed == 1:
        at_75 = BaselineState(SHORT.drift_in_units)
        for entry in read_entries(settings, SHORT, decisions, 75):
            at_75.learn(entry.window, entry.measured, entry.statistics)
        full.pin({key: at_75.baseline.shape(key) for key in at_75.baseline.keys})
    assert contents(state) == contents(full)
    for start in [decisions[index].p_extracted_at for index in (-1, -5, -30, 3)]:
        assert [len(part) for part in state.without_window(start)] == [len(part) for part in full.without_window(start)]
        state.forget(start)
        full.forget(start)
        assert contents(state) == contents(full)


def test_of_texts_that_are_all_rare_nothing_counts(settings):
    """Before they came there were others, which the baseline still holds however long ago that was."""
    decisions = []
    for day in range(1, DAYS):
        rows = {"counts": (("a", 30),)} if day % 5 == 0 or day < 30 else {"counts": (), "others": 30}
        profile = Profile("hour", None, 30, kind="category", **rows)
        more = {"ruleset": SHORT.ruleset(), "drift": {"statistics": []}, "profiles": (profile.to_dict(),)}
        decisions.append(decided(day, **more))
    write_profiles(settings, "readings", logbook.write(settings, decisions))
    full = BaselineState(SHORT.drift_in_units)
    for entry in read_entries(settings, SHORT, decisions, DAYS):
        full.learn(entry.window, entry.measured, entry.statistics)
    for spare in (1, 9):
        assert contents(read_baseline(settings, SHORT, decisions, DAYS, spare)) == contents(full)


def test_windows_beyond_the_baseline_are_not_read(settings):
    """Sketches that nobody could read, of windows that no longer count: no error says that they are not touched."""
    decisions = a_long_history(settings, 0)
    path = settings.path("baseline", "readings")
    rows = delta.read_arrow(path).to_pylist()
    # Of sixty windows some teach nothing, or have no value.
    assert needed_windows(SHORT.drift_in_units) + 15 < 60
    for row in rows:
        if row["decision_number"] < DAYS - 60 and row["stratum"] != "b":
            row["sketch"] = row["sketch"] and b"worn out"
    delta.append_arrow(pa.Table.from_pylist(rows, PROFILES), settings.path("baseline", "worn"))
    worn = readings(name="worn", checks=[], drift=SHORT.drift.model_dump())
    state = read_baseline(settings, worn, decisions, DAYS)
    assert contents(state) == contents(read_baseline(settings, SHORT, decisions, DAYS))
    with pytest.raises(ValueError, match="sketch"):
        for entry in read_entries(settings, worn, decisions, DAYS):
            state.learn(entry.window, entry.measured, entry.statistics)


def test_windows_with_a_warning_join_only_if_they_stay_alone(settings):
    """From twenty known windows on: 21 was alone, 23 and 24 were not, and of 26 it is not known yet."""
    doubtful = {3, 4, 21, 23, 24, 26}
    decisions = logbook.write(settings, [decided(day, drift_p_value=0.03 if day in doubtful else 0.5) for day in range(1, 27)])
    write_profiles(settings, "readings", decisions)
    state = read_baseline(settings, SPEC, decisions, 26)
    assert [window.day for window in state.history.windows] == [*range(1, 23), 25]
    assert [window.day for window in state.waiting] == [26]
    assert [window.day for window in read_baseline(settings, SPEC, decisions, 24).history.windows] == list(range(1, 23))
    again = decided(27, p_extracted_at=decisions[22].p_extracted_at, extraction_seq=1, kind="rejudged", drift_p_value=0.03)
    decisions += logbook.write(settings, [again])
    write_profiles(settings, "readings", [again])
    joined = read_baseline(settings, SPEC, decisions, 27)
    assert [window.day for window in joined.history.windows] == [*range(1, 23), 24, 25, 26, 23]


@pytest.mark.parametrize("day", [23, 24])
def test_a_discard_of_rows_does_not_let_a_doubtful_window_join(settings, day):
    """Nobody has decided on the window's other rows."""
    decisions = logbook.write(settings, [decided(n, drift_p_value=0.03 if n > 22 else 0.5) for n in range(1, 25)])
    discard = replace(decisions[day - 1], number=25, kind="discarded", because="x")
    decisions += logbook.write(settings, [discard])
    write_profiles(settings, "readings", decisions)
    state = read_baseline(settings, SPEC, decisions, 25)
    assert [window.day for window in state.history.windows] == list(range(1, 23))
    assert [window.day for window in state.waiting] == [23, 24]
