"""Dagster's storage in PostgreSQL, which several hosts share: `storage: custom` in `dagster.yaml`. Needs the extra `postgres`.

Belongs here: Dagster's own storage in PostgreSQL with our way to show checks, on connections that stay open. Does not: that way
itself, or SQLite (dagster_storage).

Dagster opens a connection for each statement: an event then takes 23 ms on one machine, and 4 ms with one that stays. It
claims a slot of a pool by two statements: one reads a free slot, the other claims it. So two hosts can have the same slot.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any

from lakehouse_assets.errors import EnvironmentMissing

try:
    from dagster_postgres import DagsterPostgresStorage, PostgresEventLogStorage
    from dagster_postgres.utils import (
        create_pg_connection,
        create_pg_engine,
        get_token_provider_from_config,
        pg_url_from_config,
    )
except ImportError as error:
    raise EnvironmentMissing(
        "dagster.yaml keeps Dagster's history in PostgreSQL, and this environment has no dagster-postgres: "
        "install the extra `postgres` of lakehouse-assets"
    ) from error

from sqlalchemy import Engine, NullPool, event, text

from lakehouse_assets.orchestration.checks_in_one_pass import ChecksInOnePass

# A connection that was idle for longer is opened anew: a firewall may have forgotten it.
IDLE_SECONDS = 300
# A number of ours among the database's advisory locks.
CREATION_LOCK = 5_270_423_001
POOLS_LOCK = 5_270_423_002
# After so long the database takes this lock from a host that has stopped while it had it.
POOLS_LOCK_SECONDS = 60


class LakehousePostgresEventLogStorage(ChecksInOnePass, PostgresEventLogStorage):
    """Dagster's event storage in PostgreSQL. Hosts change pools by turns: each step is several statements."""

    def claim_concurrency_slot(self, concurrency_key: str, run_id: str, step_key: str, priority: int | None = None) -> Any:
        """Claim a slot of this pool for a step, or enter it in the pool's queue."""
        with self._lock_pools():
            return super().claim_concurrency_slot(concurrency_key, run_id, step_key, priority)

    def free_concurrency_slot_for_step(self, run_id: str, step_key: str) -> None:
        """Free the slot of this step."""
        with self._lock_pools():
            super().free_concurrency_slot_for_step(run_id, step_key)

    def free_concurrency_slots_for_run(self, run_id: str) -> None:
        """Free all slots of this run."""
        with self._lock_pools():
            super().free_concurrency_slots_for_run(run_id)

    def set_concurrency_slots(self, concurrency_key: str, num: int) -> None:
        """Give this pool so many slots."""
        with self._lock_pools():
            super().set_concurrency_slots(concurrency_key, num)

    def initialize_concurrency_limit_to_default(self, concurrency_key: str) -> bool:
        """Give this pool the slots of `default_limit`. Dagster's way fails in PostgreSQL for a pool that has a limit."""
        with self._lock_pools():
            limit = self._instance.global_op_concurrency_default_limit if self.has_instance else None
            if limit is None or all(pool.name != concurrency_key for pool in self.get_pool_limits()):
                return super().initialize_concurrency_limit_to_default(concurrency_key)
            statement = text('UPDATE concurrency_limits SET "limit" = :limit WHERE concurrency_key = :pool')
            with self.index_transaction() as connection:
                connection.execute(statement, {"limit": limit, "pool": concurrency_key})
                self._allocate_concurrency_slots(connection, concurrency_key, limit)
            return True

    def dispose(self) -> None:
        """Close what is open. Another instance of this process opens its connection anew."""
        super().dispose()
        self._engine.dispose()

    @contextmanager
    def _lock_pools(self) -> Iterator[None]:
        with self.index_transaction() as connection:
            connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = '{POOLS_LOCK_SECONDS}s'"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": POOLS_LOCK})
            yield


class LakehousePostgresStorage(DagsterPostgresStorage):
    """Dagster's storage in PostgreSQL: the same tables and the same keys of `config:` as `storage: postgres`."""

    def __init__(
        self, postgres_url: str, should_autocreate_tables: bool = True, inst_data: Any = None, token_provider: Any = None
    ) -> None:
        engine = create_pg_engine(postgres_url, token_provider, poolclass=NullPool)
        with create_pg_connection(engine) if should_autocreate_tables else nullcontext() as connection:
            if connection is not None:  # Hosts that start at once on an empty database would create the same tables.
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": CREATION_LOCK})
            super().__init__(postgres_url, should_autocreate_tables, inst_data, token_provider)
        self._event_log_storage = LakehousePostgresEventLogStorage(
            postgres_url, should_autocreate_tables, token_provider=token_provider
        )
        for storage in (self._event_log_storage, self._run_storage, self._schedule_storage):
            if token_provider is None:
                storage._engine = _open_engine(postgres_url)
            _keep_utc(storage)

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> "LakehousePostgresStorage":
        """Return the storage that `dagster.yaml` describes."""
        return cls(
            pg_url_from_config(config_value),
            config_value.get("should_autocreate_tables", True),
            inst_data,
            get_token_provider_from_config(config_value),
        )


@lru_cache
def _open_engine(postgres_url: str) -> Engine:
    """Return the engine of a database: one for all instances of this process, with one connection while nothing happens."""
    engine = create_pg_engine(
        postgres_url,
        isolation_level="AUTOCOMMIT",
        pool_size=1,
        max_overflow=-1,
        pool_pre_ping=True,
        pool_recycle=IDLE_SECONDS,
    )
    # A fork must not talk on its parent's connection.
    os.register_at_fork(after_in_child=lambda: engine.dispose(close=False))
    return engine


def _keep_utc(storage: Any) -> None:
    """Let a storage's connections have the time zone UTC: Dagster reads the times that the database sets as UTC."""
    for_webserver = storage.optimize_for_webserver

    def optimize_for_webserver(*arguments: Any, **options: Any) -> None:
        for_webserver(*arguments, **options)  # opens an engine of its own
        event.listen(storage._engine, "connect", _use_utc)

    storage.optimize_for_webserver = optimize_for_webserver
    event.listen(storage._engine, "connect", _use_utc)


def _use_utc(connection: Any, _: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET TIME ZONE 'UTC'")
    connection.commit()
