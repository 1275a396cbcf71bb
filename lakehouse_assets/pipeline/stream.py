"""A stream's windows: what has arrived is put on record as the next window, which then passes the gate like any other.

Belongs here: naming and recording the next window, windows that a killed run left, one window's way. Does not: when it is time
for a window (orchestration/streams), what has arrived (sources), the steps of a window (extract, silver).

The recorded positions alone decide what was read: there is no checkpoint beside them that could be lost, copied or old.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window, window_start
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.errors import EvidenceError
from lakehouse_assets.pipeline.evidence import refuse_damaged
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import Published, publish
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.table_source import settled_source
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.feed import Feed
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.kept_missing import kept_missing
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.source_positions import read_positions, record_positions

MILLISECOND = timedelta(milliseconds=1)


def name_next_window(spec: TableSpec, recorded: Mapping[datetime, str], now: datetime) -> Window:
    """Return the window of this millisecond, or of the first one after the newest recorded window if that is later: where the
    clock was put back, or two windows are recorded within a millisecond.
    """
    start = window_start(now, "moment")
    return spec.extraction.window_at(max([start, *([max(recorded) + MILLISECOND] if recorded else [])]))


def unfinished_windows(settings: Settings, spec: TableSpec) -> list[Window]:
    """Return the recorded windows, oldest first, that are not in bronze, not judged, or whose decision is not applied: what a
    run that was killed left.
    """
    records, decisions = logs.extractions(settings, spec.name), logs.decisions(settings, spec.name)
    read = {record.p_extracted_at for record in records}
    starts = {start for start in read_positions(settings, spec.name) if start not in read}
    starts |= {record.p_extracted_at for record in ledger.undecided_extractions(records, decisions)}
    starts |= {decision.p_extracted_at for decision in ledger.unapplied_decisions(decisions) if decision.p_extracted_at}
    return [spec.extraction.window_at(start) for start in sorted(starts)]


def refuse_other_source(run: Run) -> None:
    """Raise SourceError if the newest window was read from another source than the contract names: its position means nothing
    there.
    """
    newest = max((record.p_extracted_at for record in logs.extractions(run.settings, run.table)), default=None)
    if newest is not None:
        source, windows = settled_source(run, [run.spec.extraction.window_at(newest)])
        source.fingerprints(windows)


def _refuse_lost_positions(run: Run, recorded: Mapping[datetime, str]) -> None:
    """Raise EvidenceError if a window was read whose position is not on record: the log is lost or an older copy, and what is
    recorded by it would have the same messages again.
    """
    name = f"positions {run.settings.root} {run.table}"
    if lost := kept_missing(name, logs.extractions(run.settings, run.table).by_window, recorded):
        refuse_damaged(run)
        keys = first_of([run.spec.extraction.window_at(start).key for start in sorted(lost)], 5)
        raise EvidenceError(
            f"{run.table}: ops/positions lacks windows that were read: {keys}; docs/evidence.md says what mends it"
        )


def publish_windows(run: Run, windows: Sequence[Window]) -> Published:
    """Bring recorded windows into bronze and through the gate. Raises as `extract` and `publish`."""
    with table_lock(run.settings, run.table):
        extract(run, windows)
        return publish(run, windows)


def publish_unfinished(run: Run, most: int) -> tuple[Mapping[Window, Decision], bool]:
    """Finish the oldest windows that a killed run left, at most so many at once. Returns those that passed the gate, with their
    decisions, and whether none is left. Raises as `extract` and `publish`.
    """
    if not unfinished_windows(run.settings, run.spec):
        return {}, True
    with table_lock(run.settings, run.table):
        # Another process may have had one of them under way, and finished it since.
        windows = unfinished_windows(run.settings, run.spec)
        return publish_windows(run, windows[:most]).current if windows else {}, len(windows) < most


@dataclass(frozen=True)
class StreamWindow:
    """A window that was recorded and passed the gate. ``position``: what it took, as text of its feed. ``previous``: the start
    of the newest window that was recorded before it; None for the first.
    """

    window: Window
    position: str
    published: Published
    previous: datetime | None


def publish_next(run: Run, feed: Feed) -> StreamWindow | None:
    """Record what has arrived as the next window, then bring it through the gate. None if nothing has arrived.

    The table's lock is held meanwhile, so that two processes never record the same messages. Raises SourceError if the source
    cannot be asked, and as `extract` and `publish`: the window is then recorded, and `unfinished_windows` returns it.
    """
    with table_lock(run.settings, run.table):
        recorded, now = read_positions(run.settings, run.table), run.clock()
        _refuse_lost_positions(run, recorded)
        position = feed.next_position(recorded, now)
        if position is None:
            return None
        window = name_next_window(run.spec, recorded, now)
        record_positions(run.settings, run.table, {window: position}, run.run_id, now)
        run.step("positions_recorded")
        return StreamWindow(window, position, publish_windows(run, [window]), max(recorded, default=None))
