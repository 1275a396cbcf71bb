"""Leases and logs on a fake of Google's store: a number and a version are created once, whoever writes at the same time.

Belongs here: `obstore`, `deltalake` and `pyarrow` by conditions on generations. Does not: Spark's connector, or Google itself.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs

from lakehouse_assets.errors import LeaseLostError
from lakehouse_assets.object_store import ObjectStore
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.file_systems import open_filesystem
from lakehouse_assets.storage.leases.fencing import fence
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets.storage.leases.holding import LeaseHolder
from lakehouse_assets_tests.e2e.gcs_fake import FakeStore, fake_gcs, fake_in_its_own_process
from lakehouse_assets_tests.e2e.two_appends import append_twice_from_one_version
from lakehouse_assets_tests.storage.lease_writer import LOG

pytestmark = pytest.mark.exhaustive(seconds=20)
LAKE = "gs://lake/lake"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    with fake_in_its_own_process() as (address, child):
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        yield child


def test_the_fake_refuses_what_google_refuses():
    store = FakeStore()
    first = store.put("lake/a", b"1", "0")
    assert first is not None
    assert store.put("lake/a", b"2", "0") is None
    second = store.put("lake/a", b"2", str(first.generation))
    assert second is not None and second.generation > first.generation
    assert store.put("lake/a", b"3", str(first.generation)) is None
    assert store.delete("lake/a")
    assert store.put("lake/a", b"4", str(second.generation)) is None
    with fake_gcs() as (address, _):
        assert address.startswith("http://127.0.0.1:")


def test_a_lease_is_taken_over_and_the_former_holder_is_refused(server):
    files = LeaseFiles(LAKE)
    assert files.find_newest("weather") is None
    one, other = LeaseHolder(files, 1), LeaseHolder(files, 1)
    one.renew = lambda lease: False  # it sleeps
    lease = one.enter("weather", 0)
    path = f"{LAKE}/silver/weather"
    write_deltalake(path, pa.table({"n": [1]}), storage_options=ObjectStore.from_environment().options(path))
    sleeping = DeltaTable(path, storage_options=ObjectStore.from_environment().options(path))
    second = other.enter("weather", 20)
    assert second.number > lease.number and second.took_over
    fence(files, "weather", second.number)
    assert delta.version(path) == 1, "the fence is a commit"
    assert sleeping.version() == 0
    with pytest.raises(LeaseLostError):
        one.confirm(lease)
    other.leave(second)
    other.release(second)
    newest = files.find_newest("weather")
    assert newest is not None and newest.released


def test_two_appends_by_deltalake_from_one_version_are_both_there(server):
    path = f"{LAKE}/log"
    append_twice_from_one_version(path)
    filesystem, base = open_filesystem(path)
    commits = sorted(each.path for each in filesystem.get_file_info(fs.FileSelector(f"{base}/_delta_log")))
    assert [name.rpartition("/")[2] for name in commits] == [f"{version:020d}.json" for version in range(3)]
    assert b"commitInfo" in filesystem.open_input_stream(commits[0]).read()


def test_rows_of_two_hosts_at_once_are_in_the_log_once(server, tmp_path):
    environment = {**os.environ, "LAKEHOUSE_ROOT": LAKE, "LAKEHOUSE_LOCK": "lease"}
    module = "lakehouse_assets_tests.storage.lease_writer"
    tables = ("weather", "flights")
    commands = [[sys.executable, "-m", module, f"host-{table}", table, "0", "40", "2"] for table in tables]
    writers = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for command in commands]
    outputs = [writer.communicate(timeout=200)[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert outputs == [[str(number) for number in range(40)]] * 2
    rows = LOG.read(Settings(root=LAKE, landing=str(tmp_path), dagster_home=tmp_path))
    assert sorted((row["table"], row["number"]) for row in rows) == sorted((t, n) for t in tables for n in range(40))
    server.stdin.close()
    refused, authorized = map(int, server.stdout.read().split())
    assert refused > 1, "the writers do not meet"
    assert authorized == 0
