"""`LakehouseTable`: the Dagster component whose attributes are a table's promise.

Belongs here: how a `defs.yaml` becomes a component. Does not: what the assets do (assets), or the model (contracts).
"""

from collections.abc import Sequence
from pathlib import Path

import dagster as dg
from pydantic import BaseModel

from lakehouse_assets.contracts.document import MISSING, place_of
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.lineage import GoldQuery, read_gold
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.settings import Settings


def silver_schemas(specs: Sequence[TableSpec]) -> dict[str, dict[str, str]]:
    """``{silver_<table>: {column: type}}``, for reading gold's SQL."""
    return {f"silver_{s.name}": {n: c.type for n, c in s.columns.items()} | {"p_extracted_at": "timestamp"} for s in specs}


class LakehouseTable(dg.Component):
    """One table from source to gold: bronze, silver, baseline and gold assets, gated, drift-checked and self-healing."""

    def __init__(self, spec: TableSpec, folder: Path) -> None:
        self.spec = spec
        self.folder = folder

    def query_of(self, gold: GoldSpec, known: Sequence[TableSpec]) -> GoldQuery:
        """What a gold table of this component reads. Raises ConfigError, naming file and line."""
        file = self.folder / gold.sql
        if not file.is_file():
            raise ConfigError(f"{self._place(gold, 'sql')}: gold.{gold.name}.sql: there is no {gold.sql} beside defs.yaml")
        query = read_gold(file.read_text(encoding="utf-8"), str(file), silver_schemas([self.spec, *known]))
        for key, names in (("key", gold.key), ("units", tuple(gold.units))):
            missing = [name for name in names if name not in query.types]
            if missing:
                raise ConfigError(
                    f"{self._place(gold, key)}: gold.{gold.name}.{key}: the SELECT in {gold.sql} has no column"
                    f" {', '.join(missing)}; it has {', '.join(query.types)}"
                )
        return query

    def _place(self, gold: GoldSpec, key: str) -> str:
        return place_of(self.folder / "defs.yaml", self.spec.name, ["gold", self.spec.gold.index(gold), key])

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """The plain frozen model: its errors name the file and the line."""
        return TableSpec

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> "LakehouseTable":
        """Keep the validated promise."""
        if not isinstance(attributes, TableSpec):
            raise ConfigError(f"{context.path}: {MISSING}")
        return cls(attributes, Path(context.path))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """This table's assets alone; what all tables share is added by `build_definitions`."""
        from lakehouse_assets.orchestration.assets import table_definitions  # noqa: PLC0415 (assets are made of components)

        return table_definitions(self, Settings.from_environment())
