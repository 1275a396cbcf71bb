"""A path that holds a window's time, as `orders/{window:%Y-%m-%d}*.csv`: what may stand in one, and both ways to read it.

Belongs here: patterns as text (pure). Does not: which key has one (source), or listing files (sources/landing).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from lakehouse_assets.contracts.windows import Cadence

PLACEHOLDER = re.compile(r"\{window:([^{}]*)\}")
DIRECTIVES = {"Y": 4, "m": 2, "d": 2, "j": 3, "H": 2, "M": 2, "S": 2}
NEEDS: dict[str, str] = {"hourly": "%H", "daily": "%d or %j", "weekly": "%d or %j", "monthly": "%m"}


@dataclass(frozen=True)
class PathPattern:
    """``text``: relative to the landing folder."""

    text: str

    def refuse_unreadable(self) -> None:
        """Raise ValueError for what leads out of the landing folder, or is no name of a file that Spark would read."""
        value = self.text
        if value.startswith(("/", "~", "\\")) or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", value):
            raise ValueError(f"{value!r} is absolute; give it relative to the landing folder (LAKEHOUSE_LANDING)")
        segments = PLACEHOLDER.sub("0", value).split("/")
        if ".." in segments:
            raise ValueError(f"{value!r} leaves the landing folder by `..`")
        if not PLACEHOLDER.search(value):
            raise ValueError(f"{value!r} has no {{window:...}} placeholder, such as {{window:%Y-%m-%d}}")
        if "" in segments or "." in segments:
            raise ValueError(f"{value!r} has an empty segment, or `.` as one")
        if re.search(r"[\[\]{}\\\0]|\*\*", "".join(segments)):
            raise ValueError(f"{value!r}: besides {{window:...}} only the globs * and ? are known, each within one segment")
        if ":" in PLACEHOLDER.sub(lambda found: found[1], value):
            raise ValueError(f"{value!r} has a colon in a file's name, which Spark (Hadoop) cannot read")
        if segments[-1].startswith(("_", ".")):
            raise ValueError(f"{value!r}: Spark takes files whose name begins with _ or . for hidden, and skips them")

    def refuse_ambiguous(self, key: str) -> None:
        """Raise ValueError, which names this key, where a path made of it could not be read back as one window."""
        for text in PLACEHOLDER.findall(self.text):
            unknown = [d for d in re.findall(r"%(.?)", text) if d not in DIRECTIVES]
            if unknown or "%" not in text or "*" in text or "?" in text:
                known = " ".join(f"%{d}" for d in DIRECTIVES)
                raise ValueError(f"{key}: {self.text!r}: {{window:{text}}} cannot be read back from a file's name; use {known}")
        found = self._directives
        day = found & {"d", "j"}
        complete = found >= {"Y", "m", "d"} or found >= {"Y", "j"} or found == {"Y", "m"}
        time = "".join(d for d in "HMS" if d in found)
        if not complete or not "HMS".startswith(time) or (time and not day):
            shown = " ".join(sorted(f"%{d}" for d in found))
            raise ValueError(f"{key}: {self.text!r}: {shown} does not name one window; give it from the year down, as %Y-%m-%d")

    @property
    def _directives(self) -> set[str]:
        return set(re.findall(r"%(.)", "".join(PLACEHOLDER.findall(self.text))))

    def tells_apart(self, cadence: Cadence) -> bool:
        """Whether two windows of this cadence never have the same path."""
        found = self._directives
        return {"hourly": "H" in found, "monthly": True}.get(cadence, bool(found & {"d", "j"}))

    def folders(self, starts: Iterable[datetime]) -> set[str]:
        """The folders of these windows' paths, with their globs left; one for all where a folder names no window."""
        folder = self.text.rpartition("/")[0]
        return {self.glob(start).rpartition("/")[0] for start in starts} if "{" in folder else {folder}

    def glob(self, start: datetime) -> str:
        """The path of one window, with its globs left."""
        return PLACEHOLDER.sub(lambda found: start.strftime(found[1]), self.text)

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        seen: set[str] = set()

        def directive(found: re.Match[str]) -> str:
            name = found[1]
            if name in seen:
                return f"(?P={name})"
            seen.add(name)
            return f"(?P<{name}>[0-9]{{{DIRECTIVES[name]}}})"

        def literal(text: str) -> str:
            return re.escape(text).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")

        parts = PLACEHOLDER.split(self.text)
        made = [
            literal(part) if place % 2 == 0 else re.sub(r"%(.)", directive, re.escape(part)) for place, part in enumerate(parts)
        ]
        return re.compile("".join(made), re.DOTALL)

    def window_start(self, path: str) -> datetime | None:
        """The start of the window that a path belongs to; ``None`` for a path that the pattern does not match."""
        found = self._regex.fullmatch(path)
        if found is None:
            return None
        part = dict(zip(self._regex.groupindex, map(int, found.groups()), strict=True))
        given = part.get
        try:
            start = datetime(part["Y"], given("m", 1), given("d", 1), given("H", 0), given("M", 0), given("S", 0), tzinfo=UTC)
        except ValueError:
            return None
        if "j" in part:
            start += timedelta(days=part["j"] - 1)
            # A date that is named twice must be the same date, and day 366 must exist.
            return start if all(int(start.strftime(f"%{name}")) == value for name, value in part.items()) else None
        return start
