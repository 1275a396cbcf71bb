"""Fences: after a lease was taken over, its former holder's next commit fails, however long it slept.

Belongs here: the commit that a new holder adds to each table before it reads one. Does not: what refuses the former holder's
(guards, log_store).

A version of a Delta table follows the one before it. So a fence is a version: it changes nothing, and states the new number.
"""

import json
import re
import time

import obstore
from obstore.exceptions import AlreadyExistsError

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.leases import FENCE
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets.storage.leases.guards import application, begin_writes, guarded_tables, lease_of

LOGS = ("decisions", "extractions", "positions", "baselines", "check_results", "audits")
_COMMIT = re.compile(r"(\d{20})\.json")


def fence(files: LeaseFiles, name: str, number: int) -> None:
    """Commit a fence to each table that the lease guards, and to each log. Repeated, it adds one more."""
    for table in [*guarded_tables(name), *(f"ops/{log}" for log in LOGS)]:
        _append_commit(files, f"{table}/", _content(name, number))


def guard_location(settings: Settings, name: str, location: str) -> None:
    """Put a table outside the lake under the lease of this block too: it is fenced if the lease was taken over."""
    lease = lease_of(settings, name)
    if lease is None:
        return
    path = re.sub("^file:/+", "/", location).rstrip("/")
    if lease.took_over and path not in lease.fenced:
        _append_commit(LeaseFiles(path), "", _content(name, lease.number))
        lease.fenced.add(path)
    begin_writes([path], lease)


def _content(name: str, number: int) -> bytes:
    at = int(time.time() * 1000)
    info = {"timestamp": at, "operation": FENCE, "operationParameters": {}, "lakehouseLease": str(number)}
    transaction = {"appId": application(name), "version": number, "lastUpdated": at}
    return "".join(json.dumps(action) + "\n" for action in ({"commitInfo": info}, {"txn": transaction})).encode()


def _append_commit(files: LeaseFiles, table: str, content: bytes) -> None:
    """Create the next version of a table with this content; nothing where there is no table."""
    folder = f"{table}_delta_log"
    names = [each["path"].rpartition("/")[2] for each in obstore.list(files.store, prefix=f"{folder}/").collect()]
    versions = [int(match[1]) for name in names if (match := _COMMIT.fullmatch(name))]
    version = max(versions, default=None)
    while version is not None:
        version += 1
        try:
            obstore.put(files.store, f"{folder}/{version:020d}.json", content, mode="create")
        except AlreadyExistsError:
            continue
        return
