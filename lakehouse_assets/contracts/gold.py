"""A table's `gold:`: tables derived from silver by one SELECT each.

Belongs here: its shape and its validation. Does not: reading the SQL (lineage), computing it (pipeline).
"""

import re
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from lakehouse_assets.checks.families import HistoryCheck
from lakehouse_assets.checks.kinds.control import ControlTotal
from lakehouse_assets.checks.kinds.reconciliation import Reconcile
from lakehouse_assets.checks.parameters import require_java
from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.checks.sql.text import parse_expression
from lakehouse_assets.checks.strict_model import StrictModel, is_recorded
from lakehouse_assets.contracts.asset_prefix import PrefixedContract
from lakehouse_assets.contracts.columns import Column, unfit_name
from lakehouse_assets.contracts.layout import LayoutSpec
from lakehouse_assets.contracts.mistakes import NAME, OF_GOLD, TableName, refuse_dependencies, refuse_duplicates, refuse_names


class GrainSpec(StrictModel):
    """How a gold table is recomputed in parts. A row with a value of `column` depends only on rows of `inputs` whose SQL
    expression has the same value. A change of an input that is not named recomputes everything.
    """

    column: str
    """A column of the key. Rows with one value of it are one part."""
    inputs: dict[str, str] = Field(min_length=1)
    """`silver_<table>: expression`: the part that a row of the input belongs to, as SQL over its columns."""

    @field_validator("inputs")
    @classmethod
    def _expressions(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for name, expr in value.items():
            require_java(parse_expression(expr, name), info)
        return value


class GoldSchema(StrictModel):
    """What to do when the SQL yields other columns than the table has, although nobody changed the SQL or the declared types
    that it reads. For example, a `*` selects a column that a batch has added, or a type follows a widened one.
    """

    new_columns: Literal["evolve", "ignore", "quarantine", "reject"] = "quarantine"
    """`evolve`: the table takes the column. `ignore`: it is left out. `quarantine`: the table stays as it was. `reject`: that,
    and the materialization fails."""
    missing_columns: Literal["null", "quarantine", "reject"] = "quarantine"
    """`null`: the column stays, and is NULL. `quarantine`, `reject`: as above."""
    type_changes: Literal["widen", "quarantine", "reject"] = "quarantine"
    """`widen`: the table takes a type that is wider without loss. `quarantine`, `reject`: as above. A narrower type is read as
    the table's, whatever is set here."""


class ReadTable(StrictModel):
    """A Delta table that another asset makes. Gold follows its materializations, and each decision records the version read."""

    path: str = Field(min_length=1)
    """Its folder or URL. A relative path starts at the lake."""
    asset: str = Field(pattern=r"^[A-Za-z0-9_]+(/[A-Za-z0-9_]+)*$")
    """The asset's key, with `/` between its parts."""
    columns: dict[str, str] = Field(min_length=1)
    """`name: type` of the columns that the SQL may read. The table may have more."""

    @field_validator("columns")
    @classmethod
    def _types(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if why := unfit_name(name):
                raise ValueError(f"column {name!r}: {why}")
        return {name: Column(type=kind).type for name, kind in value.items()}


class GoldSpec(PrefixedContract):
    """A table computed from silver by one SELECT in a file beside `defs.yaml`."""

    name: TableName
    """The asset is `gold_<name>`; names are unique in the project."""
    sql: str
    """The plain name of a `.sql` file beside `defs.yaml`: one SELECT over `silver_<table>` of any table. Inputs, types and
    column lineage are read from it. It can only read, like a check's SQL."""
    reads: dict[str, ReadTable] = {}
    """Tables of other assets that the SQL reads, by their names in it. The names `silver_…` and `gold_…` are taken."""
    key: tuple[str, ...] = Field(min_length=1)
    """Two rows with one key quarantine the table."""
    grain: GrainSpec | None = None
    """What a part of the table is. Without it, gold is rewritten as a whole."""
    layout: LayoutSpec | None = None
    """How the table's files lie. Without it, in one folder."""
    description: str = ""
    """Shown in the UI."""
    units: dict[str, str] = {}
    """`column: unit`, shown in the column schema and in the columns' comments."""
    checks: tuple[AnyCheck, ...] = ()
    """Its rules. The batch is the whole result; with a grain, the recomputed parts."""

    schema_policy: GoldSchema = Field(default=GoldSchema(), alias="schema")
    """What to do when the SQL yields other columns than the table has."""

    @field_validator("reads")
    @classmethod
    def _names(cls, value: dict[str, ReadTable]) -> dict[str, ReadTable]:
        for name in value:
            if not NAME.fullmatch(name) or name.startswith(("silver_", "gold_")):
                raise ValueError(f"{name!r} is no valid name: lower-case letters, digits and _, and not silver_… or gold_…")
        return value

    @field_validator("sql")
    @classmethod
    def _beside(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_\-]+\.sql", value):
            raise ValueError(f"{value!r} must be the plain name of a .sql file beside defs.yaml")
        return value

    @model_validator(mode="after")
    def _has_no_check_of_its_asset(self, info: ValidationInfo) -> "GoldSpec":
        if not is_recorded(info):
            refuse_names(self.checks, OF_GOLD)
        return self

    @model_validator(mode="after")
    def _unique_checks(self) -> "GoldSpec":
        refuse_duplicates("checks", [check.id for check in self.checks])
        refuse_dependencies(self.checks, self.key)
        for i, check in enumerate(self.checks):
            if isinstance(check, HistoryCheck):
                raise ValueError(f"checks.{i} ({check.id}): gold has no windows that {check.check} could compare with")
            if isinstance(check, ControlTotal):
                raise ValueError(f"checks.{i} ({check.id}): gold has no source that reports totals")
            if isinstance(check, Reconcile) and check.parameters:
                names = " and no ".join(f":{name}" for name in sorted(check.parameters))
                raise ValueError(f"checks.{i} ({check.id}): gold has no window, and so no {names}")
        if self.layout and self.layout.derived:
            raise ValueError("layout.derived: does not apply to gold; compute the column in its SQL")
        if self.grain and self.grain.column not in self.key:
            # Otherwise a key could stand in two parts, and each of them be right by itself.
            raise ValueError(f"grain.column: {self.grain.column!r} is no part of the key; there are {', '.join(self.key)}")
        return self
