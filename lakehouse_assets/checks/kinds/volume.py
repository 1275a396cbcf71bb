"""How many rows a batch has.

Belongs here: kinds that count rows. Does not: values (figures), distinct ones (uniqueness).
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from lakehouse_assets.checks.base import CheckContext, Judgement
from lakehouse_assets.checks.families import BatchCheck, BoundedCheck


class NotEmpty(BatchCheck):
    """The batch has at least one row, unreadable ones included, and whatever is NULL in it."""

    summary = "the batch has at least one row"
    example = "{check: not_empty}"

    check: Literal["not_empty"]

    def metrics(self, context: CheckContext) -> dict[str, str]:
        return {"rows": "count(1)"}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        rows = int(values.get("rows") or 0)
        return Judgement.of({"rows": rows}, "" if rows else "the batch is empty")


class RowCount(BoundedCheck, BatchCheck):
    """The number of rows is between ``min`` and ``max``, both included. A row counts whatever is NULL in it, and whether or
    not it fails other checks; with ``where``, if that is true of it.
    """

    summary = "the number of rows is between min and max"
    example = "{check: row_count, min: 24, max: 75}"
    takes_where = True
    lowest = 0

    check: Literal["row_count"]
    min: int | None = Field(default=None, ge=0, le=10**15)
    """The least number that passes."""
    max: int | None = Field(default=None, ge=0, le=10**15)
    """The greatest number that passes."""

    def metrics(self, context: CheckContext) -> dict[str, str]:
        return {"rows": f"count_if({self.where_sql})" if self.where else "count(1)"}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        rows, problem = int(values.get("rows") or 0), ""
        if self.min is not None and rows < self.min:
            problem = f"{rows} rows{self.where_text}, promised at least {self.min}"
        elif self.max is not None and rows > self.max:
            problem = f"{rows} rows{self.where_text}, promised at most {self.max}"
        return Judgement.of({"rows": rows, "min": self.min, "max": self.max}, problem)
