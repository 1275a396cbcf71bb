"""A first `defs.yaml` drafted from one landed file: its path, header and first rows.

Belongs here: guesses, and the list of guesses. Does not: writing files, or running anything.
"""

import bz2
import csv
import gzip
import io
import itertools
import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import yaml
from pyarrow import parquet
from pydantic import ValidationError

from lakehouse_assets.contracts.batch import BATCH_COLUMNS
from lakehouse_assets.contracts.draft_path import draft_path
from lakehouse_assets.contracts.mistakes import NAME, dotted, mistakes_in
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError

SAMPLE = 1000
NULLS = ("NA", "N/A", "n/a", "NULL", "null", "None", "nan", "NaN", "-", "\\N")
DELIMITERS = ",;\t|"
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
# A number with a leading zero (a postcode) or more digits than a double keeps is text: as a number it would be another.
FORMS = {
    "boolean": r"(?i)true|false",
    "bigint": r"[+-]?(0|[1-9]\d{0,17})",
    "double": r"[+-]?((0|[1-9]\d{0,14})(\.\d*)?|\.\d+)([eE][+-]?\d+)?",
    "date": r"\d{4}-\d{2}-\d{2}",
    "timestamp": r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?",
}
IDENTIFIES = re.compile(r"^id_|(^|_)(id|ids|key|code|uuid|guid|nr|no|number|sku)$")
ZONED = re.compile(r"(Z|[+-]\d\d:?\d\d)$")
CHANGED = (re.compile(r"updat|modif|chang"), re.compile(r"_at$|time"))


class _Sample(NamedTuple):
    """A file's first rows, by the source's names. ``options``: of the source. ``types``: of columns, if the file has types."""

    options: dict[str, Any]
    names: list[str]
    rows: list[dict[str, str]]
    types: dict[str, str] = {}


def draft_table(table: str, file: Path, landing: Path, start: str | None) -> tuple[str, list[str]]:
    """Return the YAML, and a list of what to check in it. Raises ConfigError, with advice, if nothing can be guessed."""
    if not NAME.fullmatch(table):
        raise ConfigError(f"{table!r} is not a table name: lower-case letters, digits and _, beginning with a letter")
    if not file.is_file():
        raise ConfigError(f"--from {file}: there is no such file")
    if not file.resolve().is_relative_to(landing.resolve()):
        raise ConfigError(f"--from {file}: the file must be in the landing folder {landing} (or set LAKEHOUSE_LANDING)")
    dated = draft_path(file.resolve().relative_to(landing.resolve()).as_posix(), landing)
    sample = _sample(file)
    columns, count = _columns(file, sample.names), len(sample.rows)
    nulls = sorted({value for row in sample.rows for value in row.values() if value in NULLS})
    values = {c: [row[n] for row in sample.rows if row.get(n) not in (None, "", *nulls)] for c, n in columns.items()}
    types = {column: sample.types.get(columns[column]) or _type(some) for column, some in values.items()}
    key = _key(values, types, count)
    modified = next((c for like in CHANGED for c, t in types.items() if key and t == "timestamp" and like.search(c)), None)
    described = {c: {"type": types[c], **({"from": n} if n != c else {})} for c, n in columns.items()}
    column_lines = "".join(f"    {_flow(name)}: {_flow(column)}\n" for name, column in described.items())
    text = f"""\
# Drafted from the header and the first {count} rows of {json.dumps(file.name)}. Read it before you trust it.
type: lakehouse_assets.LakehouseTable

attributes:
  name: {table}
  description: {_flow(f"Drafted from {file.name}; say what a row is.")}
  # The path is relative to the landing folder; {{window:...}} stands for a window's start, in UTC.
  source: {_flow({"kind": "files", "path": dated.path, **sample.options, **({"nulls": nulls} if nulls else {})})}
  # One file, or set of files, per window: {dated.cadence}. Windows before `start` are never looked for.
  extraction: {_flow({"cadence": dated.cadence, "start": start or dated.first, "mode": "upsert" if key else "append"})}
{_key_lines(key, modified, count)}\
  # `from:` is the source's spelling. Add `unit:`, `description:`, and `pii: true` to what is personal.
  columns:
{column_lines}\
  # See `lakehouse check kinds` for more.
  checks:
    - {{check: not_empty}}
"""
    checks: list[dict[str, Any]] = [{"check": "not_null", "column": name} for name in key]
    checks += [{"check": "unique", "columns": key}] if key else []
    text += "".join(f"    - {_flow(check)}\n" for check in checks)
    _refuse_unloadable(file, text)
    naive = [c for c, t in types.items() if t == "timestamp" and not all(ZONED.search(value) for value in values[c])]
    empty = [column for column, some in values.items() if not some]
    guess = f"{', '.join(key)}, guessed from {count:,} rows; check it" if key else f"none was found in {count:,} rows (append)"
    advice = {
        "path": dated.advice,
        "seconds": dated.seconds_advice,
        "key": guess,
        "last_modified": (f"{modified}; check it" if modified else "none; later windows win") if key else "",
        "multiline": "texts contain line breaks, so each file is read as one piece" if sample.options.get("multiline") else "",
        "nulls": f"{', '.join(nulls)} count as no value, in every column; check that none is a real one" if nulls else "",
        "timezone": f"{', '.join(naive)} name no zone and are taken as UTC; else set source.timezone" if naive else "",
        "types": f"{', '.join(empty)} had no value in the sample, so that string is a guess" if empty else "",
        "next": "mark personal columns `pii: true`, add checks, then: lakehouse check validate",
    }
    return text, [f"{what}: {message}" for what, message in advice.items() if message]


def _key_lines(key: Sequence[str], modified: str | None, count: int) -> str:
    if not key:
        return "  # No key was found, so that each row is its own. With one, say `key:` and mode: upsert.\n"
    text = f"  # A guess: unique in {count} rows. The newest row of a key wins.\n  key: {_flow(key)}\n"
    later = f"  # Of two rows of a key the later one, by this column, is the newer.\n  last_modified: {modified}\n"
    return text + later if modified else text


def _flow(value: Any) -> str:
    """Return a value on one line of YAML, whatever a file's name or header contains; without aliases for shared lists."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf)
    text = text.removesuffix("...\n").strip()
    return json.dumps(value, ensure_ascii=False) if "\n" in text else text


def _refuse_unloadable(file: Path, text: str) -> None:
    """Raise ConfigError for a draft that would not load: a hidden file, a bracket in a path or a wrong `start`."""
    try:
        TableSpec.model_validate(yaml.safe_load(text)["attributes"])
    except yaml.YAMLError as error:
        raise ConfigError(f"--from {file}: its name or header has characters that YAML cannot contain: {error}") from None
    except ValueError as error:
        mistakes = mistakes_in(error) if isinstance(error, ValidationError) else [((), str(error))]
        reasons = "; ".join(f"{dotted(keys)}: {reason}" if keys else reason for keys, reason in mistakes)
        raise ConfigError(f"--from {file}: its draft would not load: {reasons}") from None


def _sample(file: Path) -> _Sample:
    if file.suffix == ".parquet":
        return _parquet_sample(file)
    packed = file.suffix in OPENERS
    inner = Path(file.stem).suffix if packed else file.suffix
    try:
        with file.open("rb") as raw, OPENERS[file.suffix](raw) if packed else raw as data:
            stream = io.TextIOWrapper(data, encoding="utf-8-sig", newline="")
            if inner in (".json", ".jsonl", ".ndjson"):
                lines = [json.loads(line) for line in itertools.islice(stream, SAMPLE) if line.strip()]
                rows = [{k: v if isinstance(v, str) else json.dumps(v) for k, v in r.items() if v is not None} for r in lines]
                names = list(dict.fromkeys(name for line in lines for name in line))
                options: dict[str, Any] = {"format": "json"}
            else:
                header = stream.readline()
                # The one that the header has most of; a comma where there is none of them.
                delimiter = max(DELIMITERS, key=header.count)
                reader = csv.DictReader(itertools.chain([header], stream), delimiter=delimiter)
                rows = [{k: v for k, v in row.items() if k and v is not None} for row in itertools.islice(reader, SAMPLE)]
                names = list(reader.fieldnames or [])
                options = {"format": "csv", **({"delimiter": delimiter} if delimiter != "," else {})}
                if any("\n" in text or "\r" in text for row in rows for cell in row.items() for text in cell):
                    options["multiline"] = True
    except (OSError, EOFError, UnicodeError, ValueError, AttributeError, csv.Error) as error:
        raise ConfigError(f"--from {file}: it cannot be read as UTF-8 CSV or JSON lines: {error}") from None
    if not names:
        raise ConfigError(f"--from {file}: the file is empty; take one with a header and some rows")
    return _Sample(options, names, rows)


def _parquet_sample(file: Path) -> _Sample:
    try:
        with parquet.ParquetFile(file) as opened:
            schema = opened.schema_arrow
            batch = next(opened.iter_batches(SAMPLE), None)
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"--from {file}: it cannot be read as Parquet: {error}") from None
    rows = [{k: _text(v) for k, v in row.items() if v is not None} for row in (batch.to_pylist() if batch else [])]
    return _Sample({"format": "parquet"}, list(schema.names), rows, {each.name: _declared(each.type) for each in schema})


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


def _columns(file: Path, names: Sequence[str]) -> dict[str, str]:
    """Return ``{column: source's name}``: columns are in snake case, and distinct."""
    columns: dict[str, str] = {}
    for number, name in enumerate(names, 1):
        if not name.strip():
            raise ConfigError(f"--from {file}: column {number} has no name in the header; the file needs a header line")
        if name.lower() in {other.lower() for other in columns.values()}:
            raise ConfigError(f"--from {file}: two columns are called {name!r} (case does not count); rename one at the source")
        plain = re.sub(r"[\u0300-\u036f]", "", unicodedata.normalize("NFKD", name))
        plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()
        plain = re.sub(r"[^a-z0-9]+", "_", plain).strip("_") or f"column_{number}"
        plain = f"c_{plain}" if plain[0].isdigit() or plain in BATCH_COLUMNS else plain
        free = (plain if n == 1 else f"{plain}_{n}" for n in itertools.count(1))
        columns[next(column for column in free if column not in columns)] = name
    return columns


def _type(values: Sequence[str]) -> str:
    return next((kind for kind, form in FORMS.items() if values and all(re.fullmatch(form, v) for v in values)), "string")


def _key(values: Mapping[str, Sequence[str]], types: Mapping[str, str], rows: int) -> list[str]:
    """Return one column named like a key, or such a column or a time with another. A measurement may be unique by chance."""
    full = [c for c, some in values.items() if rows > 1 and len(some) == rows and types[c] not in ("double", "boolean")]
    likely = [c for c in full if IDENTIFIES.search(c)]
    times = [c for c in full if types[c] in ("timestamp", "date")]
    firsts = list(dict.fromkeys([*likely, *times]))[:20]
    pairs = [(a, b) for b in [*times, *likely, *full] for a in firsts if a != b]
    for names in [*((c,) for c in likely), *pairs[:2000]]:
        if len(set(zip(*[values[name] for name in names], strict=True))) == rows:
            return sorted(names, key=list(values).index)
    return []
