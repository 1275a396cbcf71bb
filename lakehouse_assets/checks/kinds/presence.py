"""Whether there is a value: of one column, or of several together.

Belongs here: kinds that look at NULL and at blank texts. Does not: what the value is (values, text).
"""

from typing import ClassVar, Literal

from pydantic import Field

from lakehouse_assets.checks.base import CheckContext, ColumnCheck, RowCheck
from lakehouse_assets.checks.names import Columns
from lakehouse_assets.checks.sql_text import identifier


class NotNull(ColumnCheck):
    """The column has a value: NULL fails. NaN is a value; a declared null token is none."""

    summary: ClassVar[str] = "the column is not NULL"
    example: ClassVar[str] = "{check: not_null, column: origin}"

    check: Literal["not_null"]
    column: str
    """The column."""

    def condition(self, context: CheckContext) -> str:
        """NULL fails."""
        return f"{identifier(self.column)} IS NULL"

    def message(self) -> str:
        """What is promised."""
        return f"{self.column} present"


class NotBlank(ColumnCheck):
    """The text has a character that is no white space. NULL passes: `not_null` asks for a value."""

    summary: ClassVar[str] = "the text is not empty, nor white space alone"
    example: ClassVar[str] = "{check: not_blank, column: origin}"

    check: Literal["not_blank"]
    column: str
    """A text column."""

    def condition(self, context: CheckContext) -> str:
        """Nothing but white space."""
        return f"{identifier(self.column)} RLIKE '(?U)^\\\\s*$'"

    def message(self) -> str:
        """What is promised."""
        return f"{self.column} not blank"


class _OfSeveral(RowCheck):
    """Counts the values among some columns."""

    columns: Columns = Field(min_length=2)
    """The columns, two at least."""

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    @property
    def value_column(self) -> str | None:
        """None: the trouble is between them."""
        return None

    @property
    def count(self) -> str:
        """SQL of the number of columns that have a value."""
        return " + ".join(f"CAST({identifier(name)} IS NOT NULL AS INT)" for name in self.columns)


class AtLeastOneOf(_OfSeveral):
    """One of the columns has a value, or more. All NULL fails."""

    summary: ClassVar[str] = "at least one of the columns is not NULL"
    example: ClassVar[str] = "{check: at_least_one_of, columns: [origin, tail_number]}"

    check: Literal["at_least_one_of"]

    def condition(self, context: CheckContext) -> str:
        """None has a value."""
        return f"({self.count}) = 0"

    def message(self) -> str:
        """What is promised."""
        return f"at least one of {', '.join(self.columns)} present"


class ExactlyOneOf(_OfSeveral):
    """One of the columns has a value, and the others are NULL. All NULL fails."""

    summary: ClassVar[str] = "exactly one of the columns is not NULL"
    example: ClassVar[str] = "{check: exactly_one_of, columns: [origin, tail_number]}"

    check: Literal["exactly_one_of"]

    def condition(self, context: CheckContext) -> str:
        """None has a value, or more than one."""
        return f"({self.count}) <> 1"

    def message(self) -> str:
        """What is promised."""
        return f"exactly one of {', '.join(self.columns)} present"
