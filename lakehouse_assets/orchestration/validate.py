"""Mistakes of contracts beside the source and each other: missing columns, unused packs, patterns that match nothing. No JVM.

Belongs here: what `check validate` reports beyond the YAML itself. Does not: the YAML's own mistakes (contracts).
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from lakehouse_assets.checks.kinds.values import InRange
from lakehouse_assets.contracts.sharing import Keys
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.naming import any_of, first_of
from lakehouse_assets.decisions.personal import has_no_header, numbered_names
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.orchestration.assets.written_table import WrittenTable
from lakehouse_assets.pipeline.table_source import source_of
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import Source
from lakehouse_assets.sources.landing import Landing
from lakehouse_assets.sources.unmatched_path import Claims, explain_encoding, explain_no_match, explain_unclaimed

SHOWN = 5  # files that a note names
COMPARED = 20  # windows before the newest whose columns are read


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
    """Return one line per pattern of a pack that matches no column of any table with the pack: a mistake. Return one per
    pattern and table where it matches others' columns only: a note, since the table may want the pack's other checks.
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


def text_ranges(tables: Sequence[WrittenTable]) -> list[str]:
    """Return one line per `in_range` of a text column: Spark accepts it until a text is no value of the bounds' type."""
    lines = []
    for table in tables:
        for index, check in enumerate(table.spec.checks):
            if isinstance(check, InRange) and (column := table.spec.columns.get(check.column)) and column.type == "string":
                location, key = table.source_map.locate(["checks", index])
                way = f"the first text that is no {check.bound_type} puts the check in error; declare the column's type"
                lines.append(f"{location}: {key}: {check.id}: {check.column} is string: {way}")
    return lines


def source_findings(tables: Sequence[WrittenTable], settings: Settings) -> tuple[list[str], list[str]]:
    """Return one line per declared column that no landed window has: a mistake of the YAML. Return a note per finding that may
    be the data's alone: a column that only the newest window lacks, no file of any window, a file of no table, another
    encoding. Each has file, line and key. Of many windows, the newest and the oldest are read.
    """
    mistakes: list[str] = []
    notes: list[str] = []
    with_files: list[WrittenTable] = []
    for table in tables:
        spec = table.spec
        windows = list(spec.extraction.windows(datetime.now(UTC)))
        source = source_of(spec, settings)
        try:
            arrived = sorted(source.fingerprints(windows))
            notes += _file_notes(table, settings, windows, arrived)
            with_files += [table] if arrived or spec.extraction.stream else []
            columns = source.columns(arrived[-1]) if arrived else ()
        except (SourceError, EnvironmentMissing):
            continue  # nothing has landed yet, or no database is configured here: nothing to compare with
        if columns:
            lacking, lacking_newest = _column_findings(table, source, arrived, columns)
            mistakes += lacking
            notes += lacking_newest
    return mistakes, notes + _unclaimed_notes(with_files, tables, settings)


def _column_findings(
    table: WrittenTable, source: Source, arrived: Sequence[Window], columns: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the mistakes and notes about declared columns that are not among the newest window's ``columns``."""
    spec, newest = table.spec, arrived[-1]
    mistakes: list[str] = []
    notes: list[str] = []
    earlier: dict[str, Window] | None = None
    shown = columns
    if spec.pii_columns and has_no_header(columns, spec.all_source_columns):
        shown = numbered_names(columns)
    for name in spec.columns:
        wanted = spec.source_columns(name)
        if not set(wanted) & set(columns):
            earlier = _earlier_columns(source, arrived[:-1]) if earlier is None else earlier
            location, key = table.source_map.locate(["columns", name])
            text = f"{location}: {key}: {newest.key} has no column {any_of(wanted)}"
            if windows := [earlier[each] for each in wanted if each in earlier]:
                notes.append(f"{text}; {windows[0].key} has it")
            else:
                mistakes.append(f"{text}; it has {', '.join(shown)}")
    return mistakes, notes


def _earlier_columns(source: Source, windows: Sequence[Window]) -> dict[str, Window]:
    """Return the columns of some windows, each with a window that has it. Windows that cannot be read have none."""
    earlier: dict[str, Window] = {}
    for window in [*windows[:1], *windows[1:][-COMPARED:]]:
        with suppress(SourceError):  # of a Delta table, say, an old version expires
            earlier |= dict.fromkeys(source.columns(window), window)
    return earlier


def _unclaimed_notes(tables: Sequence[WrittenTable], all_tables: Sequence[WrittenTable], settings: Settings) -> list[str]:
    """Return one line per path of these tables with files in its folders that match no table's path. Each folder is listed
    once.
    """
    claims = Claims(each.spec.source for each in all_tables if isinstance(each.spec.source, FilesSource))
    notes: list[str] = []
    examined_globs: set[str] = set()
    examined: set[str] = set()
    for table in tables:
        source = table.spec.source
        if not isinstance(source, FilesSource) or (folder := source.pattern.glob_of_all.rpartition("/")[0]) in examined_globs:
            continue
        examined_globs.add(folder)
        with suppress(SourceError):  # nothing has landed yet
            if text := explain_unclaimed(Landing(settings.landing), source, claims, examined):
                location, name = table.source_map.locate(["source", "path"])
                notes.append(f"{location}: {name}: {text}")
    return notes


def _file_notes(table: WrittenTable, settings: Settings, windows: Sequence[Window], arrived: Sequence[Window]) -> Iterator[str]:
    """Yield why no file belongs to a window of the table, or that the newest window's files are of another encoding."""
    source = table.spec.source
    if not isinstance(source, FilesSource) or table.spec.extraction.stream:
        return
    landing = Landing(settings.landing)
    key = "encoding" if arrived else "path"
    text = (
        explain_encoding(landing, source, arrived[-1])
        if arrived
        else explain_no_match(landing, source.pattern, table.spec.extraction.first, windows[-1] if windows else None)
    )
    if text:
        location, name = table.source_map.locate(["source", key])
        yield f"{location}: {name}: {text}"
