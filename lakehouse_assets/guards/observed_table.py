"""A guarded table as its log shows it: where it is, its versions since the last judgement, and the next batch. No JVM.

Belongs here: the log → the next batch. Does not: which batch that is (decisions/guard), reading rows, or judging.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.guard import LastVersion, TableNow, VersionBatch, VersionChange, after_vacuum, next_batch
from lakehouse_assets.decisions.guard_windows import is_window, last_scan, waiting_windows
from lakehouse_assets.errors import SourceError
from lakehouse_assets.guards.clean_state import absolute_path, clean_table, is_refused_table
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.foreign_commit import ForeignCommit, Schema
from lakehouse_assets.storage.foreign_delta import ForeignTable, Log
from lakehouse_assets.storage.foreign_iceberg import IcebergTable

# Versions whose commits are read at once. A table may grow by thousands between two polls.
MOST_COMMITS = 200
NO_SCHEMA = Schema("", (), (), {})
PHYSICAL = "delta.columnMapping.physicalName"


def table_path(spec: GuardSpec, settings: Settings) -> str:
    """Return the absolute path or URL of the guarded table. A relative path starts at the project's folder."""
    return absolute_path(spec.path, settings)


def physical_names(schema: Schema) -> dict[str, str]:
    """Return the columns' names by the names that they have in the data files, which no rename changes."""
    return {(field.get("metadata") or {}).get(PHYSICAL, field["name"]): field["name"] for field in schema.fields}


@dataclass(frozen=True)
class GuardState:
    """What is on record of a guard: its decisions and the versions that they judged, by window."""

    decisions: Sequence[Decision]
    records: dict[Any, ExtractionRecord]

    @classmethod
    def read(cls, settings: Settings, spec: GuardSpec) -> "GuardState":
        """Return the state by the lake's logs. No JVM."""
        records = {record.batch: record for record in logs.extractions(settings, spec.name)}
        return cls(logs.decisions(settings, spec.name), records)

    @property
    def last(self) -> LastVersion | None:
        """The version judged last."""
        judgements = [d for d in self.decisions if d.superseded_by is None and d.kind == "judged" and d.batch in self.records]
        if not judgements:
            return None
        decision = max(judgements, key=lambda d: d.number)
        record = self.records[decision.batch]
        table_id, _, digest = record.fingerprint.partition("@")
        names = json.loads(record.position or "{}").get("names", {})
        return LastVersion(record.bronze_version, record.p_extracted_at, table_id, digest, names)

    @property
    def last_number(self) -> int:
        """The number of the last decision; 0 before the first."""
        return max((d.number for d in self.decisions), default=0)

    @property
    def quarantined(self) -> list[Decision]:
        """The versions that are in quarantine now."""
        return ledger.quarantined_decisions(self.decisions)


def waits_by_windows(spec: GuardSpec, settings: Settings, state: GuardState, now: datetime) -> str:
    """Return what a guard with `windows` waits for, as a text that changes with it: a newer version, or closed windows that
    nobody has judged. Empty for nothing. No JVM. Raises SourceError where the log cannot be read.
    """
    if spec.windows is None:
        return ""
    table, last = foreign_table(spec, settings), last_scan(state.records)
    log = table.log()
    closed = waiting_windows(state.records, state.decisions, spec.windows.cadence, now)
    of_table = ledger.undecided_extractions([r for r in state.records.values() if not is_window(r)], state.decisions)
    if closed or of_table:
        return f"{len(closed)} windows, {len(of_table)}, {state.last_number}"
    if last is None or log.newest < last.version:
        return f"version {log.newest}"
    if last.version in log.entries and table.commits(log, last.version, last.version)[0].digest != last.digest:
        return f"another table, version {log.newest}"
    begin = max(last.version + 1, log.oldest, log.newest - MOST_COMMITS + 1)
    changes = any(c.kind != "none" or c.states_schema for c in table.commits(log, begin)) if begin <= log.newest else False
    return f"version {log.newest}" if changes or begin > last.version + 1 else ""


@dataclass(frozen=True)
class VersionObservation:
    """``batch``: the next one; None: nothing to judge. ``up_to``: the last version that was looked at; ``now``: the table.
    ``schema``: of the batch's version. ``digest``: of its commit; empty if the log no longer has it.
    """

    batch: VersionBatch | None
    now: TableNow
    up_to: int
    schema: Schema = NO_SCHEMA
    digest: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether no version is left to look at."""
        return self.batch is None and self.up_to >= self.now.newest


def foreign_table(spec: GuardSpec, settings: Settings) -> ForeignTable:
    """Return the guarded table's log. That of an Iceberg table answers as Delta's does."""
    kind = IcebergTable if spec.format == "iceberg" else ForeignTable
    return kind(table_path(spec, settings), spec.label)


def observe(
    spec: GuardSpec, settings: Settings, state: GuardState, passed: int = -1, clean_exists: bool | None = None
) -> VersionObservation:
    """Return the next batch of the table, from its log. ``passed``: versions up to this one have no batch. ``clean_exists``:
    whether the clean table exists, if `publish` names it as a table of a catalog; None: not known without a session.

    Raises SourceError where there is no Delta table, or its log cannot be read. Reads at most `MOST_COMMITS` commits.
    """
    table, last = foreign_table(spec, settings), state.last
    log = table.log()
    newest = table.commits(log, log.newest)[0]
    digest = table.commits(log, last.version, last.version)[0].digest if last and last.version in log.entries else None
    # To read a schema takes the log since its last checkpoint: most polls need none.
    table_id = table.schema().table_id if last and digest is None else ""
    now = TableNow(table_id, log.newest, newest.at, digest)
    first = last.version + 1 if last else spec.start
    if first is not None:
        first = max(first, passed + 1)
    until = log.newest if first is None else min(first + MOST_COMMITS - 1, log.newest)
    changes = [] if first is None else _changes(table, log, first, until)
    clean = clean_table(spec, settings, state, clean_exists)
    if clean and is_refused_table(state, now.newest):
        clean = replace(clean, gap="")
    batch = next_batch(now, changes, last, first, bool(state.quarantined), clean)
    if batch is None:
        return VersionObservation(None, now, max(until, passed))
    try:
        schema = table.schema(batch.version)
    except SourceError:
        return newest_observation(spec, settings, now, after_vacuum(batch, now, last))
    return VersionObservation(batch, now, batch.version, schema, _digest(table, log, batch.version))


def newest_observation(spec: GuardSpec, settings: Settings, now: TableNow, batch: VersionBatch) -> VersionObservation:
    """Return the observation of a batch of the newest version: what is judged where an older one cannot be read any more."""
    table = foreign_table(spec, settings)
    return VersionObservation(batch, now, now.newest, table.schema(now.newest), _digest(table, table.log(), now.newest))


def _digest(table: ForeignTable, log: Log, version: int) -> str:
    return table.commits(log, version, version)[0].digest if version in log.entries else ""


def _changes(table: ForeignTable, log: Log, first: int, until: int) -> list[VersionChange]:
    """Return what these versions changed, without those before the first one that the log still has."""
    begin = max(first, log.oldest)
    commits = table.commits(log, begin, until) if begin <= until else []
    changes: list[VersionChange] = []
    feed: bool | None = None
    for commit in commits:
        stated = table.stated_schema(log, commit.version) if commit.states_schema else None
        if stated is not None:
            feed = stated.has_feed
        elif feed is None and commit.kind == "rewrite":
            feed = _has_feed(table, commit.version)
        changes.append(_change(commit, stated, bool(feed)))
    return changes


def _has_feed(table: ForeignTable, version: int) -> bool:
    """Whether a version has a change data feed; not where the log no longer has it. Then its batch cannot be read either."""
    try:
        return table.schema(version).has_feed
    except SourceError:
        return False


def _change(commit: ForeignCommit, schema: Schema | None, feed: bool) -> VersionChange:
    names = physical_names(schema) if schema else None
    return VersionChange(commit.version, commit.at, commit.operation, commit.kind, feed, names, commit.describe())
