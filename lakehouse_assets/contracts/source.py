"""A source of files: where they are, how they are written, and the names of their columns in bronze.

Belongs here: the shape of `source:`, and safe names (pure). Does not: listing or reading (sources).
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from lakehouse_assets.checks.strict_model import is_recorded
from lakehouse_assets.contracts.batch import BATCH_COLUMNS
from lakehouse_assets.contracts.fixed_width import FixedField, Position, field_positions
from lakehouse_assets.contracts.number_marks import NumberMarks
from lakehouse_assets.contracts.path_pattern import NEEDS, PathPattern
from lakehouse_assets.contracts.settling import Settled
from lakehouse_assets.contracts.source_kind import SourceKind
from lakehouse_assets.contracts.windows import Cadence

ENCODINGS = {
    **dict.fromkeys(("utf-8", "utf8", "utf-8-sig"), "utf-8"),
    **dict.fromkeys(("us-ascii", "ascii"), "us-ascii"),
    **dict.fromkeys(("iso-8859-1", "iso8859-1", "latin-1", "latin1"), "iso-8859-1"),
    **dict.fromkeys(("windows-1252", "windows1252", "cp1252", "cp-1252"), "windows-1252"),
}

# What a file's content is read by, besides its format.
READING = {
    "csv": ("encoding", "delimiter", "quote", "multiline"), "json": ("multiline",), "fixed": ("encoding", "fields"),
}  # fmt: skip
REFUSED_BY_DELTA = " ,;{}()\n\t="
_ESCAPED = "(?:0[0-9a-f]|1[0-9a-f]|20|28|29|2c|3b|3d|7b|7d|7f|45|50|58|5f|65|70|78)"  # the codes that safe_name writes
_UNSAFE = f"[{re.escape(REFUSED_BY_DELTA)}\x00-\x1f\x7f]"
_AHEAD = f"(?=x?{_ESCAPED}(?:_|{_UNSAFE}))"  # what follows would, with this character, read as an escape of ours
_ESCAPABLE = f"(?<!^)_(?=x){_AHEAD}|^x{_AHEAD}|{_UNSAFE}"
_ESCAPE = re.compile(f"(?:^|_)x({_ESCAPED})_")


def safe_name(source_name: str) -> str:
    """Return a source column's name in bronze: its own, with characters that Delta refuses written as ``_x20_`` (its hex code).

    A leading ``_`` and the lakehouse's own names are escaped as well. `source_name` reverses it.

    >>> safe_name("wind speed (mph)"), safe_name("_id"), safe_name("p_extracted_at"), safe_name("temp")
    ('wind_x20_speed_x20__x28_mph_x29_', 'x5f_id', 'x70__extracted_at', 'temp')
    """

    def escape(match: re.Match[str]) -> str:
        opening = "" if match.start() == 0 else "_"  # a safe name never begins with _
        return f"{opening}x{ord(match[0]):02x}_"

    first = source_name[:1] == "_" or source_name.lower() in BATCH_COLUMNS
    return re.sub(_ESCAPABLE + ("|^." if first else ""), escape, source_name, flags=re.IGNORECASE)


def source_name(safe: str) -> str:
    """Return the source's spelling of a `safe_name`."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), safe)


def _known_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"timezone {value!r} is not an IANA zone, such as UTC or America/New_York") from None
    return value


Zone = Annotated[str, AfterValidator(_known_zone)]


class FilesSource(SourceKind):
    """Files in the landing folder, one or several per window. `.gz` and `.bz2` files are decompressed. Names that begin with
    `_` or `.` are ignored.
    """

    kind: Literal["files"]
    """What the source is."""
    path: str
    """Relative to the landing folder. `{window:…}` is the window's start in UTC, of `%Y %m %d %j %H %M %S`. It may occur
    several times. `*` and `?` match within one segment. The path must identify one window: hourly needs `%H`, daily and weekly
    a day, monthly a month. With `extraction.stream` it has no `{window:…}`: each file that matches is read once."""
    format: Literal["csv", "json", "parquet", "avro", "fixed"]
    """`csv` (with a header), `json` (one object per line, or with `multiline` one document; UTF-8), `parquet` or `avro`
    (times become UTC, binary base64, nested values JSON), or `fixed` (lines of fixed width, without a header)."""
    nulls: tuple[str, ...] = ()
    """Texts that mean "no value", such as `["NA"]`. Bronze keeps them; silver has NULL."""
    timezone: Zone = "UTC"
    """IANA zone of timestamps that name none."""
    decimal: str = Field(default=".", exclude_if=lambda mark: mark == ".")
    """What the fraction of a number begins with: `.` or `,`. It applies to all windows, published ones too. CSV and `fixed`
    only."""
    thousands: str | None = Field(default=None, exclude_if=lambda mark: mark is None)
    """What is between groups of three digits of a number, such as `.` in `1.013,8`: a point, comma, apostrophe, underscore or
    space. A number without it is read, too. One with a group of another size fails its cast. CSV and `fixed` only."""
    encoding: str = "utf-8"
    """`utf-8`, `us-ascii`, `iso-8859-1` or `windows-1252`."""
    delimiter: str = ","
    """One character."""
    quote: str = '"'
    """One character."""
    multiline: bool = False
    """CSV: whether a quoted field may hold line breaks. JSON: whether each file is one document, an object or an array of
    objects, over as many lines as it likes; at most 128 MB."""
    fields: tuple[FixedField, ...] = Field(default=(), exclude_if=lambda fields: not fields)
    """`fixed` only: the fields of a line, each with its name and width, and where characters between them are left out, its
    start: `[{name: id, width: 8}, {name: amount, start: 21, width: 10}]`. A line ends with the last field: declare what follows
    as a field too. Widths are characters."""
    control: str | None = None
    """The control file of a window, for `control_total`: one file per window, named as in `path` but without globs. It is one
    JSON object of numbers, such as `{"rows": 24, "amount": 1523.5}`. When it changes, the window changes."""
    settled: Settled | None = Field(default=None, exclude_if=lambda settled: settled is None)
    """How the source shows that a window's files are whole. Then one poll is enough; without it, two polls must agree, and a
    stream takes a file that has not changed for a second. `rename`: a file has its name once it is whole; names such as
    `….part` or `….tmp` are ignored. `{marker: _SUCCESS}`: this file comes last, into each folder of a window; or its path, such
    as `orders/{window:%Y-%m-%d}.done`. `{seconds: 5}`: no file has changed for so long."""

    @field_validator("path", "control")
    @classmethod
    def _readable_pattern(cls, value: str | None) -> str | None:
        if value is not None:
            PathPattern(value).refuse_unreadable()
        return value

    @model_validator(mode="after")
    def _one_window(self) -> "FilesSource":
        for key, pattern in self._patterns.items():
            pattern.refuse_ambiguous(key)
        if self.control is not None:
            self._refuse_control(self.control)
        if self.settled is not None:
            self.settled.refuse_path(self.path)
        return self

    def refuse_stream(self, mode: str, delete_when: str | None) -> None:
        """Raise ValueError for what only files of a calendar's windows have."""
        if self.pattern.has_window:
            raise ValueError(
                f"source.path: {self.path!r} names windows, and a stream's files belong to the window in which they arrive;"
                " write * in place of {window:…}"
            )
        if self.control is not None:
            raise ValueError("source.control: does not apply to a stream, whose windows have no control file; remove it")
        if self.settled is not None and self.settled.marker is not None:
            raise ValueError("source.settled: a marker is of a calendar's window; of a stream use rename or {seconds: 5}")

    def _refuse_control(self, control: str) -> None:
        PathPattern(control).refuse_without_window("control")
        if re.search(r"[*?]", control):
            raise ValueError(f"control: {control!r} has a glob; a window has one control file")
        any_window = datetime(2026, 10, 5, 7, tzinfo=UTC)
        if self.pattern.window_start(PathPattern(control).glob(any_window)) is not None:
            raise ValueError(f"control: a file {control!r} is also one of `path`; give it another name or folder")

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str) -> str:
        name = ENCODINGS.get(value.lower().replace("_", "-"))
        if name is None:
            encodings = ", ".join(sorted(set(ENCODINGS.values())))
            raise ValueError(
                f"encoding {value!r} is not one of {encodings}; convert the files before they land, as by"
                f" `iconv -f {value} -t utf-8`"
            )
        return name

    @model_validator(mode="after")
    def _parsable(self, info: ValidationInfo) -> "FilesSource":
        for name, character in (("delimiter", self.delimiter), ("quote", self.quote)):
            if len(character) != 1 or character in "\r\n\0":
                raise ValueError(f"{name} {character!r} must be one character, and no line break")
            if self.encoding == "windows-1252" and not character.encode(self.encoding, "ignore"):
                raise ValueError(f"{name} {character!r} is no character of {self.encoding}")
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote are both {self.quote!r}")
        if self.format == "json" and self.encoding != "utf-8":
            raise ValueError("format json: JSON is UTF-8, and encoding does not apply")
        written = not is_recorded(info)
        if bool(self.fields) != (self.format == "fixed"):
            raise ValueError("fields: format fixed needs the name and width of each; no other format has them")
        if self.format == "fixed" and written and self.model_fields_set & {"multiline", "delimiter", "quote"}:
            raise ValueError("format fixed: multiline, delimiter and quote do not apply")
        field_positions(self.fields)
        marks = NumberMarks.of(self)
        marks.refuse()
        if not marks.are_plain and self.format not in ("csv", "fixed"):
            raise ValueError(f"format {self.format}: decimal and thousands apply to csv and fixed only")
        is_binary = self.format in ("parquet", "avro")
        if is_binary and written and self.model_fields_set & {"multiline", "encoding", "delimiter", "quote"}:
            raise ValueError(f"format {self.format}: multiline, encoding, delimiter and quote apply to text files only")
        return self

    @property
    def _patterns(self) -> dict[str, PathPattern]:
        texts = {"path": self.path, "control": self.control}
        return {key: PathPattern(text) for key, text in texts.items() if text is not None}

    def refuse_extraction(self, cadence: Cadence, mode: str, delete_when: str | None) -> None:
        """Raise ValueError if two windows of this cadence would have the same files."""
        for key, pattern in self._patterns.items():
            pattern.refuse_without_window(f"source.{key}")
            if not pattern.separates_windows(cadence):
                raise ValueError(
                    f"source.{key}: {pattern.text!r} has no {NEEDS[cadence]}, so that {cadence} windows would share their files"
                )
        if self.settled is not None:
            self.settled.refuse_cadence(self.path, cadence)

    def reading(self) -> dict[str, Any]:
        """Return what decides the rows of a file: its format, and the keys that apply to it."""
        return self.model_dump(mode="json", include={"kind", "format", *READING.get(self.format, ())})

    def reads_like(self, recorded: Mapping[str, Any]) -> bool:
        """Whether the same files give the same rows as by ``recorded``, an earlier `source:` of files as JSON."""
        if recorded.get("kind") != self.kind:
            return True  # other files, with another fingerprint
        return self._compared(self.reading()) == self._compared(recorded)

    def _compared(self, source: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys that apply to the format of this `source:`; of fixed fields, their positions."""
        names = READING.get(source["format"], ())
        keys = {name: source.get(name, type(self).model_fields[name].default) for name in names}
        if "fields" in keys:
            keys["fields"] = sorted(field_positions([FixedField.model_validate(field) for field in keys["fields"]]))
        return {"format": source["format"], **keys}

    @property
    def medium(self) -> str:
        """The kind of storage, in one word."""
        return self.format

    @property
    def location(self) -> str:
        """Where the data is."""
        return self.path

    @property
    def positions(self) -> tuple[Position, ...]:
        """Where the fields of `fixed` are in a line."""
        return field_positions(self.fields)

    @property
    def pattern(self) -> PathPattern:
        """`path`, which has the window of a file."""
        return PathPattern(self.path)
