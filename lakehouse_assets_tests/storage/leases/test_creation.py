"""A log's first version is created once. And the ways past the fences that the protocol's model has found, on real files.

Belongs here: creation, late fences, leases after errors. Does not: the protocol as a whole (laws/test_protocol_model).
"""

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Transaction, write_deltalake

from lakehouse_assets.errors import LeaseLostError
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.leases.creation import create_once
from lakehouse_assets.storage.leases.fencing import fence
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets.storage.leases.holding import LeaseHolder, lease_holder
from lakehouse_assets.storage.lock import table_lock

ROWS = pa.table({"table": ["weather"], "n": [1]})


@pytest.fixture
def leased(settings):
    return settings.model_copy(update={"lock": "lease", "lease_seconds": 60})


def append(path, number):
    delta.append_arrow(ROWS, path, partition_by=["table"], transactions=[Transaction(guards.application("weather"), number)])


def test_of_many_that_create_one_table_one_does(tmp_path):
    path, start = str(tmp_path / "log"), threading.Barrier(8)

    def create(number):
        start.wait()
        create_once(path, ROWS.schema, ["table"], {}, [Transaction(guards.application("weather"), number)])

    threads = [threading.Thread(target=create, args=[number]) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = DeltaTable(path)
    assert table.version() == 0
    assert table.transaction_version(guards.application("weather")) in range(1, 9)
    assert table.metadata().partition_columns == ["table"]


def test_rows_of_a_new_log_follow_its_first_version(tmp_path):
    append(str(tmp_path / "log"), 4)
    table = DeltaTable(str(tmp_path / "log"))
    assert table.version() == 1
    assert table.to_pyarrow_table().num_rows == 1


@pytest.mark.parametrize("table", ["ops/decisions", "baseline/weather"])
def test_a_fence_that_comes_late_is_refused(leased, table):
    files, path = LeaseFiles(leased.root), leased.path(table)
    append(path, 1)
    fence(files, "weather", 3)
    version = DeltaTable(path).version()
    with pytest.raises(LeaseLostError):
        fence(files, "weather", 2)
    assert DeltaTable(path).version() == version


def test_after_an_error_the_next_holder_fences_at_once(leased):
    path = leased.path("ops", "decisions")
    append(path, 0)
    with pytest.raises(ZeroDivisionError), table_lock(leased, "weather"):
        raise ZeroDivisionError
    before = DeltaTable(path).version()
    with table_lock(leased, "weather", wait_seconds=0):
        number = guards.number_of(leased.path("silver", "weather")) or 0
    assert DeltaTable(path).version() == before + 1
    assert DeltaTable(path).transaction_version(guards.application("weather")) == number


def test_a_log_that_the_former_holder_creates_after_a_takeover_is_not_written(leased):
    files, path = LeaseFiles(leased.root), leased.path("ops", "decisions")
    former = LeaseHolder(files, 0.0)
    former._start_renewer = lambda: None
    number = former.enter("weather", 0).number
    with pytest.raises(LeaseLostError), table_lock(leased, "weather"):
        append(path, number)  # the former holder, which was slow
        append(path, guards.number_of(leased.path("silver", "weather")) or 0)
    rows = DeltaTable(path).to_pyarrow_table().num_rows
    assert rows == 1


def test_tables_without_a_fence_are_fenced_by_the_next_holder(leased):
    files, path = LeaseFiles(leased.root), leased.path("ops", "decisions")
    former = LeaseHolder(files, 0.0)
    former._start_renewer = lambda: None
    number = former.enter("weather", 0).number
    with table_lock(leased, "weather"):
        pass
    lease_holder(leased.root, 60).release_all()
    append(path, number)
    with table_lock(leased, "weather"):
        newest = guards.number_of(leased.path("silver", "weather")) or 0
    assert DeltaTable(path).transaction_version(guards.application("weather")) == newest


@pytest.mark.parametrize("damage", [b"", b'{"commitInfo":{"timestamp":17', b"\xff\xfe{"])
@pytest.mark.parametrize("table", ["silver/weather", "ops/positions"])
def test_a_damaged_log_does_not_keep_out_who_mends_it(leased, table, damage):
    """After an error the next holder fences. If that failed too, no command could ever mend the table."""
    path = leased.path(table)
    with pytest.raises(ValueError, match="own"), table_lock(leased, "weather"):
        write_deltalake(path, pa.table({"n": [1]}))
        write_deltalake(path, pa.table({"n": [2]}), mode="append")
        Path(path, "_delta_log", f"{1:020d}.json").write_bytes(damage)
        raise ValueError("own")
    with table_lock(leased, "weather", wait_seconds=0):
        assert Path(path, "_delta_log", f"{2:020d}.json").exists(), "it is fenced"


def test_no_block_begins_within_a_lease_that_another_thread_gives_back(tmp_path, monkeypatch):
    holder = LeaseHolder(LeaseFiles(str(tmp_path)), 60)
    lease, second = holder.enter("weather", 0), []
    release = holder.release

    def enter_first(ending):
        monkeypatch.undo()
        thread = threading.Thread(target=lambda: second.append(holder.enter("weather", 5)))
        thread.start()
        thread.join(0.5)
        release(ending)
        thread.join()

    monkeypatch.setattr(holder, "release", enter_first)
    lease.acquired_at -= 100
    holder.leave(lease)
    assert second[0] is not lease
    assert not second[0].is_lost
