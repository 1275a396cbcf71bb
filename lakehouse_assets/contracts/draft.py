"""A first `defs.yaml` out of one landed file: its path, header and first rows.

Belongs here: guessing, and saying what was guessed. Does not: writing files, or running anything.
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
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from pyarrow import parquet

from lakehouse_assets.contracts.mistakes import NAME, keys_of, reason_of
from lakehouse_assets.contracts.source import OWN_NAMES
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError

SAMPLE = 1000
NULLS = ("NA", "N/A", "n/a", "NULL", "null", "None", "nan", "NaN", "-", "\\N")
DELIMITERS = ",;\t|"
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
Y, M, D, H = r"(?<!\d)(?P<Y>(?:19|20)\d\d)", r"(?P<m>0[1-9]|1[0-2])", r"(?P<d>0[1-9]|[12]\d|3[01])", r"(?P<H>[01]\d|2[0-3])"
# The first that is found in a path is its window: the finest first, so that a date's hour is not left behind as text.
DATED = {
    "hourly": [f"{Y}-{M}-{D}[-T_/]{H}", f"{Y}/{M}/{D}/{H}", f"{Y}{M}{D}[-T_/]?{H}", f"year={Y}/month={M}/day={D}/hour={H}"],
    "daily": [f"year={Y}/month={M}/day={D}", f"{Y}-{M}-{D}", f"{Y}_{M}_{D}", f"{Y}/{M}/{D}", f"{Y}{M}{D}"],
    "monthly": [f"year={Y}/month={M}", f"{Y}-{M}", f"{Y}_{M}", f"{Y}/{M}", f"{Y}{M}"],
}
# A number with a leading zero (a postcode) or more digits than a double keeps is text: as a number it would be another.
FORMS = {
    "boolean": r"(?i)true|false",
    "bigint": r"[+-]?(0|[1-9]\d{0,17})",
    "double": r"[+-]?((0|[1-9]\d{0,14})(\.\d*)?|\.\d+)([eE][+-]?\d+)?",
    "date": r"\d{4}-\d{2}-\d{2}",
    "timestamp": r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?",
}
IDENTIFIES = re.compile(r"^id_|(^|_)(id|ids|key|code|uuid|guid|nr|no|number|sku)$")
CHANGED = (re.compile(r"updat|modif|chang"), re.compile(r"_at$|time"))


@dataclass(frozen=True)
class _Sample:
    """What is known of the file's content: ``options`` of the source that are not the default, rows by source names.

    ``types``: by source name, where the file itself says them.
    """

    options: dict[str, Any]
    names: list[str]
    rows: list[dict[str, str]]
    types: dict[str, str] = field(default_factory=dict)


def draft_table(table: str, file: Path, landing: Path, start: str | None) -> tuple[str, list[str]]:
    """The YAML and a list of what to look at. Raises ConfigError, saying what to do, where nothing can be guessed."""
    if not NAME.fullmatch(table):
        raise ConfigError(f"{table!r} is not a table name: lower-case letters, digits and _, beginning with a letter")
    if not file.is_file():
        raise ConfigError(f"--from {file}: there is no such file")
    if not file.resolve().is_relative_to(landing.resolve()):
        raise ConfigError(f"--from {file}: the file must lie in the landing folder {landing} (or set LAKEHOUSE_LANDING)")
    path, cadence, first = _pattern(file.resolve().relative_to(landing.resolve()).as_posix())
    sample = _sample(file)
    columns = _columns(file, sample.names)
    count = len(sample.rows)
    nulls = sorted({value for row in sample.rows for value in row.values() if value in NULLS})
    values = {c: [row[n] for row in sample.rows if row.get(n) not in (None, "", *nulls)] for c, n in columns.items()}
    types = {column: sample.types.get(columns[column]) or _type(found) for column, found in values.items()}
    key = _key(values, types, count)
    modified = next((c for like in CHANGED for c, t in types.items() if key and t == "timestamp" and like.search(c)), None)
    checks: list[dict[str, Any]] = [{"check": "not_empty"}, *({"check": "not_null", "column": name} for name in key)]
    if key:
        checks.append({"check": "unique", "columns": key})
    source = {"kind": "files", "path": path, **sample.options, **({"nulls": nulls} if nulls else {})}
    described = {c: {"type": types[c], **({"from": n} if n != c else {})} for c, n in columns.items()}
    lines = [
        f"# Drafted from the header and the first {count} rows of {json.dumps(file.name)}. Read it before you trust it.",
        "type: lakehouse_assets.LakehouseTable",
        "",
        "attributes:",
        f"  name: {table}",
        f"  description: {_flow(f'Drafted from {file.name}; say what a row is.')}",
        "  # The path is relative to the landing folder; {window:...} stands for a window's start, in UTC.",
        f"  source: {_flow(source)}",
        f"  # One file, or set of files, per window: {cadence}. Windows before `start` are never looked for.",
        f"  extraction: {_flow({'cadence': cadence, 'start': start or first, 'mode': 'upsert' if key else 'append'})}",
    ]
    if key:
        lines += [f"  # A guess: unique in {count} rows. The newest row of a key wins.", f"  key: {_flow(key)}"]
    else:
        lines += ["  # No key was found, so that each row is its own. With one, say `key:` and mode: upsert."]
    if modified:
        lines += ["  # Of two rows of a key the later one, by this column, is the newer.", f"  last_modified: {modified}"]
    lines += [
        "  # `from:` is the source's spelling. Add `unit:`, `description:`, and `pii: true` to what is personal.",
        "  columns:",
        *(f"    {_flow(name)}: {_flow(column)}" for name, column in described.items()),
        "  # See `lakehouse check kinds` for more.",
        "  checks:",
        *(f"    - {_flow(check)}" for check in checks),
    ]
    text = "\n".join(lines) + "\n"
    _prove(file, text)
    naive = [
        c for c, t in types.items() if t == "timestamp" and not all(re.search(r"(Z|[+-]\d\d:?\d\d)$", v) for v in values[c])
    ]
    empty = [column for column, some in values.items() if not some]
    found = f"{', '.join(key)}, guessed from {count:,} rows; check it" if key else f"none was found in {count:,} rows (append)"
    advice = {
        "path": f"{path}, {cadence}",
        "key": found,
        "last_modified": (f"{modified}; check it" if modified else "none; later windows win") if key else "",
        "nulls": f"{', '.join(nulls)} count as no value, in every column; check that none is a real one" if nulls else "",
        "timezone": f"{', '.join(naive)} name no zone and are taken as UTC; else set source.timezone" if naive else "",
        "types": f"{', '.join(empty)} had no value in the sample, so that string is a guess" if empty else "",
        "next": "mark personal columns `pii: true`, add checks, then: lakehouse check validate",
    }
    return text, [f"{what}: {told}" for what, told in advice.items() if told]


def _flow(value: Any) -> str:
    """A value on one line of YAML, whatever a file's name or header has in it. Each by itself: a shared list is no alias."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf)
    text = text.removesuffix("...\n").strip()
    return json.dumps(value, ensure_ascii=False) if "\n" in text else text


def _prove(file: Path, text: str) -> None:
    """What is handed out must load: a hidden file, a bracket in a path or a wrong `start` is told here, and nothing written."""
    try:
        TableSpec.model_validate(yaml.safe_load(text)["attributes"])
    except yaml.YAMLError as error:
        raise ConfigError(f"--from {file}: its name or header has characters that YAML cannot hold: {error}") from None
    except ValueError as error:
        told = getattr(error, "errors", lambda: [])()
        reasons = [f"{'.'.join(map(str, keys_of(e)))}: {reason_of(e)}" for e in told] or [str(error)]
        raise ConfigError(f"--from {file}: its draft would not load: {'; '.join(reasons)}") from None


def _pattern(path: str) -> tuple[str, str, str]:
    for cadence, forms in DATED.items():
        # A month that a number follows is the start of a date that there is not, such as 2024-02-30.
        end = r"(?![-_/]?\d)" if cadence == "monthly" else r"(?!\d)"
        for form in forms:
            for found in re.finditer(form + end, path):
                part = {"d": "01", **found.groupdict()}
                first = f"{part['Y']}-{part['m']}-{part['d']}"
                try:
                    datetime.strptime(first, "%Y-%m-%d")  # noqa: DTZ007 (to see whether there is such a day)
                except ValueError:
                    continue
                before, after = path[: found.start()], path[found.end() :]
                return _folders(before, part) + _placeholder(found) + after, cadence, first
    raise ConfigError(
        f"--from {path}: no date was found in the path, such as 2024-05-01 or 2024/05/01; a file's path must say its window"
    )


def _placeholder(found: re.Match[str]) -> str:
    text, at = "", found.start()
    for name in found.groupdict():
        text += found.string[at : found.start(name)] + f"%{name}"
        at = found.end(name)
    return f"{{window:{text}}}"


def _folders(before: str, part: Mapping[str, str]) -> str:
    """Folders above that name the same date (`2024/05/2024-05-01.csv`) follow the window too: else May would be all."""
    for form in ("%Y/%m/%d", "%Y-%m-%d", "%Y/%m", "%Y-%m", "%Y"):
        text = re.sub("%(.)", lambda directive: part[directive[1]], form)
        made = re.sub(rf"(^|/)((?:year|dt|date)=)?{text}/", rf"\g<1>\g<2>{{window:{form}}}/", before)
        if made != before:
            return made
    return before


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
    """The column type for a Parquet file's; text for what is nested or has none."""
    is_a = pa.types
    if is_a.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    known = {
        "boolean": is_a.is_boolean, "bigint": is_a.is_integer, "double": is_a.is_floating, "date": is_a.is_date,
        "timestamp": is_a.is_timestamp,
    }  # fmt: skip
    if is_a.is_binary(kind) or is_a.is_large_binary(kind) or is_a.is_fixed_size_binary(kind):
        return "binary"
    return next((name for name, holds in known.items() if holds(kind)), "string")


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value if isinstance(value, str) else json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)


def _columns(file: Path, names: Sequence[str]) -> dict[str, str]:
    """``{column: source's name}``: snake case, made distinct where two would be one."""
    columns: dict[str, str] = {}
    for place, name in enumerate(names, 1):
        if not name.strip():
            raise ConfigError(f"--from {file}: column {place} has no name in the header; the file needs a header line")
        if name.lower() in {other.lower() for other in columns.values()}:
            raise ConfigError(f"--from {file}: two columns are called {name!r} (case does not count); rename one at the source")
        plain = re.sub(r"[\u0300-\u036f]", "", unicodedata.normalize("NFKD", name))
        plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()
        plain = re.sub(r"[^a-z0-9]+", "_", plain).strip("_") or f"column_{place}"
        plain = f"c_{plain}" if plain[0].isdigit() or plain in OWN_NAMES else plain
        free = (plain if n == 1 else f"{plain}_{n}" for n in itertools.count(1))
        columns[next(column for column in free if column not in columns)] = name
    return columns


def _type(values: Sequence[str]) -> str:
    return next((kind for kind, form in FORMS.items() if values and all(re.fullmatch(form, v) for v in values)), "string")


def _key(values: Mapping[str, Sequence[str]], types: Mapping[str, str], rows: int) -> list[str]:
    """One column named like a key; else such a column, or a time, with another. A measurement may be unique by chance."""
    whole = [c for c, found in values.items() if rows > 1 and len(found) == rows and types[c] not in ("double", "boolean")]
    likely = [c for c in whole if IDENTIFIES.search(c)]
    times = [c for c in whole if types[c] in ("timestamp", "date")]
    firsts = [*likely, *(c for c in times if c not in likely)][:20]
    pairs = [(a, b) for b in [*times, *likely, *whole] for a in firsts if a != b]
    for names in [*((c,) for c in likely), *pairs[:2000]]:
        if len(set(zip(*[values[name] for name in names], strict=True))) == rows:
            return sorted(names, key=list(values).index)
    return []
