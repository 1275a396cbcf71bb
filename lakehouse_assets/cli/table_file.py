"""A new table's `defs.yaml` in the project's folder of tables: its path, writing it, and what the command prints.

Belongs here: the file that `init` and `contract import` write. Does not: its text (contracts).
"""

from collections.abc import Sequence
from pathlib import Path

from lakehouse_assets.cli.common import tables_folder
from lakehouse_assets.cli.terminal import out
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.settings import Settings


def new_table_file(table: str) -> Path:
    """Return the path of a new table's `defs.yaml`. Raises RefusedError if the file exists."""
    file = tables_folder() / table / "defs.yaml"
    if file.exists():
        raise RefusedError(f"{file} exists already; remove it first, or choose another name")
    return file


def write_table_file(file: Path, text: str, advice: Sequence[str]) -> None:
    """Write a table's YAML with the line that names its JSON schema, and that schema. Print the path and the advice."""
    from lakehouse_assets.contracts.schema_file import schema_line, write_schema

    tables = file.parents[1]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(schema_line(file.parent, tables) + text, encoding="utf-8")
    write_schema(tables)
    out.print(f"wrote {file.relative_to(Settings.from_environment().project or tables)}", highlight=False)
    for line in advice:
        out.print(f"- {line}", highlight=False)
