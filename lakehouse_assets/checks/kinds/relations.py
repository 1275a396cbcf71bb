"""How the columns of one row go together.

Belongs here: kinds that compare columns with each other, and conditions. Does not: how many have a value (presence).
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import field_validator, model_validator
from sqlglot import exp

from lakehouse_assets.checks.base import CheckContext, RowCheck
from lakehouse_assets.checks.sql_text import columns_of, identifier, parse_expression
from lakehouse_assets.checks.types import uncomparable

OPPOSITE = {"<": ">=", "<=": ">", "=": "<>", "!=": "=", ">=": "<", ">": "<="}


class Compare(RowCheck):
    """``column`` stands in this relation to ``other``. A NULL on either side passes; NaN equals NaN, and is
    above all numbers.
    """

    summary: ClassVar[str] = "one column compares with another as said"
    example: ClassVar[str] = '{check: compare, column: departed_at, operator: "<=", other: arrived_at}'

    check: Literal["compare"]
    column: str
    """The column on the left."""
    operator: Literal["<", "<=", "=", "!=", ">=", ">"]
    """The relation."""
    other: str
    """The column on the right."""

    @model_validator(mode="after")
    def _two(self) -> "Compare":
        if self.column == self.other:
            raise ValueError(f"other: {self.other!r} is the column itself")
        return self

    @property
    def own_columns(self) -> tuple[str, ...]:
        """Both."""
        return (self.column, self.other)

    def condition(self, context: CheckContext) -> str:
        """The opposite relation."""
        return f"{identifier(self.column)} {OPPOSITE[self.operator]} {identifier(self.other)}"

    def misfit(self, types: Mapping[str, str]) -> str:
        """The two columns are compared."""
        return uncomparable(self.column, types, types.get(self.other, ""))

    def message(self) -> str:
        """What is promised."""
        return f"{self.column} {self.operator} {self.other}"


class Conditional(RowCheck):
    """Where ``when`` is true, ``then`` is not false. Either of them NULL passes."""

    summary: ClassVar[str] = "where one condition is true, so is another"
    example: ClassVar[str] = "{check: conditional, when: status = 'cancelled', then: departed_at is null}"

    check: Literal["conditional"]
    when: str
    """SQL over the row's columns: which rows are looked at."""
    then: str
    """SQL over the row's columns: what they promise."""

    @field_validator("when", "then")
    @classmethod
    def _parsed(cls, value: str) -> str:
        parse_expression(value, "a condition")
        return value

    @property
    def conditions(self) -> tuple[exp.Expr, ...]:
        """Both, too."""
        return (*super().conditions, *(parse_expression(text, "a condition") for text in (self.when, self.then)))

    @property
    def own_columns(self) -> tuple[str, ...]:
        """Those of both conditions; first of the promise, whose value is shown."""
        used = [sorted(columns_of(parse_expression(text, "a condition"))) for text in (self.then, self.when)]
        return tuple(dict.fromkeys([*used[0], *used[1]]))

    def condition(self, context: CheckContext) -> str:
        """The first true, the second false."""
        when, then = (parse_expression(text, "a condition").sql(dialect="spark") for text in (self.when, self.then))
        return f"(({when}) AND NOT ({then}))"

    def message(self) -> str:
        """What is promised."""
        return f"{self.then} where {self.when}"
