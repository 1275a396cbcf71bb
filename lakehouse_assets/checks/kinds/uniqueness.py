"""How often a value occurs in a batch: once, or how many different ones there are.

Belongs here: kinds that need rows brought together by value, each a query of its own. Does not: the key's own duplicates,
which the staging finds (measures/duplicates).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from lakehouse_assets.checks.base import BatchCheck, CheckContext, Judgement
from lakehouse_assets.checks.bounds import bounded, judge_bounds
from lakehouse_assets.checks.names import Columns
from lakehouse_assets.checks.sql_text import identifier


class Unique(BatchCheck):
    """No two clean rows of the batch share ``columns``; a row with a NULL among them is not compared; NaN equals NaN.

    On the table's own key it counts keys whose rows have the same `last_modified` and different content, in the
    deduplication's own pass: a mere repetition is superseded, and a newer row is an update. With ``where``, only those rows are
    compared (on the key: only keys whose newest row is one of them). Three of the values are told with a failure.
    """

    summary: ClassVar[str] = "no two rows share these columns (on the key: no contradicting twins)"
    example: ClassVar[str] = "{check: unique, columns: [origin, time_hour]}"
    takes_where: ClassVar[bool] = True

    check: Literal["unique"]
    columns: Columns = Field(min_length=1)
    """The columns, together."""

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def is_key(self, context: CheckContext) -> bool:
        """Whether these are the table's key, in any order."""
        return bool(context.key) and set(self.columns) == set(context.key)

    def metrics(self, context: CheckContext) -> dict[str, str]:
        """``duplicates``: of the key, keys in conflict; other columns take a query."""
        conflict = f"_conflict AND {self.where_sql}" if self.where else "_conflict"
        return {"duplicates": f"count_if({conflict})"} if self.is_key(context) else {}

    def query_by_window(self, context: CheckContext) -> str | None:
        """``duplicates``: values that occur more than once per window. None for the key, which rides along."""
        if self.is_key(context):
            return None
        grouped = f"SELECT p_extracted_at FROM {self._repeated(context)}"
        return f"SELECT p_extracted_at, count(1) AS duplicates FROM ({grouped}) GROUP BY p_extracted_at"

    def _repeated(self, context: CheckContext) -> str:
        names = [identifier(name) for name in self.columns]
        known = " AND ".join(f"{name} IS NOT NULL" for name in names)
        return f"{self.rows(context)} WHERE {known} GROUP BY p_extracted_at, {', '.join(names)} HAVING count(1) > 1"

    def examples(self, context: CheckContext) -> str | None:
        """Values that occur more than once, with the number of their rows; keys in conflict."""
        values = f"concat_ws(', ', {', '.join(f'CAST({identifier(name)} AS STRING)' for name in self.columns)})"
        if self.is_key(context):
            return f"SELECT p_extracted_at, concat('(', {values}, ')') AS value FROM {self.rows(context)} WHERE _conflict"
        return (
            f"SELECT p_extracted_at, concat('(', {values}, ') on ', count(1), ' rows') AS value FROM {self._repeated(context)}"
        )

    def fails(self, values: Mapping[str, Any]) -> bool:
        """Where anything occurs twice."""
        return bool(values.get("duplicates"))

    @property
    def no_answer(self) -> dict[str, Any]:
        """No group, no duplicate."""
        return {"duplicates": 0}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Fails on any duplicate. Of an empty batch the key's count is not there, and none are."""
        if "duplicates" not in values and not self.is_key(context):
            # Its query always answers, for an empty batch too: no answer is not a pass.
            return Judgement("error", {}, "the duplicates were not counted")
        found = int(values.get("duplicates") or 0)
        what = f"({', '.join(self.columns)})"
        contradicting = "with contradicting rows" if self.is_key(context) else "on more than one row"
        if not found:
            return Judgement("passed", {"duplicates": 0})
        text = f"{found} value(s) of {what}{self.of_where} {contradicting}"
        examples = values.get("examples", [])
        text += f", such as {'; '.join(examples)}" if examples else ""
        return Judgement("failed", {"duplicates": found, "examples": examples}, text)


class DistinctCount(BatchCheck):
    """The number of different values of ``columns`` among the batch's clean rows lies between ``min`` and
    ``max``. Counted in full.

    A row with a NULL among them is not counted; with ``where``, only those rows are.
    """

    summary: ClassVar[str] = "the number of different values is between min and max"
    example: ClassVar[str] = "{check: distinct_count, columns: [origin], min: 3, max: 3}"
    takes_where: ClassVar[bool] = True

    check: Literal["distinct_count"]
    columns: Columns = Field(min_length=1)
    """The columns, together."""
    min: int | None = Field(default=None, ge=0)
    """The least number that passes."""
    max: int | None = Field(default=None, ge=0)
    """The greatest number that passes."""

    @model_validator(mode="after")
    def _bounds(self) -> "DistinctCount":
        bounded("distinct_count", self.min, self.max, 0)
        return self

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def query_by_window(self, context: CheckContext) -> str | None:
        """``distinct`` values per window."""
        names = ", ".join(identifier(name) for name in self.columns)
        return (
            f"SELECT p_extracted_at, count(DISTINCT {names}) AS distinct_values FROM {self.rows(context)}"
            " GROUP BY p_extracted_at"
        )

    @property
    def no_answer(self) -> dict[str, Any]:
        """No row, no value."""
        return {"distinct_values": 0}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Fails outside the bounds."""
        if "distinct_values" not in values:
            return Judgement("error", {}, "the values were not counted")
        what = f"the number of different ({', '.join(self.columns)}){self.of_where}"
        return judge_bounds(what, int(values["distinct_values"]), self.min, self.max)
