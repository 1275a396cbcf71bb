"""`LakehouseTable`: the Dagster component whose attributes are a table's contract; and loading every `defs.yaml`.

Belongs here: YAML files → components, and errors with file, line and key. Does not: what the assets do (table_assets), or what
a table may declare (contracts).
"""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

import dagster as dg
from pydantic import BaseModel, ConfigDict

from lakehouse_assets.checks.sql.text import columns_of, parse_expression
from lakehouse_assets.contracts.document import read_documents
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import input_schemas, personal_columns
from lakehouse_assets.contracts.lineage import GoldQuery, read_gold
from lakehouse_assets.contracts.references import circle, reference_mistakes
from lakehouse_assets.contracts.sharing import resolve_attributes
from lakehouse_assets.contracts.source_map import MISSING, SourceMap, read_shared_files, source_map_of, table_mistakes
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.project_definitions import ProjectDefinitions, project_definitions
from lakehouse_assets.settings import Settings, template_variables

OURS = ("lakehouse_assets.LakehouseTable", "lakehouse_assets.orchestration.assets.component.LakehouseTable")


class RawAttributes(BaseModel):
    """A table's attributes as the loader gives them, unchecked."""

    model_config = ConfigDict(extra="allow")


class LakehouseTable(dg.Component):
    """One table from source to gold: bronze, silver, baseline and gold assets, gated, drift-checked and self-healing."""

    def __init__(self, spec: TableSpec, folder: Path, source_map: SourceMap | None = None) -> None:
        self.spec = spec
        self.folder = folder
        self.source_map = source_map or SourceMap()

    def query_of(self, gold: GoldSpec, specs: Sequence[TableSpec]) -> GoldQuery:
        """Return the query of a gold table of this component. Raises ConfigError with file and line."""
        file = self.folder / gold.sql
        if not file.is_file():
            raise ConfigError(f"{self._location(gold, 'sql')}: gold.{gold.name}.sql: there is no {gold.sql} beside defs.yaml")
        query = read_gold(file.read_text(encoding="utf-8"), str(file), input_schemas(gold, [self.spec, *specs]))
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

    def _location(self, gold: GoldSpec, *keys: str | int) -> str:
        return self.source_map.at(["gold", self.spec.gold.index(gold), *keys])

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return a model without fields: shared defaults and packs are not resolved yet."""
        return RawAttributes

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> "LakehouseTable":
        """Return the table with shared defaults and packs resolved. `load_tables` has reported every mistake before."""
        if not isinstance(attributes, RawAttributes):
            raise ConfigError(f"{context.path}: {MISSING}")
        folder = Path(context.path)
        shared = read_shared_files(folder, template_variables())
        raw = attributes.model_extra or {}
        source_map = source_map_of(folder / "defs.yaml", raw.get("name", ""), shared)
        # Our own reading of the YAML: Dagster's loader reads NO as false, and 12:30:45 as a number.
        own = source_map.document.data["attributes"] if source_map.document else raw
        return cls(TableSpec.model_validate(resolve_attributes(own, shared).attributes), folder, source_map)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return this table's assets. The project's first table also brings what all tables share."""
        tree, settings = context.component_tree, Settings.from_environment(start=self.folder)
        if not self.folder.resolve().is_relative_to(tables_folder(settings)):
            raise ConfigError(
                f"{self.source_map.at(['name'])}: this table is not in {settings.tables}, the tables of the project"
                f" {settings.project} (LAKEHOUSE_PROJECT chooses it, where it is set)"
            )
        of_project, first = _definitions_of(tree, settings)
        own = of_project.of_tables[self.spec.name]
        return dg.Definitions.merge(own, of_project.shared) if self.spec.name == (first or self.spec.name) else own


# Of the last component tree: all its tables are read once, and not once for each of them.
_last: list[tuple[dg.ComponentTree, ProjectDefinitions, str | None]] = []


def _definitions_of(tree: dg.ComponentTree, settings: Settings) -> tuple[ProjectDefinitions, str | None]:
    """Return the definitions of all tables, and the name of the tree's first one (None: the tree has no components)."""
    if not _last or _last[0][0] is not tree:
        of_project = project_definitions(settings, load_tables(tables_folder(settings), settings.asset_prefix))
        first = min((table.spec.name for table in tree.get_all_components(of_type=LakehouseTable)), default=None)
        _last[:] = [(tree, of_project, first)]
    return _last[0][1:]


def _require_columns(location: str, gold: GoldSpec, query: GoldQuery, missing: Sequence[str]) -> None:
    if missing:
        raise ConfigError(
            f"{location}: the SELECT in {gold.sql} has no column {', '.join(missing)}; it has {', '.join(query.types)}"
        )


def load_tables(folder: Path | None = None, asset_prefix: tuple[str, ...] = ()) -> list[LakehouseTable]:
    """Return every table below a folder (default: the project's, with its prefix), by name. Raises ConfigError: one line per
    mistake, each with file, line and key. No module of the project is imported.
    """
    if folder is None:
        settings = Settings.from_environment()
        folder, asset_prefix = tables_folder(settings), settings.asset_prefix
    files = [file for file in sorted(folder.rglob("defs.yaml")) if not _is_of_others(file)]
    _raise_any(mistake for file in files for mistake in _mistakes_of_file(file))
    tables = sorted(
        (table for file in files for table in _tables_of_file(file, asset_prefix)), key=lambda table: table.spec.name
    )
    location_by_name: dict[str, str] = {}
    for table in tables:
        location = table.source_map.at(["name"])
        for name in [table.spec.name, *(f"gold {gold.name}" for gold in table.spec.gold)]:
            if name in location_by_name:
                raise ConfigError(f"{location}: name: {name!r} is already described in {location_by_name[name]}")
            location_by_name[name] = location
    _raise_any(_mistakes_between(tables))
    return tables


def tables_folder(settings: Settings) -> Path:
    """Return the folder of the project's tables. Raises ConfigError where there is none."""
    folder, project = settings.tables, settings.project
    if folder is None or project is None:
        raise ConfigError("these settings are of no project: they have no folder of tables")
    if not folder.is_dir():
        raise ConfigError(f"{project / 'pyproject.toml'}: tool.lakehouse.tables: there is no folder {folder}")
    return folder


def _is_of_others(file: Path) -> bool:
    """Whether a `defs.yaml` has other people's components alone: Dagster reads it, and it need not follow our rules."""
    text = file.read_bytes()
    return bool(text.strip()) and b"type" in text and b"lakehouse" not in text.lower()


def _tables_of_file(file: Path, asset_prefix: tuple[str, ...]) -> Iterator[LakehouseTable]:
    shared = read_shared_files(file.parent, template_variables())
    for document in read_documents(file):
        if isinstance(document.data, dict) and document.data.get("type") in OURS:
            resolved = resolve_attributes(document.data["attributes"], shared)
            source_map = SourceMap(document, shared, resolved.origins)
            spec = TableSpec.model_validate(resolved.attributes).with_asset_prefix(asset_prefix)
            yield LakehouseTable(spec, file.parent, source_map)


def _raise_any(mistakes: Iterable[str]) -> None:
    if lines := list(mistakes):
        raise ConfigError("\n".join(lines))


def _mistakes_between(tables: Sequence[LakehouseTable]) -> Iterator[str]:
    """Yield mistakes between tables, and in gold's SQL."""
    specs = [table.spec for table in tables]
    by_name = {spec.name: spec for spec in specs}
    for table in tables:
        queries = [table.query_of(gold, specs) for gold in table.spec.gold]
        for keys, text in reference_mistakes(table.spec, by_name, queries):
            location, name = table.source_map.locate(keys)
            yield f"{location}: {name} {text}"
    if names := circle(specs):
        location = next(table.source_map for table in tables if table.spec.name == names[0]).at(["checks"])
        yield f"{location}: checks: these tables look into each other: {' → '.join(names)}"


def _mistakes_of_file(file: Path) -> Iterator[str]:
    documents = read_documents(file)
    if not any(document.data for document in documents):
        yield f"{file}:1: the file is empty; `lakehouse init` drafts one, and a table needs `type:` and `attributes:`"
        return
    for document in documents:
        kind = document.data.get("type") if isinstance(document.data, dict) else None
        if kind in OURS:
            yield from table_mistakes(document, read_shared_files(file.parent, template_variables()))
        elif not isinstance(kind, str) or get_close_matches(kind, OURS, 1):
            yield f"{document.at(['type'])}: type: there is no component {kind!r}; a table is a {OURS[0]}"
