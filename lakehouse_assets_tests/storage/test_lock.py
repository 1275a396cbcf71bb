"""Which lock protects a table: a lock file of one machine, or a lease; and a lake of another machine is refused.

Belongs here: choosing, and the record of the host. Does not: leases themselves (leases/).
"""

import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyarrow import fs

from lakehouse_assets.errors import EnvironmentMissing, LockedError, RefusedError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import lock
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets.storage.leases.holding import LeaseHolder, lease_holder
from lakehouse_assets.storage.leases.process_identity import host_name
from lakehouse_assets.storage.lock import OWN_SECONDS, table_lock

LEASED = {"": False, "auto": False, "file": False, "lease": True}


@pytest.mark.parametrize("value", LEASED)
def test_a_lake_on_a_disk_has_lock_files_unless_leases_are_chosen(value, tmp_path):
    settings = Settings.from_environment({"LAKEHOUSE_LOCK": value, "LAKEHOUSE_ROOT": str(tmp_path)})
    assert settings.is_leased is LEASED[value]
    on_store = Settings.from_environment({"LAKEHOUSE_LOCK": value, "LAKEHOUSE_ROOT": "s3://bucket/lake"})
    assert on_store.is_leased is (value != "file")


@pytest.mark.parametrize(
    ("name", "value"), [("LAKEHOUSE_LOCK", "both"), ("LAKEHOUSE_LEASE_SECONDS", "0"), ("LAKEHOUSE_LEASE_SECONDS", "a minute")]
)
def test_another_value_is_refused_with_its_name(name, value):
    with pytest.raises(EnvironmentMissing, match=f"{name} is '{value}'"):
        Settings.from_environment({name: value})


def test_a_lake_of_another_machine_is_refused_until_it_has_leases(settings, monkeypatch):
    with table_lock(settings, "weather"):
        pass
    assert (settings.locks / "host").read_text().strip() == host_name()
    monkeypatch.setattr(lock, "host_name", lambda: "another/host")
    with pytest.raises(RefusedError, match=r"is written by the machine .*set `lock: lease`"), table_lock(settings, "weather"):
        pytest.fail("it must not begin")
    leased = settings.model_copy(update={"lock": "lease"})
    with table_lock(leased, "weather"):
        assert not list(settings.locks.glob("another*"))


def test_a_lake_with_leases_takes_no_lock_file(settings):
    with table_lock(settings.model_copy(update={"lock": "lease"}), "weather"):
        pass
    with pytest.raises(RefusedError, match="is written under leases"), table_lock(settings, "weather"):
        pytest.fail("it must not begin")


@pytest.fixture
def on_store(settings, monkeypatch, tmp_path):
    """A lake on a store that one machine writes. A folder stands for the store."""
    bucket = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setattr(lock, "open_filesystem", lambda _: (bucket, "bucket/lake"))
    monkeypatch.setattr(lock, "refuse_restoring", lambda _: None)
    monkeypatch.setattr(lock, "_own_lakes", {})
    monkeypatch.setattr(lock, "_leased_lakes", set())
    monkeypatch.setattr(
        "lakehouse_assets.storage.leases.holding.LeaseFiles", lambda _: LeaseFiles(str(tmp_path / "bucket" / "lake"))
    )
    monkeypatch.setattr(
        "lakehouse_assets.storage.leases.files.LeaseFiles", lambda _: LeaseFiles(str(tmp_path / "bucket" / "lake"))
    )
    monkeypatch.setattr("lakehouse_assets.storage.leases.holding._holders", {})
    (tmp_path / "bucket" / "lake" / "_locks").mkdir(parents=True)
    return settings.model_copy(update={"root": "s3a://bucket/lake", "lock": "file"})


@pytest.mark.parametrize("other", ["host", "home"])
def test_a_lake_on_a_store_is_written_with_the_lock_files_of_one_machine(on_store, other, monkeypatch, tmp_path):
    """Of two homes on one machine each has its own lock files."""
    with table_lock(on_store, "weather"), table_lock(on_store, "flights"):
        pass
    monkeypatch.setattr(lock, "_own_lakes", {})  # another process
    with table_lock(on_store, "weather"):
        pass
    monkeypatch.setattr(lock, "_own_lakes", {})
    if other == "host":
        monkeypatch.setattr(lock, "host_name", lambda: "another")
    elsewhere = on_store if other == "host" else on_store.model_copy(update={"dagster_home": tmp_path / "other"})
    advice = r"set `lock: lease`.*delete s3a://bucket/lake/_locks/host"
    with pytest.raises(RefusedError, match=advice), table_lock(elsewhere, "weather"):
        pytest.fail("it must not begin")


@pytest.mark.parametrize("name", ["another", "own"])
def test_of_two_machines_that_begin_at_once_one_records_itself(on_store, name, monkeypatch, tmp_path):
    """The other one's record comes after this one has looked for it."""
    record, read = tmp_path / "bucket" / "lake" / "_locks" / "host", lock._read_host_on_store
    own = f"{lock.host_name()} (lock files in {on_store.locks})"

    def read_before_the_other(*arguments):
        host = read(*arguments)
        monkeypatch.setattr(lock, "_read_host_on_store", read)
        record.write_text("another\n" if name == "another" else f"{own}\n")
        return host

    monkeypatch.setattr(lock, "_read_host_on_store", read_before_the_other)
    if name == "own":  # a second process of this machine
        with table_lock(on_store, "weather"):
            pass
        return
    with pytest.raises(RefusedError, match="is written by the machine another"), table_lock(on_store, "weather"):
        pytest.fail("it must not begin")
    assert record.read_text() == "another\n"


def test_a_store_without_conditional_requests_gets_a_record_too(on_store, monkeypatch, tmp_path):
    def refuse(*_):
        raise EnvironmentMissing("not supported")

    monkeypatch.setattr(LeaseFiles, "create_file", refuse)
    with table_lock(on_store, "weather"):
        pass
    assert (tmp_path / "bucket" / "lake" / "_locks" / "host").read_text().startswith(lock.host_name())


def test_a_lake_on_a_store_with_leases_takes_no_lock_file(on_store, tmp_path):
    (tmp_path / "bucket" / "lake" / "_leases" / "weather").mkdir(parents=True)
    with pytest.raises(RefusedError, match="is written under leases"), table_lock(on_store, "weather"):
        pytest.fail("it must not begin")


@pytest.mark.parametrize(("value", "begins"), [("auto", False), ("lease", True)])
def test_a_lake_on_a_store_with_lock_files_has_leases_only_where_they_are_chosen(on_store, value, begins, tmp_path):
    with table_lock(on_store, "weather"):
        pass
    other = on_store.model_copy(update={"lock": value})
    if begins:
        with table_lock(other, "weather"):
            pass
    else:
        advice = r"with lock files by the machine .*`lock: lease`.*delete s3a://bucket/lake/_locks/host"
        with pytest.raises(RefusedError, match=advice), table_lock(other, "weather"):
            pytest.fail("it must not begin")
    assert (tmp_path / "bucket" / "lake" / "_leases").exists() is begins


def test_a_lake_on_a_store_with_leases_of_its_own_has_no_use_for_the_record(on_store, monkeypatch, tmp_path):
    """It was written with lock files before."""
    with table_lock(on_store, "weather"):
        pass
    with table_lock(on_store.model_copy(update={"lock": "lease"}), "weather"):
        pass
    with table_lock(on_store.model_copy(update={"lock": "auto"}), "flights"):
        assert (tmp_path / "bucket" / "lake" / "_leases" / "flights").is_dir()


@pytest.mark.parametrize(("seconds", "refused"), [(0, False), (OWN_SECONDS, True)])
def test_a_process_with_lock_files_looks_for_leases_once_a_minute(on_store, seconds, refused, monkeypatch, tmp_path):
    with table_lock(on_store, "weather"):
        pass
    (tmp_path / "bucket" / "lake" / "_leases" / "weather").mkdir(parents=True)
    now = time.monotonic()
    monkeypatch.setattr(lock.time, "monotonic", lambda: now + seconds)
    expectation = pytest.raises(RefusedError, match="is written under leases") if refused else nullcontext()
    with expectation, table_lock(on_store, "weather"):
        assert not refused


def test_an_empty_record_of_the_host_on_a_store_is_this_one(on_store, tmp_path):
    record = tmp_path / "bucket" / "lake" / "_locks" / "host"
    record.touch()
    with table_lock(on_store, "weather"):
        assert host_name() in record.read_text()


def test_an_empty_record_of_the_host_is_this_one(settings):
    settings.locks.mkdir(parents=True)
    (settings.locks / "host").touch()
    with table_lock(settings, "weather"):
        assert Path(settings.locks, "weather.lock").exists()


def test_blocks_within_a_lease_are_one_and_its_end_frees_it(settings):
    leased = settings.model_copy(update={"lock": "lease"})
    with table_lock(leased, "weather"), pytest.raises(ValueError, match="own"), table_lock(leased, "weather", wait_seconds=0):
        raise ValueError("own")
    lease_holder(leased.root, 60).release_all()
    other = LeaseHolder(lease_holder(leased.root, 60).files, 60)
    with pytest.raises(LockedError), table_lock(leased, "weather"):
        other.enter("weather", 0)
