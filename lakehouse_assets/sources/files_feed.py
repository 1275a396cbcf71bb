"""Files that keep arriving, as a stream: which of them the next window takes, and reading those that a window took.

Belongs here: which files are on record, which are whole, and a window's files as they are now. Does not: reading a format
(files), or markers and control files, which only a calendar's windows have.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime, timedelta
from typing import NamedTuple

from lakehouse_assets.contracts.extraction import StreamSpec
from lakehouse_assets.contracts.settling import settlement
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.windows import Window, window_at
from lakehouse_assets.decisions.growing_map import find_new_keys
from lakehouse_assets.sources.feed import Waiting, moment_of
from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets.sources.landing import LandedFile, Landing
from lakehouse_assets.sources.observation import without_temporary

# Without `settled`, a file must not have changed for so long.
UNCHANGED = timedelta(seconds=1)
REMOVED = "it was removed after it was recorded, before it was read"
REWRITTEN = "it changed after it was recorded, before it was read; what it has now is in a later window"


class FileState(NamedTuple):
    """A file as it was recorded: another size or time makes it another file."""

    path: str
    size: int
    mtime_ns: int


def position_to_text(files: Iterable[FileState]) -> str:
    """Return files as text for the record."""
    return json.dumps({"files": [list(file) for file in files]})


def position_from_text(text: str) -> list[FileState]:
    """Return the files of a recorded text."""
    return [FileState(*file) for file in json.loads(text)["files"]]


class FilesFeed:
    """A folder's files. It remembers every file on record, since when a file is as it is, and since when its path waits."""

    def __init__(self, source: FilesSource, stream: StreamSpec, landing: str) -> None:
        self._source, self._stream, self._landing = source, stream, Landing(landing)
        self._positions: Mapping[datetime, str] = {}
        self._starts: set[datetime] = set()
        self._recorded: set[FileState] = set()
        self._first_polls: dict[FileState, datetime] = {}
        self._arrivals: dict[str, datetime] = {}
        self._began: datetime | None = None

    def next_position(self, recorded: Mapping[datetime, str], now: datetime) -> str | None:
        """As `Feed`. The oldest files come first."""
        settled_files = [file for file in self._waiting(recorded, now) if self._is_whole(file, now)]
        return position_to_text(settled_files[: self._stream.max_rows]) if settled_files else None

    def waiting(self, recorded: Mapping[datetime, str], now: datetime) -> Waiting:
        """As `Feed`. Files that are not whole yet wait, too. A file has arrived when it was first there, also if it was
        written again since and no window took it; of one that was there from the beginning, by its own time.
        """
        files = self._waiting(recorded, now)
        return Waiting(len(files), "files", min(self._arrivals.values(), default=None))

    def size(self, position: str) -> int:
        """As `Feed`."""
        return len(position_from_text(position))

    def close(self) -> None:
        """As `Feed`. Nothing is open."""

    def _waiting(self, recorded: Mapping[datetime, str], now: datetime) -> list[FileState]:
        for start in find_new_keys(self._positions, recorded) - self._starts:
            taken_files = position_from_text(recorded[start])
            self._recorded.update(taken_files)
            self._starts.add(start)
            for file in taken_files:
                self._arrivals.pop(file.path, None)
        self._positions = copy(recorded)
        files = self._landing.matching_files(self._source.pattern, window_at(now, "moment"))
        if self._source.settled is not None and self._source.settled.rename:
            files = without_temporary(files)
        states = [FileState(file.path, file.size, file.mtime_ns) for file in files]
        waiting = [state for state in states if state not in self._recorded]
        self._began = self._began or now
        # The clock may have been put back since.
        self._first_polls = {state: min(now, self._first_polls.get(state, now)) for state in waiting}
        self._arrivals = {file.path: min(now, self._arrivals.get(file.path) or self._arrived_at(file, now)) for file in waiting}
        return sorted(waiting, key=lambda state: (state.mtime_ns, state.path))

    def _arrived_at(self, file: FileState, now: datetime) -> datetime:
        """Return when a file has arrived that is there for the first time."""
        is_from_beginning = self._began is None or now <= self._began
        return (moment_of(file.mtime_ns / 1e9) if is_from_beginning else None) or now

    def _is_whole(self, file: FileState, now: datetime) -> bool:
        if self._source.settled is None:
            return now - self._first_polls[file] >= UNCHANGED
        return settlement(self._source.settled, {file.path: file.mtime_ns}, {}, now)[0] == "whole"


class RecordedFiles(FilesReader):
    """The files that a stream's windows took. One that is another by now, or gone, is unreadable."""

    def __init__(self, source: FilesSource, landing: str, declared: Sequence[str], recorded: Mapping[datetime, str]) -> None:
        super().__init__(source, landing, declared)
        self._recorded = dict(recorded)

    def _files(self, windows: Iterable[Window]) -> list[LandedFile]:
        windows = sorted(window for window in windows if window.start in self._recorded)
        if not windows:
            return []
        present = {file.path: file for file in self._landing.matching_files(self._source.pattern, windows[0])}
        return [
            self._as_it_is(state, present.get(state.path), window)
            for window in windows
            for state in sorted(position_from_text(self._recorded[window.start]))
        ]

    def _as_it_is(self, state: FileState, now: LandedFile | None, window: Window) -> LandedFile:
        if now is None:
            return LandedFile(window, *state, refused=REMOVED)
        if (now.size, now.mtime_ns) != (state.size, state.mtime_ns):
            return LandedFile(window, *state, refused=REWRITTEN)
        return now._replace(window=window)
