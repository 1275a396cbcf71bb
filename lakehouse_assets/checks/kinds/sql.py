"""SQL of one's own: a condition of a row, a SELECT that returns failing rows, an aggregate against bounds.

Belongs here: kinds whose parameter is SQL, parsed and guarded. Does not: what SQL may say (sql_text).
"""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator
from sqlglot import exp

from lakehouse_assets.checks.base import BatchCheck, CheckContext, Judgement, RowCheck
from lakehouse_assets.checks.bounds import bounded, judge_bounds
from lakehouse_assets.checks.sql_columns import unknown_columns
from lakehouse_assets.checks.sql_text import columns_of, of_clean_rows, parse_aggregate, parse_expression, parse_select

PARAMETERS = ("window_start", "window_end")


class Sql(RowCheck):
    """A SELECT over `batch` that returns failing rows; it may use ``:window_start`` and ``:window_end``.

    A plain filter (``select … from batch where …``) rides along in the scan and removes failing rows as any row check
    does. Anything more (joins, groups, windows, subqueries) is one query per window over its clean rows: those that no check
    removes, older ones of their key among them. It judges the batch as a whole, and tells three of the rows with a failure.
    A row for which the filter is NULL is not returned, and passes.
    """

    summary: ClassVar[str] = "a SELECT over `batch` returns no row"
    example: ClassVar[str] = '{check: sql, name: not_ahead, sql: "select * from batch where time_hour >= :window_end"}'

    check: Literal["sql"]
    sql: str
    """One SELECT. It can only read: functions that leave the data or give another answer each time (`rand`, `now`, …) are
    refused."""

    @field_validator("sql")
    @classmethod
    def _read_only(cls, value: str) -> str:
        tree = parse_select(value, "sql")
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
        """The condition of a plain filter, its columns without the name of the batch; None for any other query."""
        return _filter(self.tree)

    @property
    def conditions(self) -> tuple[exp.Expr, ...]:
        """The filter, too."""
        return (*super().conditions, *([] if self.filter is None else [self.filter]))

    @property
    def scope(self) -> Literal["row", "batch"]:
        """Rows where the query is a plain filter."""
        return "batch" if self.filter is None else "row"

    @property
    def own_columns(self) -> tuple[str, ...]:
        """Columns of the filter; a query over the whole batch may name columns of its own making."""
        return () if self.filter is None else tuple(sorted(columns_of(self.filter)))

    @property
    def columns_named(self) -> tuple[str, ...]:
        """Those of the whole query, with names of its own making."""
        return (*self.columns_used, *sorted(columns_of(self.tree)))

    def unknown_columns(self, columns: Collection[str]) -> list[str]:
        """Those of the filter, or those that the whole query names and cannot have."""
        return super().unknown_columns(columns) if self.scope == "row" else unknown_columns(self.tree, columns)

    @property
    def parts(self) -> tuple[str, ...]:
        """Nothing: SQL is best named."""
        return ()

    def condition(self, context: CheckContext) -> str:
        """The filter, with the window's bounds in the place of the parameters."""
        if self.filter is None:
            raise ValueError(f"{self.id} judges the batch as a whole, not its rows")
        return f"({_bind(self.filter, context)})"

    def query(self, context: CheckContext) -> str:
        """The query over one window, bounds bound."""
        return _bind(self.tree, context)

    def rides_along(self, context: CheckContext) -> bool:
        """Where the query is a plain filter."""
        return self.scope == "row"

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Fails when the query returned a row. It is asked of an empty batch too: no answer is not a pass."""
        if "failing" not in values:
            return Judgement("error", {}, "the query was not run")
        found = int(values.get("failing") or 0)
        if not found:
            return Judgement("passed", {"rows_returned": 0})
        observed = {"rows_returned": found, "examples": values.get("examples", [])}
        # Which rows these are may hang on their order, and a message is part of the decision: it is the same when replayed.
        return Judgement("failed", observed, f"{found} row(s) returned", found)

    def message(self) -> str:
        """What is promised."""
        return f"free of rows that {self.id} selects"


class Expression(RowCheck):
    """A condition over the row's columns that is true. NULL passes."""

    summary: ClassVar[str] = "a condition of the row is true"
    example: ClassVar[str] = '{check: expression, name: wind_fits, expr: "wind_gust_ms >= wind_speed_ms"}'

    check: Literal["expression"]
    expr: str
    """SQL over the row's columns."""

    @field_validator("expr")
    @classmethod
    def _parsed(cls, value: str) -> str:
        parse_expression(value, "expr")
        return value

    @property
    def conditions(self) -> tuple[exp.Expr, ...]:
        """Its own, too."""
        return (*super().conditions, parse_expression(self.expr, "expr"))

    @property
    def own_columns(self) -> tuple[str, ...]:
        """Those of the condition."""
        return tuple(sorted(columns_of(parse_expression(self.expr, "expr"))))

    def condition(self, context: CheckContext) -> str:
        """Its opposite."""
        return f"NOT ({parse_expression(self.expr, 'expr').sql(dialect='spark')})"

    def message(self) -> str:
        """What is promised."""
        return self.expr


class Metric(BatchCheck):
    """An aggregate over the batch's clean rows lies between ``min`` and ``max``, both included. NULL, as of no rows, NaN and
    infinities fail.
    """

    summary: ClassVar[str] = "an aggregate of the batch is between min and max"
    example: ClassVar[str] = '{check: metric, name: share_of_calm, sql: "avg(cast(wind_speed_ms = 0 as int))", max: 0.5}'

    check: Literal["metric"]
    sql: str
    """One number of all rows, such as `sum(x) / count(*)`."""
    min: float | None = Field(default=None, allow_inf_nan=False)
    """The least value that passes."""
    max: float | None = Field(default=None, allow_inf_nan=False)
    """The greatest value that passes."""

    @field_validator("sql")
    @classmethod
    def _an_aggregate(cls, value: str) -> str:
        parse_aggregate(value, "sql")
        return value

    @model_validator(mode="after")
    def _bounds(self) -> "Metric":
        bounded("metric", self.min, self.max)
        return self

    @property
    def own_columns(self) -> tuple[str, ...]:
        """Those of the aggregate."""
        return tuple(sorted(columns_of(parse_aggregate(self.sql, "sql"))))

    def metrics(self, context: CheckContext) -> dict[str, str]:
        """``value``."""
        return {"value": f"CAST({of_clean_rows(parse_aggregate(self.sql, 'sql'))} AS DOUBLE)"}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Fails outside the bounds."""
        return judge_bounds(self.sql, values.get("value"), self.min, self.max)


def _is_filter(tree: exp.Select) -> bool:
    given = {name.rstrip("_") for name, value in tree.args.items() if value}
    if given - {"expressions", "from", "where", "kind"} or "where" not in given:
        return False
    if tree.find(exp.Join, exp.Subquery, exp.Window, exp.AggFunc, exp.Exists) or len(list(tree.find_all(exp.Select))) > 1:
        return False
    return all(isinstance(e, exp.Star | exp.Column) for e in tree.expressions)


def _filter(tree: exp.Select) -> exp.Expr | None:
    if not _is_filter(tree):
        return None
    source = tree.find(exp.Table)
    if source is None or {name for name, value in source.args.items() if value} - {"this", "alias"}:
        return None
    alias = source.args.get("alias")
    if alias and alias.columns:
        return None  # it renames the columns
    condition = tree.args["where"].this.copy()
    # In the scan there is no `batch`, and no other name of it, that a column could belong to.
    for column in list(condition.find_all(exp.Column)):
        if column.table and column.table.lower() == source.alias_or_name.lower() and not column.db:
            column.set("table", None)
    return condition


def _bind(tree: exp.Expr, context: CheckContext) -> str:
    bounds = {"window_start": context.window_start_sql, "window_end": context.window_end_sql}
    bound = tree.copy()
    for table in list(bound.find_all(exp.Table)):
        if table.name.lower() == "batch":
            known_as = table.alias_or_name
            table.set("this", exp.to_identifier(context.batch_view, quoted=True))
            if not table.alias:
                # Under the name that the query knows it by, so that `batch.x` still means it.
                table.set("alias", exp.TableAlias(this=exp.to_identifier(known_as)))
    return bound.transform(
        lambda node: exp.maybe_parse(bounds[node.name], dialect="spark") if isinstance(node, exp.Placeholder) else node
    ).sql(dialect="spark")
