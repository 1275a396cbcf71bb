"""How many rows a batch has.

Belongs here: kinds that count rows. Does not: values (figures), distinct ones (uniqueness).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from lakehouse_assets.checks.base import BatchCheck, CheckContext, Judgement
from lakehouse_assets.checks.bounds import bounded


class NotEmpty(BatchCheck):
    """The batch has at least one row, unreadable ones included, and whatever is NULL in it."""

    summary: ClassVar[str] = "the batch has at least one row"
    example: ClassVar[str] = "{check: not_empty}"

    check: Literal["not_empty"]

    def metrics(self, context: CheckContext) -> dict[str, str]:
        """``rows``."""
        return {"rows": "count(1)"}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Fails on no rows."""
        rows = int(values.get("rows") or 0)
        return Judgement("passed" if rows else "failed", {"rows": rows}, "" if rows else "the batch is empty")


class RowCount(BatchCheck):
    """The number of rows lies between ``min`` and ``max``, both included. A row counts whatever is NULL in it, and whether or
    not it fails other checks; with ``where``, if that is true of it.
    """

    summary: ClassVar[str] = "the number of rows is between min and max"
    example: ClassVar[str] = "{check: row_count, min: 24, max: 75}"
    takes_where: ClassVar[bool] = True

    check: Literal["row_count"]
    min: int | None = Field(default=None, ge=0)
    """The least number that passes."""
    max: int | None = Field(default=None, ge=0)
    """The greatest number that passes."""

    @model_validator(mode="after")
    def _bounds(self) -> "RowCount":
        bounded("row_count", self.min, self.max, 0)
        return self

    def metrics(self, context: CheckContext) -> dict[str, str]:
        """``rows``."""
        return {"rows": f"count_if({self.where_sql})" if self.where else "count(1)"}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Fails outside the bounds; no rows count as 0."""
        rows = int(values.get("rows") or 0)
        low = self.min is not None and rows < self.min
        high = self.max is not None and rows > self.max
        text = (
            f"{rows} rows{self.of_where}, promised {f'at least {self.min}' if low else f'at most {self.max}'}"
            if low or high
            else ""
        )
        return Judgement("failed" if text else "passed", {"rows": rows, "min": self.min, "max": self.max}, text)
