"""What one poll knows of the windows of a source of files: which are whole, which two polls must agree on, which wait.

Belongs here: markers and times in the landing folder → settlements. Does not: the rule for one window (contracts/settling), or
fingerprints of other sources.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lakehouse_assets.contracts.path_pattern import PathPattern
from lakehouse_assets.contracts.settling import Settlement, is_temporary, settlement
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.sources.landing import LandedFile, Landing, fingerprint_files


@dataclass(frozen=True)
class Observation:
    """``fingerprints``: of the windows with files. ``settlements``: of each of them; one that is absent needs two polls.
    ``reasons``: why windows wait.
    """

    fingerprints: Mapping[Window, str]
    settlements: Mapping[Window, Settlement] = field(default_factory=dict)
    reasons: Mapping[Window, str] = field(default_factory=dict)


def without_temporary(files: Sequence[LandedFile]) -> list[LandedFile]:
    """Return the files without those that are still to be renamed."""
    return [file for file in files if not is_temporary(file.path.rpartition("/")[2])]


def observe_files(
    landing: Landing,
    source: FilesSource,
    arrived: Mapping[Window, Sequence[LandedFile]],
    control: Mapping[Window, Sequence[LandedFile]],
    now: datetime,
) -> Observation:
    """Return the observation of windows with these files and control files. Raises SourceError as the landing folder does."""
    fingerprints = {window: fingerprint_files([*files, *control.get(window, ())]) for window, files in arrived.items()}
    settling = source.settled
    if settling is None:
        return Observation(fingerprints)
    markers: dict[Window, dict[str, int]] = {}
    pattern = settling.marker_of(source.path)
    for file in landing.files(pattern, arrived, hidden=True) if pattern is not None else ():
        if file.refused is None:
            markers.setdefault(file.window, {})[file.path] = file.mtime_ns
    settled = {
        window: settlement(
            settling,
            {file.path: file.mtime_ns for file in files},
            markers.get(window, {}),
            now,
            max((file.mtime_ns for file in control.get(window, ())), default=0),
        )
        for window, files in arrived.items()
    }
    return Observation(
        fingerprints,
        {window: value for window, (value, _) in settled.items()},
        {window: reason for window, (_, reason) in settled.items() if reason},
    )


def unsettled_files(
    landing: Landing,
    source: FilesSource,
    windows: Sequence[Window],
    arrived: Mapping[Window, Sequence[LandedFile]],
    control: Mapping[Window, Sequence[LandedFile]],
    now: datetime,
) -> dict[str, int]:
    """Return how many files of these windows are not whole yet, by the reason; none without a rule. Else as `observe_files`."""
    if source.settled is None:
        return {}
    if source.settled.rename:
        # A program adds its ending to the name that the file gets.
        files = landing.files(PathPattern(source.path.rstrip("*") + "*"), windows)
        number = len(files) - len(without_temporary(files))
        return {"they are still to be renamed": number} if number else {}
    counts = Counter[str]()
    for window, reason in observe_files(landing, source, arrived, control, now).reasons.items():
        counts[reason] += len(arrived[window])
    return dict(counts)
