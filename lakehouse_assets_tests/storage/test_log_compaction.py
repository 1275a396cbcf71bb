"""What a compaction of a log leaves in its folder, however often the log was merged before."""

import json
import os
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import log_compaction
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.log_table import LogTable, log_schema

LOG = LogTable("trial", log_schema("table text!, n long"))
TABLE = "weather"
APPENDS = 4


def append_and_compact(settings: Settings, *, is_maintenance: bool = True) -> None:
    with table_lock(settings, TABLE):
        for number in range(APPENDS):
            LOG.append(settings, [{"table": TABLE, "n": number}])
        assert log_compaction.compact_log(settings, LOG, TABLE, is_maintenance=is_maintenance) is not None


def data_files(settings: Settings) -> set[Path]:
    return {path for path in Path(LOG.path(settings)).rglob("*.parquet") if "_delta_log" not in path.parts}


def set_age(settings: Settings, hours: float) -> None:
    for path in data_files(settings):
        os.utime(path, (time.time() - hours * 3600,) * 2)


def let_hours_pass(settings: Settings, hours: float) -> None:
    """All files were written, and all removals made, so long before. A checkpoint follows, as after each hundred commits."""
    folder = Path(LOG.path(settings))
    set_age(settings, hours)
    for checkpoint in [*folder.glob("_delta_log/*.checkpoint.parquet"), folder / "_delta_log" / "_last_checkpoint"]:
        checkpoint.unlink()
    for commit in folder.glob("_delta_log/*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            if "remove" in action:
                action["remove"]["deletionTimestamp"] -= int(hours * 3600 * 1000)
        commit.write_text("\n".join(map(json.dumps, actions)))
    DeltaTable(str(folder)).create_checkpoint()


@pytest.mark.parametrize(
    ("lock", "hours", "left"),
    [("file", 0.5, APPENDS + 1), ("file", 2, 1), ("lease", 2, APPENDS + 1), ("lease", 7 * 24 + 1, 1)],
)
def test_old_files_go_after_the_hours_in_which_a_reader_may_need_them(
    settings: Settings, lock: str, hours: float, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that a checkpoint no longer names. The merged file of the first compaction was removed a moment ago."""
    monkeypatch.setattr(log_compaction, "FEW_FILES", 1)
    lake = settings.model_copy(update={"lock": lock})
    append_and_compact(lake)
    first = data_files(lake)
    assert len(first) == APPENDS + 1
    let_hours_pass(lake, hours)
    append_and_compact(lake)
    assert len(first & data_files(lake)) == left
    assert sorted(row["n"] for row in LOG.read(lake)) == sorted([*range(APPENDS)] * 2)


def test_between_two_windows_under_leases_the_folder_is_not_listed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a store that takes long. Maintenance deletes what is older than seven days by then."""
    monkeypatch.setattr(log_compaction, "FEW_FILES", 1)
    lake = settings.model_copy(update={"lock": "lease"})
    append_and_compact(lake, is_maintenance=False)
    let_hours_pass(lake, 1)
    set_age(lake, 30 * 24)
    first = data_files(lake)
    append_and_compact(lake, is_maintenance=False)
    assert first < data_files(lake)
    append_and_compact(lake)
    assert len(first & data_files(lake)) == 1, "the merged file of the first was removed a moment ago"
