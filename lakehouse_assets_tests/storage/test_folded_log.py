"""What a process keeps of a log equals what it would read anew, whatever was appended, compacted, lost or put back."""

import os
import random
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyarrow import ArrowException

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, folded_log, log_compaction, log_rows, logs
from lakehouse_assets.storage.check_results import CHECK_RESULTS, find_lagging_tables, project_check_results
from lakehouse_assets_tests import logbook

TABLE = "readings"


@pytest.fixture
def fold_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were folded anew, each time."""
    counts: list[int] = []
    decode = log_rows.decisions_from_rows
    monkeypatch.setattr(logs, "decisions_from_rows", lambda rows: (counts.append(len(rows)), decode(rows))[1])
    return counts


def read_anew(settings: Settings) -> list:
    columns = [name for name in log_rows.DECISIONS.schema.names if name not in {"profiles", "drift", "checks"}]
    return log_rows.decisions_from_rows(log_rows.DECISIONS.read(settings, columns, [("table", "=", TABLE)]))


def supersede(number: int) -> list:
    """A second extraction of a window, and the record that it replaces the first."""
    second = logbook.decided(number, extraction_seq=2, p_extracted_at=logbook.decided(number - 1).p_extracted_at)
    first = replace(logbook.decided(number - 1), number=number, superseded_by=second.decision_id)
    return [second, first]


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_commits_gives_what_all_rows_give(settings: Settings, seed: int) -> None:
    rng = random.Random(seed)
    number, unmarked = 0, []
    for _ in range(12):
        kind = rng.choice(["decide", "decide", "mark", "check", "supersede", "repeat", "other table", "out of order"])
        if kind == "decide" or number < 2:
            number += 1
            unmarked.append(logbook.decided(number))
            logs.log_decisions(settings, unmarked[-1:])
        elif kind == "mark" and unmarked:
            logbook.apply(settings, [unmarked.pop(rng.randrange(len(unmarked)))])
        elif kind == "check":
            logs.log_checked(settings, [(logbook.decided(rng.randint(1, number)), [])])
        elif kind == "supersede":
            number += 1
            logs.log_decisions(settings, supersede(number))
            unmarked.append(supersede(number)[0])
        elif kind == "repeat":
            logs.log_decisions(settings, [logbook.decided(number)])
        elif kind == "other table":
            logs.log_decisions(settings, [logbook.decided(1, "others")])
        else:
            logs.log_decisions(settings, [logbook.decided(number, run_id="late")])
        assert logs.decisions(settings, TABLE) == read_anew(settings)


def test_only_new_rows_are_decoded(settings: Settings, fold_sizes: list[int]) -> None:
    logbook.write(settings, [logbook.decided(1), logbook.decided(2)])
    logs.decisions(settings, TABLE)
    logbook.write(settings, [logbook.decided(3)])
    before = logs.decisions(settings, TABLE)
    assert [d.number for d in logs.decisions(settings, TABLE)] == [1, 2, 3]
    logbook.write(settings, [logbook.decided(4)])
    assert len(logs.decisions(settings, TABLE)) == 4
    assert len(before) == 3  # who has it counts on its content
    assert fold_sizes == [4, 2, 2]


def test_a_lost_file_is_noticed_and_one_that_is_back_is_read(settings: Settings, tmp_path: Path) -> None:
    logbook.write(settings, [logbook.decided(1)])
    assert len(logs.decisions(settings, TABLE)) == 1
    file = next(Path(log_rows.DECISIONS.path(settings), f"table={TABLE}").glob("*.parquet"))
    file.rename(tmp_path / file.name)
    for _ in range(2):
        with pytest.raises((OSError, ArrowException)):
            logs.decisions(settings, TABLE)
    shutil.copy2(tmp_path / file.name, file)
    assert len(logs.decisions(settings, TABLE)) == 1
    file.write_bytes(b"x" * file.stat().st_size)
    os.utime(file, ns=(1, 1))
    with pytest.raises((OSError, ArrowException)):
        logs.decisions(settings, TABLE)


def test_an_older_copy_of_the_log_is_what_counts(settings: Settings, tmp_path: Path) -> None:
    logbook.write(settings, [logbook.decided(1)])
    shutil.copytree(log_rows.DECISIONS.path(settings), tmp_path / "copy")
    logbook.write(settings, [logbook.decided(2)])
    assert len(logs.decisions(settings, TABLE)) == 2
    shutil.rmtree(log_rows.DECISIONS.path(settings))
    shutil.copytree(tmp_path / "copy", log_rows.DECISIONS.path(settings))
    assert logs.decisions(settings, TABLE) == read_anew(settings)
    assert len(logs.decisions(settings, TABLE)) == 1


def test_the_least_used_are_dropped_and_read_again(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folded_log, "MOST_ROWS", 2)
    for table in ("a", "b"):
        logbook.write(settings, [logbook.decided(number, table) for number in (1, 2)])
    assert [len(logs.decisions(settings, table)) for table in ("a", "b", "a")] == [2, 2, 2]
    assert len(logs.decisions(settings)) == 4


def test_what_one_table_reads_stays_however_large(
    settings: Settings, fold_sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folded_log, "MOST_ROWS", 1)
    logbook.write(settings, [logbook.decided(1), logbook.decided(2)])
    for _ in range(3):
        assert len(logs.decisions(settings, TABLE)) == 2
        assert logs.extractions(settings, TABLE) == []
        project_check_results(settings, TABLE)
    assert len(fold_sizes) == 1


def test_logs_of_other_lakes_with_a_table_of_this_name_are_bounded(
    settings: Settings, tmp_path: Path, fold_sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a process that judges frames with one name and a log for each."""
    monkeypatch.setattr(folded_log, "MOST_ROWS", 1)
    others = settings.model_copy(update={"root": str(tmp_path / "others")})
    for lake in (settings, others):
        logbook.write(lake, [logbook.decided(1), logbook.decided(2)])
    for lake in (settings, others, settings):
        assert len(logs.decisions(lake, TABLE)) == 2
    assert len(fold_sizes) == 3


def test_a_compaction_changes_nothing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_compaction, "FEW_FILES", 2)
    for number in range(1, 5):
        logbook.write(settings, [logbook.decided(number)])
        project_check_results(settings, TABLE)
    before, full = logs.decisions(settings, TABLE), logs.decisions(settings, TABLE, evidence=True)
    for log in (log_rows.DECISIONS, CHECK_RESULTS):
        compacted = log_compaction.compact_log(settings, log, TABLE)
        assert compacted is not None and compacted.files_before >= 4 and compacted.files_after == 1
        assert log_compaction.compact_log(settings, log, TABLE) is None
    assert logs.decisions(settings, TABLE) == before == read_anew(settings)
    assert logs.decisions(settings, TABLE, evidence=True) == full
    assert logs.with_evidence(settings, TABLE, before[:1])[0].checks == full[0].checks
    assert (project_check_results(settings, TABLE), find_lagging_tables(settings)) == (0, [])
    logbook.write(settings, [logbook.decided(5)])
    assert find_lagging_tables(settings) == [TABLE]
    assert project_check_results(settings, TABLE) == 2
    assert delta.read_arrow(CHECK_RESULTS.path(settings)).num_rows == 10


def test_extractions_equal_all_rows(settings: Settings) -> None:
    """Also where one is recorded again, comes late, was recorded by two runs, or was read by other keys of `source:`."""
    at = logbook.DECIDED

    def record(window: int, seq: int, run_id: str = "r") -> ExtractionRecord:
        start = at + timedelta(days=window)
        return ExtractionRecord(TABLE, start, seq, "f", 1, ("id",), 1, run_id, at, reading=run_id if window == 2 else None)

    in_order = [(1, 1, "r"), (3, 1, "r"), (2, 1, "r"), (3, 2, "r"), (3, 2, "other"), (4, 1, "r"), (2, 1, "other")]
    for window, seq, run_id in in_order:
        logs.record_extractions(settings, [record(window, seq, run_id)])
        rows = log_rows.EXTRACTIONS.read(settings, log_rows.EXTRACTIONS.schema.names, [("table", "=", TABLE)])
        assert logs.extractions(settings, TABLE) == log_rows.extractions_from_rows(rows)
        last = logs.view_extractions(settings, TABLE, lambda fold: fold.last_at)
        assert last == max(row["extracted_at"] for row in rows)
    assert logs.view_extractions(settings, TABLE, lambda fold: set(fold.doubled)) == {(at + timedelta(days=3), 2)}
