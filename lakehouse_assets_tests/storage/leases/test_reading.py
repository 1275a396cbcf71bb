"""Whoever only reads a table waits for its writer, and leaves no lease and no fence behind.

Belongs here: `read_at_rest` under leases, and `verify`'s comparison by it. Does not: what is compared (pipeline/test_evidence).
"""

import threading
import time
from pathlib import Path

import pytest

from lakehouse_assets.errors import LockedError
from lakehouse_assets.pipeline.evidence import findings_of
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets.storage.leases.holding import LeaseHolder
from lakehouse_assets.storage.lock import read_at_rest, table_lock
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import readings


@pytest.fixture
def lake(settings: Settings) -> Settings:
    return settings.model_copy(update={"lock": "lease", "lease_seconds": 1})


@pytest.fixture
def writer(lake: Settings) -> LeaseHolder:
    """Another process, as far as leases know."""
    return LeaseHolder(LeaseFiles(lake.root), 1)


def content_of(root: str) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}


@pytest.mark.parametrize("end", ["none", "released", "failed"])
def test_a_comparison_with_findings_changes_no_file(settings, lake, writer, end):
    logbook.write(settings, [logbook.decided(1)])  # of an extraction that no log and no bronze has
    if end != "none":
        lease = writer.enter("readings", 0)
        writer.leave(lease, failed=end == "failed")
        writer.release(lease)
    before = content_of(lake.root)
    assert findings_of(lake, readings()) != []
    assert content_of(lake.root) == before


def test_a_reader_waits_for_the_writer_and_reads_again_if_another_one_began(lake, writer):
    lease, reads = writer.enter("readings", 0), []

    def end() -> None:
        writer.leave(lease)
        writer.release(lease)

    def read() -> int:
        reads.append(writer.leases.copy())
        if len(reads) == 1:
            second = writer.enter("readings", 0)
            writer.leave(second)
            writer.release(second)
            raise OSError("a file is gone")
        return len(reads)

    threading.Timer(0.3, end).start()
    assert read_at_rest(lake, "readings", read) == 2
    assert reads == [{}, {}], "it was read under nobody's lease"


def test_an_error_without_a_writer_and_a_writer_that_stays_are_reported(lake, writer):
    def fail() -> None:
        raise OSError("a file is gone")

    with pytest.raises(OSError, match="a file is gone"):
        read_at_rest(lake, "readings", fail)
    writer.enter("readings", 0)
    with pytest.raises(LockedError, match="readings is being written by process"):
        read_at_rest(lake, "readings", fail, wait_seconds=0.1)


def test_within_its_own_lease_a_process_reads_at_once(lake):
    with table_lock(lake, "readings"):
        assert read_at_rest(lake, "readings", lambda: 1, wait_seconds=0) == 1


def test_a_lease_that_lingers_is_not_given_back_while_it_is_read_under(lake, writer):
    lake = lake.model_copy(update={"lease_seconds": 2})
    with table_lock(lake, "readings"):
        pass

    def read() -> str:
        time.sleep(1.5)  # longer than it lingers
        with pytest.raises(LockedError):
            writer.enter("readings", 0)
        return "read"

    assert read_at_rest(lake, "readings", read, wait_seconds=0) == "read"


def test_a_table_that_is_written_at_each_reading_is_reported(lake, writer):
    def read() -> None:
        lease = writer.enter("readings", 0)
        writer.leave(lease)
        writer.release(lease)

    with pytest.raises(LockedError, match="written again and again"):
        read_at_rest(lake, "readings", read, wait_seconds=0.2)
