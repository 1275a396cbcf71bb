"""Control files in the landing folder: one small JSON file per window with the source's own totals.

Belongs here: finding and reading them. Does not: their format (checks/control), or comparing totals.
"""

from collections.abc import Iterable

from lakehouse_assets.checks.control import MAX_BYTES, ControlTotals, read_totals
from lakehouse_assets.contracts.path_pattern import PathPattern
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.sources.landing import LandedFile, Landing


class ControlFiles:
    """``pattern``: `source.control`; None where a table has none."""

    def __init__(self, landing: Landing, pattern: str | None) -> None:
        self._landing, self._pattern = landing, PathPattern(pattern) if pattern is not None else None

    def files(self, windows: Iterable[Window]) -> dict[Window, list[LandedFile]]:
        """Return the control file of each of these windows that has one. Raises SourceError as the landing folder does."""
        if self._pattern is None:
            return {}
        return {file.window: [file] for file in self._landing.files(self._pattern, windows)}

    def totals(self, windows: Iterable[Window]) -> dict[Window, ControlTotals]:
        """Return each window's totals, or why its control file is missing or unusable. Reads at most 64 KB per file."""
        if self._pattern is None:
            return {}
        windows = list(windows)
        files = self.files(windows)
        totals: dict[Window, ControlTotals] = {}
        for window in windows:
            path = self._pattern.glob(window.start)
            try:
                totals[window] = self._read(files[window][0]) if window in files else ControlTotals({}, f"there is no {path}")
            except (OSError, ValueError) as error:
                totals[window] = ControlTotals({}, f"unreadable control file {path}: {error}")
        return totals

    def _read(self, file: LandedFile) -> ControlTotals:
        if file.refused:
            raise ValueError(file.refused)
        with self._landing.open(file.path) as stream:
            return read_totals(stream.read(MAX_BYTES + 1))
