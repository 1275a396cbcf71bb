"""Maintenance of one table: small files are put together; files and quarantine rows that nobody needs are removed.

Belongs here: what is safe to remove, and removing it under the table's lock. Does not: scratch folders (upkeep), schedules.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from delta.tables import DeltaTable
from pyspark.sql import functions as F

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.layers.run import Run
from lakehouse_assets.layers.silver import recover
from lakehouse_assets.settings import is_url
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.lock import table_lock


@dataclass(frozen=True)
class Maintained:
    """One Delta table: its live files before and after, and rows of closed quarantine that were removed."""

    place: str
    files_before: int
    files_after: int
    rows_removed: int = 0


def maintain(run: Run) -> list[Maintained]:
    """See to bronze, silver and quarantine of a table. What a killed run left is finished first.

    Bronze is not compacted: a file of it holds one extraction of one window, which is how its rows are counted.
    """
    spec, days = run.spec, run.spec.maintenance.vacuum_days
    made = []
    with table_lock(run.settings, spec.name):
        recover(run)
        for layer in ("bronze", "silver", "quarantine"):
            path = _real(run.path(layer))
            if not delta.exists(path):
                continue
            before, removed = _files(path), 0
            if layer == "quarantine":
                removed = _forget_closed(run, path)
            if layer != "bronze":
                DeltaTable.forPath(run.spark, path).optimize().executeCompaction()
            run.step(f"{layer}_compacted")
            DeltaTable.forPath(run.spark, path).vacuum(days * 24)
            run.step(f"{layer}_vacuumed")
            made.append(Maintained(layer, before, _files(path), removed))
    return made


def maintain_gold(run: Run, golds: Sequence[str]) -> list[Maintained]:
    """See to these gold tables, each under its own lock."""
    made = []
    for gold in golds:
        path = _real(run.settings.path("gold", gold))
        if delta.exists(path):
            with table_lock(run.settings, f"gold_{gold}"):
                before = _files(path)
                DeltaTable.forPath(run.spark, path).optimize().executeCompaction()
                DeltaTable.forPath(run.spark, path).vacuum(run.spec.maintenance.vacuum_days * 24)
                made.append(Maintained(f"gold_{gold}", before, _files(path)))
    return made


def _real(path: str) -> str:
    """VACUUM lists the folder itself, and the local file system does not list one that is a link."""
    return path if is_url(path) else os.path.realpath(path)


def _files(path: str) -> int:
    return delta.row_counts(path).num_rows


def closed(known: Sequence[Decision], spec: TableSpec, now: datetime) -> list[str]:
    """Ids of the decisions whose quarantined rows may go: nothing of them is held, silver does not leave them out any more, and
    they were closed longer ago than the table's `quarantine_days`.
    """
    if spec.maintenance.quarantine_days is None:
        return []
    long_ago = now - timedelta(days=spec.maintenance.quarantine_days)
    standing = ledger.standing(known)
    needed = {d.decision_id for d in standing.values() if d.accepted or d.counts.rows_quarantined}
    return [
        d.decision_id
        for d in known
        if d.superseded_by is None and d.decision_id not in needed and standing[d.batch].decided_at < long_ago
    ]


def _forget_closed(run: Run, path: str) -> int:
    gone = closed(logs.decisions(run.settings, run.spec.name, evidence=False), run.spec, run.clock())
    if not gone:
        return 0
    before = _rows(path)
    DeltaTable.forPath(run.spark, path).delete(F.col("decision_id").isin(gone))
    return before - _rows(path)


def _rows(path: str) -> int:
    return sum(delta.row_counts(path)["num_records"].to_pylist())
