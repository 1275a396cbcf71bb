"""A Delta table as a stream: the versions that the next window takes.

Belongs here: from the last recorded versions to the next ones, and their bound. Does not: what a history refuses
(delta_history), or rows (delta).
"""

from collections.abc import Mapping
from copy import copy
from datetime import datetime, timedelta

from lakehouse_assets.contracts.delta_source import DeltaSource
from lakehouse_assets.contracts.extraction import StreamSpec
from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.decisions.growing_map import find_new_keys
from lakehouse_assets.object_store import is_url
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.delta_history import TableHistory
from lakehouse_assets.sources.feed import Waiting
from lakehouse_assets.sources.version_ranges import VersionRange, range_from_text, range_to_text
from lakehouse_assets.storage.foreign_delta import ForeignTable

MILLISECOND = timedelta(milliseconds=1)


def foreign_table(source: DeltaSource, settings: Settings) -> ForeignTable:
    """Return the table of a source; a relative path is in the landing folder."""
    path = source.path if is_url(source.path) or source.path.startswith("/") else f"{settings.landing}/{source.path}"
    return ForeignTable(path, f"Delta table {source.path}")


class DeltaFeed:
    """A table's versions. The first window has the whole table; the others have what was changed since."""

    def __init__(self, source: DeltaSource, stream: StreamSpec, settings: Settings) -> None:
        self._source, self._stream, self._table = source, stream, foreign_table(source, settings)
        self._positions: Mapping[datetime, str] = {}
        self._ranges: dict[datetime, VersionRange] = {}

    def next_position(self, recorded: Mapping[datetime, str], now: datetime) -> str | None:
        """As `Feed`. A version's rows stay together."""
        versions = self._unread(recorded, now)
        return None if versions is None else range_to_text(self._bounded(versions))

    def waiting(self, recorded: Mapping[datetime, str], now: datetime) -> Waiting:
        """As `Feed`."""
        versions = self._unread(recorded, now)
        if versions is None:
            return Waiting(0, "versions")
        # The first window has the whole table as of its newest version.
        oldest = versions.high - 1 if versions.is_whole else versions.low
        [commit] = self._table.commits(self._table.log(), oldest, oldest)
        return Waiting(versions.high - versions.low, "versions", commit.at)

    def size(self, position: str) -> int:
        """As `Feed`."""
        versions = range_from_text(position)
        return versions.high - versions.low

    def close(self) -> None:
        """As `Feed`. Nothing is open."""

    def _unread(self, recorded: Mapping[datetime, str], now: datetime) -> VersionRange | None:
        for start in find_new_keys(self._positions, recorded) - self._ranges.keys():
            self._ranges[start] = range_from_text(recorded[start])
        self._positions = copy(recorded)
        # After the newest recorded window, also where the clock was put back.
        window = window_at(max([now, *([max(self._ranges) + MILLISECOND] if self._ranges else [])]), "moment")
        history = TableHistory(self._table, self._source.restart, lambda _: [window], self._ranges)
        return history.ranges([window]).get(window)

    def _bounded(self, versions: VersionRange) -> VersionRange:
        """Return as many of these versions as have the stream's bound of rows, by the statistics of the files that they wrote;
        at least one that changed rows. A window with the whole table has all.
        """
        if versions.is_whole:
            return versions
        log, rows, changed = self._table.log(), 0, False
        for commit in self._table.commits(log, versions.low, versions.high - 1):
            if commit.kind == "none":
                continue
            counts = [file.rows for file in self._table.files(log, commit.version).added]
            rows += sum(self._stream.max_rows if count is None else count for count in counts)
            if changed and rows > self._stream.max_rows:
                break
            versions, changed = versions._replace(high=commit.version + 1, digest=commit.digest), True
        return versions
