"""`ops/check_results`: each check of each applied decision as a row; a projection of the log, which may be deleted.

Belongs here: the rows, and appending missing ones. Does not: deciding, or reading the table elsewhere.
"""

import json
from collections.abc import Sequence
from typing import Any

from deltalake import Transaction
from pyarrow import ArrowException

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import log_parts
from lakehouse_assets.decisions.growing_map import GrowingMap
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, log_rows, logs
from lakehouse_assets.storage.delta_files import TableFiles, forget_lost_files
from lakehouse_assets.storage.folded_log import Rows, read_folded
from lakehouse_assets.storage.kept_missing import kept_missing
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.log_table import LogTable, log_schema
from lakehouse_assets.storage.opened_tables import open_to_change

CHECK_RESULTS = LogTable(
    "check_results",
    log_schema(
        "table text!, decision_id text!, number long!, p_extracted_at moment, extraction_seq int!, check text!, kind text!,"
        " severity text!, status text!, effect text!, waived flag!, failed_rows long!, message text!, observed text!,"
        " run_id text!, decided_at moment!, applied_at moment!"
    ),
    under_lease=False,
)
_OF_DECISION = (
    "table", "decision_id", "number", "p_extracted_at", "extraction_seq", "run_id", "decided_at", "applied_at",
)  # fmt: skip


def project_check_results(settings: Settings, table: str, wait_seconds: float = 60) -> int:
    """Append the missing rows of a table in one commit; return their number.

    A decision is projected whole or not at all, and looked up by its id. In whatever order decisions were applied, none is
    missed and none is doubled. Rows of lost data files are appended again. Raises LockedError if another process writes for
    longer than the wait.
    """
    path = CHECK_RESULTS.path(settings)
    with CHECK_RESULTS.lock(settings, wait_seconds):
        # Without a lock, the commit is refused if another process has projected the table since this was opened.
        log = open_to_change(path) if settings.is_leased and delta.exists(path) else None
        try:
            missing = _missing(settings, table)
        except (OSError, ArrowException):
            if not (files := TableFiles(path)).absent:
                raise
            forget_lost_files(files, guards.log_transactions(settings, [table], required=False))
            missing = _missing(settings, table)
        rows = [row for d in logs.with_evidence(settings, table, missing, ["checks"]) for row in _rows(d)]
        if rows:
            claims = [Transaction(f"lakehouse.check_results.{table}", missing[-1].number)] if settings.is_leased else []
            CHECK_RESULTS.append(settings, rows, claims, log)
        return len(rows)


def find_lagging_tables(settings: Settings) -> list[str]:
    """Return tables with an applied decision whose checks are not projected yet. Takes no lock."""
    lagging = []
    for table in log_rows.DECISIONS.tables(settings):
        missing = _missing(settings, table)
        if any(decision.checks for decision in logs.with_evidence(settings, table, missing, ["checks"])):
            lagging.append(table)
    return lagging


def _missing(settings: Settings, table: str) -> list[Decision]:
    applied = log_parts.applied_decisions(logs.decisions(settings, table))
    missing = kept_missing((CHECK_RESULTS.path(settings), table), applied, _projected(settings, table))
    return sorted((applied[decision_id] for decision_id in missing), key=lambda decision: decision.number)


class _Projected:
    """``ids``: of the decisions with rows, another mapping each time that some are added."""

    def __init__(self, rows: Rows, _: Sequence[str]) -> None:
        self.ids = GrowingMap(dict.fromkeys(row["decision_id"] for row in rows))

    def add(self, rows: Rows, _: Sequence[str]) -> bool:
        """Add those of more rows."""
        self.ids = self.ids.copy()
        self.ids.update(dict.fromkeys(row["decision_id"] for row in rows))
        return True

    def __len__(self) -> int:
        return len(self.ids)


def _projected(settings: Settings, table: str) -> GrowingMap[str, None]:
    return read_folded(CHECK_RESULTS.path(settings), table, ["decision_id"], _Projected, lambda fold: fold.ids)


def _rows(decision: Decision) -> list[dict[str, Any]]:
    common = {name: getattr(decision, name) for name in _OF_DECISION}
    return [
        {**common, **check, "message": check["message"] or "", "observed": json.dumps(check["observed"], sort_keys=True)}
        for check in decision.checks
    ]
