"""The check kind `matches`. Belongs here: its parameters, its SQL, its judgement. Does not: running it."""

from typing import ClassVar, Literal

from pydantic import field_validator

from lakehouse_assets.checks.base import CheckContext, RowCheck
from lakehouse_assets.checks.patterns import LONGEST, refusal
from lakehouse_assets.checks.sql_text import identifier, literal


class Matches(RowCheck):
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

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def condition(self, context: CheckContext) -> str:
        """Too long, or not found."""
        column = identifier(self.column)
        return f"CASE WHEN length({column}) > {LONGEST} THEN TRUE ELSE NOT ({column} RLIKE {literal(self.pattern)}) END"

    def message(self) -> str:
        """What is promised."""
        return f"{self.column} like {self.pattern}"
