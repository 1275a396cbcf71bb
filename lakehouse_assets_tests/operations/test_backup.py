"""A backup is a lake's state at one moment; restored, it is the same lake. On Delta tables made without a JVM.

Belongs here: writers at the same time, kills, damage and hostile manifests. Does not: a lake that goes on after it was restored
(test_restored_lake).
"""

import itertools
import json
import os
import shutil
import threading
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError
from pyarrow import fs

from lakehouse_assets.errors import EvidenceError, LeaseLostError, LockedError, RefusedError
from lakehouse_assets.operations import backup as operation
from lakehouse_assets.operations import restore_backup
from lakehouse_assets.operations.backup import ContentCheck, check_contents, make_backup
from lakehouse_assets.operations.restore_backup import require_whole, restore_lake, restore_tables
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.backup import contents, state
from lakehouse_assets.storage.backup.manifest import BackupFolder
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets.storage.leases.guards import application, require_unfenced
from lakehouse_assets.storage.leases.holding import LeaseHolder, lease_holder
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets_tests.e2e.servers import s3_server
from lakehouse_assets_tests.support import Killed, rows_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TABLES = ("bronze/weather", "silver/weather", "ops/decisions")


def at(minutes: int):
    return lambda: NOON + timedelta(minutes=minutes)


def append(settings: Settings, table: str, number: int) -> None:
    rows = pa.table({"day": [f"day {number % 3}"], "number": [number], "table": [table]})
    delta.append_arrow(rows, settings.path(*table.split("/")), partition_by=["day"])


@pytest.fixture
def lake(settings):
    for table in TABLES:
        for number in range(12):
            append(settings, table, number)
    (Path(settings.root) / "staging" / "weather" / "_delta_log").mkdir(parents=True)
    (Path(settings.root) / "silver" / "weather" / "part-of-a-killed-run.parquet").write_bytes(b"half")
    return settings


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "backups")


def set_commit_times(settings: Settings, at: datetime) -> None:
    for path in Path(settings.root).rglob("*.json"):
        os.utime(path, (at.timestamp(), at.timestamp()))


def empty(settings: Settings, name: str = "restored") -> Settings:
    return settings.model_copy(update={"root": str(Path(settings.root).parent / name)})


def content_of(settings: Settings) -> dict[str, tuple[int, str, list[dict[str, Any]]]]:
    """Version, id and rows of each table."""
    tables = {path.parent for path in Path(settings.root).rglob("_delta_log") if "staging" not in path.parts}
    opened = {str(path.relative_to(settings.root)): DeltaTable(str(path)) for path in tables}
    return {name: (t.version(), str(t.metadata().id), rows_of(t.table_uri)) for name, t in opened.items()}


def restored(settings: Settings, folder: str, name: str | None = None, root: str = "restored") -> Settings:
    target = empty(settings, root)
    restore_lake(target, BackupFolder(folder).read(name), folder)
    return target


def test_a_restored_lake_is_the_same_and_has_no_scratch_files(lake, folder):
    report = make_backup(lake.root, folder, at(0))
    assert report.copied_bytes > 0
    assert report.manifest.name == "2026-01-01T12-00-00Z"
    target = restored(lake, folder)
    assert content_of(target) == content_of(lake)
    files = [path for path in Path(target.root).rglob("*") if path.is_file()]
    assert not [path for path in files if "staging" in path.parts or path.name.startswith(("part-of", "_"))]
    assert DeltaTable(target.path("silver", "weather")).history() == DeltaTable(lake.path("silver", "weather")).history()
    append(target, "silver/weather", 99)
    assert len(rows_of(target.path("silver", "weather"))) == 13


def test_the_next_backup_copies_what_is_new_and_each_is_whole(lake, folder, monkeypatch):
    first = make_backup(lake.root, folder, at(0)).manifest
    before = content_of(lake)
    append(lake, "silver/weather", 50)
    read: list[str] = []
    add = contents.Contents.add
    monkeypatch.setattr(contents.Contents, "add", lambda self, source, path: (read.append(path), add(self, source, path))[1])
    second = make_backup(lake.root, folder, at(1)).manifest
    assert [Path(path).suffix for path in sorted(read)] == [".json", ".parquet"]
    assert sum(len(table.files) for table in second.tables) == sum(len(table.files) for table in first.tables) + 2
    assert BackupFolder(folder).names() == [first.name, second.name]
    assert content_of(restored(lake, folder, first.name, "one")) == before
    assert content_of(restored(lake, folder, None, "two")) == content_of(lake)
    assert not check_contents(second, folder).mistakes


def test_a_backup_beside_writers_is_of_one_moment(lake, folder, monkeypatch):
    """A run commits to bronze, then to silver, then to the log: no backup may have a later one without the earlier."""
    set_commit_times(lake, NOON)
    monkeypatch.setattr(state, "MARGIN", 20_000_000)
    stop, number = threading.Event(), 100

    def write():
        nonlocal number
        while not stop.is_set():
            for table in TABLES:
                append(lake, table, number)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        manifests = [make_backup(lake.root, folder, at(minute)).manifest for minute in range(6)]
    finally:
        stop.set()
        writer.join()
    assert number > 103
    for manifest in manifests:
        assert not manifest.damaged
        bronze, silver, log = ({t.path: t.version for t in manifest.tables}[name] for name in TABLES)
        assert bronze >= silver >= log >= bronze - 1
    versions = [sum(t.version for t in manifest.tables) for manifest in manifests]
    assert versions == sorted(versions)
    one = content_of(restored(lake, folder, manifests[2].name))
    assert [one[name][0] for name in TABLES] == [{t.path: t.version for t in manifests[2].tables}[name] for name in TABLES]


def test_a_lake_that_is_never_still_is_backed_up_as_it_was_shortly_before(lake, folder, monkeypatch):
    """Each reading finds one more commit; of those within the last two seconds none counts."""
    monkeypatch.setattr(state, "PAUSE", 0)
    set_commit_times(lake, NOON)
    before = content_of(lake)
    read = state._read_commits
    monkeypatch.setattr(state, "_read_commits", lambda root: (append(lake, "ops/decisions", 1), read(root))[1])
    make_backup(lake.root, folder, at(0))
    monkeypatch.undo()
    assert content_of(restored(lake, folder)) == before
    assert content_of(lake) != before


def test_without_a_clock_a_lake_that_is_never_still_is_refused(lake, folder, monkeypatch):
    set_commit_times(lake, datetime.now(UTC) + timedelta(days=1))
    monkeypatch.setattr(state, "PAUSE", 0)
    read = state._read_commits
    monkeypatch.setattr(state, "_read_commits", lambda root: (append(lake, "ops/decisions", 1), read(root))[1])
    with pytest.raises(LockedError, match="of a later time than now"):
        make_backup(lake.root, folder, at(0))
    assert BackupFolder(folder).names() == []


def test_a_commit_counts_with_all_before_it():
    commits = {
        "a/one": [state.CommitFile(3, 1, 10), state.CommitFile(4, 1, 30), state.CommitFile(5, 1, 20)],
        "a/young": [state.CommitFile(0, 1, 40)],
    }
    assert [state.versions_at(commits, at) for at in (9, 10, 25, 30, 40)] == [
        {}, {"a/one": 3}, {"a/one": 3}, {"a/one": 5}, {"a/one": 5, "a/young": 0},
    ]  # fmt: skip


def test_killed_at_each_file_it_leaves_no_backup_and_the_next_is_whole(lake, folder, monkeypatch):
    add, calls = contents.Contents.add, 0
    files = sum(len(t.files) for t in make_backup(lake.root, f"{folder}-other", at(0)).manifest.tables)

    def killed_at(limit):
        def counted(self, source, path):
            nonlocal calls
            calls += 1
            if calls == limit:
                raise Killed
            return add(self, source, path)

        return counted

    for limit in (1, 2, files // 2, files):
        calls = 0
        monkeypatch.setattr(contents.Contents, "add", killed_at(limit))
        monkeypatch.setattr(operation.state, "THREADS", 1)
        with pytest.raises(Killed):
            make_backup(lake.root, folder, at(0))
        assert BackupFolder(folder).names() == []
    calls = 0
    monkeypatch.setattr(contents.Contents, "add", killed_at(0))
    manifest = make_backup(lake.root, folder, at(0)).manifest
    assert not check_contents(manifest, folder).mistakes
    assert content_of(restored(lake, folder)) == content_of(lake)


def test_a_restore_killed_at_each_file_keeps_writers_out_until_it_is_complete(lake, folder, monkeypatch):
    manifest = make_backup(lake.root, folder, at(0)).manifest
    copy, left = restore_backup.copy_checked, 0

    def counted(*arguments):
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed
        copy(*arguments)

    monkeypatch.setattr(restore_backup, "copy_checked", counted)
    monkeypatch.setattr(restore_backup, "THREADS", 1)
    target = empty(lake)
    for left in (1, 5, 30, 4):  # noqa: B007 (the counter of `counted`)
        with pytest.raises(Killed):
            restore_lake(target, manifest, folder)
        for lock in ("file", "lease"):
            with (
                pytest.raises(RefusedError, match="being restored from the backup"),
                table_lock(target.model_copy(update={"lock": lock}), "weather", wait_seconds=0.1),
            ):
                pass
            shutil.rmtree(Path(target.root) / "_leases", ignore_errors=True)
    left = 0
    report = restore_lake(target, manifest, folder)
    assert 0 < report.files < sum(len(table.files) for table in manifest.tables)
    assert content_of(target) == content_of(lake)
    with table_lock(target, "weather"):
        pass
    with pytest.raises(RefusedError, match="has other files"):
        append(target, "silver/weather", 1)
        restore_lake(target, manifest, folder)


def reads_of(monkeypatch, before_read=lambda path: None) -> list[str]:
    """The files that backups read from now on. ``before_read``: is called with each file's path."""
    read, add = [], contents.Contents.add

    def recorded(self, source, path):
        before_read(path)
        read.append(path)
        return add(self, source, path)

    monkeypatch.setattr(contents.Contents, "add", recorded)
    return read


def merged_once(settings: Settings, table: str):
    """Return what merges a table's files and removes the old ones, when the first file of bronze is read."""
    times = iter([1])

    def merge(path: str) -> None:
        if "/bronze/" in path and next(times, None):
            opened = DeltaTable(settings.path(*table.split("/")))
            opened.optimize.compact()
            opened.vacuum(0, dry_run=False, enforce_retention_duration=False)

    return merge


def test_logs_that_are_compacted_while_other_tables_are_copied_are_in_the_backup(lake, folder, monkeypatch):
    before = content_of(lake)
    read = reads_of(monkeypatch, merged_once(lake, "ops/decisions"))
    assert not make_backup(lake.root, folder, at(0)).manifest.damaged
    assert len(read) == len(set(read))
    assert content_of(restored(lake, folder)) == before != content_of(lake)


def test_an_attempt_reads_no_file_that_an_earlier_one_has_read(lake, folder, monkeypatch):
    before = content_of(lake)
    read = reads_of(monkeypatch, merged_once(lake, "silver/weather"))
    assert not make_backup(lake.root, folder, at(0)).manifest.damaged
    assert len(read) == len(set(read))
    assert content_of(restored(lake, folder)) == content_of(lake) != before


def test_a_damaged_table_is_named_and_the_others_are_backed_up(lake, folder):
    first = make_backup(lake.root, folder, at(0)).manifest
    next(Path(lake.path("bronze", "weather")).rglob("*.parquet")).unlink()
    append(lake, "silver/weather", 50)
    report = make_backup(lake.root, folder, at(1), keep=1)
    assert list(report.manifest.damaged) == ["bronze/weather"]
    assert "is missing" in report.manifest.damaged["bronze/weather"]
    assert [table.path for table in report.manifest.tables] == ["ops/decisions", "silver/weather"]
    assert report.removed == (), "the one that is whole stays"
    with pytest.raises(EvidenceError, match="bronze/weather"):
        require_whole(report.manifest)
    log = next(Path(lake.path("ops", "decisions", "_delta_log")).glob("*3.json"))
    log.write_bytes(b"{")
    checkpoints = list(log.parent.glob("*checkpoint*"))
    [path.unlink() for path in checkpoints]
    third = make_backup(lake.root, folder, at(2)).manifest
    assert set(third.damaged) == {"bronze/weather", "ops/decisions"}
    assert BackupFolder(folder).names()[0] == first.name


def test_old_backups_go_with_what_only_they_had(lake, folder):
    first = make_backup(lake.root, folder, at(0)).manifest
    write_deltalake(lake.path("silver", "weather"), pa.table({"day": ["x"], "number": [1], "table": ["x"]}), mode="overwrite")
    second = make_backup(lake.root, folder, at(1)).manifest
    sizes = contents.Contents(folder).sizes
    report = make_backup(lake.root, folder, at(2), keep=2)
    assert report.removed == (first.name,)
    assert len(contents.Contents(folder).sizes) < len(sizes)
    for name in (second.name, report.manifest.name):
        assert not check_contents(BackupFolder(folder).read(name), folder).mistakes
    assert content_of(restored(lake, folder, second.name)) == content_of(lake)


def test_no_whole_copy_goes_for_a_reference_or_for_another_lake(lake, folder):
    first = make_backup(lake.root, folder, at(0), name="z").manifest
    other = empty(lake, "other")
    append(other, "silver/weather", 1)
    assert make_backup(other.root, folder, at(1), keep=1).removed == ()
    assert make_backup(lake.root, folder, at(2), kind="reference", keep=1).removed == ()
    assert BackupFolder(folder).read().kind == "reference"
    second = make_backup(lake.root, folder, at(3), name="a", keep=1)
    assert second.removed == (first.name, "2026-01-01T12-02-00Z")
    assert BackupFolder(folder).read().name == "a", "the newest, whatever its name"
    for manifest in BackupFolder(folder).manifests():
        assert not check_contents(manifest, folder).mistakes


def test_the_newest_backup_is_known_by_its_time_and_not_by_its_name(lake, folder, monkeypatch):
    make_backup(lake.root, folder, at(0), name="upgrade")
    append(lake, "silver/weather", 50)
    make_backup(lake.root, folder, at(1))
    read = reads_of(monkeypatch)
    make_backup(lake.root, folder, at(2))
    assert read == []


def test_of_many_backups_the_newest_copy_of_the_lake_alone_is_read(lake, folder, monkeypatch):
    """By the place's own clock: the lake's was set back at each backup."""
    other = empty(lake, "other")
    append(other, "silver/weather", 1)
    for number, name in enumerate("dbca"):
        make_backup(lake.root, folder, at(-number), name=name)
        os.utime(Path(folder) / "manifests" / f"{name}.json", (number, number))
    make_backup(lake.root, folder, at(1), name="reference", kind="reference")
    make_backup(other.root, folder, at(2), name="other")
    names, read = [], BackupFolder.read
    monkeypatch.setattr(BackupFolder, "read", lambda backups, name=None: names.append(name) or read(backups, name))
    assert make_backup(lake.root, folder, at(3), name="next", keep=7).copied_bytes == 0
    assert names == ["other", "reference", "a"]
    names.clear()
    make_backup(lake.root, folder, at(4), name="referenced", kind="reference")
    assert names == []
    assert make_backup(lake.root, folder, at(5), name="last", keep=5).removed == ("a",)


def test_a_manifest_that_cannot_be_read_stops_no_backup_and_nothing_is_removed(lake, folder):
    make_backup(lake.root, folder, at(0), name="a")
    make_backup(lake.root, folder, at(1), name="z")
    (Path(folder) / "manifests" / "z.json").write_text("{}")
    report = make_backup(lake.root, folder, at(2), name="b", keep=1)
    assert report.removed == () and report.copied_bytes == 0
    (line,) = report.unreadable
    assert "manifests/z.json: name: Field required" in line and line.endswith("or move this file away")
    (Path(folder) / "manifests" / "z.json").unlink()
    assert make_backup(lake.root, folder, at(3), name="c", keep=1).removed == ("a", "b")


def test_a_new_backup_stays_also_if_the_clock_was_set_back(lake, folder):
    make_backup(lake.root, folder, at(60), name="before")
    append(lake, "silver/weather", 50)
    after = make_backup(lake.root, folder, at(0), name="after", keep=1)
    assert after.removed == ()
    assert BackupFolder(folder).names() == ["after", "before"]
    assert not check_contents(after.manifest, folder).mistakes


def test_a_content_that_rots_is_found_and_not_restored(lake, folder):
    manifest = make_backup(lake.root, folder, at(0)).manifest
    victim = next(file for file in manifest.tables[0].files if file.path.endswith(".parquet"))
    path = Path(contents.Contents(folder).open(victim)[1])
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(EvidenceError, match=r"another checksum than on record"):
        restored(lake, folder)
    assert not (Path(empty(lake).root) / manifest.tables[0].path / victim.path).exists()
    assert len(check_contents(manifest, folder).mistakes) == 1
    # The check has moved it away, so that the next backup does not take it for the content.
    assert path.with_name(f"{path.name}.damaged").exists()
    assert len(check_contents(manifest, folder).mistakes) == 1
    with pytest.raises(EvidenceError, match="missing"):
        restored(lake, folder)
    assert make_backup(lake.root, folder, at(1)).copied_bytes > 0, "what is gone is copied again"
    assert content_of(restored(lake, folder, root="another")) == content_of(lake)


def test_after_an_error_there_is_no_part_of_a_copy(tmp_path, monkeypatch):
    """A store creates an object with what was written, which a repeated restore would take for a file of somebody else."""
    disk, source, target = fs.LocalFileSystem(), tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * 10)

    def chunks(stream):
        yield stream.read(5)
        raise OSError("the connection was reset")

    monkeypatch.setattr(contents, "_chunks", chunks)
    with pytest.raises(OSError, match="reset"):
        contents.copy_content((disk, str(source)), (disk, str(target)))
    assert not target.exists()


@pytest.mark.parametrize("error", ["Generic S3 error: 503 Slow Down", "Object at location x not found: error sending request"])
def test_a_store_that_throttles_is_no_damage(lake, folder, monkeypatch, error):
    def throttled(*_):
        raise DeltaError(error)

    monkeypatch.setattr(state, "read_table", throttled)
    with pytest.raises(DeltaError):
        make_backup(lake.root, folder, at(0))
    assert BackupFolder(folder).names() == []


def test_the_lakes_own_files_are_compared_with_a_backup(lake, folder):
    manifest = make_backup(lake.root, folder, at(0)).manifest
    assert not check_contents(manifest, folder, in_lake=True).mistakes
    victim = next(Path(lake.path("silver", "weather")).rglob("day=*/*.parquet"))
    victim.write_bytes(victim.read_bytes()[:-1] + b"?")
    (mistake,) = check_contents(manifest, folder, in_lake=True).mistakes
    assert mistake.startswith("silver/weather") and victim.name in mistake
    victim.unlink()
    files = sum(len(table.files) for table in manifest.tables)
    assert check_contents(manifest, folder, in_lake=True) == ContentCheck(files - 1, (), 1)


def test_a_lost_table_is_restored_alone(lake, folder):
    manifest = make_backup(lake.root, folder, at(0)).manifest
    before = content_of(lake)
    append(lake, "silver/weather", 50)
    with pytest.raises(RefusedError, match="move these folders away first"):
        restore_tables(lake, manifest, folder, ["silver/weather"])
    shutil.rmtree(lake.path("bronze", "weather"))
    with pytest.raises(RefusedError, match="has no bronze/wether"):
        restore_tables(lake, manifest, folder, ["bronze/wether"])
    report = restore_tables(lake, manifest, folder, ["bronze/weather"])
    assert report.tables == ("bronze/weather",)
    assert content_of(lake)["bronze/weather"] == before["bronze/weather"]
    assert content_of(lake)["silver/weather"][0] == before["silver/weather"][0] + 1


def test_a_reference_copies_nothing_and_restores_the_versions_of_then(lake, folder):
    before = content_of(lake)
    report = make_backup(lake.root, folder, at(0), kind="reference")
    assert report.copied_bytes == 0
    write_deltalake(lake.path("silver", "weather"), pa.table({"day": ["x"], "number": [1], "table": ["x"]}), mode="overwrite")
    with pytest.raises(RefusedError, match="names files of"):
        restore_lake(lake, report.manifest, folder)
    assert content_of(restored(lake, folder)) == before
    DeltaTable(lake.path("silver", "weather")).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(EvidenceError, match=r"silver/weather: the content of .* is missing"):
        restored(lake, folder, root="another")


def test_a_restored_lake_refuses_a_former_holder(lake, folder):
    leased = lake.model_copy(update={"lock": "lease", "lease_seconds": 60})
    with table_lock(leased, "weather"):
        append(leased, "silver/weather", 20)
        make_backup(lake.root, folder, at(0))
        # Others go on after the backup; one of them sleeps.
        sleeper = LeaseHolder(LeaseFiles(lake.root), 60)
    lease_holder(lake.root, 60).release_all()
    old = sleeper.enter("weather", 1)
    shutil.rmtree(lake.root)
    restore_lake(leased, BackupFolder(folder).read(), folder)
    with table_lock(leased, "weather", wait_seconds=1):
        new = lease_holder(lake.root, 60).leases["weather"]
        assert new.number > old.number
        assert new.took_over and new.to_fence is None
        append(leased, "silver/weather", 21)
        with pytest.raises(LeaseLostError):
            require_unfenced(
                DeltaTable(leased.path("silver", "weather")), "", [Transaction(application("weather"), old.number)]
            )
    with pytest.raises(LeaseLostError):
        sleeper.confirm(old)


@pytest.mark.parametrize("path", ["../../x", "/etc/passwd", "a/../b", "a//b", "..\\x", ""])
def test_no_manifest_leaves_its_folder(lake, folder, path):
    manifest = make_backup(lake.root, folder, at(0)).manifest
    file = Path(folder) / "manifests" / f"{manifest.name}.json"
    document = json.loads(file.read_text())
    document["tables"][0]["files"][0]["path"] = path
    file.write_text(json.dumps(document))
    with pytest.raises(EvidenceError, match=r"tables\.0\.files\.0\.path"):
        BackupFolder(folder).read()
    document["tables"][0]["files"] = []
    document["tables"][0]["path"] = f"../{path}"
    file.write_text(json.dumps(document))
    with pytest.raises(EvidenceError, match=r"tables\.0\.path"):
        BackupFolder(folder).read()


@pytest.mark.parametrize("leases", [{"../../x": 1}, {"..": 1}, {"a/b": 1}, {"/etc": 1}, {"..\\x": 1}, {"": 1}, {"weather": -1}])
def test_no_lease_of_a_manifest_leaves_its_folder(lake, folder, leases):
    manifest = make_backup(lake.root, folder, at(0)).manifest
    file = Path(folder) / "manifests" / f"{manifest.name}.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "leases": leases}))
    with pytest.raises(EvidenceError, match=r"leases\."):
        BackupFolder(folder).read()


def test_a_place_within_the_lake_is_refused_in_each_spelling(lake, tmp_path, monkeypatch):
    root = Path(lake.root)
    (tmp_path / "link").symlink_to(root)
    monkeypatch.chdir(root)
    inside = (
        f"{tmp_path}/other/../{root.name}/backups",
        "backups",
        str(tmp_path / "link" / "backups"),
        f"file://{root}/backups",
    )
    for location in inside:
        with pytest.raises(RefusedError, match="is lost with it"):
            make_backup(lake.root, location, at(0))
    for address, location in (("s3a://lake/root", "s3://lake/root/b"), ("gs://lake", "gcs://lake/b")):
        with pytest.raises(RefusedError, match="is lost with it"):
            make_backup(address, location, at(0))
    assert not (root / "backups").exists()


def test_names_and_places_that_are_refused(lake, folder, tmp_path):
    for name in ("../x", "", "a/b", "-x", "x" * 101):
        with pytest.raises(RefusedError, match="--name"):
            make_backup(lake.root, folder, at(0), name=name or "/")
    for location in (lake.root, f"{lake.root}/backups", str(tmp_path)):
        with pytest.raises(RefusedError, match="is lost with it"):
            make_backup(lake.root, location, at(0))
    make_backup(lake.root, folder, at(0), name="friday")
    with pytest.raises(RefusedError, match="already has a backup"):
        make_backup(lake.root, folder, at(1), name="friday")
    with pytest.raises(RefusedError, match="there are friday"):
        BackupFolder(folder).read("monday")
    with pytest.raises(RefusedError, match="has no backup"):
        BackupFolder(f"{folder}-none").read()
    with pytest.raises(RefusedError, match="no table to back up"):
        make_backup(str(tmp_path / "nothing"), folder, at(0))


def test_a_lake_from_another_backup_is_not_mixed(lake, folder, monkeypatch):
    one = make_backup(lake.root, folder, at(0)).manifest
    append(lake, "silver/weather", 50)
    two = make_backup(lake.root, folder, at(1)).manifest
    target = empty(lake)
    monkeypatch.setattr(restore_backup, "end_restoring", lambda _: (_ for _ in ()).throw(Killed()))
    with pytest.raises(Killed):
        restore_lake(target, one, folder)
    with pytest.raises(RefusedError, match="a part of the backup"):
        restore_lake(target, two, folder)
    assert fs.LocalFileSystem().get_file_info(f"{target.root}/_restoring").type is fs.FileType.File


def test_from_a_store_to_a_disk_and_from_a_disk_to_a_store(settings, folder, tmp_path, monkeypatch):
    lake = settings
    for table, number in itertools.product(TABLES, range(2)):
        append(lake, table, number)
    if not all(find_spec(name) for name in ("moto", "flask", "flask_cors")):
        pytest.skip("moto's S3 server is not installed (the extra `dev` has it)")
    with s3_server(tmp_path, "lake") as address:
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_ENDPOINT_URL": address}
        for name, value in keys.items():
            monkeypatch.setenv(name, value)
        remote = lake.model_copy(update={"root": "s3a://lake/restored"})
        first = make_backup(lake.root, "s3a://lake/backups", at(0)).manifest
        restore_lake(remote, first, "s3a://lake/backups")
        append(remote, "silver/weather", 50)
        with table_lock(remote, "weather", wait_seconds=1):
            second = make_backup(remote.root, folder, at(1)).manifest
        assert second.leases == {"weather": 1}
        assert not check_contents(second, folder).mistakes
        third = make_backup(remote.root, "s3a://lake/backups", at(2)).manifest
        fourth = make_backup(remote.root, "s3a://lake/backups", at(3), keep=1)
        assert fourth.removed == (third.name,)
        for manifest in (first, fourth.manifest):
            assert not check_contents(manifest, "s3a://lake/backups").mistakes
        here = restored(lake, folder)
        versions = {name: each[0] for name, each in content_of(here).items()}
        assert versions == {**dict.fromkeys(TABLES, 1), "silver/weather": 2}
        assert len(rows_of(here.path("silver", "weather"))) == 3
        with pytest.raises(RefusedError, match="has other files"):
            restore_lake(remote, first, "s3a://lake/backups")
