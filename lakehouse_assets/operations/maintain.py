"""Maintenance of one table: small files are compacted; files, quarantine rows and staging that nobody needs are removed.

Belongs here: what is safe to remove, and removing it under the table's lock. Does not: schedules.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from delta.tables import DeltaTable
from pyspark.sql import functions as F

from lakehouse_assets.contracts.batch import WINDOW
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import LockedError
from lakehouse_assets.object_store import is_url
from lakehouse_assets.pipeline.publish import completed_before
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.check_results import CHECK_RESULTS
from lakehouse_assets.storage.delta_files import TableFiles
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.log_compaction import FEW_FILES, LARGE_BYTES, Compacted, compact_log, compact_table
from lakehouse_assets.storage.log_rows import DECISIONS, EXTRACTIONS
from lakehouse_assets.storage.source_positions import POSITIONS

LAYERS = ("bronze", "silver", "quarantine")
STEPS = tuple(f"{layer}_{phase}" for layer in LAYERS for phase in ("compacted", "vacuumed"))


@dataclass(frozen=True)
class Maintained:
    """One Delta table: its live files before and after, and rows of closed quarantine that were removed."""

    layer: str
    files_before: int
    files_after: int
    rows_removed: int = 0


def maintain(run: Run) -> list[Maintained]:
    """See to bronze, silver, quarantine, baseline and logs of a table. What a killed run left is finished first."""
    with completed_before(run):
        closed_ids = {"quarantine": closed_decisions(logs.decisions(run.settings, run.table), run.spec, run.clock())}
        paths = {layer: _real(run.path(layer)) for layer in LAYERS}
        maintained = [_maintain(run, n, path, closed_ids.get(n, [])) for n, path in paths.items() if delta.exists(path)]
        compact_logs(run)
        return maintained


def compact_logs(run: Run, *, is_maintenance: bool = True) -> list[Compacted]:
    """Merge the small files of the table's logs and of its baseline; the logs with few are left out. No JVM.

    The caller holds the table's lock. A stream does this every few hundred windows, since each adds a file or two to each:
    then it is no maintenance.
    """
    logs_of_table = (EXTRACTIONS, DECISIONS, POSITIONS, CHECK_RESULTS)
    compacted = [compact_log(run.settings, log, run.table, is_maintenance=is_maintenance) for log in logs_of_table]
    compacted.append(compact_table(run.settings, run.path("baseline")))
    return [each for each in compacted if each is not None]


def compact(run: Run) -> list[Compacted]:
    """Merge the small files of bronze, silver, quarantine, baseline and the logs, and remove no version: what a stream does
    between two windows. What a killed run left is finished first.
    """
    with completed_before(run):
        # A file of this size is not merged again: every merge leaves the old files until they are vacuumed.
        for name in ("minFileSize", "maxFileSize"):
            run.spark.conf.set(f"spark.databricks.delta.optimize.{name}", str(LARGE_BYTES))
        for layer in LAYERS:
            path = _real(run.path(layer))
            if delta.exists(path) and _files(path) > FEW_FILES and WINDOW not in delta.snapshot(path).partitions:
                DeltaTable.forPath(run.spark, path).optimize().executeCompaction()
                run.step(f"{layer}_compacted")
        return compact_logs(run, is_maintenance=False)


def maintain_gold(run: Run, golds: Sequence[str]) -> list[Maintained]:
    """See to these gold tables, their quarantine and their logs, each under its own lock."""
    maintained = []
    for gold in golds:
        name = f"gold_{gold}"
        paths = {name: run.settings.path("gold", gold), f"quarantine_{name}": run.settings.path("quarantine", name)}
        there = {layer: _real(path) for layer, path in paths.items() if delta.exists(path)}
        if not there:
            continue
        # Nobody adds rows of a decision that a later one replaced, nor takes back the later one: this needs no lock.
        closed_ids = closed_gold(logs.decisions(run.settings, name), run.spec, run.clock())
        with table_lock(run.settings, name):
            for layer, path in there.items():
                maintained.append(_maintain(run, layer, path, [] if layer == name else closed_ids))
            for log in (DECISIONS, CHECK_RESULTS):
                compact_log(run.settings, log, name)
    return maintained


def _maintain(run: Run, name: str, path: str, closed_ids: Sequence[str] = ()) -> Maintained:
    """``closed_ids``: the decisions whose quarantined rows are deleted."""
    before = _files(path)
    removed = _forget_closed(run, path, closed_ids) if closed_ids else 0
    # A window's partition has a file or few. Bronze without partitions (`window_files`) has a file for each window.
    if WINDOW not in delta.snapshot(path).partitions:
        DeltaTable.forPath(run.spark, path).optimize().executeCompaction()
    run.step(f"{name}_compacted")
    DeltaTable.forPath(run.spark, path).vacuum(run.spec.maintenance.vacuum_days * 24)
    run.step(f"{name}_vacuumed")
    return Maintained(name, before, _files(path), removed)


def _real(path: str) -> str:
    """VACUUM lists the folder itself, and the local file system does not list one that is a link."""
    return path if is_url(path) else os.path.realpath(path)


def _files(path: str) -> int:
    return delta.row_counts(path).num_rows


def closed_decisions(log: Sequence[Decision], spec: TableSpec, now: datetime) -> list[str]:
    """Ids of the decisions whose quarantined rows may be deleted. Nothing of them is quarantined now, and silver does not
    leave them out any more. They were closed longer ago than the table's `quarantine_days`. An earlier extraction with
    published rows needs them.
    """
    if spec.maintenance.quarantine_days is None:
        return []
    long_ago = now - timedelta(days=spec.maintenance.quarantine_days)
    current = ledger.current_decisions(log)
    needed = {d.decision_id for d in current.values() if d.accepted or d.counts.rows_quarantined}
    needed |= {link.decision.decision_id for chain in ledger.live_decisions(log).chains.values() for link in chain}
    return [
        d.decision_id
        for d in log
        if d.superseded_by is None and d.decision_id not in needed and current[d.batch].decided_at < long_ago
    ]


def closed_gold(log: Sequence[Decision], spec: TableSpec, now: datetime) -> list[str]:
    """Ids of the decisions of a gold table whose quarantined rows may be deleted. They were derived anew longer ago than the
    `quarantine_days` of the table that declares it. The newest decision's stay, and those of parts that were not derived
    since. A decision that was given up before it was applied may have rows, too.
    """
    if spec.maintenance.quarantine_days is None:
        return []
    long_ago = now - timedelta(days=spec.maintenance.quarantine_days)
    closed_ids: list[str] = []
    later = _LaterGold()
    derived = [d for d in log if d.decided_at < long_ago and d.recomputed != ()]
    # Each decision is compared with all later ones at once: a gold table may have thousands.
    for decision in sorted(derived, key=lambda d: d.number, reverse=True):
        if decision.counts.rows_quarantined and later.replaces(decision):
            closed_ids.append(decision.decision_id)
        if decision.applied_at:
            later.add(decision)
    return closed_ids[::-1]


@dataclass
class _LaterGold:
    """What the applied decisions after one of a gold table derived: anything, the whole table, or these parts of it.
    ``is_whole`` and ``parts`` count only accepted decisions.
    """

    is_any: bool = False
    is_whole: bool = False
    parts: set[str | None] = field(default_factory=set)

    def add(self, decision: Decision) -> None:
        """Add an applied decision that derived something."""
        self.is_any = True
        if decision.accepted and decision.recomputed is None:
            self.is_whole = True
        elif decision.accepted:
            self.parts |= set(decision.recomputed or ())

    def replaces(self, earlier: Decision) -> bool:
        """Whether they derived all that an earlier decision did, and replaced it. After a quarantined one every decision
        derives its parts again, since they were not published.
        """
        if not earlier.accepted:
            return self.is_any
        return self.is_whole or (earlier.recomputed is not None and self.parts.issuperset(earlier.recomputed))


def _forget_closed(run: Run, path: str, closed_ids: Sequence[str]) -> int:
    """Delete the rows of these decisions, of which the table lacks most: they were deleted by earlier calls."""
    present = {key[0] for key in TableFiles(path).column_counts(["decision_id"])}
    ids = [name for name in closed_ids if name in present]
    if not ids:
        return 0
    before = delta.snapshot(path).rows or 0
    DeltaTable.forPath(run.spark, path).delete(F.col("decision_id").isin(ids))
    return before - (delta.snapshot(path).rows or 0)


def sweep(settings: Settings, tables: Sequence[str]) -> list[str]:
    """Remove the staging of each table that no run has locked. Returns the tables that had some."""
    swept = []
    for table in tables:
        try:
            with table_lock(settings, table, wait_seconds=0):
                if delta.remove_folder(settings.path("staging", table)):
                    swept.append(table)
        except LockedError:
            continue
    return swept
