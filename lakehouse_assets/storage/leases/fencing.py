"""Fences: after a lease was taken over, its former holder's next commit fails, however long it slept.

Belongs here: the commit that a new holder adds to each table before it reads one. Does not: what refuses the former holder's
(guards, log_store).

A version of a Delta table follows the one before it. So a fence is a version: it changes nothing, and states the new number.
"""

import json
import re
import time
from collections.abc import Collection

import obstore
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from obstore.exceptions import AlreadyExistsError

from lakehouse_assets.errors import LeaseLostError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.delta_files import is_corrupt_log
from lakehouse_assets.storage.leases import FENCE
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets.storage.leases.guards import application, begin_writes_at, guarded_tables, lease_of
from lakehouse_assets.storage.table_options import table_options

LOGS = ("decisions", "extractions", "positions", "baselines", "check_results", "audits")
_COMMIT = re.compile(r"(\d{20})\.json")
_NUMBER = re.compile(r'"lakehouseLease"\s*:\s*"?(\d+)')  # as LeasedLogStore.java finds it


def fence(files: LeaseFiles, name: str, number: int, tables: Collection[str] | None = None) -> frozenset[str]:
    """Commit a fence to these tables (default: each that the lease guards, and each log). Repeated, it adds one more.

    Returns the tables that do not exist: the former holder may still create one. Raises LeaseLostError if a table states a
    higher number: this process slept, and others hold the lease since.
    """
    every = [*guarded_tables(name), *(f"ops/{log}" for log in LOGS)]
    fenced = every if tables is None else [table for table in every if table in tables]
    return frozenset(table for table in fenced if not _append_fence(files, table, name, number))


def guard_location(settings: Settings, name: str, location: str) -> None:
    """Put a table outside the lake under the lease of this block too: it is fenced if the lease was taken over."""
    lease = lease_of(settings, name)
    if lease is None:
        return
    path = re.sub("^file:/+", "/", location).rstrip("/")
    if lease.took_over and path not in lease.fenced:
        _append_fence(LeaseFiles(path), "", name, lease.number)
        lease.fenced.add(path)
    begin_writes_at(path, lease)


def _append_fence(files: LeaseFiles, table: str, name: str, number: int) -> bool:
    """Create the next version of a table as a fence; return False where there is no table. ``table``: empty for the root."""
    at = int(time.time() * 1000)
    info = {"timestamp": at, "operation": FENCE, "operationParameters": {}, "lakehouseLease": str(number)}
    transaction = {"appId": application(name), "version": number, "lastUpdated": at}
    content = "".join(json.dumps(action) + "\n" for action in ({"commitInfo": info}, {"txn": transaction})).encode()
    folder = f"{table}/_delta_log".lstrip("/")
    names = [each["path"].rpartition("/")[2] for each in obstore.list(files.store, prefix=f"{folder}/").collect()]
    versions = [int(match[1]) for name in names if (match := _COMMIT.fullmatch(name))]
    version = max(versions, default=None)
    while version is not None:
        # A fence that comes late must not state a lower number than its table: the former holder's commits would pass again.
        if _stated_number(files, table, version, application(name)) > number:
            raise LeaseLostError(name)
        version += 1
        try:
            obstore.put(files.store, f"{folder}/{version:020d}.json", content, mode="create")
        except AlreadyExistsError:
            continue
        return True
    return False


def _stated_number(files: LeaseFiles, table: str, version: int, application_id: str) -> int:
    """Return the highest number of the lease that a table states up to a version; 0 without one. Numbers only grow.

    Of a damaged log only what can be read counts: its mending needs the lease as well.
    """
    if table.startswith("ops/"):  # many leases write it, each under its own application
        path = f"{files.root.rstrip('/')}/{table}"
        try:
            log = DeltaTable(path, version=version, storage_options=table_options(path))
            return log.transaction_version(application_id) or 0
        except (DeltaError, ValueError) as error:
            if is_corrupt_log(error):
                return 0  # nobody can add a row to it either
            raise
    for each in range(version, -1, -1):
        try:
            file = f"{table}/_delta_log/{each:020d}.json".lstrip("/")
            commit = bytes(obstore.get(files.store, file).bytes()).decode(errors="replace")
        except FileNotFoundError:
            break  # removed by the log's own clean-up
        info = next((line for line in commit.splitlines() if line.startswith('{"commitInfo"')), "")
        if number := _NUMBER.search(info):
            return int(number[1])
    return 0
