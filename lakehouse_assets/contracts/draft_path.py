"""The window in a landed file's path, for a first `defs.yaml`: its pattern, and the cadence that the names of files show.

Belongs here: guesses from paths. Does not: what is in the file (draft), or reading a finished pattern (path_pattern).
"""

import glob
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lakehouse_assets.contracts.draft_names import MOST_NAMES, WindowFiles, name_pattern, names_beside, names_of_window
from lakehouse_assets.contracts.path_pattern import DIRECTIVES, PLACEHOLDER, PathPattern
from lakehouse_assets.contracts.windows import MINUTES, Cadence
from lakehouse_assets.errors import ConfigError

Y, M, D, H = r"(?<!\d)(?P<Y>(?:19|20)\d\d)", r"(?P<m>0[1-9]|1[0-2])", r"(?P<d>0[1-9]|[12]\d|3[01])", r"(?P<H>[01]\d|2[0-3])"
MINUTE, SECONDS = r"(?P<M>[0-5]\d)", r"[-_:]?[0-5]\d(?!\d)"
# The first match in a path is its window. The finest comes first, so that a date's hour does not stay as text.
DATED: dict[Cadence, list[str]] = {
    "1min": [
        *(f"{day}[-T_/]{H}[-_:/]?{MINUTE}" for day in (f"{Y}-{M}-{D}", f"{Y}_{M}_{D}")),
        f"{Y}/{M}/{D}/{H}[-_:/]?{MINUTE}",
        f"{Y}{M}{D}[-T_/]?{H}[-_:]?{MINUTE}",
        f"year={Y}/month={M}/day={D}/hour={H}/minute={MINUTE}",
    ],
    "hourly": [
        *(f"{Y}-{M}-{D}[-T_/]{H}", f"{Y}_{M}_{D}[-T_/]{H}", f"{Y}/{M}/{D}/{H}", f"{Y}{M}{D}[-T_/]?{H}"),
        f"year={Y}/month={M}/day={D}/hour={H}",
    ],
    "daily": [f"year={Y}/month={M}/day={D}", f"{Y}-{M}-{D}", f"{Y}_{M}_{D}", f"{Y}/{M}/{D}", f"{Y}{M}{D}"],
    "monthly": [f"year={Y}/month={M}", f"{Y}-{M}", f"{Y}_{M}", f"{Y}/{M}", f"{Y}{M}"],
}
# A month with a number after it begins a date that does not exist, such as 2024-02-30. Seconds may follow a minute.
ENDS = {"monthly": r"(?![-_/]?\d)", "1min": rf"(?=(?P<seconds>{SECONDS})?)(?:(?!\d)|(?={SECONDS}))"}


@dataclass(frozen=True)
class DraftPath:
    """A path with placeholders. ``first``: the day of its window. ``names``: how many names show the minutes, if it has any.
    ``seconds``: the digits after the minutes, as they are in the name. ``files_advice``: which files of the window it matches.
    """

    path: str
    cadence: Cadence
    first: str
    names: int = 0
    seconds: str = ""
    files_advice: str = ""

    @property
    def advice(self) -> str:
        """Return the path and its cadence, and what the cadence was guessed from."""
        guess = f", guessed from the minutes in {self.names:,} file names; check it" if self.names else ""
        return f"{self.path}, {self.cadence}{guess}"

    @property
    def seconds_advice(self) -> str:
        """Return what follows from seconds in the name; "" without them."""
        if not self.seconds:
            return ""
        globs = re.sub(r"\d", "?", self.seconds)
        return f"only names with {self.seconds!r} after the minutes are read; if it differs, write {globs!r} in its place"


def draft_path(path: str, landing: Path) -> DraftPath:
    """Return the pattern of a file's path below the landing folder. Raises ConfigError for a path without a date."""
    for cadence, forms in DATED.items():
        end = ENDS.get(cadence, r"(?!\d)")
        for match in (match for form in forms for match in re.finditer(form + end, path)):
            part = {"d": "01", **match.groupdict()}
            first = f"{part['Y']}-{part['m']}-{part['d']}"
            try:
                datetime.strptime(first, "%Y-%m-%d")  # noqa: DTZ007 (to see whether there is such a day)
            except ValueError:
                continue
            seconds = part.get("seconds") or ""
            text, files = _path_of_files(path, match, match.end() + len(seconds), part, landing)
            if cadence != "1min":
                return DraftPath(text, cadence, first, files_advice=files.advice)
            minutes = _minutes_of_names(text, path, landing)
            return DraftPath(text, _cadence(minutes), first, len(minutes), seconds, files.advice)
    raise ConfigError(
        f"--from {path}: no date was found in the path, such as 2024-05-01 or 2024/05/01; the path must contain its window"
    )


def _path_of_files(
    path: str, match: re.Match[str], end: int, part: Mapping[str, str], landing: Path
) -> tuple[str, WindowFiles]:
    """Return the path with placeholders, and the files of the window that it matches. ``end``: of the date, with any seconds.

    It has globs only if they match no file whose name differs in more than numbers.
    """
    start = path.rfind("/") + 1
    prefix, date, suffix = path[start : match.start()], path[max(start, match.start()) : end], path[max(start, end) :]
    names = names_beside(path, landing)
    beside = names_of_window(path, names, match.re)
    pattern = name_pattern(prefix, date, suffix, beside)
    literal = _with_placeholder(path, match, part, prefix, suffix, suffix)
    text = _with_placeholder(path, match, part, pattern.prefix, pattern.suffix, suffix)
    unlike = [each for each in _read_names(text, path[:start], names) if not pattern.expected.fullmatch(each)]
    glob = text if unlike and text != literal else ""
    if glob:
        text = literal
    matching = _read_names(text, path[:start], beside)
    others = [each for each in beside if each not in set(matching)]
    return text, WindowFiles(1 + len(matching), tuple(others), glob, tuple(unlike) if glob else ())


def _read_names(text: str, folder: str, names: Sequence[str]) -> list[str]:
    pattern = PathPattern(text)
    return [name for name in names if pattern.window_start(folder + name) is not None]


def _with_placeholder(
    path: str, match: re.Match[str], part: Mapping[str, str], prefix: str, suffix: str, own_suffix: str
) -> str:
    placeholder, at = "", match.start()
    for name in (name for name in match.groupdict() if name != "seconds"):
        placeholder += path[at : match.start(name)] + f"%{name}"
        at = match.end(name)
    start = path.rfind("/") + 1
    before = path[:start] + prefix if match.start() >= start else path[: match.start()]
    after = path[match.end() :].removesuffix(own_suffix) + suffix
    return f"{_folders(before, part)}{{window:{placeholder}}}{after}"


def _folders(before: str, part: Mapping[str, str]) -> str:
    """Return the folders with placeholders if they name the same date (`2024/05/2024-05-01.csv`): else May would be all."""
    for form in ("%Y/%m/%d", "%Y-%m-%d", "%Y/%m", "%Y-%m", "%Y"):
        text = re.sub("%(.)", lambda directive: part[directive[1]], form)
        replaced = re.sub(rf"(^|/)((?:year|dt|date)=)?{text}/", rf"\g<1>\g<2>{{window:{form}}}/", before)
        if replaced != before:
            return replaced
    return before


def _minutes_of_names(text: str, path: str, landing: Path) -> list[int]:
    """Return the minute of each landed file that the pattern matches, one of ``path`` at least."""
    landed = landed_files(text, landing)
    starts = map(PathPattern(text).window_start, {path, *(file.relative_to(landing).as_posix() for file in landed)})
    return [start.minute for start in starts if start]


def landed_files(text: str, landing: Path) -> list[Path]:
    """Return the landed files that a pattern may match, of many only some."""
    parts = PLACEHOLDER.split(text)
    parts[::2] = [glob.escape(part).replace("[*]", "*").replace("**", "[*][*]") for part in parts[::2]]
    parts[1::2] = [re.sub("%(.)", lambda each: "?" * DIRECTIVES[each[1]], part) for part in parts[1::2]]
    return list(itertools.islice(landing.glob("".join(parts)), MOST_NAMES))


def _cadence(minutes: list[int]) -> Cadence:
    """Return the longest cadence whose windows begin at all of these minutes.

    >>> [_cadence(minutes) for minutes in ([0, 0], [0, 45], [5, 10], [7])]
    ['hourly', '15min', '5min', '1min']
    """
    if not any(minutes):
        return "hourly"
    fitting: list[Cadence] = [cadence for cadence in ("15min", "5min") if not any(each % MINUTES[cadence] for each in minutes)]
    return fitting[0] if fitting else "1min"
