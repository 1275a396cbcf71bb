"""The check kind `length`. Belongs here: its parameters, its SQL, its judgement. Does not: running it."""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from lakehouse_assets.checks.base import CheckContext, RowCheck
from lakehouse_assets.checks.sql_text import identifier


class Length(RowCheck):
    """The text has between ``min`` and ``max`` characters (bytes of a binary). NULL passes; an empty text has 0."""

    summary: ClassVar[str] = "the text's length is between min and max"
    example: ClassVar[str] = "{check: length, column: origin, min: 3, max: 3}"

    check: Literal["length"]
    column: str
    """A text or binary column."""
    min: int | None = Field(default=None, ge=0)
    """The least length that passes."""
    max: int | None = Field(default=None, ge=0)
    """The greatest length that passes."""

    @model_validator(mode="after")
    def _bounds(self) -> "Length":
        if self.min is None and self.max is None:
            raise ValueError("length needs min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def condition(self, context: CheckContext) -> str:
        """Too short or too long."""
        size = f"length({identifier(self.column)})"
        found = [f"{size} < {self.min}"] if self.min is not None else []
        found += [f"{size} > {self.max}"] if self.max is not None else []
        return f"({' OR '.join(found)})"

    def message(self) -> str:
        """What is promised."""
        low, high = self.min or 0, "any number of" if self.max is None else self.max
        return f"{self.column} {low} to {high} characters long"
