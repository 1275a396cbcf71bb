"""A first `defs.yaml` out of one landed file: its path, header and first rows.

Belongs here: guessing, and saying what was guessed. Does not: writing files, or running anything.
"""

import csv
import gzip
import io
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import yaml

from lakehouse_assets.errors import ConfigError

SAMPLE = 1000
NULLS = ("NA", "N/A", "NULL", "null", "None", "nan", "NaN", "-", "\\N")
DATED = [
    (r"(\d{4})-(\d{2})-(\d{2})[-T_](\d{2})", "%Y-%m-%d{0}%H", "hourly"),
    (r"(\d{4})/(\d{2})/(\d{2})", "%Y/%m/%d", "daily"),
    (r"(\d{4})-(\d{2})-(\d{2})", "%Y-%m-%d", "daily"),
    (r"(?<!\d)(\d{4})(\d{2})(\d{2})(?!\d)", "%Y%m%d", "daily"),
]
Rows = list[dict[str, str]]


def draft_table(table: str, file: Path, landing: Path, start: str | None) -> tuple[str, list[str]]:
    """The YAML and a list of what to look at. Raises ConfigError, saying what to do, where nothing can be guessed."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", table):
        raise ConfigError(f"{table!r} is not a table name: lower-case letters, digits and _, beginning with a letter")
    if not file.is_file():
        raise ConfigError(f"--from {file}: there is no such file")
    if not file.resolve().is_relative_to(landing.resolve()):
        raise ConfigError(f"--from {file}: the file must lie in the landing folder {landing} (or set LAKEHOUSE_LANDING)")
    path, cadence, first = _pattern(file.resolve().relative_to(landing.resolve()).as_posix())
    kind, rows, names = _sample(file)
    nulls = sorted({v for row in rows for v in row.values() if v in NULLS})
    columns = {_column(name): name for name in names}
    if len(columns) != len(names):
        raise ConfigError(f"--from {file}: two columns would get the same name; rename one at the source")
    values = {
        column: [row[name] for row in rows if row.get(name) not in (None, "", *nulls)] for column, name in columns.items()
    }
    types = {column: _type(found) for column, found in values.items()}
    key = _key(values, len(rows))
    modified = next((c for c, t in types.items() if t == "timestamp" and re.search(r"updat|modif|chang|_at$|time", c)), None)
    spec = {
        "name": table,
        "description": f"Drafted from {file.name}; say what a row is.",
        "source": {"kind": "files", "path": path, "format": kind, **({"nulls": nulls} if nulls else {})},
        "extraction": {"cadence": cadence, "start": start or first, "mode": "upsert" if key else "append"},
        **({"key": key} if key else {}),
        **({"last_modified": modified} if modified else {}),
        "columns": {c: {"type": types[c], **({"from": n} if n != c else {})} for c, n in columns.items()},
        "checks": [{"check": "not_empty"}, *({"check": "not_null", "column": name} for name in key)],
    }
    if key:
        spec["checks"].append({"check": "unique", "columns": key})
    text = yaml.safe_dump(
        {"type": "lakehouse_assets.LakehouseTable", "attributes": spec}, sort_keys=False, allow_unicode=True, width=120
    )
    head = (
        f"# Drafted from the header and the first {len(rows)} rows of {json.dumps(file.name)}. Read it before you trust it.\n"
    )
    advice = [
        f"key: {', '.join(key)}, unique in {len(rows)} rows; is it always?"
        if key
        else "no key was found: each row is its own (append)",
        f"last_modified: {modified}; of two rows of a key the newer one wins"
        if modified
        else "no last_modified: later windows win",
        "mark personal columns `pii: true`, add checks, then: lakehouse check validate",
    ]
    return head + text, advice


def _pattern(path: str) -> tuple[str, str, str]:
    for regex, form, cadence in DATED:
        found = re.search(regex, path)
        if found:
            text = found[0]
            written = form.format(text[10]) if "{0}" in form else form
            first = "-".join(found.groups()[:3])
            try:
                datetime.strptime(first, "%Y-%m-%d")  # noqa: DTZ007 (a date, to see whether it is one)
            except ValueError:
                continue
            return path.replace(text, f"{{window:{written}}}", 1), cadence, first
    raise ConfigError(
        f"--from {path}: no date was found in the path, such as 2024-05-01 or 2024/05/01; a file's path must say its window"
    )


def _sample(file: Path) -> tuple[str, Rows, list[str]]:
    inner = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    try:
        with file.open("rb") as raw, gzip.open(raw) if file.suffix == ".gz" else raw as data:
            stream = io.TextIOWrapper(data, encoding="utf-8-sig", newline="")
            if inner in (".json", ".jsonl", ".ndjson"):
                lines = [json.loads(line) for line in itertools.islice(stream, SAMPLE) if line.strip()]
                rows = [{k: v if isinstance(v, str) else json.dumps(v) for k, v in r.items() if v is not None} for r in lines]
                kind, names = "json", list(dict.fromkeys(name for row in rows for name in row))
            else:
                reader = csv.DictReader(stream)
                rows = [{k: v for k, v in row.items() if k and v is not None} for row in itertools.islice(reader, SAMPLE)]
                kind, names = "csv", list(reader.fieldnames or [])
    except (OSError, EOFError, UnicodeError, ValueError, AttributeError, csv.Error) as error:
        raise ConfigError(f"--from {file}: it cannot be read as UTF-8 CSV or JSON lines: {error}") from None
    if not names:
        raise ConfigError(f"--from {file}: the file is empty; take one with a header and some rows")
    return kind, rows, names


def _column(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")
    return plain if plain and not plain[0].isdigit() else f"c_{plain}"


def _type(values: Sequence[str]) -> str:
    forms = {
        "boolean": r"(?i)true|false",
        "bigint": r"[+-]?(0|[1-9]\d{0,17})",
        "double": r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?",
        "date": r"\d{4}-\d{2}-\d{2}",
        "timestamp": r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?",
    }
    return next((kind for kind, form in forms.items() if values and all(re.fullmatch(form, v) for v in values)), "string")


def _key(values: Mapping[str, Sequence[str]], rows: int) -> list[str]:
    whole = [name for name, found in values.items() if rows > 1 and len(found) == rows]
    likely = sorted(whole, key=lambda name: (not re.search(r"(^|_)(id|key|code)$", name), list(values).index(name)))
    for size in (1, 2):
        for names in itertools.combinations(likely, size):
            if size == 1 and not re.search(r"(^|_)(id|key|code|uuid)$", names[0]):
                continue  # a measurement may be unique by chance
            if len(set(zip(*[values[name] for name in names], strict=True))) == rows:
                return list(names)
    return []
