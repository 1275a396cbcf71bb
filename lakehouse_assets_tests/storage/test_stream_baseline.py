"""A stream's baseline read from its table: the same as learnt window by window, from the rows of few windows.

Belongs here: log and rows → state, without a JVM. Does not: the slots (decisions/drift), or judging.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from deltalake import DeltaTable

from lakehouse_assets.decisions.decide import BatchEvidence, DecidedBatch, Knowledge, drift_verdict, make_decision
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.relations import compute_relations, read_measurement
from lakehouse_assets.decisions.gate import drift_outcome
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.storage import delta, kept_baselines, stream_baseline
from lakehouse_assets.storage.baseline import Entry, log_baseline_event, write_profiles, write_seed
from lakehouse_assets.storage.baseline_state import read_baseline
from lakehouse_assets.storage.newest_values import NewestValues
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.storage.test_baseline import contents, event, vectors
from lakehouse_assets_tests.support import lake_settings, readings

START = datetime(2024, 1, 1, tzinfo=UTC)
SPEC = readings(
    checks=[],
    source={"kind": "kafka", "topic": "readings", "format": "json"},
    extraction={"cadence": "hourly", "start": "2024-01-01", "stream": {}},
    drift={"features": ["value", "sensor"], "remember": 56, "remember_days": 2, "learn_for": "1h", "quarantines_per_week": 200}
    | {"warnings_per_week": 2000, "max_shift": 0.5},
)


def measure(rng, shift: float = 0.0) -> list:
    rows = int(rng.integers(5, 60))
    values = np.round(rng.normal(shift, 1.0, rows), 1)
    atoms, counts = np.unique(values, return_counts=True)
    names, named = np.unique(rng.choice(["a", "b", "c"], rows), return_counts=True)
    texts = tuple((str(name), int(n)) for name, n in zip(names, named, strict=True))
    number = Profile("value", None, rows, counts=tuple(zip(atoms.tolist(), counts.tolist(), strict=True)))
    return [number, Profile("sensor", None, rows, kind="category", counts=texts), compute_relations({"value": values})]


def judge_next(knowledge: Knowledge, start: datetime, profiles: list, **fields):
    """One decision, and what follows from it for the next, as a run does it."""
    rows = profiles[0].rows
    evidence = BatchEvidence(BatchNumbers(rows_in=rows, newest=rows), profiles)
    drift = drift_verdict(start, evidence, knowledge)
    number = len(knowledge.decisions) + 1
    decision = make_decision(
        drift_outcome(drift, evidence.numbers), evidence, drift, table="readings", p_extracted_at=start, extraction_seq=1,
        number=number, ruleset_hash=SPEC.ruleset_hash, ruleset=SPEC.ruleset(), bronze_version=1, baseline_version=number - 1,
        run_id="run", decided_at=logbook.DECIDED, **{"teaches": bool(drift and drift.learns), **fields},
    )  # fmt: skip
    knowledge.learn(DecidedBatch([decision], drift), evidence)
    return decision, drift


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    """Windows of two days, a fault of an hour among them, and one that a person has judged again; all from one state."""
    settings, rng = lake_settings(tmp_path_factory.mktemp("stream")), np.random.default_rng(0)
    knowledge = Knowledge([], (), read_baseline(settings, SPEC, [], 0))
    verdicts, start = [], START
    for index in range(500):
        start += timedelta(seconds=float(rng.choice([5, 5, 60, 1200])))
        verdicts.append(judge_next(knowledge, start, measure(rng, 6.0 if 300 <= index < 320 else 0.0)))
    quarantined = [d for d, _ in verdicts if d.verdict == "quarantined"]
    again = judge_next(knowledge, quarantined[3].p_extracted_at, measure(rng), kind="rejudged", because="x")
    verdicts += [again, *(judge_next(knowledge, start + timedelta(minutes=m), measure(rng)) for m in range(1, 5))]
    decisions = [decision for decision, _ in verdicts]
    for first in range(0, len(decisions), 50):
        logbook.write(settings, decisions[first : first + 50])
        write_profiles(settings, "readings", [d for d in decisions[first : first + 50] if d.accepted])
    return settings, decisions, [drift for _, drift in verdicts], knowledge


def test_a_read_state_is_the_one_that_judged(stream):
    """At any version: also after slots have become longer, and a window was quarantined, or judged again."""
    settings, decisions, _, knowledge = stream
    assert sum(decision.verdict == "quarantined" for decision in decisions) > 10
    state = read_baseline(settings, SPEC, decisions, len(decisions))
    assert contents(state) == contents(knowledge.baseline)
    assert 28 <= len(state.history) <= 56
    hours = [window.timestamp() // SPEC.drift_in_units.longest_slot for window in state.history.windows]
    assert len(set(hours)) == len(hours)


@pytest.mark.parametrize("number", [1, 29, 57, 113, 260, 305, 330, 501, 505])
def test_a_decision_replays_to_the_last_digit(stream, number):
    settings, decisions, verdicts, _ = stream
    decision = decisions[number - 1]
    state = read_baseline(settings, SPEC, decisions, decision.baseline_version)
    evidence = BatchEvidence(BatchNumbers(newest=1), [read_measurement(each) for each in decision.profiles])
    again = drift_verdict(decision.p_extracted_at, evidence, Knowledge(decisions[: number - 1], (), state))
    assert again.to_dict() == verdicts[number - 1].to_dict() == decision.drift
    assert again.levels.windows_per_week <= 120_960


def test_only_the_rows_of_chosen_windows_are_read(stream, monkeypatch):
    settings, decisions, *_ = stream
    read, sizes = delta.read_arrow, []

    def count(path, columns=None, filters=None):
        table = read(path, columns, filters)
        sizes.append(len(set(table["decision_id"].to_pylist())) if "decision_id" in table.schema.names else 0)
        return table

    monkeypatch.setattr(delta, "read_arrow", count)
    monkeypatch.setattr(kept_baselines, "_folds", NewestValues(1 << 30, lambda _: 1))
    read_baseline(settings, SPEC, decisions, len(decisions))
    assert 28 <= max(sizes) <= 60


def test_a_process_learns_what_is_new_alone(stream, tmp_path, monkeypatch):
    """And folds the past anew where a window's rows are lost, or back."""
    settings = lake_settings(tmp_path)
    _, decisions, *_ = stream
    decisions = [replace(d, number=number) for number, d in enumerate([d for d in decisions if d.accepted][:50], 1)]
    for decision in logbook.write(settings, decisions):
        write_profiles(settings, "readings", [decision])
    reads = []

    def counted(path, sources):
        reads.append(len(sources))
        return read_rows(path, sources)

    read_rows = stream_baseline._read_rows
    monkeypatch.setattr(stream_baseline, "_read_rows", counted)
    first = read_baseline(settings, SPEC, decisions[:45], 45)
    contents_then = contents(first)
    first.forget(first.history.windows[0])  # its own, and not the kept one's
    assert contents(read_baseline(settings, SPEC, decisions[:45], 45)) == contents_then
    for number in range(46, 51):
        read_baseline(settings, SPEC, decisions[:number], number)
    assert reads[0] > 20
    assert max(reads[1:]) <= 1
    path = settings.path("baseline", "readings")
    table = DeltaTable(path)
    table.delete(f"decision_id = '{decisions[3].decision_id}'")
    lost = contents(read_baseline(settings, SPEC, decisions, 50))
    assert reads[-1] > 20
    table.restore(table.version() - 1)
    contents_now = contents(read_baseline(settings, SPEC, decisions, 50))
    assert contents_now != lost
    monkeypatch.setattr(kept_baselines, "_folds", NewestValues(1 << 30, lambda _: 1))
    assert contents(read_baseline(settings, SPEC, decisions, 50)) == contents_now


def test_what_was_pinned_is_read_again_when_its_rows_are_back(stream, tmp_path):
    settings = lake_settings(tmp_path)
    _, decisions, *_ = stream
    decisions = [replace(d, number=number) for number, d in enumerate([d for d in decisions if d.accepted], 1)]
    write_profiles(settings, "readings", logbook.write(settings, decisions))
    log_baseline_event(settings, event("pin", 40, 1))
    pinned = contents(read_baseline(settings, SPEC, decisions, len(decisions)))["pinned"]
    path, now = settings.path("baseline", "readings"), set(read_baseline(settings, SPEC, decisions, 400).choose_windows())
    lost_ids = [d.decision_id for d in decisions[:40] if d.p_extracted_at not in now]
    table = DeltaTable(path)
    table.delete(f"decision_id IN ({', '.join(map(repr, lost_ids))})")
    assert contents(read_baseline(settings, SPEC, decisions, len(decisions)))["pinned"] != pinned
    table.restore(table.version() - 1)
    assert contents(read_baseline(settings, SPEC, decisions, len(decisions)))["pinned"] == pinned


def test_a_seed_that_a_reset_has_forgotten_takes_no_slot(stream, tmp_path):
    """Also where no window was decided in between."""
    settings, rng = lake_settings(tmp_path), np.random.default_rng(1)
    _, decisions, *_ = stream
    write_profiles(settings, "readings", logbook.write(settings, [d for d in decisions[:200] if d.accepted]))
    log_baseline_event(settings, event("reset", 150, 1))
    expected = contents(read_baseline(settings, SPEC, decisions, 200))
    seed = event("seed", 150, 2, ruleset=SPEC.ruleset())
    write_seed(settings, seed, [Entry(START - timedelta(hours=n), 150, tuple(measure(rng)), {}, True) for n in range(1, 49)])
    log_baseline_event(settings, seed)
    assert contents(read_baseline(settings, SPEC, decisions, 200)) != expected
    log_baseline_event(settings, event("reset", 150, 3))
    assert contents(read_baseline(settings, SPEC, decisions, 200)) == expected


def test_a_window_of_before_a_reset_that_joins_again_takes_a_slot_in_a_process_that_has_read_before(
    stream, tmp_path, monkeypatch
):
    """As in one that has not."""
    settings = lake_settings(tmp_path)
    _, decisions, *_ = stream
    decisions = [replace(d, number=number) for number, d in enumerate([d for d in decisions if d.accepted][:60], 1)]
    again = replace(decisions[20], number=61, kind="rejudged")
    decisions = logbook.write(settings, [*decisions, again])
    write_profiles(settings, "readings", decisions)
    log_baseline_event(settings, event("reset", 40, 1))
    read_baseline(settings, SPEC, decisions[:60], 60)
    windows = read_baseline(settings, SPEC, decisions, 61).history.windows
    monkeypatch.setattr(stream_baseline, "_thinned", NewestValues(32, lambda _: 1))
    assert again.p_extracted_at in windows
    assert windows == read_baseline(settings, SPEC, decisions, 61).history.windows


def test_a_pin_a_reset_and_an_earlier_version(stream, tmp_path):
    settings = lake_settings(tmp_path)
    _, decisions, *_ = stream
    write_profiles(settings, "readings", logbook.write(settings, [d for d in decisions[:200] if d.accepted]))
    log_baseline_event(settings, event("pin", 100, 1))
    pinned = read_baseline(settings, SPEC, decisions, 150)
    then = read_baseline(settings, SPEC, decisions, 100, seeds=False)
    assert contents(pinned)["pinned"] == {key: vectors(then.baseline.shape(key)) for key in then.baseline.keys}
    log_baseline_event(settings, event("reset", 150, 2))
    state = read_baseline(settings, SPEC, decisions, 180)
    assert state.baseline.pinned
    assert min(state.history.windows) == decisions[150].p_extracted_at
    # The slots begin anew, and are short.
    assert len(state.history) == 30
