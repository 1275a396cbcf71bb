"""A path with a window's time, as `orders/{window:%Y-%m-%d}*.csv`: its validation, and both ways to read it.

Belongs here: patterns as text (pure). Does not: which key has one (source), or listing files (sources/landing).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache

from lakehouse_assets.contracts.windows import MINUTES, Cadence

PLACEHOLDER = re.compile(r"\{window:([^{}]*)\}")
DIRECTIVES = {"Y": 4, "m": 2, "d": 2, "j": 3, "H": 2, "M": 2, "S": 2}
NEEDS: dict[str, str] = {
    **dict.fromkeys(MINUTES, "%M"),
    "hourly": "%H",
    "daily": "%d or %j",
    "weekly": "%d or %j",
    "monthly": "%m",
}


@dataclass(frozen=True)
class PathPattern:
    """``text``: relative to the landing folder."""

    text: str

    def refuse_unreadable(self) -> None:
        """Raise ValueError for a path outside of the landing folder, or one that Spark would not read."""
        value = self.text
        if value.startswith(("/", "~", "\\")) or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", value):
            raise ValueError(f"{value!r} is absolute; give it relative to the landing folder (LAKEHOUSE_LANDING)")
        segments = PLACEHOLDER.sub("0", value).split("/")
        if ".." in segments:
            raise ValueError(f"{value!r} leaves the landing folder by `..`")
        if "" in segments or "." in segments:
            raise ValueError(f"{value!r} has an empty segment, or `.` as one")
        if re.search(r"[\[\]{}\\\0]|\*\*", "/".join(segments)):
            raise ValueError(f"{value!r}: besides {{window:...}} only the globs * and ? are known, each within one segment")
        if ":" in PLACEHOLDER.sub(lambda match: match[1], value):
            raise ValueError(f"{value!r} has a colon in a file's name, which Spark (Hadoop) cannot read")
        if segments[-1].startswith(("_", ".")):
            raise ValueError(f"{value!r}: Spark takes files whose name begins with _ or . for hidden, and skips them")

    @property
    def has_window(self) -> bool:
        """Whether it names a window at all."""
        return PLACEHOLDER.search(self.text) is not None

    def refuse_without_window(self, key: str) -> None:
        """Raise ValueError, which names this key, if it has no placeholder for the window."""
        if not self.has_window:
            raise ValueError(f"{key}: {self.text!r} has no {{window:...}} placeholder, such as {{window:%Y-%m-%d}}")

    def refuse_ambiguous(self, key: str) -> None:
        """Raise ValueError, which names this key, if its paths cannot be read back as one window. A path without one can."""
        if not self.has_window:
            return
        for text in PLACEHOLDER.findall(self.text):
            unknown = [d for d in re.findall(r"%(.?)", text) if d not in DIRECTIVES]
            if unknown or "%" not in text or "*" in text or "?" in text:
                usable = " ".join(f"%{d}" for d in DIRECTIVES)
                raise ValueError(
                    f"{key}: {self.text!r}: {{window:{text}}} cannot be read back from a file's name; use {usable}"
                )
        names = self._directives
        complete = names >= {"Y", "m", "d"} or names >= {"Y", "j"} or names == {"Y", "m"}
        time = "".join(d for d in "HMS" if d in names)
        if not complete or not "HMS".startswith(time) or (time and not names & {"d", "j"}):
            shown = " ".join(sorted(f"%{d}" for d in names))
            raise ValueError(f"{key}: {self.text!r}: {shown} does not name one window; give it from the year down, as %Y-%m-%d")

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return _compile_pattern(self.text)

    @property
    def _directives(self) -> set[str]:
        return set(re.findall(r"%(.)", "".join(PLACEHOLDER.findall(self.text))))

    def separates_windows(self, cadence: Cadence) -> bool:
        """Whether two windows of this cadence never have the same path."""
        names = self._directives
        needed = dict.fromkeys(MINUTES, "M" in names) | {"hourly": "H" in names, "monthly": True}
        return needed.get(cadence, bool(names & {"d", "j"}))

    def folders(self, starts: Iterable[datetime]) -> set[str]:
        """Return the folders of these windows' paths, globs included; one for all if a folder names no window."""
        folder = self.text.rpartition("/")[0]
        return {self.glob(start).rpartition("/")[0] for start in starts} if "{" in folder else {folder}

    @property
    def glob_of_all(self) -> str:
        """A glob for the paths of all windows."""
        return PLACEHOLDER.sub(lambda match: re.sub("%.", "*", match[1]), self.text)

    def glob(self, start: datetime) -> str:
        """Return the path of one window, globs included."""
        return PLACEHOLDER.sub(lambda match: start.strftime(match[1]), self.text)

    def matches(self, path: str) -> bool:
        """Whether a path is one of the pattern's; of one with a window, whatever its digits."""
        return self._expression.fullmatch(path) is not None

    def window_start(self, path: str) -> datetime | None:
        """Return the start of a path's window; None if the pattern does not match."""
        match = self._expression.fullmatch(path)
        if match is None:
            return None
        part = {name: int(value) for name, value in match.groupdict().items()}
        get = part.get
        try:
            start = datetime(part["Y"], get("m", 1), get("d", 1), get("H", 0), get("M", 0), get("S", 0), tzinfo=UTC)
            start += timedelta(days=get("j", 1) - 1)
        except (ValueError, OverflowError):
            return None
        if "j" in part:
            # Both names of a date must be the same date, and day 366 must exist.
            return start if all(int(start.strftime(f"%{name}")) == value for name, value in part.items()) else None
        return start


@lru_cache(maxsize=256)
def _compile_pattern(text: str) -> re.Pattern[str]:
    earlier: set[str] = set()

    def directive(match: re.Match[str]) -> str:
        name = match[1]
        if name in earlier:
            return f"(?P={name})"
        earlier.add(name)
        return f"(?P<{name}>[0-9]{{{DIRECTIVES[name]}}})"

    parts = [re.escape(part) for part in PLACEHOLDER.split(text)]
    parts[::2] = [part.replace(r"\*", "[^/]*").replace(r"\?", "[^/]") for part in parts[::2]]
    parts[1::2] = [re.sub(r"%(.)", directive, part) for part in parts[1::2]]
    return re.compile("".join(parts), re.DOTALL)
