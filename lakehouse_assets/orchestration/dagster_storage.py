"""Dagster's storage in SQLite, on connections that stay open: `storage: custom` in `dagster.yaml`.

Belongs here: how its databases are opened. Does not: how checks are shown (checks_in_one_pass), or another database
(postgres_storage).

Dagster opens the database anew for each statement, which takes some seconds of a run of one window. These classes override
private methods of Dagster: check them when Dagster is upgraded. An instance with Dagster's own storage shows the same, later.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

from sqlalchemy import Connection, Engine

from lakehouse_assets.orchestration import run_databases
from lakehouse_assets.orchestration.checks_in_one_pass import ChecksInOnePass
from lakehouse_assets.orchestration.dagster_private import (
    INDEX_SHARD_NAME,
    SQLITE_BUSY_TIMEOUT_SECONDS,
    DagsterSqliteStorage,
    EventLogEntry,
    SqliteEventLogStorage,
    SqliteRunStorage,
    SqliteScheduleStorage,
)
from lakehouse_assets.orchestration.sqlite_engines import close_below, open_engine, transaction


class LakehouseEventLogStorage(ChecksInOnePass, SqliteEventLogStorage):
    """Dagster's event storage in SQLite."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        self._tables: set[str] = set()
        super().__init__(base_dir, inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            engine, is_new = open_engine(self.conn_string_for_shard(shard), SQLITE_BUSY_TIMEOUT_SECONDS)
            if is_new or shard not in self._initialized_dbs:
                is_made = run_databases.is_made(engine)
                if not is_made and shard != INDEX_SHARD_NAME:
                    is_made = run_databases.make_database(engine, _make_tables)
                if not is_made:
                    self._initdb(engine)
                self._initialized_dbs.add(shard)
            with transaction(engine) as connection:
                yield connection

    def has_table(self, table_name: str) -> bool:
        """Whether Dagster's index has this table. It is asked before each result of a check."""
        if table_name not in self._tables:
            # Asked within other transactions as well, which hold the lock that `index_connection` waits for.
            engine, _ = open_engine(self.conn_string_for_shard(INDEX_SHARD_NAME), SQLITE_BUSY_TIMEOUT_SECONDS)
            with engine.connect() as connection:
                if engine.dialect.has_table(connection, table_name):
                    self._tables.add(table_name)
        return table_name in self._tables

    def store_event(self, event: EventLogEntry) -> None:
        """Store an event, and let those notice who watch the run's file: what is written lies in its journal for a while."""
        super().store_event(event)
        with suppress(OSError):
            os.utime(self.path_for_shard(event.run_id))

    def wipe(self) -> None:
        """Delete all events."""
        close_below(self._base_dir)
        self._tables.clear()
        super().wipe()


class LakehouseRunStorage(SqliteRunStorage):
    """Dagster's storage of runs in SQLite."""

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open a transaction."""
        with transaction(open_engine(self._conn_string, SQLITE_BUSY_TIMEOUT_SECONDS)[0]) as connection:
            yield connection


class LakehouseScheduleStorage(SqliteScheduleStorage):
    """Dagster's storage of ticks in SQLite."""

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open a transaction."""
        with transaction(open_engine(self._conn_string, SQLITE_BUSY_TIMEOUT_SECONDS)[0]) as connection:
            yield connection


class LakehouseStorage(DagsterSqliteStorage):
    """Dagster's storage in SQLite: the same files as `storage: sqlite` with this ``base_dir``, in both directions."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = LakehouseEventLogStorage(self._event_log_storage._base_dir)
        self._run_storage = LakehouseRunStorage(self._run_storage._conn_string)
        self._schedule_storage = LakehouseScheduleStorage(self._schedule_storage._conn_string)

    def dispose(self) -> None:
        """Close the databases."""
        super().dispose()
        close_below(os.path.abspath(self.base_dir))  # noqa: PTH100 (as Dagster does)

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> "LakehouseStorage":
        """Return the storage that `dagster.yaml` describes."""
        return cls.from_local(inst_data=inst_data, **config_value)


def _make_tables(engine: Engine) -> None:
    """Make a run's database as Dagster does."""
    SqliteEventLogStorage._initdb(cast("SqliteEventLogStorage", None), engine)  # it has no use for an instance
