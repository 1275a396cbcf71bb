"""The first rows of a landed file, for a first `defs.yaml`: CSV in UTF-8, Latin-1 or Windows-1252, JSON lines, and Parquet.

Belongs here: reading a file's beginning as texts. Does not: guesses from it (draft, draft_values).
"""

import bz2
import csv
import gzip
import io
import itertools
import json
import re
import zlib
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from lakehouse_assets.errors import ConfigError

SAMPLE = 1000
DELIMITERS = ",;\t|"
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
JSON = (".json", ".jsonl", ".ndjson")
LATIN, WINDOWS = "iso-8859-1", "windows-1252"
CONTROLS = re.compile(r"[\x80-\x9f]")
UNREADABLE = (OSError, EOFError, zlib.error, UnicodeError, ValueError, AttributeError, RecursionError, csv.Error)
BINARY = re.compile(r"[\x00-\x08\x0e-\x1f]")


class DraftSample(NamedTuple):
    """A file's first rows, by the source's names. ``options``: of the source. ``types``: of columns, if the file has types."""

    options: dict[str, Any]
    names: list[str]
    rows: list[dict[str, str]]
    types: dict[str, str] = {}

    @property
    def encoding_advice(self) -> str:
        """Return what was guessed of the encoding; "" of UTF-8."""
        encoding = self.options.get("encoding")
        if encoding == WINDOWS:
            return f"the file is not UTF-8, and has characters of {WINDOWS}, such as € or „; check them, and umlauts"
        if encoding != LATIN:
            return ""
        others = f"with € or „ in other files, write {WINDOWS}"
        if self.has_controls:
            others = "it has control characters, as texts of another encoding have here: convert such files to UTF-8"
        return f"the file is not UTF-8, and {LATIN} reads any file; check umlauts and accents; {others}"

    @property
    def has_controls(self) -> bool:
        """Whether a name or a value has a control character of Latin-1, in whose place Windows-1252 has €, „ and others."""
        texts = itertools.chain(self.names, *(row.values() for row in self.rows))
        return any(CONTROLS.search(text) for text in texts)


def read_sample(file: Path) -> DraftSample:
    """Return a file's first rows. Raises ConfigError for a file that is empty, or cannot be read."""
    if file.suffix == ".parquet":
        return _parquet_sample(file)
    try:
        try:
            sample = _text_sample(file, "utf-8-sig")
        except UnicodeError:
            if _inner_suffix(file) in JSON:
                raise
            sample = _text_sample(file, LATIN)
            if any(BINARY.search(text) for row in sample.rows for cell in row.items() for text in cell):
                raise ValueError("it is no text; convert it to UTF-8") from None
            encoding = LATIN
            if sample.has_controls:
                with suppress(UnicodeError):
                    sample, encoding = _text_sample(file, WINDOWS), WINDOWS
            sample.options["encoding"] = encoding
    except UNREADABLE as error:
        raise ConfigError(f"--from {file}: it cannot be read as UTF-8 or {LATIN} CSV, or as JSON lines: {error}") from None
    if not sample.names:
        raise ConfigError(f"--from {file}: the file is empty; take one with a header and some rows")
    return sample


def _inner_suffix(file: Path) -> str:
    return Path(file.stem).suffix if file.suffix in OPENERS else file.suffix


def _text_sample(file: Path, encoding: str) -> DraftSample:
    packed = file.suffix in OPENERS
    with file.open("rb") as raw, OPENERS[file.suffix](raw) if packed else raw as data:
        stream = io.TextIOWrapper(data, encoding=encoding, newline="")
        if _inner_suffix(file) in JSON:
            lines = [json.loads(line) for line in itertools.islice(stream, SAMPLE) if line.strip()]
            rows = [{k: v if isinstance(v, str) else json.dumps(v) for k, v in r.items() if v is not None} for r in lines]
            return DraftSample({"format": "json"}, list(dict.fromkeys(name for line in lines for name in line)), rows)
        header = stream.readline()
        # The one that the header has most of; a comma where there is none of them.
        delimiter = max(DELIMITERS, key=header.count)
        reader = csv.DictReader(itertools.chain([header], stream), delimiter=delimiter)
        rows = [{k: v for k, v in row.items() if k and v is not None} for row in itertools.islice(reader, SAMPLE)]
        options: dict[str, Any] = {"format": "csv", **({"delimiter": delimiter} if delimiter != "," else {})}
        if any("\n" in text or "\r" in text for row in rows for cell in row.items() for text in cell):
            options["multiline"] = True
        return DraftSample(options, list(reader.fieldnames or []), rows)


def _parquet_sample(file: Path) -> DraftSample:
    try:
        with parquet.ParquetFile(file) as opened:
            schema = opened.schema_arrow
            batch = next(opened.iter_batches(SAMPLE), None)
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"--from {file}: it cannot be read as Parquet: {error}") from None
    rows = [{k: _text(v) for k, v in row.items() if v is not None} for row in (batch.to_pylist() if batch else [])]
    return DraftSample({"format": "parquet"}, list(schema.names), rows, {each.name: _declared(each.type) for each in schema})


def _declared(kind: pa.DataType) -> str:
    """Return the column type for a Parquet type; text for nested and unknown types."""
    is_a = pa.types
    if is_a.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    names = {
        "boolean": is_a.is_boolean, "bigint": is_a.is_integer, "double": is_a.is_floating, "date": is_a.is_date,
        "timestamp": is_a.is_timestamp,
    }  # fmt: skip
    if is_a.is_binary(kind) or is_a.is_large_binary(kind) or is_a.is_fixed_size_binary(kind):
        return "binary"
    return next((name for name, holds in names.items() if holds(kind)), "string")


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value if isinstance(value, str) else json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)
