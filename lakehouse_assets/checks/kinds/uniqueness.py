"""How often a value occurs in a batch: once, or how many different ones there are.

Belongs here: kinds that need rows brought together by value, each a query of its own. Does not: the key's own duplicates,
which the staging finds (measures/duplicates).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from lakehouse_assets.checks.base import CheckContext, Judgement
from lakehouse_assets.checks.families import BatchCheck, BoundedCheck
from lakehouse_assets.checks.judgements import judge_bounds
from lakehouse_assets.checks.parameters import Columns
from lakehouse_assets.checks.sql.text import MOST_EXAMPLES, identifier, short_text


class Unique(BatchCheck):
    """No two clean rows of the batch share ``columns``; a row with a NULL among them is not compared; NaN equals NaN.

    On the table's own key it counts keys whose rows have the same ``last_modified`` and different content, in the
    deduplication's own pass. A mere repetition is superseded, and a newer row is an update. With ``where``, only those rows
    are compared (on the key: only keys whose newest row is one of them). A failure shows three of the values.
    """

    summary = "no two rows share these columns (on the key: no contradicting twins)"
    example = "{check: unique, columns: [origin, time_hour]}"
    takes_where = True

    check: Literal["unique"]
    columns: Columns = Field(min_length=1)
    """The columns, together."""

    def is_key(self, context: CheckContext) -> bool:
        """Return whether the columns are the table's key, in any order and, as to Spark, in any letter case."""
        return bool(context.key) and {name.lower() for name in self.columns} == {name.lower() for name in context.key}

    def metrics(self, context: CheckContext) -> dict[str, str]:
        conflict = f"_conflict AND {self.where_sql}" if self.where else "_conflict"
        return {"duplicates": f"count_if({conflict})"} if self.is_key(context) else {}

    def query_by_window(self, context: CheckContext) -> str | None:
        if self.is_key(context):
            return None
        names = [identifier(name) for name in self.columns]
        present = " AND ".join(f"{name} IS NOT NULL" for name in names)
        value = short_text(f"concat({self._values}, ' on ', count(1), ' rows')")
        repeated = f"SELECT p_extracted_at, {value} AS value FROM {self.rows(context)} WHERE {present}"
        repeated += f" GROUP BY p_extracted_at, {', '.join(names)} HAVING count(1) > 1"
        ranked = f"SELECT *, row_number() OVER (PARTITION BY p_extracted_at ORDER BY value) AS nth FROM ({repeated})"
        examples = f"sort_array(collect_list(value) FILTER (WHERE nth <= {MOST_EXAMPLES}))"
        metrics = f"p_extracted_at, count(1) AS duplicates, {examples} AS examples"
        return f"SELECT {metrics} FROM ({ranked}) GROUP BY p_extracted_at"

    @property
    def repeated_columns(self) -> Sequence[str]:
        # A `where` is evaluated for every row: it may fail on one that is not repeated.
        return () if self.where else self.columns

    @property
    def _values(self) -> str:
        return f"concat('(', concat_ws(', ', {', '.join(f'CAST({identifier(name)} AS STRING)' for name in self.columns)}), ')')"

    def examples(self, context: CheckContext) -> str | None:
        if not self.is_key(context):
            return None  # its own query has them
        return f"SELECT p_extracted_at, {self._values} AS value FROM {self.rows(context)} WHERE _conflict"

    def has_failures(self, values: Mapping[str, Any]) -> bool:
        return bool(values.get("duplicates"))

    @property
    def default_metrics(self) -> dict[str, Any]:
        return {"duplicates": 0}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        if "duplicates" not in values and not self.is_key(context):
            # Its query also answers for an empty batch, so a missing answer is no pass.
            return Judgement("error", {}, "the duplicates were not counted")
        if not self.has_failures(values):
            return Judgement("passed", {"duplicates": 0})
        duplicates, examples = int(values["duplicates"]), values.get("examples", [])
        problem = "with contradicting rows" if self.is_key(context) else "on more than one row"
        text = f"{duplicates} value(s) of ({', '.join(self.columns)}){self.where_text} {problem}"
        text += f", such as {'; '.join(examples)}" if examples else ""
        return Judgement("failed", {"duplicates": duplicates, "examples": examples}, text)


class DistinctCount(BoundedCheck, BatchCheck):
    """The number of different values of ``columns`` among the batch's clean rows is between ``min`` and ``max``. Counted in
    full.

    A row with a NULL among them is not counted; with ``where``, only those rows are.
    """

    summary = "the number of different values is between min and max"
    example = "{check: distinct_count, columns: [origin], min: 3, max: 3}"
    takes_where = True
    lowest = 0

    check: Literal["distinct_count"]
    columns: Columns = Field(min_length=1)
    """The columns, together."""
    min: int | None = Field(default=None, ge=0, le=10**15)
    """The least number that passes."""
    max: int | None = Field(default=None, ge=0, le=10**15)
    """The greatest number that passes."""

    def query_by_window(self, context: CheckContext) -> str | None:
        count = f"count(DISTINCT {', '.join(identifier(name) for name in self.columns)})"
        return f"SELECT p_extracted_at, {count} AS distinct_values FROM {self.rows(context)} GROUP BY p_extracted_at"

    @property
    def default_metrics(self) -> dict[str, Any]:
        return {"distinct_values": 0}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        if "distinct_values" not in values:
            return Judgement("error", {}, "the values were not counted")
        what = f"the number of different ({', '.join(self.columns)}){self.where_text}"
        return judge_bounds(what, int(values["distinct_values"]), self.min, self.max)
