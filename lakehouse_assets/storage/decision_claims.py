"""Numbers of decisions where several machines write: each is claimed by the commit that logs it.

Belongs here: what that commit depends on. Does not: the rows (logs), or the order of decisions (decisions/ledger).
"""

from collections.abc import Sequence

from deltalake import DeltaTable, Transaction

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.log_table import LogTable
from lakehouse_assets.storage.opened_tables import open_to_change


def claim_numbers(
    settings: Settings, log: LogTable, decisions: Sequence[Decision]
) -> tuple[DeltaTable | None, list[Transaction]]:
    """Return the log as it is now, and the claims of a commit that adds these decisions: a concurrent commit with one of them
    refuses it. Nothing where lock files are used. Raises LeaseLostError after a takeover, and RefusedError if the log has one
    of the numbers nevertheless.
    """
    path = log.path(settings)
    if not settings.is_leased or not delta.exists(path):
        return None, []
    opened, claims = open_to_change(path), []
    tables = sorted({decision.table for decision in decisions})
    guards.require_unfenced(opened, path, guards.log_transactions(settings, tables, required=False))
    for table in tables:
        numbers = [d.number for d in decisions if d.table == table and d.superseded_by is None]
        if numbers:
            _refuse_logged(opened, path, table, min(numbers))
            claims.append(Transaction(f"lakehouse.decisions.{table}", max(numbers)))
    return opened, claims


def _refuse_logged(opened: DeltaTable, path: str, table: str, first: int) -> None:
    condition = delta.as_expression([("table", "=", table), ("event", "=", "decided"), ("number", ">=", first)])
    logged = delta.dataset_of(opened, path, ["number"]).to_table(columns=["number"], filter=condition)
    if logged.num_rows:
        raise RefusedError(f"{table}: another process has logged decision {first} meanwhile; run this again")
