"""Every `defs.yaml` of a folder as tables: those without mistakes, and those that stop, each with its mistakes.

Belongs here: which tables one mistake stops. Does not: finding mistakes in one table (contracts), or a table's assets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lakehouse_assets.contracts.document import Document, read_documents
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.mistakes import Keys, join_keys
from lakehouse_assets.contracts.references import circle, reference_mistakes
from lakehouse_assets.contracts.sharing import Shared, resolve_attributes
from lakehouse_assets.contracts.source_map import SourceMap, read_shared_files, shared_with_guards, table_mistakes
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.assets.guard_files import DescribedGuard, guard_conflicts
from lakehouse_assets.settings import Settings

if TYPE_CHECKING:
    from lakehouse_assets.orchestration.assets.written_table import WrittenTable

Make: TypeAlias = "Callable[[TableSpec, Path, SourceMap], WrittenTable]"
OURS = ("lakehouse_assets.LakehouseTable", "lakehouse_assets.orchestration.assets.component.LakehouseTable")
GUARDS = ("lakehouse_assets.GuardedTable", "lakehouse_assets.orchestration.assets.guarded_table.GuardedTable")
EMPTY = "the file is empty; `lakehouse init` drafts one, and a table needs `type:` and `attributes:`"


@dataclass(frozen=True)
class BrokenTable:
    """A table, or a gold table (`gold_<name>`), that stops. ``mistakes``: one line each, with file, line and key."""

    name: str
    file: Path
    mistakes: tuple[str, ...]


@dataclass(frozen=True)
class LoadedTables:
    """``tables``, ``guards``: those without mistakes, by name. ``broken``: the others."""

    tables: tuple[WrittenTable, ...] = ()
    broken: tuple[BrokenTable, ...] = ()
    guards: tuple[DescribedGuard, ...] = ()

    @property
    def mistakes(self) -> list[str]:
        """Every mistake once, in the order of the files. A shared file's mistake is each of its tables'."""
        return list(dict.fromkeys(line for broken in self.broken for line in broken.mistakes))

    def require_some(self) -> LoadedTables:
        """Return these tables. Raises ConfigError with every mistake if all tables have one."""
        if self.broken and not self.tables and not self.guards:
            raise ConfigError("\n".join(self.mistakes))
        return self


def tables_folder(settings: Settings) -> Path:
    """Return the folder of the project's tables. Raises ConfigError where there is none."""
    folder, project = settings.tables, settings.project
    if folder is None or project is None:
        raise ConfigError("these settings are of no project: they have no folder of tables")
    if not folder.is_dir():
        raise ConfigError(f"{project / 'pyproject.toml'}: tool.lakehouse.tables: there is no folder {folder}")
    return folder


def read_tables(folder: Path, variables: Mapping[str, str], make: Make, lake: str = "") -> LoadedTables:
    """Return every table below a folder. ``variables``: for `${NAME}`. ``make``: makes the component. ``lake``: its root.

    A mistake stops its table, and tables whose checks read that one. A mistake in gold stops the gold table alone. Tables of
    one name stop each other. No mistake raises.
    """
    sorting = _Sorting()
    for file in sorted(folder.rglob("defs.yaml")):
        try:
            if not _is_of_others(file):
                _read_file(file, variables, make, sorting)
        except OSError as error:
            sorting.stop(file.parent.name, file, [f"{file}:1: the file cannot be read: {error.strerror}"])
    sorting.tables.sort(key=lambda table: table.spec.name)
    _stop_namesakes(sorting)
    for guard, line in guard_conflicts(sorting.guards, folder, lake):
        sorting.stop_guard(guard, [line])
    while _stop_readers(sorting):
        pass
    broken = [BrokenTable(name, file, tuple(lines)) for (name, file), lines in sorting.mistakes.items()]
    return LoadedTables(tuple(sorting.tables), tuple(broken), tuple(sorted(sorting.guards, key=lambda guard: guard.spec.name)))


def read_table(document: Document, shared: Shared) -> tuple[TableSpec, SourceMap]:
    """Return the contract of a document, and where its keys are. Raises ConfigError with all its mistakes, one a line."""
    if lines := list(table_mistakes(document, shared)):
        raise ConfigError("\n".join(lines))
    resolved = resolve_attributes(document.data["attributes"], shared)
    return TableSpec.model_validate(resolved.attributes), SourceMap(document, shared, resolved.origins)


def read_guard(document: Document, shared: Shared) -> tuple[GuardSpec, SourceMap]:
    """Return a guard of a document, and where its keys are. Raises ConfigError with all its mistakes, one a line."""
    if lines := list(table_mistakes(document, shared)):
        raise ConfigError("\n".join(lines))
    shared = shared_with_guards(shared)
    resolved = resolve_attributes(document.data["attributes"], shared)
    return GuardSpec.model_validate(resolved.attributes), SourceMap(document, shared, resolved.origins)


@dataclass
class _Sorting:
    """Tables and guards without a mistake so far, and mistakes by the table's (or gold table's) name and file."""

    tables: list[WrittenTable] = field(default_factory=list)
    guards: list[DescribedGuard] = field(default_factory=list)
    mistakes: dict[tuple[str, Path], list[str]] = field(default_factory=dict)

    def stop(self, name: str, file: Path, lines: Sequence[str]) -> None:
        reported = self.mistakes.setdefault((name, file), [])
        reported += [line for line in lines if line not in reported]

    def stop_table(self, table: WrittenTable, lines: Sequence[str]) -> None:
        self.tables = [each for each in self.tables if each is not table]
        self.stop(table.spec.name, table.file, lines)

    def stop_guard(self, guard: DescribedGuard, lines: Sequence[str]) -> None:
        self.guards = [each for each in self.guards if each is not guard]
        self.stop(guard.spec.name, guard.file, lines)

    def stop_gold(self, table: WrittenTable, lines: Mapping[str, Sequence[str]]) -> None:
        self.tables = [each.without_gold(lines) if each is table else each for each in self.tables]
        for name, own in lines.items():
            self.stop(f"gold_{name}", table.file, own)


def _is_of_others(file: Path) -> bool:
    """Whether a `defs.yaml` has other people's components alone: Dagster reads it, and it need not follow our rules."""
    text = file.read_bytes()
    return bool(text.strip()) and b"type" in text and b"lakehouse" not in text.lower()


def _read_file(file: Path, variables: Mapping[str, str], make: Make, sorting: _Sorting) -> None:
    try:
        documents = read_documents(file)
    except ConfigError as error:
        lines = str(error).split("\n")
        sorting.stop(file.parent.name, file, [*lines, *_other_mistakes(file, variables)])
        return
    if not any(document.data for document in documents):
        sorting.stop(file.parent.name, file, [f"{file}:1: {EMPTY}"])
        return
    for number, document in enumerate(documents, 1):
        folder = file.parent.name
        name = _name_of(document) or (folder if len(documents) == 1 else f"{folder}_document_{number}")
        kind = document.data.get("type") if isinstance(document.data, dict) else None
        try:
            if kind in OURS:
                spec, source_map = read_table(document, read_shared_files(file.parent, variables))
                sorting.tables.append(make(spec, file.parent, source_map))
            elif kind in GUARDS:
                guard, source_map = read_guard(document, read_shared_files(file.parent, variables))
                sorting.guards.append(DescribedGuard(guard, source_map))
            elif not isinstance(kind, str) or get_close_matches(kind, (*OURS, *GUARDS), 1):
                text = f"type: there is no component {kind!r}; a table is a {OURS[0]}, a guard a {GUARDS[0]}"
                raise ConfigError(f"{document.at(['type'])}: {text}")
        except ConfigError as error:
            sorting.stop(name, file, str(error).split("\n"))


def _other_mistakes(file: Path, variables: Mapping[str, str]) -> list[str]:
    """Return the mistakes of a file besides dates that do not exist; none if it is no YAML."""
    try:
        documents = read_documents(file, dates_as_texts=True)
        shared = read_shared_files(file.parent, variables)
    except ConfigError:
        return []
    declared = (each for each in documents if isinstance(each.data, dict) and each.data.get("type") in (*OURS, *GUARDS))
    return [text for each in declared for text in table_mistakes(each, shared) if not _is_of_bad_date(text, each)]


def _is_of_bad_date(line: str, document: Document) -> bool:
    """Whether a mistake is that of a key whose date does not exist."""
    return any(line.startswith(f"{document.at(keys)}: {join_keys(keys[1:])}: ") for keys in document.bad_dates)


def _name_of(document: Document) -> str | None:
    attributes = document.data.get("attributes") if isinstance(document.data, dict) else None
    name = attributes.get("name") if isinstance(attributes, dict) else None
    return name if isinstance(name, str) else None


def _stop_namesakes(sorting: _Sorting) -> None:
    """Stop all tables of one name, and all with gold tables of one name: none of them owns it."""
    owners: dict[str, list[tuple[WrittenTable | DescribedGuard | None, str]]] = {}
    for name, file in sorting.mistakes:
        owners.setdefault(name, []).append((None, f"{file}:1"))
    for table in sorting.tables:
        for name in [table.spec.name, *(f"gold {gold.name}" for gold in table.spec.gold)]:
            owners.setdefault(name, []).append((table, table.source_map.at(["name"])))
    for guard in sorting.guards:
        owners.setdefault(guard.spec.name, []).append((guard, guard.source_map.at(["name"])))
    for name, several in owners.items():
        for table, location in several if len(several) > 1 else ():
            others = ", ".join(dict.fromkeys(each for _, each in several if each != location)) or location
            lines = [f"{location}: name: {name!r} is already described in {others}"]
            if isinstance(table, DescribedGuard):
                sorting.stop_guard(table, lines)
            elif table is not None:
                sorting.stop_table(table, lines)


def _stop_readers(sorting: _Sorting) -> bool:
    """Stop each table and gold table that cannot read another; return whether there was one, as others may read these."""
    tables, specs = list(sorting.tables), [table.spec for table in sorting.tables]
    by_name = {spec.name: spec for spec in specs}
    why = {name: lines[0] for (name, _), lines in sorting.mistakes.items()}
    for table in tables:
        lines: dict[str, list[str]] = {}
        for owner, line in _lines_between(table, by_name, why):
            lines.setdefault(owner, []).append(line)
        if "" in lines:
            sorting.stop_table(table, lines.pop(""))
        if lines:
            sorting.stop_gold(table, lines)
    names = circle([table.spec for table in sorting.tables])
    for table in [table for table in sorting.tables if table.spec.name in names]:
        location = table.source_map.at(["checks"])
        sorting.stop_table(table, [f"{location}: checks: these tables look into each other: {' → '.join(names)}"])
    return sorting.tables != tables


def _lines_between(table: WrittenTable, by_name: Mapping[str, TableSpec], why: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each mistake that only other tables show, with the gold table that it stops; "" for the table itself.

    ``why``: the first mistake of each table that stops.
    """
    queries: list[GoldQuery] = []
    specs = list(by_name.values())
    for gold in table.spec.gold:
        try:
            queries.append(table.query_of(gold, specs))
        except ConfigError as error:
            yield from ((gold.name, line) for line in str(error).split("\n"))
            unreadable = [name for name in why if f"silver_{name}" in str(error)]
            yield from ((gold.name, f"{table.file}: silver_{name} stops for this: {why[name]}") for name in unreadable)
    if len(queries) < len(table.spec.gold):
        queries = []  # the gold tables that are right are compared in the next round, without the others
    for keys, text in reference_mistakes(table.spec, by_name, queries):
        check = _check_at(table.spec, keys)
        location, name = table.source_map.locate(table.written_keys(keys))
        other = check.reads.table if check.reads else ""
        reason = f"({check.id}): it reads {other}, which stops for this: {why[other]}" if other in why else text
        yield table.spec.gold[int(keys[1])].name if keys[0] == "gold" else "", f"{location}: {name} {reason}"


def _check_at(spec: TableSpec, keys: Keys):
    owner = spec.gold[int(keys[1])] if keys[0] == "gold" else spec
    return owner.checks[int(keys[-1])]
