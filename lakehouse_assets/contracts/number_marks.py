"""The marks in a source's numbers, such as a decimal comma, and SQL from its texts to those that Spark casts.

Belongs here: how a source writes numbers (pure). Does not: casts (measures).
"""

import re
from dataclasses import dataclass

from lakehouse_assets.checks.pattern_steps import LONGEST
from lakehouse_assets.checks.sql.text import literal

THOUSANDS = (".", ",", " ", "'", "\u2019", "_", "\u00a0", "\u202f")
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
# A comma that may be before the fraction or between thousands.
LOOKS_LIKE_EITHER = "^ *[+-]?[1-9][0-9]{0,2},[0-9]{3} *$"
# Two commas or more are between thousands.
LOOKS_LIKE_THOUSANDS = "^ *[+-]?[1-9][0-9]{0,2}(,[0-9]{3}){2,} *$"
# A decimal comma, with or without points between thousands.
LOOKS_LIKE_COMMA = "^ *[+-]?([0-9]+|[0-9]{1,3}([.][0-9]{3})+),[0-9]+ *$"


def is_number(kind: str) -> bool:
    """Whether a declared type is a number.

    >>> is_number("decimal(9,2)"), is_number("array<int>")
    (True, False)
    """
    return kind in NUMBERS or kind.startswith("decimal")


@dataclass(frozen=True)
class NumberMarks:
    """``decimal``: before the fraction. ``thousands``: between groups of three digits, if there is such a mark."""

    decimal: str = "."
    thousands: str | None = None

    @classmethod
    def of(cls, source: object) -> "NumberMarks":
        """Return the marks of a source; those of Spark for a kind without such keys."""
        return cls(getattr(source, "decimal", "."), getattr(source, "thousands", None))

    @property
    def are_plain(self) -> bool:
        """Whether Spark casts such numbers as they are."""
        return self.decimal == "." and self.thousands is None

    def as_options(self) -> dict[str, str]:
        """Return the keys of a source that differ from the default."""
        thousands = {} if self.thousands is None else {"thousands": self.thousands}
        return {**({} if self.decimal == "." else {"decimal": self.decimal}), **thousands}

    def refuse(self) -> None:
        """Raise ValueError for marks that equal each other, or are digits."""
        if self.decimal not in (".", ","):
            raise ValueError(f"decimal {self.decimal!r} must be a point or a comma")
        if self.thousands is not None and self.thousands not in THOUSANDS:
            raise ValueError(f"thousands {self.thousands!r} must be one of {' '.join(map(repr, THOUSANDS))}")
        if self.decimal == self.thousands:
            other = "," if self.decimal == "." else "."
            raise ValueError(f"decimal and thousands are both {self.decimal!r}; is decimal {other!r}?")

    def as_plain(self, text: str) -> str:
        """Return SQL of a number's text as Spark casts it; NULL where the marks are in wrong places, and of a text with more
        than 4096 characters. A text without any mark stays. ``text``: SQL.
        """
        if self.are_plain:
            return text
        plain = f"translate(trim({text}), {literal(self._marks)}, '.')"
        # A longer text is no number. In an expression, a search in it would be an error.
        return (
            f"CASE WHEN length({text}) > {LONGEST} THEN NULL"
            f" WHEN {text} RLIKE {literal(f'^[^.{self._marks}]*$')} THEN {text}"
            f" WHEN {text} RLIKE {literal(self._form)} THEN {plain} END"
        )

    def plain_text(self, text: str) -> str | None:
        """Return what `as_plain` gives of a text.

        >>> NumberMarks(",", ".").plain_text("1.013,8"), NumberMarks(",", ".").plain_text("1.0,5")
        ('1013.8', None)
        """
        if not self.are_plain and len(text) > LONGEST:
            return None
        if self.are_plain or not set(text) & {".", *self._marks}:
            return text
        table = str.maketrans(self.decimal, ".", self.thousands or "")
        return text.strip(" ").translate(table) if re.search(self._form, text) else None

    @property
    def _marks(self) -> str:
        return self.decimal + (self.thousands or "")

    @property
    def _form(self) -> str:
        """A regular expression of Java and of Python."""
        groups = f"[0-9]{{1,3}}([{self.thousands}][0-9]{{3}})+|" if self.thousands else ""
        return f"^ *[+-]?({groups}[0-9]*)([{self.decimal}][0-9]*)?([eE][+-]?[0-9]+)? *$"

    def as_written(self, text: str) -> str:
        """Return SQL of a plain number's text with this decimal mark. ``text``: SQL."""
        return text if self.decimal == "." else f"translate({text}, '.', {literal(self.decimal)})"


PLAIN_MARKS = NumberMarks()
