"""Dagster's storage in PostgreSQL, which several hosts share: `storage: custom` in `dagster.yaml`. Needs the extra `postgres`.

Belongs here: Dagster's own storage in PostgreSQL with our way to show checks, on connections that stay open. Does not: that way
itself, or SQLite (dagster_storage).

Dagster opens a connection for each statement: an event then takes 23 ms on one machine, and 4 ms with one that stays.
"""

import os
from contextlib import nullcontext
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

from sqlalchemy import Engine, NullPool, text

from lakehouse_assets.orchestration.dagster_storage import ChecksInOnePass

# A connection that was idle for longer is opened anew: a firewall may have forgotten it.
IDLE_SECONDS = 300
# A number of ours among the database's advisory locks.
CREATION_LOCK = 5_270_423_001


class LakehousePostgresEventLogStorage(ChecksInOnePass, PostgresEventLogStorage):
    """Dagster's event storage in PostgreSQL."""

    def dispose(self) -> None:
        """Close what is open. Another instance of this process opens its connection anew."""
        super().dispose()
        self._engine.dispose()


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
        if token_provider is None:
            for storage in (self._event_log_storage, self._run_storage, self._schedule_storage):
                storage._engine = _open_engine(postgres_url)

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
