"""`table.schema.json` beside the tables, which editors read: writing it, and the line of a `defs.yaml` that names it.

Belongs here: the file and its address. Does not: its content (table_schema).
"""

import os
from pathlib import Path

from lakehouse_assets.contracts.sharing import Defaults
from lakehouse_assets.contracts.source_map import read_shared_files
from lakehouse_assets.contracts.table_schema import schema_text
from lakehouse_assets.errors import ConfigError

SCHEMA_FILE = "table.schema.json"


def schema_line(folder: Path, tables: Path) -> str:
    """Return the comment by which editors find the schema, for a `defs.yaml` in ``folder``: a relative path works offline."""
    address = Path(os.path.relpath(tables / SCHEMA_FILE, folder)).as_posix()
    return f"# yaml-language-server: $schema={address}\n"


def defaults_of(tables: Path) -> Defaults:
    """Return the defaults of a folder of tables; none where `defaults.yaml` has mistakes, which the loader reports."""
    try:
        return read_shared_files(tables, {}).defaults
    except ConfigError:
        return Defaults()


def is_current(tables: Path) -> bool:
    """Whether the file is what the models, the extensions and `defaults.yaml` make of it. A folder without it has no editor."""
    path = tables / SCHEMA_FILE
    return not path.is_file() or path.read_text(encoding="utf-8") == schema_text(defaults_of(tables))


def write_schema(tables: Path) -> Path:
    """Write the schema beside the tables, and return its path."""
    path = tables / SCHEMA_FILE
    path.write_text(schema_text(defaults_of(tables)), encoding="utf-8")
    return path
