"""One table's stream: when its next window is due, and taking that window through the gate.

Belongs here: the trigger, what is tried again and when, what is new since the last report. Does not: the process (service), a
window's way (pipeline), or Dagster (report).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakehouse_assets.checks.parameters import duration
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.extraction import StreamSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.retry_policy import LONGEST_STREAM_DELAY, stream_retry_delay
from lakehouse_assets.operations.maintain import compact
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.stream import publish_next, publish_unfinished, refuse_other_source
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import open_feed
from lakehouse_assets.sources.feed import Feed
from lakehouse_assets.storage.source_positions import read_positions

# Between two looks at a source in which nothing has arrived.
POLL = timedelta(seconds=0.5)
# Each window leaves small files in every table and log: they are merged after so many windows.
COMPACT_EVERY = 200
# Windows that a killed run left go through the gate together, at most so many at once.
MOST_TOGETHER = 50
log = logging.getLogger("lakehouse.stream")
MakeRun = Callable[[TableSpec, Mapping[str, Sequence[str]]], Run]


@dataclass
class TableStream:
    """A stream while its process lives. ``readers``: what reads each column downstream. ``due_at``: when its source is asked
    next (UTC). ``left``: how much is still to be taken of what waited when the stream began; None without a limit. ``windows``:
    how many have passed the gate. ``is_urgent``: whether one of them, since the last report, is not plainly published.
    ``failures``: tries since the last that succeeded. ``is_complete``: whether what a killed run left is finished. ``newest``:
    the start of the newest recorded window that this stream knows to be finished: a later one is another process's.
    """

    spec: TableSpec
    settings: Settings
    readers: Mapping[str, Sequence[str]]
    due_at: datetime
    left: int | None = None
    windows: int = 0
    is_urgent: bool = False
    failures: int = 0
    is_complete: bool = False
    newest: datetime | None = None
    feed: Feed = field(init=False)
    _recorded: Mapping[datetime, str] | None = field(init=False, default=None)
    _newest_recorded: datetime | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.feed = open_feed(self.spec, self.settings)

    @property
    def stream(self) -> StreamSpec:
        """`extraction.stream`."""
        if self.spec.extraction.stream is None:
            raise ValueError(f"{self.spec.name} is no stream")
        return self.spec.extraction.stream

    def limit_to_waiting(self, now: datetime) -> None:
        """Let the stream end with what waits now: more may arrive faster than it is published. Raises SourceError."""
        self.left = self.feed.waiting(read_positions(self.settings, self.spec.name), now).number

    def limit_wait(self, now: datetime) -> None:
        """Let the source be asked at once where this clock, which may have been put back, would make it wait for longer than
        any stream waits.
        """
        if self.due_at > now + max(duration(self.stream.trigger), POLL, LONGEST_STREAM_DELAY):
            self.due_at = now

    def take_turn(self, make_run: MakeRun, now: datetime) -> Mapping[Window, Decision]:
        """Finish what a killed run left, or take the next window if something has arrived. Returns the windows that passed the
        gate, with their decisions.

        Any error is raised again: the next try is due later each time, and finishes what is on record first.
        """
        run, asks_source = make_run(self.spec, self.readers), self.is_complete
        try:
            published = self._take(run, now) if asks_source else self._finish(run)
        except Exception:
            self.is_complete, self.failures = False, self.failures + 1
            self.due_at = run.clock() + stream_retry_delay(self.failures)
            self.feed.close()
            raise
        if asks_source or published:  # that nothing is left to finish does not show that the next window can be taken
            self.failures = 0
        self.is_urgent |= any(decision.verdict != "published" for decision in published.values())
        self._count(run, len(published))
        return published

    def _count(self, run: Run, windows: int) -> None:
        """Count windows, and merge small files when it is time. Where that fails, it is tried again after the next windows."""
        before, self.windows = self.windows, self.windows + windows
        if self.windows // COMPACT_EVERY > before // COMPACT_EVERY:
            try:
                compact(run)
            except Exception as error:  # the windows are published, whatever it is
                log.warning("%s: its small files are merged later: %s", self.spec.name, type(error).__name__)

    def _finish(self, run: Run) -> Mapping[Window, Decision]:
        refuse_other_source(run)
        newest = self._find_newest(read_positions(self.settings, self.spec.name))
        published, self.is_complete = publish_unfinished(run, MOST_TOGETHER)
        self.newest = newest if self.is_complete else self.newest
        return published

    def _find_newest(self, recorded: Mapping[datetime, str]) -> datetime | None:
        """Return the start of the newest recorded window. A log that has not changed is the same mapping."""
        if recorded is not self._recorded:
            self._recorded, self._newest_recorded = recorded, max(recorded, default=None)
        return self._newest_recorded

    def _take(self, run: Run, began: datetime) -> Mapping[Window, Decision]:
        # Without the lock, which is nobody's between two windows.
        recorded = read_positions(self.settings, self.spec.name)
        if self._find_newest(recorded) != self.newest:
            return self._finish(run)  # another process takes windows as well, and may have died with one
        waits = self.left != 0 and self.feed.next_position(recorded, began) is not None
        published = publish_next(run, self.feed) if waits else None
        if published is None:
            self.due_at = began + POLL
            self.left = None if self.left is None else 0
            return {}
        self.is_complete = published.previous == self.newest
        self.newest = published.window.start if self.is_complete else self.newest
        self.due_at = began + duration(self.stream.trigger)
        if self.left is not None:
            self.left = max(self.left - self.feed.size(published.position), 0)
        return published.published.current
