"""What a text is like: a regular expression of one's own, its length.

Belongs here: kinds that any text can be asked. Does not: well-known forms (formats), codes (codes).
"""

from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from lakehouse_assets.checks.base import CheckContext, ColumnCheck
from lakehouse_assets.checks.bounds import bounded
from lakehouse_assets.checks.patterns import LONGEST, refusal
from lakehouse_assets.checks.sql_text import identifier, unlike


class Matches(ColumnCheck):
    """The pattern is found in the text (anchor it with ``^…$`` for all of it). NULL passes; over 4,096 characters fail.

    Spark runs it (Java); only what Python and Java read alike can be written. A pattern that could run for ever (a repeat
    inside a repeat, an alternation that is repeated, several unbounded repeats) is refused when the YAML is loaded.
    """

    summary: ClassVar[str] = "the text matches a regular expression"
    example: ClassVar[str] = "{check: matches, column: origin, pattern: '^[A-Z]{3}$'}"

    check: Literal["matches"]
    column: str
    """A text column."""
    pattern: str
    """A Java regular expression."""

    @field_validator("pattern")
    @classmethod
    def _bounded(cls, value: str) -> str:
        why = refusal(value)
        if why:
            raise ValueError(f"pattern {value!r} {why}")
        return value

    def condition(self, context: CheckContext) -> str:
        """Too long, or not found."""
        return unlike(self.column, self.pattern, LONGEST)

    def message(self) -> str:
        """What is promised."""
        return f"{self.column} like {self.pattern}"


class Length(ColumnCheck):
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
        bounded("length", self.min, self.max, 0)
        return self

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
