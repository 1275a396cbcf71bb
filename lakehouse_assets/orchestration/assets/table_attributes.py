"""What Dagster's tools know of a table: the model of its attributes with the JSON schema, and the draft of `dg scaffold`.

Belongs here: `get_model_cls` and the scaffolder. Does not: validating a table (contracts), or loading it (component).
"""

from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import BaseModel, ConfigDict

from lakehouse_assets.contracts.mistakes import NAME
from lakehouse_assets.contracts.schema_file import defaults_of, schema_line, write_schema
from lakehouse_assets.contracts.table_schema import guard_schema, table_schema
from lakehouse_assets.errors import ConfigError, LakehouseError
from lakehouse_assets.orchestration.assets.table_files import tables_folder
from lakehouse_assets.settings import Settings

DRAFT = """\
{schema}type: {kind}

attributes:
  name: {name}
  description: Say what a row is.
  # {{window:...}} is a window's start, in UTC. The path is relative to the landing folder. Other kinds: jdbc, kafka.
  source: {{kind: files, path: "{name}/{{window:%Y-%m-%d}}.csv", format: csv}}
  # append | upsert | snapshot. Windows before `start` are never looked for.
  extraction: {{cadence: daily, start: 2024-01-01, mode: upsert}}
  key: [id]
  # The column that orders the rows of a key: the larger value is newer.
  # last_modified: updated_at
  columns:
    id: bigint
    # amount: {{type: "decimal(12,2)", from: Amount, unit: EUR, description: Before taxes.}}
    # email: {{type: string, pii: true}}
  # `lakehouse check kinds` lists the kinds.
  checks:
    - {{check: not_empty}}
    - {{check: not_null, column: id}}
"""


class RawAttributes(BaseModel):
    """A table's attributes as written. Its JSON schema has every key; `LakehouseTable.load` resolves and validates them."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the schema of `attributes`, as shared defaults, packs and variables allow them to be written."""
        try:
            defaults = defaults_of(tables_folder(Settings.from_environment()))
        except LakehouseError:
            defaults = None  # no project: `dg` asks for components of an environment, too
        return table_schema(defaults)


class RawGuardAttributes(RawAttributes):
    """A guard's attributes as written. Its JSON schema has every key; `GuardedTable.load` resolves and validates them."""

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the schema of a guard's `attributes`, as packs and variables allow them to be written."""
        try:
            defaults = defaults_of(tables_folder(Settings.from_environment()))
        except LakehouseError:
            defaults = None  # no project: `dg` asks for components of an environment, too
        return guard_schema(defaults)


class TableScaffolder(dg.Scaffolder):
    """Writes a draft of a table that loads, with what most tables need next to it as comments."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """Write `defs.yaml`, and the JSON schema for editors beside the tables' folders."""
        if request.scaffold_format != "yaml":
            raise ConfigError(f"{request.target_path}: a table is written in YAML; leave out --format")
        name = request.target_path.name
        if not NAME.fullmatch(name):
            raise ConfigError(f"{name!r} is no table name: lower-case letters, digits and _, beginning with a letter")
        tables = _tables_above(request.target_path)
        text = DRAFT.format(schema=schema_line(request.target_path, tables), kind=request.type_name, name=name)
        target = request.target_path / "defs.yaml"
        with target.open("a" if request.append else "w", encoding="utf-8") as file:
            file.write(f"---\n{text}" if request.append else text)
        write_schema(tables)


def _tables_above(folder: Path) -> Path:
    """Return the project's folder of tables if this one is below it, else the folder above."""
    try:
        tables = tables_folder(Settings.from_environment(start=folder))
    except LakehouseError:
        return folder.parent  # a Dagster project that has no [tool.lakehouse] yet
    return tables if folder.resolve().is_relative_to(tables.resolve()) else folder.parent
