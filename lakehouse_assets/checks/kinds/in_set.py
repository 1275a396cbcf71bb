"""The check kind `in_set`. Belongs here: its parameters, its SQL, its judgement. Does not: running it."""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from lakehouse_assets.checks.base import CheckContext, RowCheck
from lakehouse_assets.checks.sql_text import identifier, literal


class InSet(RowCheck):
    """The value is one of ``values``. NULL passes; letter case and spaces count."""

    summary: ClassVar[str] = "the value is one of a list"
    example: ClassVar[str] = "{check: in_set, column: origin, values: [EWR, JFK, LGA]}"

    check: Literal["in_set"]
    column: str
    """The column."""
    values: tuple[str | int | float | bool, ...] = Field(min_length=1)
    """The values that pass, all texts, all numbers or all booleans."""

    @model_validator(mode="after")
    def _of_one_type(self) -> "InSet":
        kinds = {"text" if isinstance(v, str) else "boolean" if isinstance(v, bool) else "number" for v in self.values}
        if len(kinds) > 1:
            raise ValueError(f"values are of different types: {', '.join(sorted(kinds))} (quote them all, or none)")
        return self

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def condition(self, context: CheckContext) -> str:
        """Not in the list."""
        return f"{identifier(self.column)} NOT IN ({', '.join(literal(value) for value in self.values)})"

    def message(self) -> str:
        """What is promised, at most ten values of it."""
        shown = ", ".join(str(value) for value in self.values[:10]) + (", …" if len(self.values) > 10 else "")
        return f"{self.column} one of {shown}"
