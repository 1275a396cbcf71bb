"""The check kind `not_null`. Belongs here: its parameters, its SQL, its judgement. Does not: running it."""

from typing import ClassVar, Literal

from lakehouse_assets.checks.base import CheckContext, RowCheck
from lakehouse_assets.checks.sql_text import identifier


class NotNull(RowCheck):
    """The column has a value. NaN is a value; a declared null token is none."""

    summary: ClassVar[str] = "the column is not NULL"
    example: ClassVar[str] = "{check: not_null, column: origin}"

    check: Literal["not_null"]
    column: str
    """The column."""

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def condition(self, context: CheckContext) -> str:
        """NULL fails."""
        return f"{identifier(self.column)} IS NULL"

    def message(self) -> str:
        """What is promised."""
        return f"{self.column} present"
