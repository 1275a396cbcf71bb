"""Leases on a real disk, with several holders in one process and in several: one holds at a time, a lapsed one is taken over.

Belongs here: holding, waiting, renewing, losing. Does not: what is written under a lease (test_fencing).
"""

import subprocess
import sys
import threading
import time
from pathlib import Path

import obstore
import pytest

from lakehouse_assets.errors import EnvironmentMissing, LeaseLostError, LockedError
from lakehouse_assets.storage.leases import holding, process_identity
from lakehouse_assets.storage.leases.files import MOST_FILES, LeaseFiles
from lakehouse_assets.storage.leases.holding import LeaseHolder
from lakehouse_assets.storage.leases.process_identity import is_dead, own_identity

SECONDS = 1.0


@pytest.fixture
def files(tmp_path):
    return LeaseFiles(str(tmp_path))


def holder(files, seconds=SECONDS, alive=True):
    """Another process, as far as leases know. One that is not alive renews nothing, and looks like one of another machine."""
    one = LeaseHolder(files, seconds)
    if not alive:
        one._start_renewer = lambda: None
    return one


def elsewhere(monkeypatch):
    monkeypatch.setattr(holding, "own_identity", lambda: {**own_identity(), "host": "another"})


def test_numbers_grow_from_holder_to_holder(files):
    numbers = []
    for _ in range(3):
        one = holder(files)
        lease = one.enter("weather", 0)
        numbers.append(lease.number)
        one.leave(lease)
        one.release(lease)
    assert numbers == sorted(set(numbers))
    assert files.find_newest("weather").released


def test_a_second_holder_waits_and_names_the_first(files):
    one, other = holder(files), holder(files)
    lease = one.enter("weather", 0)
    with pytest.raises(LockedError, match=r"weather is being written by process \d+ on .* for more than 0 s"):
        other.enter("weather", 0)
    assert other.enter("flights", 0).number == 1, "another table's lease is free"
    threading.Timer(0.3, lambda: (one.leave(lease), one.release(lease))).start()
    second = other.enter("weather", 10)
    assert second.number > lease.number
    assert not second.took_over


def test_blocks_within_blocks_are_one_lease(files):
    one = holder(files)
    outer = one.enter("weather", 0)
    inner = one.enter("weather", 0)
    assert outer is inner
    one.leave(inner)
    with pytest.raises(LockedError):
        holder(files).enter("weather", 0)
    one.leave(outer)


def test_a_lease_lingers_for_the_next_step_and_is_then_released(files):
    one = holder(files)
    first = one.enter("weather", 0)
    one.leave(first)
    assert one.enter("weather", 0) is first, "no request is needed"
    one.leave(first)
    assert holder(files).enter("weather", 5).took_over is False


def test_a_living_holder_renews_for_longer_than_its_lease(files, monkeypatch):
    elsewhere(monkeypatch)
    one = holder(files)
    lease = one.enter("weather", 0)
    with pytest.raises(LockedError):
        holder(files).enter("weather", 3 * SECONDS)
    assert lease.newest > lease.number, "it was renewed"
    assert not lease.is_lost


def test_a_lapsed_lease_is_taken_over_and_its_holder_finds_out(files, monkeypatch):
    elsewhere(monkeypatch)
    one = holder(files, alive=False)
    lease = one.enter("weather", 0)
    start = time.monotonic()
    second = holder(files).enter("weather", 10)
    assert second.took_over
    assert second.number > lease.number
    assert time.monotonic() - start >= SECONDS, "it has waited as long as was promised"
    assert not one.renew(lease)
    with pytest.raises(LeaseLostError, match="taken over"):
        one.enter("weather", 0)
    one.leave(lease)
    assert not files.find_newest("weather").released, "the former holder releases nothing"


def test_who_never_waits_takes_over_in_a_later_try(files, monkeypatch):
    """A sensor tries once a tick."""
    elsewhere(monkeypatch)
    holder(files, alive=False).enter("weather", 0)
    sensor = holder(files)
    with pytest.raises(LockedError):
        sensor.enter("weather", 0)
    time.sleep(1.1 * SECONDS)
    assert sensor.enter("weather", 0).took_over


def test_the_wait_counts_from_the_newest_renewal_that_was_watched(files, monkeypatch):
    elsewhere(monkeypatch)
    one = holder(files, seconds=1.2, alive=False)
    lease = one.enter("weather", 0)
    threading.Timer(0.8, lambda: one.renew(lease)).start()
    start = time.monotonic()
    assert holder(files).enter("weather", 10).took_over
    assert time.monotonic() - start >= 1.9


def test_a_killed_process_of_this_host_is_not_waited_for(files):
    code = (
        "import sys, os\n"
        "from lakehouse_assets.storage.leases.files import LeaseFiles\n"
        "from lakehouse_assets.storage.leases.holding import LeaseHolder\n"
        "print(LeaseHolder(LeaseFiles(sys.argv[1]), 600).enter('weather', 0).number, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    process = subprocess.run([sys.executable, "-c", code, files.root], capture_output=True, text=True, check=False)
    assert process.stdout.strip() == "1", process.stderr
    second = holder(files).enter("weather", 0)
    assert (second.number, second.took_over) == (2, True)


def test_a_process_that_ends_gives_its_leases_back(files):
    code = (
        "import sys\n"
        "from lakehouse_assets.storage.leases.holding import lease_holder\n"
        "holder = lease_holder(sys.argv[1], 600)\n"
        "holder.leave(holder.enter('weather', 0))\n"
    )
    subprocess.run([sys.executable, "-c", code, files.root], check=True)
    assert files.find_newest("weather").released


def test_many_processes_never_hold_at_once(files):
    """Each adds one to a file without any lock of its own: a lost count is two holders at once."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from lakehouse_assets.storage.leases.files import LeaseFiles\n"
        "from lakehouse_assets.storage.leases.holding import LeaseHolder\n"
        "holder = LeaseHolder(LeaseFiles(sys.argv[1]), 60)\n"
        "count = Path(sys.argv[1], 'count')\n"
        "for _ in range(15):\n"
        "    lease = holder.enter('weather', 60)\n"
        "    count.write_text(str(int(count.read_text()) + 1))\n"
        "    holder.leave(lease)\n"
        "    holder.release(lease)\n"
    )
    count = Path(files.root, "count")
    count.write_text("0")
    started = [subprocess.Popen([sys.executable, "-c", code, files.root]) for _ in range(4)]
    assert [each.wait(timeout=120) for each in started] == [0] * 4
    assert count.read_text() == "60"
    assert len(list(Path(files.root, "_leases", "weather").iterdir())) <= MOST_FILES + 1, "old files go"


def test_a_number_that_is_free_again_is_no_lease(files):
    """A process lists the files, sleeps, and writes a number whose file was removed meanwhile."""
    sleeper, busy = holder(files), holder(files)
    for _ in range(2 * MOST_FILES):
        lease = busy.enter("weather", 0)
        busy.leave(lease)
        busy.release(lease)
    files.find_newest("weather")
    assert files.read("weather", 3) is None
    assert not sleeper._claim("weather", 3)
    assert files.find_newest("weather").number > MOST_FILES


def test_a_repeated_request_finds_its_own_file(files):
    """The answer to the first one was lost."""
    assert files.create("weather", 1, b"mine")
    assert files.create("weather", 1, b"mine")
    assert not files.create("weather", 1, b"theirs")


def test_a_store_that_writes_over_files_is_refused_and_keeps_no_lease(files, monkeypatch):
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda *arguments, **_: put(*arguments))
    with pytest.raises(EnvironmentMissing, match="ignores conditional requests"):
        holder(files).enter("weather", 0)
    assert files.find_newest("weather") is None


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"seconds": "soon", "pid": "x"}', b"\xff"])
def test_an_unreadable_file_is_waited_for_and_taken_over(files, content):
    files.create("weather", 1, content)
    with pytest.raises(LockedError):
        holder(files).enter("weather", 0)
    assert holder(files, seconds=1).enter("weather", 10).number == 2


def test_a_store_that_cannot_be_reached_loses_no_lease(files, monkeypatch):
    one = holder(files)
    lease = one.enter("weather", 0)
    with monkeypatch.context() as patch:
        patch.setattr(LeaseFiles, "create", lambda *_: (_ for _ in ()).throw(OSError("unreachable")))
        time.sleep(1.5 * SECONDS)
        assert not lease.is_lost
    deadline = time.monotonic() + 5
    while lease.newest == lease.number and time.monotonic() < deadline:
        time.sleep(0.05)
    assert lease.newest > lease.number, "renewed once it answers again"


def test_a_block_that_did_not_finish_its_takeover_leaves_the_lease_to_lapse(files):
    one = holder(files)
    lease = one.enter("weather", 0)
    one.abandon(lease)
    assert not files.find_newest("weather").released
    assert one.enter("weather", 10).took_over


def test_only_a_process_of_this_host_and_boot_is_known_to_be_dead():
    """A copy of a machine has its name and id, and another boot."""
    me = own_identity()
    assert not is_dead(me)
    assert is_dead({**me, "started": f"{me['started'].partition('/')[0]}/1"})
    assert is_dead({**me, "pid": 2**22 + 1})
    unsure_numbers = (
        {"host": "another"},
        {"namespace": "another"},
        {"pid": None},
        {"started": None},
        {"started": "another boot/1"},
    )
    for unsure in unsure_numbers:
        assert not is_dead({**me, "pid": 2**22 + 1, **unsure})
    assert not is_dead({})


def test_no_process_is_known_to_be_dead_where_the_boot_cannot_be_read(monkeypatch):
    """Whichever version of the code has recorded it."""
    monkeypatch.setattr(process_identity, "_boot", lambda: "")
    for started in (None, "", "/1", "1"):
        assert not is_dead({**own_identity(), "started": started})
