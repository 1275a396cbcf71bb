"""A process that appends numbered rows to a log under a table's lease: what test_several_writers starts, stops and kills.

Belongs here: the writer of one story. Does not: what must hold afterwards (test_several_writers).
"""

import sys

from lakehouse_assets.errors import LeaseLostError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.leases import process_identity
from lakehouse_assets.storage.leases.holding import LeaseHolder
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.log_table import LogTable, log_schema

# A log that fences are added to, with rows of two columns.
LOG = LogTable("positions", log_schema("table text!, number long!"))
EXIT_LOST = 6


def append_numbers(host: str, table: str, first: int, count: int, rows_per_commit: int = 1) -> None:
    """Append some rows a commit, and print their numbers after each: what is printed is acknowledged."""
    process_identity.host_name = lambda: host
    if host.endswith("-unreachable"):  # it neither renews its lease nor sees that it was taken over
        LeaseHolder.renew = lambda self, lease: True
    settings = Settings.from_environment()
    with table_lock(settings, table, 60):
        for start in range(first, first + count, rows_per_commit):
            numbers = range(start, start + rows_per_commit)
            LOG.append(settings, [{"table": table, "number": number} for number in numbers])
            print(*numbers, sep="\n", flush=True)


if __name__ == "__main__":
    try:
        append_numbers(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
    except LeaseLostError as error:
        print(error, file=sys.stderr)
        sys.exit(EXIT_LOST)
