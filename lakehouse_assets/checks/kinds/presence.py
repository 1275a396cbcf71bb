"""Whether there is a value: of one column, or of several together.

Belongs here: kinds that look at NULL and at blank texts. Does not: what the value is (values, text).
"""

from typing import ClassVar, Literal

from pydantic import Field

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.families import ColumnCheck, RowCheck
from lakehouse_assets.checks.parameters import Columns
from lakehouse_assets.checks.sql.text import identifier


class NotNull(ColumnCheck):
    """The column has a value: NULL fails. NaN is a value; a declared null token is none."""

    summary = "the column is not NULL"
    example = "{check: not_null, column: origin}"
    rule = "{column} present"

    check: Literal["not_null"]
    column: str
    """The column."""

    def condition(self, context: CheckContext) -> str:
        return f"{identifier(self.column)} IS NULL"


class NotBlank(ColumnCheck):
    """The text has a character that is not white space. NULL passes: use `not_null` to require a value."""

    summary = "the text is not empty, nor white space alone"
    example = "{check: not_blank, column: origin}"
    rule = "{column} not blank"

    check: Literal["not_blank"]
    column: str
    """A text column."""

    def condition(self, context: CheckContext) -> str:
        return f"{identifier(self.column)} RLIKE '(?U)^\\\\s*$'"


class _CountOfValues(RowCheck):
    failing_count: ClassVar[str]
    """The counts of values that fail, as SQL after the count."""
    columns: Columns = Field(min_length=2)
    """The columns, two at least."""

    @property
    def value_column(self) -> str | None:
        return None

    def condition(self, context: CheckContext) -> str:
        count = " + ".join(f"CAST({identifier(name)} IS NOT NULL AS INT)" for name in self.columns)
        return f"({count}) {self.failing_count}"

    def message(self) -> str:
        return f"{self.rule} {', '.join(self.columns)} present"


class AtLeastOneOf(_CountOfValues):
    """One of the columns has a value, or more. All NULL fails."""

    summary = "at least one of the columns is not NULL"
    example = "{check: at_least_one_of, columns: [origin, tail_number]}"
    rule = "at least one of"
    failing_count = "= 0"

    check: Literal["at_least_one_of"]


class ExactlyOneOf(_CountOfValues):
    """One of the columns has a value, and the others are NULL. All NULL fails."""

    summary = "exactly one of the columns is not NULL"
    example = "{check: exactly_one_of, columns: [origin, tail_number]}"
    rule = "exactly one of"
    failing_count = "<> 1"

    check: Literal["exactly_one_of"]
