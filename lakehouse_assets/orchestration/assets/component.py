"""`LakehouseTable`: the Dagster component whose attributes are a table's contract; and loading every `defs.yaml`.

Belongs here: YAML files → components, and errors with file, line and key. Does not: what the assets do (table_assets), or what
a table may declare (contracts).
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import dagster as dg
from pydantic import BaseModel

from lakehouse_assets.checks.sql.text import columns_of, parse_expression
from lakehouse_assets.contracts.document import read_component
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import input_schemas, personal_columns
from lakehouse_assets.contracts.lineage import GoldQuery, read_gold
from lakehouse_assets.contracts.mistakes import Keys
from lakehouse_assets.contracts.source_map import MISSING, SourceMap, read_shared_files
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.extensions import require_extensions_of
from lakehouse_assets.orchestration.assets.table_attributes import RawAttributes, TableScaffolder
from lakehouse_assets.orchestration.assets.table_files import (
    OURS,
    BrokenTable,
    LoadedTables,
    read_table,
    read_tables,
    tables_folder,
)
from lakehouse_assets.orchestration.project_definitions import ProjectDefinitions, project_definitions
from lakehouse_assets.settings import Settings, template_variables


class ProjectComponent(dg.Component, ABC):
    """A component of a project's folder of tables. The first one also brings what all share, and the reports of mistakes."""

    folder: Path
    source_map: SourceMap

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the table or guard."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return this component's assets; none if it stops. The project's first one also brings what all share, and the reports
        of all mistakes.
        """
        tree, settings = context.component_tree, Settings.from_environment(start=self.folder)
        if not self.folder.resolve().is_relative_to(tables_folder(settings)):
            raise ConfigError(
                f"{self.source_map.at(['name'])}: this table is not in {settings.tables}, the tables of the project"
                f" {settings.project} (LAKEHOUSE_PROJECT chooses it, where it is set)"
            )
        of_project, first = _definitions_of(tree, settings)
        own = of_project.of_tables.get(self.name, dg.Definitions())
        return dg.Definitions.merge(own, of_project.shared) if first in (self, None) else own


@dg.scaffold_with(TableScaffolder)
class LakehouseTable(ProjectComponent):
    """One table from source to gold: bronze, silver, baseline and gold assets, gated, drift-checked and self-healing."""

    def __init__(self, spec: TableSpec, folder: Path, source_map: SourceMap | None = None) -> None:
        self.spec = spec
        self.folder = folder
        self.source_map = source_map or SourceMap()
        self._written_gold = spec.gold

    def query_of(self, gold: GoldSpec, specs: Sequence[TableSpec]) -> GoldQuery:
        """Return the query of a gold table of this component. Raises ConfigError with file and line."""
        file = self.folder / gold.sql
        if not file.is_file():
            raise ConfigError(f"{self._location(gold, 'sql')}: gold.{gold.name}.sql: there is no {gold.sql} beside defs.yaml")
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}:1: the file cannot be read as UTF-8: {type(error).__name__}") from None
        query = read_gold(text, str(file), input_schemas(gold, [self.spec, *specs]))
        for index, check in enumerate(gold.checks):
            location = f"{self._location(gold, 'checks', index)}: gold.{gold.name}.checks ({check.id})"
            if why := check.unfit_reason(query.types):
                raise ConfigError(f"{location}: {why} (as {gold.sql} computes it)")
            _require_columns(location, gold, query, check.unknown_columns([*query.types, "p_extracted_at"]))
        for key, names in (("key", gold.key), ("units", tuple(gold.units))):
            missing = [name for name in names if name not in query.types]
            _require_columns(f"{self._location(gold, key)}: gold.{gold.name}.{key}", gold, query, missing)
        if gold.layout and (why := gold.layout.mistake(query.types, personal_columns(query, [self.spec, *specs]))):
            raise ConfigError(f"{self._location(gold, 'layout')}: gold.{gold.name}.layout.{why}")
        self._refuse_personal_grain(gold, query, [self.spec, *specs])
        return query

    def _refuse_personal_grain(self, gold: GoldSpec, query: GoldQuery, specs: Sequence[TableSpec]) -> None:
        grain = gold.grain
        if grain is None:
            return
        of_input = {f"silver_{spec.name}": {name.lower() for name in spec.pii_columns} for spec in specs}
        is_personal = grain.column in personal_columns(query, specs) or any(
            {name.lower() for name in columns_of(parse_expression(sql, table))} & of_input.get(table, set())
            for table, sql in grain.inputs.items()
        )
        if is_personal:
            raise ConfigError(
                f"{self._location(gold, 'grain')}: gold.{gold.name}.grain: its values are kept with each decision and shown;"
                f" {grain.column} derives from a column marked pii; choose another grain, or none"
            )

    @property
    def name(self) -> str:
        """The table's name."""
        return self.spec.name

    @property
    def file(self) -> Path:
        """The YAML file that describes it."""
        return self.source_map.document.path if self.source_map.document else self.folder / "defs.yaml"

    def without_gold(self, names: Collection[str]) -> "LakehouseTable":
        """Return this table without some of its gold tables."""
        gold = tuple(each for each in self.spec.gold if each.name not in names)
        table = LakehouseTable(self.spec.model_copy(update={"gold": gold}), self.folder, self.source_map)
        table._written_gold = self._written_gold
        return table

    def written_keys(self, keys: Keys) -> Keys:
        """Return keys of the contract as the YAML has them: gold tables that stop are in the YAML only."""
        if keys[:1] != ("gold",):
            return keys
        return ("gold", self._written_gold.index(self.spec.gold[int(keys[1])]), *keys[2:])

    def _location(self, gold: GoldSpec, *keys: str | int) -> str:
        return self.source_map.at(["gold", self._written_gold.index(gold), *keys])

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the model whose JSON schema has every key; values are validated once shared files are resolved."""
        return RawAttributes

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> "LakehouseTable":
        """Return the table with shared defaults and packs resolved; with mistakes, a component that only reports them."""
        if not isinstance(attributes, RawAttributes):
            raise ConfigError(f"{context.path}: {MISSING}")
        folder, name = Path(context.path), (attributes.model_extra or {}).get("name")
        file = folder / "defs.yaml"
        try:
            document = read_component(file, OURS, name)
            spec, source_map = read_table(document, read_shared_files(folder, template_variables()))
        except ConfigError as error:
            return _BrokenComponent(BrokenTable(str(name or folder.name), file, tuple(str(error).split("\n"))))
        return cls(spec, folder, source_map)


# Of the last component tree: all its tables are read once, and not once for each of them.
_last: list[tuple[dg.ComponentTree, ProjectDefinitions, ProjectComponent | None]] = []


def _definitions_of(tree: dg.ComponentTree, settings: Settings) -> tuple[ProjectDefinitions, ProjectComponent | None]:
    """Return the definitions of all tables and guards, and the tree's first one (None: the tree has no components)."""
    if not _last or _last[0][0] is not tree:
        loaded = _read_project(settings)
        of_project = project_definitions(settings, loaded.tables, loaded.broken, guards=loaded.guards)
        first = next(iter(tree.get_all_components(of_type=ProjectComponent)), None)
        _last[:] = [(tree, of_project, first)]
    return _last[0][1:]


class _BrokenComponent(LakehouseTable):
    """A table with mistakes, where Dagster itself loads the folder: it has no contract, and no assets of its own."""

    def __init__(self, broken: BrokenTable) -> None:
        self.broken, self.folder, self.source_map = broken, broken.file.parent, SourceMap()

    @property
    def name(self) -> str:
        return self.broken.name


def _require_columns(location: str, gold: GoldSpec, query: GoldQuery, missing: Sequence[str]) -> None:
    if missing:
        raise ConfigError(
            f"{location}: the SELECT in {gold.sql} has no column {', '.join(missing)}; it has {', '.join(query.types)}"
        )


def load_tables(folder: Path | None = None, asset_prefix: tuple[str, ...] = ()) -> list[LakehouseTable]:
    """Return every table below a folder (default: the project's, with its prefix), by name. Raises ConfigError: one line per
    mistake, each with file, line and key. No module of the project is imported, except its extensions.
    """
    if folder is None:
        loaded = find_tables(Settings.from_environment())
    else:
        loaded = _read_folder(folder, asset_prefix, template_variables())
    if loaded.broken:
        raise ConfigError("\n".join(loaded.mistakes))
    return list(loaded.tables)


def find_tables(settings: Settings) -> LoadedTables:
    """Return the project's tables without mistakes, and those that stop for one. Raises ConfigError if all of them do."""
    return _read_project(settings).require_some()


def _read_project(settings: Settings) -> LoadedTables:
    folder = tables_folder(settings)
    if settings.project is not None:
        require_extensions_of(settings.project)
    return _read_folder(folder, settings.asset_prefix, settings.variables, settings.root)


def _read_folder(folder: Path, asset_prefix: tuple[str, ...], variables: Mapping[str, str], lake: str = "") -> LoadedTables:
    def make(spec: TableSpec, folder: Path, source_map: SourceMap) -> LakehouseTable:
        return LakehouseTable(spec.with_asset_prefix(asset_prefix), folder, source_map)

    loaded = read_tables(folder, variables, make, lake)
    return replace(loaded, guards=tuple(guard.with_asset_prefix(asset_prefix) for guard in loaded.guards))
