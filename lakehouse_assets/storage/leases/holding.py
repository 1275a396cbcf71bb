"""Holding a lease: acquiring it by compare-and-swap, renewing it in the background, releasing it, taking over a lapsed one.

Belongs here: the leases of this process. Does not: their files (files), or refusing late commits (fencing).

Clocks of two machines are never compared. Whoever waits watches the newest file: if it stays the same for as long as its holder
promised to renew it, the lease has lapsed.
"""

import atexit
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from lakehouse_assets.errors import LeaseLostError, LockedError
from lakehouse_assets.storage.leases.files import LeaseFiles, NewestFile
from lakehouse_assets.storage.leases.process_identity import is_dead, own_identity

# After its last use a lease is kept for so long (at most a quarter of its time): a run's next step then needs no request.
LINGER_SECONDS = 5.0
# One of so many renewals lists the files, so that the old ones are removed.
LISTING_RENEWALS = 10


def now() -> float:
    """Return seconds that also pass while the machine sleeps, on no clock that anyone sets."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass
class Lease:
    """``number``: the fencing number; it is higher than that of each earlier holder. ``newest``: of the last file that this
    process wrote. ``took_over``: the holder before did not release it. ``users``: blocks that are within it. ``failed``: one of
    them ended with an error, so that a request of its may still be under way. ``to_fence``: the tables that it fences first;
    None: all. ``absent``: those of them that did not exist, so that the former holder may still create them. ``at_end``: called
    when its last block ends.
    """

    name: str
    number: int
    newest: int
    took_over: bool
    acquired_at: float
    renewed_at: float
    fenced: set[str] = field(default_factory=set)
    users: int = 1
    idle_since: float | None = None
    is_lost: bool = False
    failed: bool = False
    to_fence: frozenset[str] | None = None
    absent: frozenset[str] = frozenset()
    changing: threading.RLock = field(default_factory=threading.RLock)
    at_end: Callable[[], None] = lambda: None


@dataclass
class LeaseHolder:
    """The leases of this process on one lake. ``seconds``: how long one lasts without renewal."""

    files: LeaseFiles
    seconds: float
    leases: dict[str, Lease] = field(default_factory=dict)
    _mutex: threading.RLock = field(default_factory=threading.RLock)
    _acquiring: dict[str, threading.Lock] = field(default_factory=dict)
    # Who waits without patience, as a sensor does, watches from one tick to the next.
    _watches: dict[str, "_Watch"] = field(default_factory=dict)
    _id: str = field(default_factory=lambda: uuid4().hex)
    _probed: bool = False
    _renewer: threading.Thread | None = None

    def enter(self, name: str, wait_seconds: float) -> Lease:
        """Return the lease, acquired if this process does not hold it. Raises LockedError after the wait, and LeaseLostError
        within a block whose lease was taken over.
        """
        with self._mutex:
            acquiring = self._acquiring.setdefault(name, threading.Lock())
        with acquiring:
            if lease := self._use_current(name):
                return lease
            lease = self._acquire(name, wait_seconds)
            with self._mutex:
                self.leases[name] = lease
                self._start_renewer()
            return lease

    def leave(self, lease: Lease, *, failed: bool = False) -> None:
        """End a block. The lease lingers for a moment, or is released if it was acquired long ago, or a block failed."""
        with self._mutex:
            lease.users -= 1
            lease.failed |= failed
            lease.idle_since = None if lease.users else now()
            if not lease.users:
                lease.at_end()  # before another thread's block can begin
            is_old = now() - lease.acquired_at > self.seconds
            ends = lease.users == 0 and (lease.is_lost or lease.failed or is_old)
            if ends and self.leases.get(lease.name) is lease:
                del self.leases[lease.name]  # at once: another thread's block must not begin within a lease that ends
        if ends:
            self.release(lease)

    def release(self, lease: Lease) -> None:
        """Give a lease back. A store that cannot be reached changes nothing: the lease lapses. After an error it is given back
        as lapsed: a request that was given up may still arrive, so that the next holder has to fence it off. So is one without
        all fences: the next holder adds those.
        """
        with lease.changing:
            with self._mutex:
                if self.leases.get(lease.name) is lease:
                    del self.leases[lease.name]
            if not lease.is_lost:
                with suppress(Exception):
                    self.files.create(lease.name, lease.newest + 1, _content_at_end(lease))
                lease.is_lost = True

    def abandon(self, lease: Lease) -> None:
        """End a block without giving the lease back: it lapses, so that the next holder knows that this one did not finish."""
        with self._mutex:
            lease.is_lost = True
        self.leave(lease)

    def release_all(self) -> None:
        """Give back each lease that no block uses."""
        for lease in list(self.leases.values()):
            if lease.users == 0:
                self.release(lease)

    def renew(self, lease: Lease) -> bool:
        """Write the next number; return False, and mark the lease as lost, if another process has a higher one.

        A number that is free below the highest one was removed as too old. That takes a process that slept for long: only then,
        and now and then, the files are listed as well. A holder that does not notice writes nothing: the fences refuse it.
        """
        with lease.changing:
            if lease.is_lost:
                return False
            number = lease.newest + 1
            created = self.files.create(lease.name, number, self._content(lease.number, number))
            lists = number % LISTING_RENEWALS == 0 or now() - lease.renewed_at > self.seconds
            newest = self.files.find_newest(lease.name) if created and lists else None
            lease.is_lost = not created or (lists and (newest is None or newest.number != number))
            if not lease.is_lost:
                lease.newest, lease.renewed_at = number, now()
            return not lease.is_lost

    def confirm(self, lease: Lease) -> None:
        """Ask the store whether the lease is this process's. Raises LeaseLostError if it was taken over."""
        with lease.changing:
            newest = self.files.find_newest(lease.name)
            lease.is_lost |= newest is None or newest.number != lease.newest
            if lease.is_lost:
                raise LeaseLostError(lease.name)

    @contextmanager
    def own_lease(self, name: str) -> Iterator[bool]:
        """Keep a lease that this process has until the end of the block: yields whether it has one. Acquires none."""
        lease = self._use_current(name)
        try:
            yield lease is not None
        finally:
            if lease is not None:
                self.leave(lease)

    def await_release(self, name: str, wait_seconds: float) -> int:
        """Wait until nobody holds the lease, and return the newest number, 0 before the first. Writes nothing. Raises
        LockedError after the wait.
        """
        start, watch = now(), _Watch()
        while True:
            newest = self.files.find_newest(name, removes_old=False)
            if newest is None or newest.released or self._has_lapsed(name, newest, watch):
                return newest.number if newest else 0
            if now() - start >= wait_seconds:
                raise LockedError(_locked_message(name, watch.record, wait_seconds))
            time.sleep(min(1.0, self.seconds / 10, max(wait_seconds, 0.05)))

    def _use_current(self, name: str) -> Lease | None:
        """Return the lease with one more user if this process holds it. One that may have lapsed is renewed first."""
        with self._mutex:
            lease = self.leases.get(name)
            if lease is None:
                return None
            lease.users += 1
            lease.idle_since = None
        try:
            if now() - lease.renewed_at > self.seconds:
                self.renew(lease)
        except BaseException:
            self.leave(lease)
            raise
        if not lease.is_lost:
            return lease
        self.leave(lease)
        if lease.users:
            raise LeaseLostError(name)
        return None

    def _acquire(self, name: str, wait_seconds: float) -> Lease:
        start, watch = now(), self._watches.setdefault(name, _Watch())
        while True:
            newest = self.files.find_newest(name)
            if newest is None or newest.released or self._has_lapsed(name, newest, watch):
                number = 1 if newest is None else newest.number + 1
                if self._claim(name, number):
                    took_over = newest is not None and not newest.released
                    to_fence = _tables_to_fence(watch.record) if took_over else None
                    return Lease(name, number, number, took_over, now(), now(), to_fence=to_fence)
            elif now() - start >= wait_seconds:
                raise LockedError(_locked_message(name, watch.record, wait_seconds))
            else:
                time.sleep(min(1.0, self.seconds / 10, max(wait_seconds, 0.05)))

    def _claim(self, name: str, number: int) -> bool:
        """Write this number, and confirm that none is higher: files that are too old are removed, so that a slow process could
        write a number again.
        """
        if not self.files.create(name, number, self._content(number, number)):
            return False
        if not self._probed:
            self.files.require_conditions(name, number)
            self._probed = True
        newest = self.files.find_newest(name)
        return newest is not None and newest.number == number

    def _has_lapsed(self, name: str, newest: NewestFile, watch: "_Watch") -> bool:
        if watch.number != newest.number:
            watch.number, watch.since = newest.number, now()
            watch.record = _decode(self.files.read(name, newest.number))
        # An unreadable record promises nothing: this process's own time is waited for.
        promised = watch.record.get("seconds")
        seconds = float(promised) if isinstance(promised, int | float) else self.seconds
        return now() - watch.since >= seconds or is_dead(watch.record)

    def _content(self, number: int, newest: int) -> bytes:
        record = {**own_identity(), "holder": self._id, "acquired": number, "number": newest, "seconds": self.seconds}
        return json.dumps(record).encode()

    def _start_renewer(self) -> None:
        if self._renewer is None or not self._renewer.is_alive():
            self._renewer = threading.Thread(target=self._renew_forever, name="lakehouse-leases", daemon=True)
            self._renewer.start()

    def _renew_forever(self) -> None:
        linger = min(LINGER_SECONDS, self.seconds / 4)
        while True:
            time.sleep(min(0.5, self.seconds / 12))
            with self._mutex:
                leases = list(self.leases.values())
                if not leases:
                    self._renewer = None
                    return
            for lease in leases:
                with self._mutex:
                    is_idle = lease.idle_since is not None and now() - lease.idle_since > linger
                    if is_idle:
                        self.leases.pop(lease.name, None)
                if is_idle:
                    self.release(lease)
                elif now() - lease.renewed_at > self.seconds / 3:
                    with suppress(Exception):  # a store that cannot be reached now is asked again
                        self.renew(lease)


@dataclass
class _Watch:
    """The newest file that a waiting process has watched, and since when."""

    number: int = 0
    since: float = 0
    record: dict[str, Any] = field(default_factory=dict)


def _content_at_end(lease: Lease) -> bytes:
    """Return what a lease leaves: nothing, or that it has lapsed and which tables are to be fenced (all after an error)."""
    if not (lease.failed or lease.absent):
        return b""
    return json.dumps({"seconds": 0, "to_fence": None if lease.failed else sorted(lease.absent)}).encode()


def _tables_to_fence(record: Mapping[str, Any]) -> frozenset[str] | None:
    tables = record.get("to_fence")
    return frozenset(map(str, tables)) if isinstance(tables, list) and tables else None


def _decode(content: bytes | None) -> dict[str, Any]:
    try:
        record = json.loads(content or b"{}")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _locked_message(name: str, record: dict[str, Any], wait_seconds: float) -> str:
    holder = f"process {record['pid']} on {record['host']}" if {"pid", "host"} <= record.keys() else "another process"
    return f"{name} is being written by {holder} for more than {wait_seconds:.0f} s; wait for that run to end, or stop it"


_holders: dict[str, LeaseHolder] = {}


def lease_holder(root: str, seconds: float) -> LeaseHolder:
    """Return this process's leases on a lake."""
    root = root.rstrip("/")
    if root not in _holders:
        _holders[root] = LeaseHolder(LeaseFiles(root), seconds)
    return _holders[root]


@atexit.register
def _release_all() -> None:
    for holder in _holders.values():
        holder.release_all()


# A forked process holds nothing.
os.register_at_fork(after_in_child=_holders.clear)
