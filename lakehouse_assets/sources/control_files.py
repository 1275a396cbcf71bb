"""Control files in the landing folder: what the source says of a window, one small JSON file for each.

Belongs here: finding and reading them. Does not: what may stand in one (checks/control), or comparing.
"""

from collections.abc import Iterable

from lakehouse_assets.checks.control import MAX_BYTES, ControlTotals, read_totals
from lakehouse_assets.contracts.path_pattern import PathPattern
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.sources.landing import LandedFile, Landing


class ControlFiles:
    """``pattern``: `source.control`; None where a table has none."""

    def __init__(self, landing: Landing, pattern: str | None) -> None:
        """Nothing is opened yet."""
        self._landing, self._pattern = landing, PathPattern(pattern) if pattern is not None else None

    def files(self, windows: Iterable[Window]) -> dict[Window, list[LandedFile]]:
        """Of each of these windows the one that is there, where there is one. Raises SourceError as the landing folder does."""
        if self._pattern is None:
            return {}
        return {file.window: [file] for file in self._landing.files(self._pattern, windows)}

    def totals(self, windows: Iterable[Window]) -> dict[Window, ControlTotals]:
        """What they say of these windows; of one that is missing or no use, why. Reads at most 64 KB of each."""
        if self._pattern is None:
            return {}
        windows = list(windows)
        there, found = self.files(windows), {}
        for window in windows:
            path = self._pattern.glob(window.start)
            try:
                found[window] = self._read(there[window][0]) if window in there else ControlTotals({}, f"there is no {path}")
            except (OSError, ValueError) as error:
                found[window] = ControlTotals({}, f"unreadable control file {path}: {error}")
        return found

    def _read(self, file: LandedFile) -> ControlTotals:
        if file.refused:
            raise ValueError(file.refused)
        with self._landing.open(file.path) as stream:
            return read_totals(stream.read(MAX_BYTES + 1))
