"""Keys of a batch that are found in another table.

Belongs here: the row check that looks rows up. Does not: figures of another table (reconciliation), or which tables may be
read (contracts/references).
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from lakehouse_assets.checks.base import CheckContext, Reads
from lakehouse_assets.checks.families import RowCheck
from lakehouse_assets.checks.sql.text import identifier


class ForeignKey(RowCheck):
    """The row's ``columns`` are found together in one row of another table's silver, as it is when the batch is judged.

    A row with a NULL among its ``columns`` passes (SQL's MATCH SIMPLE); a NULL in the other table is never a match. A table
    that has never been published puts the check in error.
    """

    summary = "the row's columns are found in another table"
    example = "{check: foreign_key, columns: [tail_number], table: planes, severity: warning, threshold: 0.8}"

    check: Literal["foreign_key"]
    columns: tuple[str, ...] = Field(min_length=1)
    """The columns that refer."""
    table: str
    """The table that is referred to."""
    to: tuple[str, ...] = ()
    """The other table's columns; without it, those of the same names."""

    @model_validator(mode="after")
    def _column_pairs(self) -> Self:
        if self.to and len(self.to) != len(self.columns):
            raise ValueError(f"to: {len(self.to)} column(s) for {len(self.columns)} of `columns`")
        names = self.to or self.columns
        if len(set(names)) < len(names):
            raise ValueError(f"{'to' if self.to else 'columns'}: a column is listed twice: {', '.join(names)}")
        return self

    @property
    def reads(self) -> Reads:
        return Reads(self.table, dict(zip(self.to or self.columns, self.columns, strict=True)))

    @property
    def match_column(self) -> str:
        """The staged column: whether the row has a match."""
        return f"_found_{self.id}"

    def condition(self, context: CheckContext) -> str:
        present = " AND ".join(f"{identifier(name)} IS NOT NULL" for name in self.columns)
        return f"({present} AND NOT coalesce({identifier(self.match_column)}, FALSE))"

    def message(self) -> str:
        return f"({', '.join(self.columns)}) in {self.table} ({', '.join(self.reads.columns)})"
