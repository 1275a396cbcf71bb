"""The tables that this process may write now, each by the number of its lease: what a commit states, and when it is refused.

Belongs here: numbers by path, for `deltalake` and for Java. Does not: holding a lease (holding), or fences (fencing).

A commit of Spark is refused if the version before it states a higher number (log_store/LeasedLogStore.java). One of `deltalake`
is refused by an application transaction: Delta lets no two concurrent commits have the same application's.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from lakehouse_assets.errors import LeaseLostError, LockedError, java_causes
from lakehouse_assets.object_store import is_url
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.java import java_class

if TYPE_CHECKING:
    from lakehouse_assets.storage.leases.holding import Lease

LAYERS = ("bronze", "silver", "quarantine", "baseline", "gold")
PREFIX = "lakehouse.lease."
LOST = "LAKEHOUSE_LEASE_LOST"
# Commits that are read at once to find one that states a number, if the newest does not.
FEW_COMMITS = 20
_guards: "dict[str, Lease]" = {}
# Tables that were absent when a lease was taken over, by path and application: only this holder may have created them.
_unfenced: set[tuple[str, str]] = set()


def guarded_tables(name: str) -> list[str]:
    """Return the tables that a lease guards besides its rows of the logs, as paths below the lake's root.

    >>> guarded_tables("gold_daily")[-1]
    'gold/daily'
    """
    tables = [f"{layer}/{name}" for layer in ("bronze", "silver", "quarantine", "baseline")]
    return [*tables, f"gold/{name.removeprefix('gold_')}"] if name.startswith("gold_") else tables


def begin_writes(settings: Settings, lease: "Lease") -> None:
    """Let this process write the lease's tables."""
    for table in guarded_tables(lease.name):
        begin_writes_at(settings.path(table), lease)
        if table in lease.absent:
            _set_property("lakehouse.unfenced", settings.path(table), "true")
    _unfenced.update((settings.path(table), application(lease.name)) for table in lease.absent)


def begin_writes_at(path: str, lease: "Lease") -> None:
    """Let this process write one more table under the lease."""
    _guards[path] = lease
    _set_property("lakehouse.lease", path, str(lease.number))


def end_writes(settings: Settings, lease: "Lease") -> None:
    """Let this process write the lease's tables no more."""
    for path in [path for path, other in list(_guards.items()) if other is lease]:
        _guards.pop(path, None)
        _set_property("lakehouse.lease", path, None)
        _set_property("lakehouse.unfenced", path, None)
    _unfenced.difference_update((settings.path(table), application(lease.name)) for table in lease.absent)


def lease_of(settings: Settings, name: str) -> "Lease | None":
    """Return the lease of a name within its block; None outside, and where lock files are used."""
    return _guards.get(settings.path("silver", name))


def number_of(path: str) -> int | None:
    """Return the number of the lease by which this process writes a table now; None without one."""
    lease = _guards.get(path)
    return None if lease is None else lease.number


def application(name: str) -> str:
    """Return the application of Delta's transactions under a lease."""
    return f"{PREFIX}{name}"


def commit_properties(
    path: str, metadata: str | None = None, transactions: Sequence[Transaction] = ()
) -> CommitProperties | None:
    """Return what a commit of `deltalake` to this table states; None for nothing. Raises LeaseLostError after a takeover.

    ``transactions``: of a log's commit, which states them instead of a lease of the whole table.
    """
    custom = {"userMetadata": metadata} if metadata else {}
    if transactions:
        return CommitProperties(custom_metadata=custom or None, app_transactions=list(transactions))
    lease = _guards.get(path)
    if lease is None:
        return CommitProperties(custom_metadata=custom) if custom else None
    custom["lakehouseLease"] = str(lease.number)
    return CommitProperties(custom_metadata=custom, app_transactions=table_transactions(path))


def table_transactions(path: str) -> list[Transaction]:
    """Return the transaction of each commit to this table; none outside a lease. Raises LeaseLostError after a takeover."""
    lease = _guards.get(path)
    return [] if lease is None else [_transaction(lease)]


def log_transactions(settings: Settings, names: Iterable[str], *, required: bool) -> list[Transaction]:
    """Return the transactions of a log's commit with rows of these tables: the number of each lease that this process holds.

    ``required``: whether such rows are written under the table's lease only. Raises LockedError without it.
    """
    leases = {name: lease_of(settings, name) for name in sorted(set(names))}
    if required and (missing := [name for name, lease in leases.items() if lease is None]):
        raise LockedError(f"{missing[0]}: the logs take its rows under its lease only, and this process does not hold it")
    return [_transaction(lease) for lease in leases.values() if lease is not None]


def _transaction(lease: "Lease") -> Transaction:
    if lease.is_lost:
        raise LeaseLostError(lease.name)
    return Transaction(application(lease.name), lease.number)


def require_unfenced(table: DeltaTable, path: str, transactions: Iterable[Transaction]) -> None:
    """Raise LeaseLostError if the table, as it was opened, has a higher number for one of these applications, or if the former
    holder has created it since this process took over.
    """
    for transaction in transactions:
        number = table.transaction_version(transaction.app_id) or 0
        is_unfenced = (path, transaction.app_id) in _unfenced
        if is_unfenced or (path in _guards and number < transaction.version):
            # Spark's commits state no transaction: a table that the next holder has created has no fence either.
            number = max(number, _stated_number(table))
        if number > transaction.version or (is_unfenced and number < transaction.version):
            raise LeaseLostError(transaction.app_id.removeprefix(PREFIX))


def _stated_number(table: DeltaTable) -> int:
    """Return the number that the newest commit with one states; 0 without any. Another program's commits state none."""
    for most in (1, FEW_COMMITS, None):
        stated = [entry["lakehouseLease"] for entry in table.history(most) if entry.get("lakehouseLease")]
        if stated:
            return int(stated[0])
    return 0


def is_fenced(error: BaseException) -> bool:
    """Whether a commit was refused since its lease was taken over."""
    if isinstance(error, CommitFailedError):
        return "Concurrent transaction" in str(error)
    messages = [str(cause.getMessage()) for cause in java_causes(error)]
    return any(LOST in message for message in [str(error), *messages])


def announce_guards(settings: Settings) -> None:
    """Tell a Java that has just started what this process may write, and which folders are written under a lease only."""
    for layer in LAYERS:
        _set_property("lakehouse.guarded", settings.path(layer), "true")
    for path, lease in list(_guards.items()):
        _set_property("lakehouse.lease", path, str(lease.number))
    for path, _ in list(_unfenced):
        _set_property("lakehouse.unfenced", path, "true")


def _set_property(name: str, path: str, value: str | None) -> None:
    jvm = _running_java()
    if jvm is None:
        return
    # Maintenance names a table by its path without links.
    for each in {path} if is_url(path) else {path, os.path.realpath(path)}:
        if value is not None:
            java_class(jvm, "java.lang.System").setProperty(f"{name}.{each}", value)
            continue
        with suppress(Exception):  # Java may have ended
            java_class(jvm, "java.lang.System").clearProperty(f"{name}.{each}")


def _running_java() -> Any:
    spark = sys.modules.get("pyspark")
    return None if spark is None else getattr(spark.SparkContext, "_jvm", None)
