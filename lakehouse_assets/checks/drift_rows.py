"""The rows that a drift verdict names, as a row check of one batch. The gate makes it; no YAML declares it.

Belongs here: its parameters, its SQL, its rule in words. Does not: which rows to name (decisions/drift/named_rows).
"""

from math import isfinite
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.families import RowCheck
from lakehouse_assets.checks.sql.text import columns_of, literal, parse_expression
from lakehouse_assets.checks.strict_model import StrictModel

DRIFT_ROWS = "drift_rows"
# Categories are compared by so many characters.
CATEGORY_LENGTH = 200


class CategoryCondition(StrictModel):
    """The rows of one category. ``name``: of its column or feature, for people; ``expr``: SQL over a row."""

    name: str
    expr: str
    category: str

    @property
    def sql(self) -> str:
        """Spark SQL that is true for a row of the category."""
        return f"(left(CAST(({_parsed(self.expr)}) AS STRING), {CATEGORY_LENGTH}) = {literal(self.category)})"


class DriftRows(RowCheck):
    """The rows of all these categories whose value is in an interval, or of a category. NULL and NaN pass.

    ``feature``: whose values there are too many of. ``value``: its SQL over a row. ``low``, ``high``: the interval, both
    included, in the feature's unit; None for a category. ``rows``: those that are published otherwise, ``usual``: as many are
    expected. ``p_value``: of the whole window. ``of_rows``: all rows of the window that are published otherwise; None in
    older rule sets.
    """

    summary = "the rows that a drift verdict names"
    example = ""
    rule = "{feature}"

    check: Literal["drift_rows"] = DRIFT_ROWS
    feature: str
    value: str
    shown: str
    low: float | None = None
    high: float | None = None
    categories: tuple[CategoryCondition, ...] = ()
    rows: int = Field(ge=1)
    usual: float = Field(ge=0)
    p_value: float
    of_rows: int | None = Field(default=None, ge=1, exclude_if=lambda rows: rows is None)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if (self.low is None) != (self.high is None) or (self.low is None and not self.categories):
            raise ValueError("drift_rows needs an interval or a category")
        if any(bound is not None and not isfinite(bound) for bound in (self.low, self.high)):
            raise ValueError("drift_rows needs finite bounds")
        return self

    recorded: ClassVar[set[str]] = {"feature", "low", "high", "categories", "rows", "usual", "p_value"}
    """What says which rows they are."""

    @property
    def id(self) -> str:
        """The same in every batch."""
        return DRIFT_ROWS

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The feature's columns, then those of the categories."""
        names = [name for sql in (self.value, *(each.expr for each in self.categories)) for name in _columns(sql)]
        return tuple(dict.fromkeys(names))

    def condition(self, context: CheckContext) -> str:
        """Return Spark SQL that is true for one of these rows."""
        inside = [each.sql for each in self.categories]
        if self.low is not None and self.high is not None:
            value = f"CAST(({_parsed(self.value)}) AS DOUBLE)"
            inside.insert(0, f"({value} BETWEEN {literal(float(self.low))} AND {literal(float(self.high))})")
        return f"({' AND '.join(inside)})"

    def message(self) -> str:
        """Return that other rows are usual, as a rule."""
        return f"like the windows before: {self.shown} (drift, p = {self.p_value:.3g})"

    @property
    def precision(self) -> float:
        """The share of its rows that is more than usual."""
        return 1.0 - self.usual / self.rows


def _parsed(sql: str) -> str:
    return parse_expression(sql, DRIFT_ROWS).sql(dialect="spark")


def _columns(sql: str) -> list[str]:
    return sorted(columns_of(parse_expression(sql, DRIFT_ROWS)))
