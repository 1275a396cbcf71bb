"""A baseline that a process keeps is the one that a new process folds."""

import shutil
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from deltalake import DeltaTable

from lakehouse_assets.decisions.drift.state_copies import count_bytes
from lakehouse_assets.storage import baseline_counts, baseline_rows, baseline_state, delta, folded_log, kept_baselines
from lakehouse_assets.storage.baseline import log_baseline_event, write_profiles
from lakehouse_assets.storage.baseline_rows import group_by_source
from lakehouse_assets.storage.baseline_state import read_baseline, read_entries
from lakehouse_assets.storage.newest_values import NewestValues
from lakehouse_assets_tests.storage.test_baseline import (
    DAYS,
    SHORT,
    SPEC,
    a_long_history,
    contents,
    decided,
    event,
    learnt,
    long_ago,
    measured,
)


@pytest.fixture
def folds(monkeypatch) -> list[int]:
    """How many windows were learnt, of each time that a baseline was read."""
    counts: list[int] = []

    def counted(name, meaning, windows, measured, start, learn):
        def learn_counted(state, some):
            counts.append(len(some))
            learn(state, some)

        return kept_baselines.fold_windows(name, meaning, windows, measured, start, learn_counted)

    monkeypatch.setattr(baseline_state, "fold_windows", counted)
    return counts


def read_anew(settings, *arguments, **options):
    """As a new process."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kept_baselines, "_folds", NewestValues(1 << 30, lambda _: 1))
        patched.setattr(folded_log, "_cached", OrderedDict())
        patched.setattr(baseline_rows, "_decided", NewestValues(0, lambda _: 1))
        return read_baseline(settings, *arguments, **options)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive(seconds=20)) for seed in (1, 2, 3))])
def test_gives_what_a_new_process_gives(settings, folds, seed):
    rng, decisions, version, requests = np.random.default_rng(seed), a_long_history(settings, seed), 1, 0
    while version < DAYS:
        if seed and rng.random() < 0.1:
            requests += 1
            log_baseline_event(settings, event(str(rng.choice(["pin", "unpin", "reset"])), version, requests))
        past = [d for d in decisions if d.number <= version]
        state = read_baseline(settings, SHORT, past, version)
        assert contents(state) == contents(read_anew(settings, SHORT, past, version))
        # What the caller does with it is the caller's own.
        for entry in read_entries(settings, SHORT, decisions, DAYS)[:3]:
            state.forget(entry.window)
            state.learn(entry.window, entry.measured, entry.statistics, doubtful=bool(rng.random() < 0.5))
        version += int(rng.integers(1, 12))
    assert contents(read_baseline(settings, SHORT, decisions, 40)) == contents(read_anew(settings, SHORT, decisions, 40))
    assert min(folds) == 0 or min(folds) < max(folds)


def test_a_next_window_is_all_that_is_learnt(settings, folds):
    decisions = learnt(settings, *range(1, 10))
    read_baseline(settings, SPEC, decisions[:8], 8)
    read_baseline(settings, SPEC, decisions[:8], 8)
    read_baseline(settings, SPEC, decisions, 9)
    assert folds == [8, 0, 1]


def test_other_rules_a_replaced_window_and_a_request_fold_the_past_again(settings, folds):
    decisions = learnt(settings, *range(1, 10))
    read_baseline(settings, SPEC, decisions, 9)
    read_baseline(settings, SHORT, decisions, 9)
    replaced = decisions[3]
    again = decided(10, p_extracted_at=replaced.p_extracted_at, extraction_seq=2)
    decisions[3] = replace(replaced, superseded_by=again.decision_id)
    decisions.append(again)
    write_profiles(settings, "readings", [again])
    state = read_baseline(settings, SHORT, decisions, 10)
    assert contents(state) == contents(read_anew(settings, SHORT, decisions, 10))
    log_baseline_event(settings, event("reset", 4, 1))
    state = read_baseline(settings, SHORT, decisions, 10)
    assert contents(state) == contents(read_anew(settings, SHORT, decisions, 10))
    assert len(state.baseline) < 9
    assert folds[0] == folds[1] == 9 and min(folds[2:]) > 4


def test_another_lake_at_the_same_place_has_a_baseline_of_its_own(settings):
    decisions = learnt(settings, *range(1, 6))
    before = contents(read_baseline(settings, SPEC, decisions, 5))
    shutil.rmtree(settings.path("baseline", "readings"))
    others = tuple(m.to_dict() for m in long_ago(np.random.default_rng(0), 3))
    write_profiles(settings, "readings", [replace(d, profiles=others) for d in decisions])
    state = read_baseline(settings, SPEC, decisions, 5)
    assert contents(state) == contents(read_anew(settings, SPEC, decisions, 5)) != before


def test_what_is_kept_is_bounded(settings, monkeypatch, folds):
    decisions = learnt(settings, *range(1, 10))
    state = read_baseline(settings, SPEC, decisions, 9)
    assert count_bytes(state) > 9 * 100
    monkeypatch.setattr(kept_baselines, "_folds", NewestValues(count_bytes(state) - 1, lambda fold: count_bytes(fold.state)))
    for _ in range(2):  # the newest stays, however large
        read_baseline(settings, SPEC, decisions, 9)
    kept_baselines.fold_windows("another", None, [], [], lambda: state, lambda state, windows: None)
    read_baseline(settings, SPEC, decisions, 9)
    assert [count for count in folds if count] == [9, 9, 9]


@pytest.mark.parametrize(("spec", "last"), [(SPEC, 7), (SHORT, 99)], ids=["whole rows", "counts"])
def test_profiles_that_were_lost_and_restored_are_learnt(settings, spec, last):
    """Read while they were lost, as a page or a run that quarantines may do."""
    decisions = learnt(settings, *range(1, last + 1))
    before = contents(read_baseline(settings, spec, decisions, last))
    table = DeltaTable(settings.path("baseline", "readings"))
    table.delete(f"decision_id = '{decisions[-4].decision_id}' AND feature = 'value'")
    lost = contents(read_baseline(settings, spec, decisions, last))
    assert lost == contents(read_anew(settings, spec, decisions, last)) != before
    table.restore(0)
    assert contents(read_baseline(settings, spec, decisions, last)) == before


def test_of_a_long_history_only_new_files_are_read(settings, monkeypatch):
    decisions = learnt(settings, *range(1, 100))
    read_baseline(settings, SHORT, decisions, 99)
    decisions += learnt(settings, 100)
    names_read: list[str] = []
    original = folded_log.TableLog.read

    def read(log, names, columns):
        names_read.extend(names)
        return original(log, names, columns)

    monkeypatch.setattr(folded_log.TableLog, "read", read)
    monkeypatch.setattr(baseline_counts.BaselineCounts, "_read_rows", lambda *_: pytest.fail("they were read a moment before"))
    state = read_baseline(settings, SHORT, decisions, 100)
    assert len(names_read) == 1
    monkeypatch.undo()
    assert contents(state) == contents(read_anew(settings, SHORT, decisions, 100))


def test_the_counts_of_some_windows_are_their_rows(settings):
    decisions = learnt(settings, *range(1, 100))
    path = settings.path("baseline", "readings")
    rows = group_by_source(delta.read_arrow(path, [*baseline_counts.COUNTS]))
    baseline_counts.BaselineCounts(path, "readings")
    counts = baseline_counts.BaselineCounts(path, "readings")  # what the first one read is not read again
    sources = [(d.decision_id, d.p_extracted_at) for d in decisions if d.p_extracted_at]
    assert counts.by_source == {source: baseline_counts.count_measurements(own) for source, own in rows.items()}
    for some in (sources[:1], sources[3:5], sources, [("strange", sources[0][1])], []):
        assert counts.rows_of(some) == {source: rows[source] for source in some if source in rows}


def test_what_was_pinned_is_read_again_when_its_rows_are_back(settings):
    """Of a window that was extracted again since: its first rows are in the reference alone."""
    decisions = learnt(settings, *range(1, 6))
    log_baseline_event(settings, event("pin", 5, 1))
    again = replace(decided(2), number=6, extraction_seq=2, profiles=tuple(m.to_dict() for m in measured(77)))
    log = [*decisions, again, replace(decisions[1], number=6, superseded_by=again.decision_id)]
    write_profiles(settings, "readings", [again])
    pinned = contents(read_baseline(settings, SPEC, log, 6))["pinned"]
    table = DeltaTable(settings.path("baseline", "readings"))
    table.delete(f"decision_id = '{decisions[1].decision_id}'")
    assert contents(read_baseline(settings, SPEC, log, 6))["pinned"] != pinned
    table.restore(table.version() - 1)
    assert contents(read_baseline(settings, SPEC, log, 6))["pinned"] == pinned
