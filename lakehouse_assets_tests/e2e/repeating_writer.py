"""A process that appends to a log under a lease, and tries again after each error: what test_failing_store starts.

Belongs here: the writer of one story. Does not: the store's faults, or what must hold afterwards (test_failing_store).

It appends the number after the highest one of its table, as a run continues from what it reads. So a number that is there twice
or left out shows a commit that came in beside the next holder.
"""

import sys
import time

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.leases import process_identity
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets_tests.storage.lease_writer import LOG


def append_next(settings: Settings, table: str) -> int:
    """Append the number after the table's highest one, under its lease, and return it."""
    with table_lock(settings, table, 60):
        rows = LOG.read(settings, ["number"], [("table", "==", table)])
        number = 1 + max((row["number"] for row in rows), default=0)
        LOG.append(settings, [{"table": table, "number": number}])
    return number


def append_until(host: str, table: str, count: int, seconds: float) -> None:
    """Print each number that was appended, and each error as `! class: message`; end after so many numbers."""
    process_identity.host_name = lambda: host
    settings = Settings.from_environment()
    end = time.monotonic() + seconds
    while count and time.monotonic() < end:
        try:
            print(append_next(settings, table), flush=True)
            count -= 1
        except Exception as error:
            print(f"! {type(error).__module__}.{type(error).__name__}: {str(error)[:300]!r}", flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    append_until(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
