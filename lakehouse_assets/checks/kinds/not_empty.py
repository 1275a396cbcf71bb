"""The check kind `not_empty`. Belongs here: its parameters, its SQL, its judgement. Does not: running it."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from lakehouse_assets.checks.base import BatchCheck, CheckContext, Judgement


class NotEmpty(BatchCheck):
    """The batch has at least one row, unreadable ones included."""

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
