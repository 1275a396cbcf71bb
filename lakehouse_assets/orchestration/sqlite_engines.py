"""Connections to Dagster's SQLite databases that stay open from one statement to the next.

Belongs here: opening and closing them. Does not: what is stored (dagster_storage).

Whoever closes the last connection to a database writes its journal back and deletes it. With a connection for each statement
that takes 15 ms a statement. A run of one window has some hundreds. With one that stays it takes 0.3 ms.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event

# A run has a database of its own; besides it there are three.
MOST_OPEN = 8
SCHEME = "sqlite:///"

_engines: OrderedDict[str, tuple[Engine, int]] = OrderedDict()
_lock = Lock()


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """Open a transaction."""
    with engine.connect() as connection, connection.begin():
        yield connection


def open_engine(address: str, timeout: float) -> tuple[Engine, bool]:
    """Return the engine of a database, and whether it is a new one. ``timeout``: seconds that a statement waits for others.

    If the file was deleted or exchanged, its connections are closed: what they write would be lost.
    """
    with _lock:
        engine, identity = _engines.pop(address, (None, 0))
        if engine is not None and identity != _identity(address):
            engine.dispose()
            engine = None
        is_new = engine is None
        if engine is None:
            engine = _create(address, timeout)
        _engines[address] = (engine, _identity(address))
        while len(_engines) > MOST_OPEN:
            _engines.popitem(last=False)[1][0].dispose()
        return engine, is_new


def close_below(folder: str) -> None:
    """Close the connections to all databases in a folder."""
    with _lock:
        for address in [each for each in _engines if each.removeprefix(SCHEME).startswith(os.path.join(folder, ""))]:  # noqa: PTH118
            _engines.pop(address)[0].dispose()


def _create(address: str, timeout: float) -> Engine:
    engine = create_engine(
        address,
        poolclass=QueuePool,
        pool_size=1,
        max_overflow=-1,
        connect_args={"timeout": timeout, "check_same_thread": False},
    )
    # A power failure may take the last transactions of Dagster's history, and damages nothing: the lake's own logs decide.
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=NORMAL"))
    return engine


def _identity(address: str) -> int:
    """Return the identity of a file, which another file of its name does not have; 0 where there is none."""
    try:
        return os.stat(address.removeprefix(SCHEME)).st_ino  # noqa: PTH116 (for each statement: no Path)
    except OSError:
        return 0
