"""What a table says of its source: where its files are, how they are written, and the names its columns get in bronze.

Belongs here: the shape of `source:`, path patterns and safe names (pure). Does not: listing or reading (sources).
"""

import re
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, ValidationInfo, field_validator, model_validator

from lakehouse_assets.checks.closed import Closed
from lakehouse_assets.contracts.windows import Cadence

PLACEHOLDER = re.compile(r"\{window:([^{}]*)\}")
DIRECTIVES = {"Y": 4, "m": 2, "d": 2, "j": 3, "H": 2, "M": 2, "S": 2}
NEEDS: dict[str, str] = {"hourly": "%H", "daily": "%d or %j", "weekly": "%d or %j", "monthly": "%m"}
ENCODINGS = {
    **dict.fromkeys(("utf-8", "utf8", "utf-8-sig"), "utf-8"),
    **dict.fromkeys(("us-ascii", "ascii"), "us-ascii"),
    **dict.fromkeys(("iso-8859-1", "iso8859-1", "latin-1", "latin1"), "iso-8859-1"),
}

REFUSED_BY_DELTA = " ,;{}()\n\t="
OWN_NAMES = frozenset({"p_extracted_at", "extraction_seq"})
_ESCAPED = "(?:0[0-9a-f]|1[0-9a-f]|20|28|29|2c|3b|3d|7b|7d|7f|45|50|58|5f|65|70|78)"  # the codes that safe_name writes
_UNSAFE = f"[{re.escape(REFUSED_BY_DELTA)}\x00-\x1f\x7f]"
_AHEAD = f"(?=x?{_ESCAPED}(?:_|{_UNSAFE}))"  # what follows would, with this character, read as an escape of ours
_ESCAPABLE = f"(?<!^)_(?=x){_AHEAD}|^x{_AHEAD}|{_UNSAFE}"
_ESCAPE = re.compile(f"(?:^|_)x({_ESCAPED})_")

# In the context of a validation: what is read was written by a decision, which keeps every key, said or not.
KEPT = "kept"


def safe_name(source_name: str) -> str:
    """The name of a source's column in bronze: its own, with what Delta refuses written as ``_x20_`` (its hex code).

    A leading ``_`` and the lakehouse's own names are escaped as well. `source_name` takes it back.

    >>> safe_name("wind speed (mph)"), safe_name("_id"), safe_name("p_extracted_at"), safe_name("temp")
    ('wind_x20_speed_x20__x28_mph_x29_', 'x5f_id', 'x70__extracted_at', 'temp')
    """

    def escape(found: re.Match[str]) -> str:
        opening = "" if found.start() == 0 else "_"  # a safe name never begins with _
        return f"{opening}x{ord(found[0]):02x}_"

    first = source_name[:1] == "_" or source_name.lower() in OWN_NAMES
    return re.sub(_ESCAPABLE + ("|^." if first else ""), escape, source_name, flags=re.IGNORECASE)


def source_name(safe: str) -> str:
    """The source's spelling of a name that `safe_name` made."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), safe)


def _known_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"timezone {value!r} is not an IANA zone, such as UTC or America/New_York") from None
    return value


Zone = Annotated[str, AfterValidator(_known_zone)]


class FilesSource(Closed):
    """Files in the landing folder, one or several per window; `.gz` and `.bz2` are read as such. Names that begin with `_` or
    `.` are not looked at.
    """

    kind: Literal["files"]
    """What the source is."""
    path: str
    """Relative to the landing folder. `{window:…}` holds the window's start in UTC, of `%Y %m %d %j %H %M %S`; it may stand
    several times. `*` and `?` match within one segment. It must name one window: hourly needs `%H`, daily and weekly a day,
    monthly a month."""
    format: Literal["csv", "json", "parquet"]
    """`csv` (with a header), `json` (one object per line, UTF-8) or `parquet` (times become UTC, binary base64, nested values
    JSON)."""
    nulls: tuple[str, ...] = ()
    """Texts that mean "no value", such as `["NA"]`. Bronze keeps them; silver has NULL."""
    timezone: Zone = "UTC"
    """IANA zone of timestamps that name none."""
    encoding: str = "utf-8"
    """`utf-8`, `us-ascii` or `iso-8859-1`."""
    delimiter: str = ","
    """One character."""
    quote: str = '"'
    """One character."""
    multiline: bool = False
    """Whether a quoted CSV field may hold line breaks."""

    @field_validator("path")
    @classmethod
    def _readable_pattern(cls, value: str) -> str:
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
        return value

    @model_validator(mode="after")
    def _reversible(self) -> "FilesSource":
        for text in PLACEHOLDER.findall(self.path):
            unknown = [d for d in re.findall(r"%(.?)", text) if d not in DIRECTIVES]
            if unknown or "%" not in text or "*" in text or "?" in text:
                known = " ".join(f"%{d}" for d in DIRECTIVES)
                raise ValueError(f"path: {self.path!r}: {{window:{text}}} cannot be read back from a file's name; use {known}")
        found = self._directives
        day = found & {"d", "j"}
        complete = found >= {"Y", "m", "d"} or found >= {"Y", "j"} or found == {"Y", "m"}
        time = "".join(d for d in "HMS" if d in found)
        if not complete or not "HMS".startswith(time) or (time and not day):
            shown = " ".join(sorted(f"%{d}" for d in found))
            raise ValueError(f"path: {self.path!r}: {shown} does not name one window; give it from the year down, as %Y-%m-%d")
        return self

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str) -> str:
        name = ENCODINGS.get(value.lower().replace("_", "-"))
        if name is None:
            known = ", ".join(sorted(set(ENCODINGS.values())))
            raise ValueError(f"encoding {value!r} is not one of {known}; convert the files before they land")
        return name

    @model_validator(mode="after")
    def _parsable(self, info: ValidationInfo) -> "FilesSource":
        for name, character in (("delimiter", self.delimiter), ("quote", self.quote)):
            if len(character) != 1 or character in "\r\n\0":
                raise ValueError(f"{name} {character!r} must be one character, and no line break")
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote are both {self.quote!r}")
        if self.format == "json" and (self.multiline or self.encoding != "utf-8"):
            raise ValueError("format json means one object per line, in UTF-8: multiline and encoding do not apply")
        written = not (info.context or {}).get(KEPT)
        if self.format == "parquet" and written and self.model_fields_set & {"multiline", "encoding", "delimiter", "quote"}:
            raise ValueError("format parquet: multiline, encoding, delimiter and quote are of text files")
        return self

    @property
    def _directives(self) -> set[str]:
        return set(re.findall(r"%(.)", "".join(PLACEHOLDER.findall(self.path))))

    def check_cadence(self, cadence: Cadence) -> None:
        """Raise ValueError if two windows of this cadence would have the same files."""
        found = self._directives
        fine = {"hourly": "H" in found, "monthly": True}.get(cadence, bool(found & {"d", "j"}))
        if not fine:
            raise ValueError(
                f"source.path: {self.path!r} has no {NEEDS[cadence]}, so that {cadence} windows would share their files"
            )

    def check_mode(self, mode: str, delete_when: str | None) -> None:
        """Files may be of any mode."""

    @property
    def medium(self) -> str:
        """What the source is made of, in one word."""
        return self.format

    @property
    def place(self) -> str:
        """Where the data is."""
        return self.path

    def glob(self, start: datetime) -> str:
        """The pattern of one window's files, with its globs left."""
        return PLACEHOLDER.sub(lambda found: start.strftime(found[1]), self.path)

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

        parts = PLACEHOLDER.split(self.path)
        made = [
            literal(part) if place % 2 == 0 else re.sub(r"%(.)", directive, re.escape(part)) for place, part in enumerate(parts)
        ]
        return re.compile("".join(made), re.DOTALL)

    def window_start(self, path: str) -> datetime | None:
        """The start of the window that a file belongs to; ``None`` for a path that the pattern does not match."""
        found = self._regex.fullmatch(path)
        if found is None:
            return None
        part = {name: int(value) for name, value in found.groupdict().items()}
        try:
            start = datetime(part["Y"], part.get("m", 1), part.get("d", 1), tzinfo=UTC)
            start = start.replace(hour=part.get("H", 0), minute=part.get("M", 0), second=part.get("S", 0))
        except ValueError:
            return None
        if "j" in part:
            start += timedelta(days=part["j"] - 1)
        # A date that is named twice must be the same date, and day 366 must exist.
        return start if all(int(start.strftime(f"%{name}")) == value for name, value in part.items()) else None
