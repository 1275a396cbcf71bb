"""`LakehouseTable`: the Dagster component whose attributes are a table's promise.

Belongs here: how a `defs.yaml` becomes a component. Does not: what the assets do (assets), or the model (contracts).
"""

from collections.abc import Sequence
from pathlib import Path

import dagster as dg
from pydantic import BaseModel, ConfigDict

from lakehouse_assets.checks.sql_text import columns_of, parse_expression
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.lineage import GoldQuery, read_gold
from lakehouse_assets.contracts.places import MISSING, Places, places_of, shared_of
from lakehouse_assets.contracts.sharing import whole
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.settings import Settings


def silver_schemas(specs: Sequence[TableSpec]) -> dict[str, dict[str, str]]:
    """``{silver_<table>: {column: type}}``, for reading gold's SQL."""
    return {f"silver_{s.name}": {n: c.type for n, c in s.columns.items()} | {"p_extracted_at": "timestamp"} for s in specs}


def personal_columns(query: GoldQuery, specs: Sequence[TableSpec]) -> frozenset[str]:
    """Columns of a gold table that are made of columns marked `pii`, of whatever spelling: Spark knows no letter case."""
    personal = {(f"silver_{spec.name}", column.lower()) for spec in specs for column in spec.pii_columns}
    return frozenset(
        name for name, sources in query.lineage.items() if {(table, column.lower()) for table, column in sources} & personal
    )


class Written(BaseModel):
    """A table's attributes, unread."""

    model_config = ConfigDict(extra="allow")


class LakehouseTable(dg.Component):
    """One table from source to gold: bronze, silver, baseline and gold assets, gated, drift-checked and self-healing."""

    def __init__(self, spec: TableSpec, folder: Path, places: Places | None = None) -> None:
        self.spec = spec
        self.folder = folder
        self.places = places or Places()

    def query_of(self, gold: GoldSpec, known: Sequence[TableSpec]) -> GoldQuery:
        """What a gold table of this component reads. Raises ConfigError, naming file and line."""
        file = self.folder / gold.sql
        if not file.is_file():
            raise ConfigError(f"{self._place(gold, 'sql')}: gold.{gold.name}.sql: there is no {gold.sql} beside defs.yaml")
        query = read_gold(file.read_text(encoding="utf-8"), str(file), silver_schemas([self.spec, *known]))
        for check in gold.checks:
            place = self.places.at(["gold", self.spec.gold.index(gold), "checks", gold.checks.index(check)])
            if why := check.unfit(query.types):
                raise ConfigError(f"{place}: gold.{gold.name}.checks ({check.id}): {why} (as it comes of {gold.sql})")
            if missing := check.unknown_columns([*query.types, "p_extracted_at"]):
                raise ConfigError(
                    f"{place}: gold.{gold.name}.checks ({check.id}): the SELECT in {gold.sql} has no column"
                    f" {', '.join(missing)}; it has {', '.join(query.types)}"
                )
        for key, names in (("key", gold.key), ("units", tuple(gold.units))):
            missing = [name for name in names if name not in query.types]
            if missing:
                raise ConfigError(
                    f"{self._place(gold, key)}: gold.{gold.name}.{key}: the SELECT in {gold.sql} has no column"
                    f" {', '.join(missing)}; it has {', '.join(query.types)}"
                )
        self._refuse_personal_grain(gold, query, [self.spec, *known])
        return query

    def _refuse_personal_grain(self, gold: GoldSpec, query: GoldQuery, known: Sequence[TableSpec]) -> None:
        grain = gold.grain
        if grain is None:
            return
        of_input = {f"silver_{spec.name}": {name.lower() for name in spec.pii_columns} for spec in known}
        personal = grain.column in personal_columns(query, known) or any(
            {name.lower() for name in columns_of(parse_expression(sql, table))} & of_input.get(table, set())
            for table, sql in grain.inputs.items()
        )
        if personal:
            raise ConfigError(
                f"{self._place(gold, 'grain')}: gold.{gold.name}.grain: its values are kept with each decision and shown, and"
                f" {grain.column} is made of a column marked pii; take another grain, or none"
            )

    def _place(self, gold: GoldSpec, key: str) -> str:
        return self.places.at(["gold", self.spec.gold.index(gold), key])

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """The attributes as they are written: what is shared is not in them yet."""
        return Written

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> "LakehouseTable":
        """The promise as a whole. `load_tables` has told every mistake before, with its place."""
        if not isinstance(attributes, Written):
            raise ConfigError(f"{context.path}: {MISSING}")
        folder = Path(context.path)
        shared = shared_of(folder, Settings.from_environment().variables)
        written = attributes.model_extra or {}
        places = places_of(folder / "defs.yaml", written.get("name", ""), shared)
        # Read by ourselves: to Dagster's loader NO is false, and 12:30:45 a number.
        own = places.document.data["attributes"] if places.document else written
        return cls(TableSpec.model_validate(whole(own, shared.values).attributes), folder, places)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """This table's assets alone; what all tables share is added by `build_definitions`."""
        from lakehouse_assets.orchestration.assets import table_definitions  # noqa: PLC0415 (assets are made of components)

        return table_definitions(self, Settings.from_environment())
