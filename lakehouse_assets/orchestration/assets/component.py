"""`LakehouseTable`: the Dagster component whose attributes are a table's contract.

Belongs here: YAML files → components. Does not: what a table's files say (written_table), all tables of a project
(project_tables), or what the assets do (table_assets).
"""

from abc import ABC, abstractmethod
from pathlib import Path

import dagster as dg
from pydantic import BaseModel

from lakehouse_assets.contracts.document import read_component
from lakehouse_assets.contracts.source_map import MISSING, SourceMap, read_shared_files
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.assets.project_tables import read_project
from lakehouse_assets.orchestration.assets.table_attributes import RawAttributes, TableScaffolder
from lakehouse_assets.orchestration.assets.table_files import (
    OURS,
    BrokenTable,
    read_table,
    tables_folder,
)
from lakehouse_assets.orchestration.assets.written_table import WrittenTable
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
class LakehouseTable(WrittenTable, ProjectComponent):
    """One table from source to gold: bronze, silver, baseline and gold assets, gated, drift-checked and self-healing."""

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
        loaded = read_project(settings)
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
