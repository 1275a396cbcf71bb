"""How the columns of one row go together.

Belongs here: kinds that compare columns with each other, and conditions. Does not: how many have a value (presence).
"""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import model_validator
from sqlglot import exp

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.families import RowCheck
from lakehouse_assets.checks.parameters import Condition
from lakehouse_assets.checks.sql.text import identifier, parse_expression
from lakehouse_assets.checks.types import comparison_problem

OPPOSITE = {"<": ">=", "<=": ">", "=": "<>", "!=": "=", ">=": "<", ">": "<="}


class Compare(RowCheck):
    """``column`` has this relation to ``other``. A NULL on either side passes; NaN equals NaN, and is above all numbers."""

    summary = "one column compares with another as said"
    example = '{check: compare, column: departed_at, operator: "<=", other: arrived_at}'
    rule = "{column} {operator} {other}"

    check: Literal["compare"]
    column: str
    """The column on the left."""
    operator: Literal["<", "<=", "=", "!=", ">=", ">"]
    """The relation."""
    other: str
    """The column on the right."""

    @model_validator(mode="after")
    def _two_columns(self) -> Self:
        if self.column == self.other:
            raise ValueError(f"other: {self.other!r} is the column itself")
        return self

    @property
    def own_columns(self) -> tuple[str, ...]:
        return (self.column, self.other)

    def condition(self, context: CheckContext) -> str:
        return f"{identifier(self.column)} {OPPOSITE[self.operator]} {identifier(self.other)}"

    def type_problem(self, types: Mapping[str, str]) -> str:
        return comparison_problem(self.column, types, types.get(self.other, ""))


class Conditional(RowCheck):
    """Where ``when`` is true, ``then`` is not false. Either of them NULL passes."""

    summary = "where one condition is true, so is another"
    example = "{check: conditional, when: status = 'cancelled', then: departed_at is null}"
    rule = "{then} where {when}"

    check: Literal["conditional"]
    when: Condition
    """SQL over the row's columns: which rows are read."""
    then: Condition
    """SQL over the row's columns: the condition on these rows."""

    @property
    def own_conditions(self) -> tuple[exp.Expr, ...]:
        # First the rule, whose value is shown.
        return (parse_expression(self.then, "then"), parse_expression(self.when, "when"))

    def condition(self, context: CheckContext) -> str:
        then, when = (tree.sql(dialect="spark") for tree in self.own_conditions)
        return f"(({when}) AND NOT ({then}))"
