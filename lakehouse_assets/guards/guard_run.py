"""What one run of a guard works with: the contract, the session, where its table lies, and the writer of its clean table.

Belongs here: the values that are passed down. Does not: the order of versions (run).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.frames.destination import Destination
from lakehouse_assets.guards.catalog import with_table_path
from lakehouse_assets.guards.clean_state import clean_path
from lakehouse_assets.guards.clean_table import CleanTableWriter
from lakehouse_assets.guards.observed_table import table_path
from lakehouse_assets.guards.target import GuardTarget
from lakehouse_assets.pipeline.run import FrameRun
from lakehouse_assets.storage.leases.fencing import guard_location


@dataclass(frozen=True)
class GuardRun(FrameRun):
    """One run of one guard. ``settings``: of the lake that has the log. ``guard``: the contract, which is `spec` too."""

    guard: GuardSpec = field(kw_only=True)


def located_run(run: GuardRun) -> GuardRun:
    """Return the run with the path of its table, which may be known by its name only."""
    if run.guard.table is None:
        return run
    guard = with_table_path(run.guard, run.spark)
    return replace(run, spec=guard, guard=guard, published_path=guard.path)


def clean_table_writer(run: GuardRun) -> CleanTableWriter | None:
    """Return the writer of the clean table; None if the guard publishes nothing. Raises RefusedError for an unfit table."""
    if run.guard.publish is None:
        return None
    to = clean_path(run.guard, run.settings) or run.guard.publish.to
    return CleanTableWriter(Destination.of(run.spark, to), run.guard, table_path(run.guard, run.settings)).refuse_unfit()


def writer_of(run: GuardRun, target: GuardTarget) -> Callable[[Decision], int | None] | None:
    """Return the exchange of a version into the clean table; None if the guard publishes nothing."""
    writer = clean_table_writer(run)
    if writer and writer.location:
        guard_location(run.settings, run.table, writer.location)
    return partial(writer.write, target) if writer else None


def clean_exists(run: GuardRun) -> bool | None:
    """Whether the clean table exists, where only the session's catalog can say it."""
    if run.guard.publish is None or run.guard.publish.is_path:
        return None
    return Destination.of(run.spark, run.guard.publish.to).detail() is not None
