"""What a text is like: a regular expression of one's own, its length.

Belongs here: kinds that apply to any text. Does not: well-known forms (formats), codes (codes).
"""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.families import BoundedCheck, ColumnCheck
from lakehouse_assets.checks.pattern_meaning import other_meaning
from lakehouse_assets.checks.pattern_steps import LONGEST
from lakehouse_assets.checks.patterns import refusal
from lakehouse_assets.checks.sql.text import identifier, not_matching
from lakehouse_assets.checks.strict_model import is_recorded


class Matches(ColumnCheck):
    """The text contains a match of the pattern (anchor it with ``^…$`` to match all of it). NULL passes; over 4,096 characters
    fail. ``$`` also stands before a line break that ends the text: write ``(?!\\s|\\S)`` in its place to refuse that, too.

    Spark runs it (Java). Only patterns that mean the same in Python and Java are accepted, and look-behinds of up to 256
    characters. A pattern that could run forever is refused when the YAML is loaded. It has a repeat inside a repeat, a
    repeated alternation, several unbounded repeats, or a look-behind with several long repeats.
    """

    summary = "the text matches a regular expression"
    example = "{check: matches, column: origin, pattern: '^[A-Z]{3}$'}"
    rule = "{column} like {pattern}"

    check: Literal["matches"]
    column: str
    """A text column."""
    pattern: str
    """A Java regular expression."""

    @field_validator("pattern")
    @classmethod
    def _accepted(cls, value: str, info: ValidationInfo) -> str:
        if why := None if is_recorded(info) else refusal(value) or other_meaning(value):
            raise ValueError(f"pattern {value!r} {why}")
        return value

    def condition(self, context: CheckContext) -> str:
        return not_matching(self.column, self.pattern, LONGEST)


class Length(BoundedCheck, ColumnCheck):
    """The text has between ``min`` and ``max`` characters (bytes of a binary). NULL passes; an empty text has 0."""

    summary = "the text's length is between min and max"
    example = "{check: length, column: origin, min: 3, max: 3}"
    lowest = 0

    check: Literal["length"]
    column: str
    """A text or binary column."""
    min: int | None = Field(default=None, ge=0, le=10**9)
    """The least length that passes."""
    max: int | None = Field(default=None, ge=0, le=10**9)
    """The greatest length that passes."""

    def condition(self, context: CheckContext) -> str:
        size = f"length({identifier(self.column)})"
        bounds = [f"{size} < {self.min}"] if self.min is not None else []
        bounds += [f"{size} > {self.max}"] if self.max is not None else []
        return f"({' OR '.join(bounds)})"

    def message(self) -> str:
        low, high = self.min or 0, "any number of" if self.max is None else self.max
        return f"{self.column} {low} to {high} characters long"
