"""A table's `gold:`: tables derived from silver by one SELECT each.

Belongs here: the shape and what can be judged from it alone. Does not: reading the SQL (lineage), deriving (layers).
"""

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from lakehouse_assets.checks.closed import Closed
from lakehouse_assets.checks.history import HistoryCheck
from lakehouse_assets.checks.kinds.control import ControlTotal
from lakehouse_assets.checks.kinds.reconciliation import Reconcile
from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.checks.sql_text import parse_expression
from lakehouse_assets.contracts.mistakes import TableName, refuse_dependencies, refuse_twice


class GrainSpec(Closed):
    """By what a gold table is recomputed in parts: a row with a value of `column` depends on no other rows of `inputs`
    than those for which the input's SQL expression has the same value. An input that is not named changes everything.
    """

    column: str
    """A column of the key. Rows with one value of it are one part."""
    inputs: dict[str, str] = Field(min_length=1)
    """`silver_<table>: expression`: the part that a row of the input belongs to, as SQL over its columns."""

    @field_validator("inputs")
    @classmethod
    def _expressions(cls, value: dict[str, str]) -> dict[str, str]:
        for name, expr in value.items():
            parse_expression(expr, name)
        return value


class GoldSchema(Closed):
    """What to do when the SQL yields other columns than the table has, though nobody has changed the SQL or the declared types
    of what it reads: a `*` brings a column that a batch has added, a value's type follows one that has been widened.
    """

    new_columns: Literal["evolve", "ignore", "quarantine", "reject"] = "quarantine"
    """`evolve`: the table takes the column. `ignore`: it is left out. `quarantine`: the table stays as it was. `reject`: that,
    and the materialization fails."""
    missing_columns: Literal["null", "quarantine", "reject"] = "quarantine"
    """`null`: the column stays, and is NULL. `quarantine`, `reject`: as above."""
    type_changes: Literal["widen", "quarantine", "reject"] = "quarantine"
    """`widen`: the table takes a type that is wider without loss. `quarantine`, `reject`: as above. A narrower type is read as
    the table's, whatever is set here."""


class GoldSpec(Closed):
    """A table derived from silver by one SELECT, which stands in a file beside `defs.yaml`."""

    name: TableName
    """The asset is `gold_<name>`; names are unique in the project."""
    sql: str
    """The plain name of a `.sql` file beside `defs.yaml`: one SELECT over `silver_<table>` of any table. Inputs, types and
    column lineage are read from it. It can only read: what is refused in a check's SQL is refused here too."""
    key: tuple[str, ...] = Field(min_length=1)
    """Two rows with one key hold the table."""
    grain: GrainSpec | None = None
    """What a part of the table is. Without it, gold is rewritten whole."""
    description: str = ""
    """Shown in the UI."""
    units: dict[str, str] = {}
    """`column: unit`, shown in the column schema."""
    checks: tuple[AnyCheck, ...] = ()
    """Its rules. The whole result is one batch; with a grain, the parts that were derived are."""

    schema_policy: GoldSchema = Field(default=GoldSchema(), alias="schema")
    """What to do when the SQL yields other columns than the table has."""

    @field_validator("sql")
    @classmethod
    def _beside(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_\-]+\.sql", value):
            raise ValueError(f"{value!r} must be the plain name of a .sql file beside defs.yaml")
        return value

    @model_validator(mode="after")
    def _unique_checks(self) -> "GoldSpec":
        refuse_twice("checks", [check.id for check in self.checks])
        refuse_dependencies(self.checks, self.key)
        for i, check in enumerate(self.checks):
            if isinstance(check, HistoryCheck):
                raise ValueError(f"checks.{i} ({check.id}): gold has no windows that {check.check} could compare with")
            if isinstance(check, ControlTotal):
                raise ValueError(f"checks.{i} ({check.id}): gold has no source that could say its figures")
            if isinstance(check, Reconcile) and check.parameters:
                told = " and no ".join(f":{name}" for name in sorted(check.parameters))
                raise ValueError(f"checks.{i} ({check.id}): gold has no window, and so no {told}")
        if self.grain and self.grain.column not in self.key:
            # Otherwise a key could stand in two parts, and each of them be right by itself.
            raise ValueError(f"grain.column: {self.grain.column!r} is no part of the key; there are {', '.join(self.key)}")
        return self
