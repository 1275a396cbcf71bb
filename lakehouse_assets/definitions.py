"""The Dagster entry: a project's definitions, as one value.

Belongs here: the functions that a code location calls. Does not: putting the parts together (orchestration).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from lakehouse_assets.orchestration.assets.project_tables import find_tables
from lakehouse_assets.orchestration.assets.table_files import LoadedTables
from lakehouse_assets.orchestration.assets.written_table import WrittenTable
from lakehouse_assets.orchestration.project_definitions import project_definitions
from lakehouse_assets.settings import Settings


def build_definitions(
    settings: Settings, tables: Sequence[WrittenTable] | None = None, overrides: Mapping[str, Any] | None = None
) -> dg.Definitions:
    """Return all definitions. ``tables``: default the project's. ``overrides``: resources by name, for tests.

    A table with a mistake stops, and is reported; the others are defined. Raises ConfigError if all have one.
    """
    loaded = find_tables(settings) if tables is None else LoadedTables(tuple(tables))
    return project_definitions(settings, loaded.tables, loaded.broken, overrides, loaded.guards).merged()


def definitions_for(file: str | Path) -> dg.Definitions:
    """Return all definitions of the project that a file lies in, to merge with others: `definitions_for(__file__)`.

    A project that loads its tables as components (`load_from_defs_folder`) has them already.
    """
    return build_definitions(Settings.from_environment(start=Path(file).resolve().parent))


@dg.definitions
def defs() -> dg.Definitions:
    """Return the project's definitions, for `dagster dev` and `dg`."""
    return build_definitions(Settings.from_environment())
