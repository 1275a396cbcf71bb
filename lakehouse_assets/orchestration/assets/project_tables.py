"""The tables of a project's folder, read without Dagster: commands and definitions begin with them.

Belongs here: which folder, with which variables and extensions. Does not: reading one file (table_files), or components.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lakehouse_assets.contracts.source_map import SourceMap
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.extensions import require_extensions_of
from lakehouse_assets.orchestration.assets.table_files import LoadedTables, read_tables, tables_folder
from lakehouse_assets.orchestration.assets.written_table import WrittenTable
from lakehouse_assets.settings import Settings, template_variables


def load_tables(folder: Path | None = None) -> list[WrittenTable]:
    """Return every table below a folder (default: the project's, with its prefix), by name. Raises ConfigError: one line per
    mistake, each with file, line and key. No module of the project is imported, except its extensions.
    """
    loaded = find_tables(Settings.from_environment()) if folder is None else _read_folder(folder, (), template_variables())
    if loaded.broken:
        raise ConfigError("\n".join(loaded.mistakes))
    return list(loaded.tables)


def find_tables(settings: Settings) -> LoadedTables:
    """Return the project's tables without mistakes, and those that stop for one. Raises ConfigError if all of them do."""
    return read_project(settings).require_some()


def read_project(settings: Settings) -> LoadedTables:
    """Return the project's tables without mistakes, and those that stop for one."""
    folder = tables_folder(settings)
    if settings.project is not None:
        require_extensions_of(settings.project)
    return _read_folder(folder, settings.asset_prefix, settings.variables, settings.root)


def _read_folder(folder: Path, asset_prefix: tuple[str, ...], variables: Mapping[str, str], lake: str = "") -> LoadedTables:
    def make(spec: TableSpec, folder: Path, source_map: SourceMap) -> WrittenTable:
        return WrittenTable(spec.with_asset_prefix(asset_prefix), folder, source_map)

    loaded = read_tables(folder, variables, make, lake)
    return replace(loaded, guards=tuple(guard.with_asset_prefix(asset_prefix) for guard in loaded.guards))
