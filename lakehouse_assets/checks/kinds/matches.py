"""The check kind `matches`. Belongs here: its parameters, its SQL, its judgement. Does not: running it."""

import re
import warnings
from typing import Any, ClassVar, Literal

from pydantic import field_validator

from lakehouse_assets.checks.base import CheckContext, RowCheck
from lakehouse_assets.checks.sql_text import identifier, literal

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import re._parser as parser  # pyright: ignore[reportMissingImports] (the standard library's, without stubs)

# Longer values fail without being matched: a backtracking engine needs a stack frame per character.
LONGEST = 4096
UNBOUNDED = 1000
MAX_UNBOUNDED = 3
# Python folds (a|b)* into a set; Java does not, and recurses once per character.
REPEATED_CHOICE = re.compile(r"\([^()]*\|[^()]*\)[*+{]")


class Matches(RowCheck):
    """The whole pattern is found in the text (Java regex; anchor it with ``^…$``). NULL passes; over 4,096 characters fail.

    A pattern that could run for ever (a repeat inside a repeat, an alternation that is repeated, more than three
    unbounded repeats) is refused when the YAML is loaded.
    """

    summary: ClassVar[str] = "the text matches a regular expression"
    example: ClassVar[str] = "{check: matches, column: origin, pattern: '^[A-Z]{3}$'}"

    check: Literal["matches"]
    column: str
    pattern: str

    @field_validator("pattern")
    @classmethod
    def _bounded(cls, value: str) -> str:
        try:
            tree = parser.parse(value)
        except re.error as error:
            raise ValueError(f"pattern {value!r} does not compile: {error}") from None
        if REPEATED_CHOICE.search(value) or _danger(tree, False) or _unbounded(tree) > MAX_UNBOUNDED:
            raise ValueError(
                f"pattern {value!r} could run for ever on some value: avoid repeats inside repeats, (a|b)* and many .*"
            )
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


def _repeats(tree: Any) -> list[tuple[int, Any]]:
    found = []
    for op, argument in tree:
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            found.append((int(argument[1]), argument[2]))
        for child in _children(name, argument):
            found += _repeats(child)
    return found


def _children(name: str, argument: Any) -> list[Any]:
    if name in ("SUBPATTERN",):
        return [argument[3]]
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return [argument[2]]
    if name == "BRANCH":
        return list(argument[1])
    if name in ("ASSERT", "ASSERT_NOT"):
        return [argument[1]]
    if name == "ATOMIC_GROUP":
        return [argument]
    return []


def _danger(tree: Any, inside: bool) -> bool:
    """A repeat (of more than one) or an alternation within a repeat."""
    for op, argument in tree:
        name = str(op)
        many = name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and int(argument[1]) > 1
        if inside and ((many and int(argument[1]) != int(argument[0])) or name == "BRANCH"):
            return True
        if any(_danger(child, inside or many) for child in _children(name, argument)):
            return True
    return False


def _unbounded(tree: Any) -> int:
    return sum(high > UNBOUNDED for high, _ in _repeats(tree))
