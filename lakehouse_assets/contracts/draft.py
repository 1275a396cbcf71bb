"""A first `defs.yaml` drafted from one landed file: its path, header and first rows.

Belongs here: guesses, and the list of guesses. Does not: writing files, or running anything.
"""

import itertools
import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lakehouse_assets.contracts.batch import BATCH_COLUMNS
from lakehouse_assets.contracts.draft_path import draft_path, landed_files
from lakehouse_assets.contracts.draft_sample import read_sample
from lakehouse_assets.contracts.draft_values import draft_plain_values, draft_values
from lakehouse_assets.contracts.mistakes import NAME, join_keys, mistakes_in
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError

NULLS = ("NA", "N/A", "n/a", "NULL", "null", "None", "nan", "NaN", "-", "\\N")
OTHER_FILES = 10  # in which a key is looked for again
IDENTIFIES = re.compile(r"^id_|(^|_)(id|ids|key|code|uuid|guid|nr|no|number|sku)$")
ZONED = re.compile(r"(Z|[+-]\d\d:?\d\d)$")
CHANGED = (re.compile(r"updat|modif|chang"), re.compile(r"_at$|time"))


def draft_table(table: str, file: Path, landing: Path, start: str | None) -> tuple[str, list[str]]:
    """Return the YAML, and a list of what to check in it. Raises ConfigError, with advice, if nothing can be guessed."""
    if not NAME.fullmatch(table):
        raise ConfigError(f"{table!r} is not a table name: lower-case letters, digits and _, beginning with a letter")
    if not file.is_file():
        raise ConfigError(f"--from {file}: there is no such file")
    if not file.resolve().is_relative_to(landing.resolve()):
        raise ConfigError(f"--from {file}: the file must be in the landing folder {landing} (or set LAKEHOUSE_LANDING)")
    dated = draft_path(file.resolve().relative_to(landing.resolve()).as_posix(), landing)
    sample = read_sample(file)
    columns, count = _columns(file, sample.names), len(sample.rows)
    nulls = sorted({value for row in sample.rows for value in row.values() if value in NULLS})
    values = {c: [row[n] for row in sample.rows if row.get(n) not in (None, "", *nulls)] for c, n in columns.items()}
    guessed = draft_values(values) if sample.options["format"] == "csv" else draft_plain_values(values)
    types = {column: sample.types.get(columns[column]) or kind for column, kind in guessed.types.items()}
    key = _key(values, types, count)
    modified = next((c for like in CHANGED for c, t in types.items() if key and t == "timestamp" and like.search(c)), None)
    options = sample.options | guessed.marks.as_options() | ({"nulls": nulls} if nulls else {})
    text = f"""\
# Drafted from the header and the first {count} rows of {json.dumps(file.name)}. Read it before you trust it.
type: lakehouse_assets.LakehouseTable

attributes:
  name: {table}
  description: {_flow(f"Drafted from {file.name}; say what a row is.")}
  # The path is relative to the landing folder; {{window:...}} stands for a window's start, in UTC.
  source: {_flow({"kind": "files", "path": dated.path, **options})}
  # One file, or set of files, per window: {dated.cadence}. Windows before `start` are never looked for.
  extraction: {_flow({"cadence": dated.cadence, "start": start or dated.first, "mode": "upsert" if key else "append"})}
{_key_lines(key, modified, count)}\
  # `from:` is the source's spelling. Add `unit:`, `description:`, and `pii: true` to what is personal.
  columns:
{_column_lines(columns, types, guessed.formats)}\
  # See `lakehouse check kinds` for more.
  checks:
    - {{check: not_empty}}
"""
    text += _check_lines(key)
    _refuse_unloadable(file, text)
    naive = [c for c, t in types.items() if t == "timestamp" and not all(ZONED.search(value) for value in values[c])]
    empty = [column for column, some in values.items() if not some]
    advice = {
        "path": dated.advice,
        "files": dated.files_advice,
        "seconds": dated.seconds_advice,
        "key": _key_advice(key, count, [columns[name] for name in key], file, landed_files(dated.path, landing)),
        "last_modified": (f"{modified}; check it" if modified else "none; later windows win") if key else "",
        "multiline": "texts contain line breaks, so each file is read as one piece" if sample.options.get("multiline") else "",
        "encoding": sample.encoding_advice,
        "decimal": guessed.marks_advice,
        "format": guessed.formats_advice,
        "nulls": f"{', '.join(nulls)} count as no value, in every column; check that none is a real one" if nulls else "",
        "timezone": f"{', '.join(naive)} name no zone and are taken as UTC; else set source.timezone" if naive else "",
        "types": f"{', '.join(empty)} had no value in the sample, so that string is a guess" if empty else "",
        "next": "mark personal columns `pii: true`, add checks, then: lakehouse check validate",
    }
    return text, [f"{what}: {message}" for what, message in advice.items() if message]


def _column_lines(columns: Mapping[str, str], types: Mapping[str, str], formats: Mapping[str, str]) -> str:
    described = {
        column: {"type": types[column], **({"from": name} if name != column else {})}
        | ({"format": formats[column]} if column in formats else {})
        for column, name in columns.items()
    }
    return "".join(f"    {_flow(name)}: {_flow(column)}\n" for name, column in described.items())


def _check_lines(key: Sequence[str]) -> str:
    checks: list[dict[str, Any]] = [{"check": "not_null", "column": name} for name in key]
    checks += [{"check": "unique", "columns": [*key]}] if key else []
    return "".join(f"    - {_flow(check)}\n" for check in checks)


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
        reasons = "; ".join(f"{join_keys(keys)}: {reason}" if keys else reason for keys, reason in mistakes)
        raise ConfigError(f"--from {file}: its draft would not load: {reasons}") from None


def _key_advice(key: Sequence[str], count: int, names: Sequence[str], file: Path, landed: Sequence[Path]) -> str:
    """Return what the key was guessed from, and whether its values come again in a few other files. ``names``: the source's of
    the key's columns. ``landed``: files of the table.
    """
    if not key:
        return f"none was found in {count:,} rows (append)"
    guess = f"{', '.join(key)}, guessed from {count:,} rows; check it"
    others = [other for other in landed if other.resolve() != file.resolve()][:OTHER_FILES]
    values, no_value, again, files = set[tuple[str | None, ...]](), {None, "", *NULLS}, 0, 0
    for each in [file, *others]:
        try:
            rows = read_sample(each).rows
        except ConfigError:
            continue
        of_file = {keys for row in rows if no_value.isdisjoint(keys := tuple(row.get(name) for name in names))}
        again, files = again + len(of_file & values), files + 1
        values |= of_file
    if not again:
        return guess
    others_read = f"{again:,} keys come again in {files - 1} other file(s)"
    return f"{guess}; it is unique within a file only: {others_read}, and the newest row of each stays"


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
