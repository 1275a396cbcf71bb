"""The database of a run's events in SQLite: made from a copy of Dagster's statements.

Belongs here: whether Dagster has made a database, and making one. Does not: connections (sqlite_engines), or what is stored.

Dagster reads all its migrations for each new database, and each time that it opens one: half a second of a run of one window.
"""

import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from time import monotonic, sleep

from sqlalchemy import Connection, Engine, StaticPool, create_engine

Make = Callable[[Engine], None]


def is_made(engine: Engine) -> bool:
    """Whether Dagster has made its tables in this database: it notes their version last."""
    with engine.connect() as connection:
        driver = _driver(connection)
        if not driver.execute("SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'").fetchone()[0]:
            return False
        return driver.execute("SELECT count(*) FROM alembic_version").fetchone()[0] > 0


def make_database(engine: Engine, make: Make) -> bool:
    """Do to an empty database what ``make`` does to one, in one transaction, and return whether it is made. One that another
    process has begun stays as it is.
    """
    statements = _statements_of(make)
    with engine.connect() as connection:
        driver = _driver(connection)
        _keep_journal(driver)
        driver.execute("BEGIN IMMEDIATE")
        try:
            if not driver.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in statements:
                    driver.execute(statement)
        except BaseException:
            driver.execute("ROLLBACK")
            raise
        driver.execute("COMMIT")
    return is_made(engine)


def _keep_journal(driver: sqlite3.Connection) -> None:
    """Let a database keep its changes in a journal. SQLite refuses that at once, without its own waiting, while another
    connection does the same: it is tried again for as long as the connection waits for others.
    """
    until = monotonic() + driver.execute("PRAGMA busy_timeout").fetchone()[0] / 1000
    while True:
        try:
            driver.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > until:
                raise
        sleep(0.01)


@cache
def _statements_of(make: Make) -> Sequence[str]:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    try:
        make(engine)
        with engine.connect() as connection:
            lines = list(_driver(connection).iterdump())
    finally:
        engine.dispose()
    return [line for line in lines if line not in ("BEGIN TRANSACTION;", "COMMIT;")]


def _driver(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 (all engines of this file)
    return driver
