"""Mistakes of contracts beside the source and each other: missing columns, unused packs, patterns that match nothing. No JVM.

Belongs here: what `check validate` reports beyond the YAML itself. Does not: the YAML's own mistakes (contracts).
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from lakehouse_assets.contracts.sharing import Keys
from lakehouse_assets.decisions.naming import any_of, first_of
from lakehouse_assets.decisions.personal import has_no_header, numbered
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.orchestration.assets.written_table import WrittenTable
from lakehouse_assets.pipeline.table_source import source_of
from lakehouse_assets.settings import Settings

SHOWN = 5  # files that a note names


def undeclared_folders(tables_folder: Path) -> list[str]:
    """Return one line per folder of the tables' folder that has YAML or SQL, and no `defs.yaml` to declare a table with it."""
    folders = sorted(path for path in tables_folder.iterdir() if path.is_dir() and not path.name.startswith((".", "_")))
    files = {folder: [path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml", ".sql")] for folder in folders}
    return [
        f"{folder} declares no table: it has {first_of(sorted(path.name for path in paths), SHOWN)}, and no defs.yaml"
        for folder, paths in files.items()
        if paths and not any(path.name == "defs.yaml" for path in paths)
    ]


def unused_packs(tables: Sequence[WrittenTable]) -> list[str]:
    """Return one line per pack that no table uses."""
    used = {origin.pack for table in tables for origins in table.source_map.origins.values() for origin in origins}
    lines = set()
    for shared in (table.source_map.shared for table in tables):
        if shared.packs_document:
            unused = (name for name in shared.packs if name not in used)
            lines |= {f"{shared.packs_document.at([name])}: {name}: no table uses this pack" for name in unused}
    return sorted(lines)


def unmatched_patterns(tables: Sequence[WrittenTable]) -> tuple[list[str], list[str]]:
    """Return one line per pattern of a pack that matches no column of any table with the pack (a mistake), and one per pattern
    and table where it matches others' columns only (a note: the table may want the pack's other checks).
    """
    has_match: dict[str, bool] = {}
    misses: list[tuple[str, str]] = []
    for table in tables:
        for keys, pattern_keys, pattern in _patterns(table):
            packs, name = table.source_map.shared.packs_document, ".".join(map(str, pattern_keys))
            location = f"{packs.at(pattern_keys) if packs else 'packs.yaml'}: {name}: {pattern!r}"
            # Gold's columns come from its SQL: patterns do not apply to them.
            matches = keys == ("checks",) and any(fnmatchcase(column, pattern) for column in table.spec.columns)
            has_match[location] = has_match.get(location, False) or matches
            if not matches:
                used_at, used = table.source_map.locate([*keys[:-1], "packs"])
                misses.append((location, f"{used_at}: {used}: {pattern!r} ({name}) fits no column here"))
    mistakes = [f"{at} fits no column of any table that uses this pack" for at, matches in has_match.items() if not matches]
    return mistakes, [text for location, text in misses if has_match[location]]


def _patterns(table: WrittenTable) -> Iterator[tuple[Keys, Keys, str]]:
    """Yield each pattern that packs bring into a list of checks: the list's keys, the pattern's keys, and the pattern."""
    for keys, origins in table.source_map.origins.items():
        for name in dict.fromkeys(origin.pack for origin in origins if origin.pack):
            for index, check in enumerate(table.source_map.shared.packs[name].checks):
                if "for_columns" in check:
                    yield keys, (name, "checks", index, "for_columns"), str(check["for_columns"])


def source_mistakes(tables: Sequence[WrittenTable], settings: Settings) -> list[str]:
    """Return one line per declared column that the newest landed window lacks, with file, line and key."""
    mistakes = []
    for table in tables:
        spec = table.spec
        source = source_of(spec, settings)
        try:
            arrived = source.fingerprints(spec.extraction.windows(datetime.now(UTC)))
        except (SourceError, EnvironmentMissing):
            continue  # nothing has landed yet, or no database is configured here: nothing to compare with
        if not arrived:
            continue
        newest = max(arrived)
        columns = source.columns(newest)
        if spec.pii_columns and has_no_header(columns, spec.all_source_columns):
            columns = numbered(columns)
        for name in spec.columns:
            wanted = spec.source_columns(name)
            if columns and not set(wanted) & set(columns):
                location, key = table.source_map.locate(["columns", name])
                mistakes.append(f"{location}: {key}: {newest.key} has no column {any_of(wanted)}; it has {', '.join(columns)}")
    return mistakes
