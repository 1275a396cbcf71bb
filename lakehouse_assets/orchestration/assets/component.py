"""`LakehouseTable`: the Dagster component whose attributes are a table's contract; and loading every `defs.yaml`.

Belongs here: YAML files → components, and errors with file, line and key. Does not: what the assets do (table_assets), or what
a table may declare (contracts).
"""

from collections.abc import Collection, Sequence
from pathlib import Path

import dagster as dg
from pydantic import BaseModel

from lakehouse_assets.checks.sql.text import columns_of, parse_expression
from lakehouse_assets.contracts.document import read_documents
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import personal_columns, silver_schemas
from lakehouse_assets.contracts.lineage import GoldQuery, read_gold
from lakehouse_assets.contracts.mistakes import Keys
from lakehouse_assets.contracts.source_map import MISSING, SourceMap, read_shared_files
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.assets.broken_tables import broken_definitions
from lakehouse_assets.orchestration.assets.table_assets import table_definitions
from lakehouse_assets.orchestration.assets.table_attributes import TABLES, RawAttributes, TableScaffolder, tables_folder
from lakehouse_assets.orchestration.assets.table_files import BrokenTable, LoadedTables, read_table, read_tables
from lakehouse_assets.settings import PROJECT_ROOT, Settings


@dg.scaffold_with(TableScaffolder)
class LakehouseTable(dg.Component):
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
        query = read_gold(text, str(file), silver_schemas([self.spec, *specs]))
        for index, check in enumerate(gold.checks):
            location = f"{self._location(gold, 'checks', index)}: gold.{gold.name}.checks ({check.id})"
            if why := check.unfit_reason(query.types):
                raise ConfigError(f"{location}: {why} (as it comes of {gold.sql})")
            _require_columns(location, gold, query, check.unknown_columns([*query.types, "p_extracted_at"]))
        for key, names in (("key", gold.key), ("units", tuple(gold.units))):
            missing = [name for name in names if name not in query.types]
            _require_columns(f"{self._location(gold, key)}: gold.{gold.name}.{key}", gold, query, missing)
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
            # Our own reading of the YAML: Dagster's loader reads NO as false, and 12:30:45 as a number.
            documents = [each for each in read_documents(file) if isinstance(each.data, dict)]
            named = [each for each in documents if (each.data.get("attributes") or {}).get("name") == name]
            shared = read_shared_files(folder, Settings.from_environment().variables)
            spec, source_map = read_table((named or documents)[0], shared)
        except ConfigError as error:
            return _BrokenComponent(BrokenTable(str(name or folder.name), file, tuple(str(error).split("\n"))))
        return cls(spec, folder, source_map)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return this table's assets alone; `build_definitions` adds what all tables share."""
        golds = {gold.name: self.query_of(gold, []) for gold in self.spec.gold}
        return table_definitions(self.spec, golds, Settings.from_environment())


class _BrokenComponent(LakehouseTable):
    """A table with mistakes, where Dagster itself loads the folder: its definitions only report them."""

    def __init__(self, broken: BrokenTable) -> None:
        self.broken = broken

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return broken_definitions([self.broken])


def _require_columns(location: str, gold: GoldSpec, query: GoldQuery, missing: Sequence[str]) -> None:
    if missing:
        raise ConfigError(
            f"{location}: the SELECT in {gold.sql} has no column {', '.join(missing)}; it has {', '.join(query.types)}"
        )


def load_tables(package: str = TABLES, project: Path = PROJECT_ROOT) -> list[LakehouseTable]:
    """Return every table, by name. Raises ConfigError: one line per mistake, each with file, line and key."""
    loaded = find_tables(package)
    if loaded.broken:
        raise ConfigError("\n".join(loaded.mistakes))
    return list(loaded.tables)


def find_tables(package: str = TABLES) -> LoadedTables:
    """Return the tables without mistakes, and those that stop for one. Raises ConfigError if all of them do."""
    loaded = read_tables(tables_folder(package), Settings.from_environment().variables, LakehouseTable)
    return loaded.require_some()


def golds_of(tables: Sequence[LakehouseTable]) -> dict[str, GoldQuery]:
    """Return the query of every gold table, by the gold table's name."""
    specs = [table.spec for table in tables]
    return {gold.name: table.query_of(gold, specs) for table in tables for gold in table.spec.gold}
