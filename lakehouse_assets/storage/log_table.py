"""A log: an append-only Delta table of small rows under `ops/`, read and written without a JVM, one commit each.

Belongs here: what every log needs. Does not: what a row means (logs, baseline, source_positions, audit_log, check_results).
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.log_files import read_log

Filters = Sequence[tuple[str, str, Any]]
# What a reader has opened is read within seconds.
HOURS_KEPT = 1
RETENTION = {"delta.deletedFileRetentionDuration": f"interval {HOURS_KEPT} hours"}
# How often an append is tried while other machines change the log's columns or properties; and delta-rs's texts for that.
TRIES = 3
LOG_CHANGED = ("Metadata changed since last commit", "Protocol changed since last commit")
MOMENT = pa.timestamp("us", tz="UTC")
TYPES = {"text": pa.string(), "texts": pa.list_(pa.string()), "int": pa.int32(), "long": pa.int64(), "double": pa.float64()}
TYPES |= {"flag": pa.bool_(), "moment": MOMENT, "bytes": pa.binary()}


def log_schema(columns: str, **kinds: pa.DataType) -> pa.Schema:
    """Return a schema from `name type, …`; a type with `!` takes no NULL. ``kinds``: types besides `TYPES`.

    >>> log_schema("table text!, rows long").field("table").nullable
    False
    """
    pairs = [column.split() for column in columns.split(",")]
    types = {**TYPES, **kinds}
    return pa.schema([pa.field(name, types[kind.rstrip("!")], nullable=kind[-1] != "!") for name, kind in pairs])


@dataclass(frozen=True)
class LogTable:
    """``name``: its folder. ``properties``: Delta's, at creation. A log without a partition column is small. ``under_lease``:
    rows of a table are written by the holder of its lease only.
    """

    name: str
    schema: pa.Schema
    partition_by: Sequence[str] = ("table",)
    properties: Mapping[str, str | None] = field(default_factory=dict)
    under_lease: bool = True

    def path(self, settings: Settings) -> str:
        """Return its path in the lake."""
        return settings.path("ops", self.name)

    def lock(self, settings: Settings, wait_seconds: float = 900) -> AbstractContextManager[None]:
        """Return the log's lock, to read and append as one. Raises LockedError after the wait. Under leases there is none: the
        table's lease orders its rows, and commits of other tables do not conflict.
        """
        return nullcontext() if settings.is_leased else table_lock(settings, f"ops_{self.name}", wait_seconds)

    def read(
        self,
        settings: Settings,
        columns: Sequence[str] | None = None,
        filters: Filters = (),
        files: Collection[str] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the rows that all filters select; none if nothing was written. ``files``: as of `read_log`."""
        return read_log(self.path(settings), columns, filters, files)[0].to_pylist()

    def tables(self, settings: Settings) -> list[str]:
        """Return the names of the tables with rows."""
        path = self.path(settings)
        return sorted({name for name, _ in delta.partition_files(path, "table")[1]}) if delta.exists(path) else []

    def append(
        self,
        settings: Settings,
        rows: Sequence[Mapping[str, Any]],
        claims: Sequence[Transaction] = (),
        after: DeltaTable | None = None,
    ) -> None:
        """Append rows in one commit, under the log's lock or the table's lease. ``claims``, ``after``: as of `append_arrow`.

        Raises LeaseLostError if another process has taken the lease over.
        """
        # What is claimed is true of the log as the caller has read it, and is not claimed of another.
        may_open_anew = settings.is_leased and after is None and not claims
        for tries_left in reversed(range(TRIES if may_open_anew else 1)):
            try:
                return self._append(settings, rows, claims, after)
            except CommitFailedError as error:
                # Another machine has added columns, as the first one does that has a newer version of this package.
                if not tries_left or not any(text in str(error) for text in LOG_CHANGED):
                    raise

    def _append(
        self,
        settings: Settings,
        rows: Sequence[Mapping[str, Any]],
        claims: Sequence[Transaction],
        after: DeltaTable | None,
    ) -> None:
        transactions = list(claims)
        if settings.is_leased:
            tables = {row["table"] for row in rows}
            transactions += guards.log_transactions(settings, tables, required=self.under_lease)
        with self.lock(settings):
            delta.append_arrow(
                pa.Table.from_pylist(rows, self.schema),
                self.path(settings),
                partition_by=self.partition_by,
                configuration={**RETENTION, **self.properties},
                transactions=transactions,
                after=after,
            )
