"""What a foreign Delta table's history has for each window, and what of it is refused: lost, replaced, rewritten, renamed.

Belongs here: versions of windows, stretches of one schema, and the errors about them. Does not: rows (delta_rows).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import SourceError
from lakehouse_assets.sources.version_ranges import VersionRange, assign_versions
from lakehouse_assets.storage.foreign_commit import AddedFile, ForeignCommit, Schema, find_renames
from lakehouse_assets.storage.foreign_delta import ForeignTable, Log

RESTART = "set source.restart to the start of a window that has not been read: it reads the whole table again"


class Segment(NamedTuple):
    """A stretch of versions with one schema."""

    commits: tuple[ForeignCommit, ...]
    schema: Schema

    @property
    def first(self) -> int:
        """Its first version."""
        return self.commits[0].version

    @property
    def last(self) -> int:
        """Its last version."""
        return self.commits[-1].version


class TableHistory:
    """A table's versions by window. ``restart``: windows from then on use no version that was read before it. ``calendar``: all
    windows up to a moment. ``recorded``: the ranges on record.
    """

    def __init__(
        self,
        table: ForeignTable,
        restart: datetime | None,
        calendar: Callable[[datetime], Sequence[Window]],
        recorded: Mapping[datetime, VersionRange],
    ) -> None:
        self._table, self._restart, self._calendar, self._recorded = table, restart, calendar, recorded

    def ranges(self, windows: Iterable[Window]) -> dict[Window, VersionRange]:
        """Return the ranges of these windows and of all before them. Raises SourceError if versions were lost or replaced."""
        requested = list(windows)
        if not requested:
            return {}
        up_to = self._calendar(max(window.end for window in requested))
        earlier = {w: self._recorded[w.start] for w in up_to if w.start in self._recorded and not self._is_current(w.start)}
        current = {start: versions for start, versions in self._recorded.items() if self._is_current(start)}
        log = self._table.log()
        low = self._refuse_lost(log, current)
        unread = self._table.commits(log, low) if low <= log.newest else []
        windows_now = [window for window in up_to if self._is_current(window.start)]
        return earlier | assign_versions(windows_now, current, unread)

    def unrecorded(self, ranges: Mapping[Window, VersionRange]) -> dict[Window, VersionRange]:
        """Return those of the ranges that are not on record."""
        return {window: versions for window, versions in ranges.items() if window.start not in self._recorded}

    def segments(self, versions: Sequence[int]) -> list[Segment]:
        """Return the stretches of these versions (ascending), each without a gap and of one schema."""
        if not versions:
            return []
        log = self._table.log()
        segments: list[Segment] = []
        for commit in self._commits(log, versions):
            follows = bool(segments) and segments[-1].last + 1 == commit.version
            schema = segments[-1].schema if follows else self._table.schema(commit.version)
            if follows and commit.states_schema:
                schema = self._table.stated_schema(log, commit.version)
            if follows and _reads_alike(schema, segments[-1].schema):
                segments[-1] = Segment((*segments[-1].commits, commit), schema)
            else:
                segments.append(Segment((commit,), schema))
        return segments

    def times(self, versions: Sequence[int]) -> dict[int, datetime | None]:
        """Return the commits' times; None for a version whose commit is no longer in the log."""
        log = self._table.log()
        present = [version for version in versions if version in log.entries]
        commits = {commit.version: commit.at for commit in self._commits(log, present)}
        return {version: commits.get(version) for version in versions}

    def added_files(self, segment: Segment, *, rewrites: bool) -> dict[int, list[AddedFile]]:
        """Return the files that each version added. ``rewrites``: also by commits that rewrite files. Raises SourceError for a
        commit whose new rows do not follow from its files.
        """
        log = self._table.log()
        files: dict[int, list[AddedFile]] = {}
        for commit in segment.commits:
            if commit.kind == "none":
                continue
            if commit.kind != "append" and not rewrites:
                raise SourceError(
                    f"{self._table.label}: {commit.describe()} changed or removed rows, and the files do not say which. Read"
                    " the table's change data feed (source.changes: feed), all rows of rewritten files (source.changes:"
                    f" rewrites), or the whole table (extraction.mode: snapshot); or {RESTART}"
                )
            changed = self._table.files(log, commit.version)
            # A deletion that only marks rows of a file adds the file again.
            added = [file for file in changed.added if not (file.vector and file.path in changed.removed)]
            if any(file.vector for file in added):
                raise SourceError(
                    f"{self._table.label}: {commit.describe()} brought back files with deletion vectors, which cannot be read"
                    f" by themselves; {RESTART}"
                )
            files[commit.version] = added
        return files

    def refuse_without_feed(self, segment: Segment) -> None:
        """Raise SourceError if the table kept no change data feed then."""
        if not segment.schema.has_feed:
            raise SourceError(
                f"{self._table.label}: it kept no change data feed at version {segment.first}. Let its owner set"
                f" delta.enableChangeDataFeed = true, and then {RESTART}"
            )

    def refuse_renamed(self, schema: Schema, version: int, declared: Sequence[str]) -> None:
        """Raise SourceError if a declared column has another name by this version: read on, it would be empty."""
        present = {name.lower() for name in schema.types}
        absent = {name.lower(): name for name in declared if name.lower() not in present}
        if not absent or not schema.ids:
            return
        log, before = self._table.log(), None
        for commit in self._commits(log, [each for each in sorted(log.entries) if each <= version]):
            if not commit.states_schema:
                continue
            now = self._table.stated_schema(log, commit.version)
            for old, new in find_renames(before, now).items() if before else ():
                if old.lower() in absent and new in schema.types and new not in declared:
                    raise SourceError(
                        f"{self._table.label}: {commit.describe()} renamed column {old!r} to {new!r}, and the table declares"
                        f" {absent[old.lower()]!r}: declare `from: [{new}, {old}]` for it"
                    )
            before = now

    def _commits(self, log: Log, versions: Sequence[int]) -> list[ForeignCommit]:
        if not versions:
            return []
        wanted = set(versions)
        return [commit for commit in self._table.commits(log, versions[0], versions[-1]) if commit.version in wanted]

    def _is_current(self, start: datetime) -> bool:
        return self._restart is None or start >= self._restart

    def _refuse_lost(self, log: Log, current: Mapping[datetime, VersionRange]) -> int:
        """Return the first version that is not on record. Raises SourceError if it cannot follow what was read."""
        if not current:
            return log.oldest
        label = self._table.label
        if self._restart is not None and not current[min(current)].is_whole:
            raise SourceError(
                f"{label}: source.restart: the window {min(current):%Y-%m-%d %H:%M} was read before; name a later one"
            )
        newest = current[max(current)]
        last = newest.high - 1
        if log.newest < last:
            raise SourceError(
                f"{label}: it ends at version {log.newest}, and was read up to version {last}: it was replaced, or put back to"
                f" an older copy. If that is right, {RESTART}"
            )
        if last in log.entries and self._table.commits(log, last, last)[0].digest != newest.digest:
            raise SourceError(
                f"{label}: its version {last} is another than the one that was read: it was deleted and created again, or put"
                f" back to an older copy and written since. If that is right, {RESTART}"
            )
        if last < log.newest and last + 1 < log.oldest:
            raise SourceError(
                f"{label}: the commits of versions {last + 1} to {log.oldest - 1} were cleaned up"
                f" (`delta.logRetentionDuration`) before they were read. To go on without them, {RESTART}"
            )
        return newest.high


def _reads_alike(one: Schema, other: Schema) -> bool:
    return one.fields == other.fields and one.has_feed == other.has_feed and one.table_id == other.table_id
