"""How a source of files shows that a window's files are whole: `source.settled`.

Belongs here: the shape of the key, and what follows from a window's files (pure). Does not: listing them (sources).
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema, model_serializer, model_validator

from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.path_pattern import NEEDS, PathPattern
from lakehouse_assets.contracts.windows import Cadence

FORMS = "write `rename`, `{marker: _SUCCESS}` or `{seconds: 5}`"
# Names under which programs write a file that they rename when it is whole, besides those that begin with `_` or `.`.
TEMPORARY = re.compile(
    r"~.*|.*(?:~|[.](?:tmp|temp|part|partial|filepart|crdownload|download|inprogress|writing|swp|bak))",
    re.IGNORECASE | re.DOTALL,
)
# `whole`: one poll is enough. `unchanged`: two polls must agree. `waits`: not before more happens at the source.
Settlement = Literal["whole", "unchanged", "waits"]
DAY = 86_400
# Two clocks differ, and a poll takes a while.
FUTURE_NS = 60 * 10**9


class Settling(StrictModel):
    """One of the three ways. ``rename``: the text `rename`."""

    rename: bool = False
    marker: str | None = None
    seconds: float | None = Field(default=None, gt=0, le=DAY)

    @model_validator(mode="before")
    @classmethod
    def _one_form(cls, value: Any) -> Any:
        if value == "rename":
            return {"rename": True}
        if not isinstance(value, dict) or list(value) not in (["marker"], ["seconds"]) or None in value.values():
            raise ValueError(f"{value!r} is not one of the three ways; {FORMS}")
        return value

    @model_serializer
    def _written(self) -> str | dict[str, Any]:
        values = {"marker": self.marker, "seconds": self.seconds}
        return "rename" if self.rename else {key: value for key, value in values.items() if value is not None}

    @property
    def rule(self) -> str:
        """The key as it is in the YAML, on one line."""
        return "rename" if self.rename else f"{{marker: {self.marker}}}" if self.marker else f"{{seconds: {self.seconds:g}}}"

    def marker_of(self, path: str) -> PathPattern | None:
        """Return the path of a window's marker; None without one. A bare name is in the folder of each file of ``path``."""
        if self.marker is None:
            return None
        folder = path.rpartition("/")[0]
        return PathPattern(f"{folder}/{self.marker}" if self._is_bare and folder else self.marker)

    @property
    def _is_bare(self) -> bool:
        return self.marker is not None and not re.search(r"[/{}]", self.marker)

    @property
    def every_folder(self) -> bool:
        """Whether each folder with files of a window needs a marker; else the window has one."""
        return self._is_bare

    def refuse_path(self, path: str) -> None:
        """Raise ValueError for files of ``path`` that would never be whole, or a marker that cannot be one of theirs."""
        name = path.rpartition("/")[2]
        if self.rename and is_temporary(name):
            raise ValueError(f"settled: rename ignores names such as {name!r}, which are those of files that are not whole yet")
        pattern = self.marker_of(path)
        if pattern is not None:
            self._refuse_marker(self.marker or "", pattern, PathPattern(path))

    def _refuse_marker(self, marker: str, pattern: PathPattern, files: PathPattern) -> None:
        folder, _, name = pattern.text.rpartition("/")
        if not name.strip("_.") or re.search(r"[*?]", marker):
            raise ValueError(f"settled: the marker {marker!r} must be the name or the path of one file, without globs")
        if self.every_folder and "{" not in folder:
            example = re.sub(r"[.][^/.]*$", "", files.text).replace("*", "") + ".done"
            raise ValueError(
                f"settled: the files of all windows are in one folder, so that the marker {marker!r} would be of all of them;"
                f" give it a path with the window, such as {example!r}"
            )
        try:
            # Its own name may begin with `_`: Spark does not read it.
            PathPattern("/".join([*([folder] if folder else []), name.lstrip("_.")])).refuse_unreadable()
        except ValueError as error:
            raise ValueError(f"settled: the marker: {error}") from None
        pattern.refuse_without_window("settled: the marker")
        pattern.refuse_ambiguous("settled")
        example = PathPattern(re.sub("[*?]", "x", pattern.text)).glob(datetime(2026, 10, 5, 7, tzinfo=UTC))
        if not name.startswith(("_", ".")) and files.window_start(example) is not None:
            raise ValueError(f"settled: a file {marker!r} is also one of `path`, and read as data; let its name begin with _")

    def refuse_cadence(self, path: str, cadence: Cadence) -> None:
        """Raise ValueError if two windows of this cadence would have the same marker."""
        pattern = self.marker_of(path)
        if pattern is not None and not pattern.separates_windows(cadence):
            raise ValueError(
                f"source.settled: the marker {pattern.text!r} has no {NEEDS[cadence]}, so that {cadence} windows would share it"
            )


# The key in the YAML, for editors.
Settled = Annotated[
    Settling,
    WithJsonSchema(
        {
            "anyOf": [
                {"const": "rename"},
                *(
                    {"type": "object", "properties": {key: kind}, "required": [key], "additionalProperties": False}
                    for key, kind in {
                        "marker": {"type": "string"},
                        "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": DAY},
                    }.items()
                ),
            ]
        }
    ),
]


def is_temporary(name: str) -> bool:
    """Whether a file of this name is still to be renamed.

    >>> [is_temporary(name) for name in ("a.csv", "a.csv.part", "a.csv~", "A.TMP", "part.csv")]
    [False, True, True, True, False]
    """
    return TEMPORARY.fullmatch(name) is not None


def settlement(
    settling: Settling, files: Mapping[str, int], markers: Mapping[str, int], now: datetime, control: int = 0
) -> tuple[Settlement, str]:
    """Return whether a window's files are whole, and why it waits ("" where it does not).

    ``files``, ``markers``, ``control``: the storage's times of one window in nanoseconds, by path; of its newest control file.
    """
    if settling.rename:
        return "whole", ""
    newest = max([control, *files.values()])
    if settling.seconds is not None:
        now_ns = int(now.timestamp() * 1e9)
        if newest > now_ns + FUTURE_NS:
            return "waits", "a file's time is in the future"
        quiet = newest <= now_ns - int(settling.seconds * 1e9)
        return ("whole", "") if quiet else ("waits", f"a file is younger than {settling.seconds:g} s")
    if not markers or (settling.every_folder and {_folder(path) for path in files} - {_folder(path) for path in markers}):
        return "waits", f"there is no marker {settling.marker}"
    # What came after the marker may be half written.
    return ("whole", "") if newest <= min(_marker_times(settling, files, markers)) else ("unchanged", "")


def _marker_times(settling: Settling, files: Mapping[str, int], markers: Mapping[str, int]) -> list[int]:
    """Return the times of the markers that count."""
    folders = {_folder(path) for path in files}
    return [at for path, at in markers.items() if not settling.every_folder or _folder(path) in folders]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
