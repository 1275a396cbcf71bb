"""Seed a guard's baseline from an existing Delta table.

Belongs here: which windows of that table are like the guard's batches. Does not: measuring and learning them (operations).
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.windows import Cadence, window_at, window_start
from lakehouse_assets.decisions.guard_decision import is_of_kind
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.guards.guard_run import GuardRun
from lakehouse_assets.guards.run import hold_lock
from lakehouse_assets.operations.baseline import SeedWindows, seed
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.baseline import BaselineEvent


def seed_windows(guard: GuardSpec, column: str | None, cadence: Cadence | None) -> SeedWindows:
    """Return the windows of a seed. A guard of versions has none of its own: a person says what is like one appended version.

    Raises RefusedError where that is not said, or contradicts the guard.
    """
    if own := guard.windows:
        if cadence not in (None, own.cadence):
            raise RefusedError(f"{guard.name}: its windows are {own.cadence}; leave out --cadence {cadence}")
        column, cadence = column or own.column, own.cadence
    elif column is None or cadence is None:
        missing = " and ".join(name for name, value in (("--window-column", column), ("--cadence", cadence)) if value is None)
        raise RefusedError(
            f"{guard.name}: its windows are versions, which the other table has no column of; say by {missing} which of its"
            " rows are like one appended version, for example --window-column ordered_at --cadence daily"
        )
    # Weeks begin on Monday, as a guard's own.
    return SeedWindows(column, cadence, window_at(window_start(datetime(1970, 1, 1, tzinfo=UTC), cadence), cadence))


def seed_guard(
    run: GuardRun, path: str, column: str | None, cadence: Cadence | None, *, by: str, because: str
) -> BaselineEvent:
    """Learn a guard's baseline from an existing Delta table. It counts for windows and appended versions, and not for whole
    tables. Raises RefusedError as `seed_windows` and `operations.baseline.seed`.
    """
    windows = seed_windows(run.guard, column, cadence)

    def comparable(decisions: Sequence[Decision]) -> list[Decision]:
        records = {record.batch: record for record in logs.extractions(run.settings, run.table)}
        return [decision for decision in decisions if is_of_kind(records.get(decision.batch), "added")]

    return seed(run, path, windows, by=by, because=because, completing=hold_lock, comparable=comparable)
