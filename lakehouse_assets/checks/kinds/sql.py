"""SQL of one's own: a condition of a row, a SELECT that returns failing rows, an aggregate against bounds.

Belongs here: kinds whose parameter is SQL, parsed and guarded. Does not: what SQL may say (sql/).
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationInfo, field_validator
from sqlglot import exp

from lakehouse_assets.checks.base import CheckContext, Judgement
from lakehouse_assets.checks.families import BatchCheck, BoundedCheck, RowCheck
from lakehouse_assets.checks.judgements import judge_bounds
from lakehouse_assets.checks.parameters import Aggregate, Condition, require_java
from lakehouse_assets.checks.sql.columns import unknown_columns
from lakehouse_assets.checks.sql.text import columns_of, of_clean_rows, parse_aggregate, parse_expression, parse_select

PARAMETERS = ("window_start", "window_end")


class Sql(RowCheck):
    """A SELECT over `batch` that returns failing rows; it may use ``:window_start`` and ``:window_end``.

    A plain filter (``select … from batch where …``) is evaluated during staging and removes failing rows like any row check.
    Anything more (joins, groups, windows, subqueries) is one query per window over its clean rows. These are the rows that no
    check removes, including older rows of a key. It judges the batch as a whole, and a failure shows three of the rows. A row
    for which the filter is NULL is not returned, and passes.
    """

    summary = "a SELECT over `batch` returns no row"
    example = '{check: sql, name: not_ahead, sql: "select * from batch where time_hour >= :window_end"}'

    check: Literal["sql"]
    sql: str
    """One SELECT. It can only read: functions that leave the data or give another answer each time (`rand`, `now`, …) are
    refused."""

    @field_validator("sql")
    @classmethod
    def _read_only(cls, value: str, info: ValidationInfo) -> str:
        tree = parse_select(value, "sql")
        require_java(tree, info)
        for parameter in tree.find_all(exp.Placeholder):
            if parameter.name not in PARAMETERS:
                raise ValueError(f"sql: :{parameter.name} is not known; there are :window_start and :window_end")
        return value

    @property
    def tree(self) -> exp.Select:
        """The parsed query."""
        return parse_select(self.sql, "sql")

    @property
    def filter(self) -> exp.Expr | None:
        """The condition of a plain filter, without the name of the batch; None for any other query."""
        return _filter(self.tree)

    @property
    def own_conditions(self) -> tuple[exp.Expr, ...]:
        return () if self.filter is None else (self.filter,)

    @property
    def scope(self) -> Literal["row", "batch"]:
        return _scope(self.sql)

    @property
    def columns_named(self) -> tuple[str, ...]:
        return (*self.columns_used, *sorted(columns_of(self.tree)))

    def unknown_columns(self, columns: Collection[str]) -> list[str]:
        return super().unknown_columns(columns) if self.scope == "row" else unknown_columns(self.tree, columns)

    @property
    def id_parts(self) -> tuple[str, ...]:
        return ()  # SQL needs a name of its own

    def condition(self, context: CheckContext) -> str:
        if self.filter is None:
            raise ValueError(f"{self.id} judges the batch as a whole, not its rows")
        return f"({_bind(self.filter, context)})"

    def query(self, context: CheckContext) -> str:
        """Return the query over one window, with its bounds and its view."""
        return _bind(self.tree, context)

    def is_fused(self, context: CheckContext) -> bool:
        return self.scope == "row"

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        if "failing" not in values:
            return Judgement("error", {}, "the query was not run")
        failing = int(values.get("failing") or 0)
        if not failing:
            return Judgement("passed", {"rows_returned": 0})
        observed = {"rows_returned": failing, "examples": values.get("examples", [])}
        # No examples in the message: it is part of the decision, and a replay may return other rows first.
        return Judgement("failed", observed, f"{failing} row(s) returned", failing)

    def message(self) -> str:
        return f"free of rows that {self.id} selects"


class Expression(RowCheck):
    """A condition over the row's columns that is true. NULL passes."""

    summary = "a condition of the row is true"
    example = '{check: expression, name: wind_fits, expr: "wind_gust_ms >= wind_speed_ms"}'
    rule = "{expr}"

    check: Literal["expression"]
    expr: Condition
    """SQL over the row's columns."""

    @property
    def own_conditions(self) -> tuple[exp.Expr, ...]:
        return (parse_expression(self.expr, "expr"),)

    def condition(self, context: CheckContext) -> str:
        return f"NOT ({self.own_conditions[0].sql(dialect='spark')})"


class AggregateCheck(BatchCheck):
    """A batch check whose figure is the aggregate `sql` over the clean rows."""

    if TYPE_CHECKING:
        sql: Aggregate  # each kind declares and describes its own

    @property
    def own_columns(self) -> tuple[str, ...]:
        return tuple(sorted(columns_of(parse_aggregate(self.sql, "sql"))))

    def metrics(self, context: CheckContext) -> dict[str, str]:
        return {"value": f"CAST({of_clean_rows(parse_aggregate(self.sql, 'sql'))} AS DOUBLE)"}


class Metric(BoundedCheck, AggregateCheck):
    """An aggregate over the batch's clean rows is between ``min`` and ``max``, both included. NULL, as of no rows, NaN and
    infinities fail.
    """

    summary = "an aggregate of the batch is between min and max"
    example = '{check: metric, name: share_of_calm, sql: "avg(cast(wind_speed_ms = 0 as int))", max: 0.5}'

    check: Literal["metric"]
    sql: Aggregate
    """One number of all rows, such as `sum(x) / count(*)`."""
    min: float | None = Field(default=None, allow_inf_nan=False)
    """The least value that passes."""
    max: float | None = Field(default=None, allow_inf_nan=False)
    """The greatest value that passes."""

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        return judge_bounds(self.sql, values.get("value"), self.min, self.max)


@lru_cache(maxsize=10_000)
def _scope(sql: str) -> Literal["row", "batch"]:
    # Asked of each window several times. To parse a query takes milliseconds.
    return "batch" if _filter(parse_select(sql, "sql")) is None else "row"


def _filter(tree: exp.Select) -> exp.Expr | None:
    clauses = {name.rstrip("_") for name, value in tree.args.items() if value}
    if clauses - {"expressions", "from", "where", "kind"} or "where" not in clauses:
        return None
    if tree.find(exp.Join, exp.Subquery, exp.Window, exp.AggFunc, exp.Exists) or len(list(tree.find_all(exp.Select))) > 1:
        return None
    if not all(isinstance(column, exp.Star | exp.Column) for column in tree.expressions):
        return None
    source = tree.find(exp.Table)
    if source is None or {name for name, value in source.args.items() if value} - {"this", "alias"}:
        return None
    alias = source.args.get("alias")
    if alias and alias.columns:
        return None  # it renames the columns
    condition = tree.args["where"].this.copy()
    # The scan has no name for the batch, so its columns are not qualified.
    for column in list(condition.find_all(exp.Column)):
        if column.table and column.table.lower() == source.alias_or_name.lower() and not column.db:
            column.set("table", None)
    return condition


def _bind(tree: exp.Expr, context: CheckContext) -> str:
    bounds = {"window_start": context.window_start_sql, "window_end": context.window_end_sql}
    bound = tree.copy()
    for table in list(bound.find_all(exp.Table)):
        if table.name.lower() == "batch":
            name = table.name
            table.set("this", exp.to_identifier(context.batch_view, quoted=True))
            if not table.alias:
                # The query's own name for the view, so that `batch.x` still works.
                table.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
    return bound.transform(
        lambda node: exp.maybe_parse(bounds[node.name], dialect="spark") if isinstance(node, exp.Placeholder) else node
    ).sql(dialect="spark")
