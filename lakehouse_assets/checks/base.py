"""What every check is: its common parameters, a measurement as SQL text, and a judgement of the numbers.

Belongs here: the two families (row, batch), and "Severity, said once". Does not: any kind, or what a judgement does
(consequences).
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator
from sqlglot import exp

from lakehouse_assets.checks.closed import Closed
from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.checks.sql_conditions import no_condition
from lakehouse_assets.checks.sql_text import columns_of, identifier, parse_expression

# Outcomes go by name: a declared check of such a name would take the place of what the lakehouse finds by itself.
BUILT_IN = {"readable_row", "casts", "key_not_null", "source_columns", "new_columns", "drift", "key", "grain"}
Status = Literal["passed", "failed", "error", "skipped"]
Effect = Literal["quarantine_rows", "quarantine_batch", "warn"]
LOOKED_AT = "looked_at"


@dataclass(frozen=True)
class CheckContext:
    """What a check may know of the batch: the table's key, SQL of the window's bounds, the view that SQL checks read.

    ``control``: what the source says of the window; None where it was not asked.
    """

    key: tuple[str, ...]
    window_start_sql: str
    window_end_sql: str
    batch_view: str
    last_modified: str | None = None
    control: ControlTotals | None = None

    @property
    def windows_view(self) -> str:
        """The bounds of each window, `_window_start` and `_window_end`: for queries that say they ask for them."""
        return f"{self.batch_view}_windows"


@dataclass(frozen=True)
class Judgement:
    """``observed``: figures for people, JSON-safe. ``failed_rows``: 0 where the check counts no rows."""

    status: Status
    observed: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    failed_rows: int = 0


@dataclass(frozen=True)
class Reads:
    """Another table's silver: ``columns`` of it that are read, with the own ones that they must be like (or None). ``shown``:
    whether figures made of them are told.
    """

    table: str
    columns: Mapping[str, str | None]
    shown: bool = False

    @property
    def view(self) -> str:
        """The name under which SQL finds it."""
        return f"silver_{self.table}"


class Check(Closed):
    """Parameters that all kinds share."""

    summary: ClassVar[str]
    example: ClassVar[str]
    takes_where: ClassVar[bool] = False
    """Whether, where it judges a batch, it can look at some of the rows only. What judges rows always can."""

    if TYPE_CHECKING:
        check: Any  # each kind says its own literal

    name: str | None = None
    """Letters, digits and `_`, at most 100. Without it, one made of the kind and the columns: `in_range_amount`. Two
    checks of a table must not share one."""
    severity: Literal["critical", "warning", "info"] = "critical"
    """`critical` blocks; `warning` and `info` hold nothing."""
    threshold: float | None = Field(default=None, gt=0, le=1)
    """Row checks: the share that must pass of the rows that are looked at: those of `where`, or all. 0 could never be
    missed."""
    on_fail: Effect | None = None
    """What a failure does. Without it, what severity and kind say. A contradiction (`warning` with a quarantine,
    `quarantine_rows` in a batch check) is refused."""
    where: str | None = None
    """A SQL condition; only rows for which it is true are looked at. Row checks have it, and of those that judge a batch the
    ones whose page says so; an aggregate of one's own takes `FILTER (WHERE …)` in its SQL."""
    description: str | None = None
    """Shown with the check in the UI."""
    depends_on: tuple[str, ...] = ()
    """Names of other checks of the same table that must hold first. A row check does not look at rows that fail a row check
    that it depends on. Any check is *skipped* where one that it depends on is in error, was skipped, or failed without its
    failing rows being removed. A check that can hold something may only depend on checks that can."""

    @field_validator("name")
    @classmethod
    def _plain_name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", value):
            raise ValueError(f"name {value!r}: letters, digits and _ only, not beginning with a digit, at most 100")
        if value is not None and (value.lower() in BUILT_IN or value.lower().startswith("cast_")):
            raise ValueError(f"name {value!r}: a check that every table has is called so")
        return value

    @field_validator("where")
    @classmethod
    def _guarded(cls, value: str | None) -> str | None:
        if value is not None:
            parse_expression(value, "where")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "Check":
        if self.on_fail in ("quarantine_rows", "quarantine_batch") and not self.blocking:
            raise ValueError(
                f"on_fail: {self.on_fail} contradicts severity: {self.severity}; only a critical check holds anything"
            )
        if self.scope == "batch":
            if self.threshold is not None:
                raise ValueError(f"threshold has no meaning in {self.check}, which judges the batch as a whole")
            if self.where is not None and not self.takes_where:
                raise ValueError(f"where has no meaning in {self.check}; where it has SQL, say there which rows are meant")
            if self.on_fail == "quarantine_rows":
                raise ValueError(f"on_fail: quarantine_rows contradicts {self.check}, which finds no single rows")
        return self

    @property
    def scope(self) -> Literal["row", "batch"]:
        """Whether it speaks of single rows."""
        raise NotImplementedError  # each family says

    @property
    def parts(self) -> tuple[str, ...]:
        """What makes its default name: the kind's own columns."""
        return self.own_columns

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The columns that the kind is about."""
        return ()

    @property
    def columns_used(self) -> tuple[str, ...]:
        """Columns that it needs: those of the kind, then those of `where`."""
        more = sorted(columns_of(parse_expression(self.where, "where"))) if self.where else []
        return tuple(dict.fromkeys([*self.own_columns, *more]))

    @property
    def columns_named(self) -> tuple[str, ...]:
        """Columns that it may read: those that it needs, or any name in a query that may be one."""
        return self.columns_used

    @property
    def where_sql(self) -> str:
        """`where`, as Spark SQL that is never NULL; TRUE without it."""
        return "TRUE" if not self.where else f"coalesce({parse_expression(self.where, 'where').sql(dialect='spark')}, FALSE)"

    def unknown_columns(self, columns: Collection[str]) -> list[str]:
        """What it names that is none of these columns of the batch."""
        return [name for name in self.columns_used if name not in columns]

    def misfit(self, types: Mapping[str, str]) -> str:
        """What Spark could not do with columns of these types, whatever their values are; nothing where it can, or where a type
        is not known.
        """
        return ""

    @property
    def conditions(self) -> tuple[exp.Expr, ...]:
        """Expressions of the configuration that must be true or false."""
        return (parse_expression(self.where, "where"),) if self.where is not None else ()

    def unfit(self, types: Mapping[str, str]) -> str:
        """Why it could never be judged with columns of these types; nothing where it can, or where nothing is known."""
        return self.misfit(types) or next((why for tree in self.conditions if (why := no_condition(tree, types))), "")

    @property
    def id(self) -> str:
        """Its name, or one made of the kind and the columns."""
        if self.name:
            return self.name
        return re.sub(r"[^A-Za-z0-9_]", "_", "_".join([self.check, *self.parts]))[:100]

    @property
    def blocking(self) -> bool:
        """Whether a failure holds rows or the batch."""
        return self.severity == "critical" and self.on_fail != "warn"

    @property
    def effect(self) -> Effect:
        """What a failure does, by "Severity, said once"."""
        if self.on_fail:
            return self.on_fail
        if not self.blocking:
            return "warn"
        return "quarantine_rows" if self.scope == "row" else "quarantine_batch"

    @property
    def reads(self) -> Reads | None:
        """The other table that it looks into, if any."""
        return None

    def rides_along(self, context: CheckContext) -> bool:
        """Whether the one scan of the batch answers it."""
        return True

    def metrics(self, context: CheckContext) -> dict[str, str]:
        """``{metric: Spark SQL aggregate}``."""
        return {}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """The judgement of one batch's metrics; a batch of no rows has none of them."""
        raise NotImplementedError  # each kind says

    @property
    def removes_rows(self) -> bool:
        """Whether a failing row leaves the batch."""
        return self.effect == "quarantine_rows"


class RowCheck(Check):
    """A row fails or not. NULL passes every kind but `not_null`; `where` limits the rows that are looked at."""

    @property
    def scope(self) -> Literal["row", "batch"]:
        """Single rows."""
        return "row"

    @property
    def value_column(self) -> str | None:
        """The column whose value is shown for a failing row."""
        return self.columns_used[0] if self.columns_used else None

    def condition(self, context: CheckContext) -> str:
        """Spark SQL, true for a failing row; NULL counts as passing."""
        raise NotImplementedError  # each kind says

    def failing(self, context: CheckContext) -> str:
        """Spark SQL, TRUE exactly for a failing row and never NULL."""
        failing = f"coalesce({self.condition(context)}, FALSE)"
        return f"({self.where_sql} AND {failing})" if self.where else failing

    @property
    def counts_where(self) -> bool:
        """Whether the rows of its `where` must be counted: its threshold is a share of them."""
        return self.where is not None and self.threshold is not None

    def metrics(self, context: CheckContext) -> dict[str, str]:
        """``looked_at``, where the threshold is a share of the rows of `where`."""
        return {LOOKED_AT: f"count_if({self.where_sql})"} if self.counts_where else {}

    def message(self) -> str:
        """What is promised, in a few words."""
        raise NotImplementedError  # each kind says


class ColumnCheck(RowCheck):
    """A row check of one column."""

    if TYPE_CHECKING:
        column: str  # each kind says which columns it can look at, in its own place among the parameters

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    @property
    def promised(self) -> str:
        """The kind's summary, said of this column."""
        return f"{self.column} {type(self).summary.removeprefix('the text ')}"


class BatchCheck(Check):
    """The batch as a whole passes or not, by metrics that ride along in one grouped aggregation, or by a query of its own."""

    @property
    def looked_at(self) -> str:
        """SQL over the staging, TRUE for rows that count: clean ones, and of these those of `where`."""
        return f"(_clean AND {self.where_sql})" if self.where else "_clean"

    def rows(self, context: CheckContext) -> str:
        """What a query of its own reads, as SQL to stand after FROM: the batch's clean rows, or those of `where`."""
        view = identifier(context.batch_view)
        return f"(SELECT * FROM {view} WHERE {self.where_sql})" if self.where else view  # noqa: S608 (parsed and guarded)

    @property
    def of_where(self) -> str:
        """What a message says of `where`."""
        return f" where {self.where}" if self.where else ""

    def query_by_window(self, context: CheckContext) -> str | None:
        """SQL over the batch view: ``p_extracted_at`` and metrics, a row per window; None where all metrics ride along.

        A row whose ``p_extracted_at`` is NULL tells of every window of which no other row does: those without clean rows.
        """
        return None

    def rides_along(self, context: CheckContext) -> bool:
        """Where it has no query of its own."""
        return self.query_by_window(context) is None

    def examples(self, context: CheckContext) -> str | None:
        """SQL over the batch view: ``p_extracted_at`` and ``value``, a text of what fails; None where there is no such thing.

        Asked of batches whose metrics say that something `fails`; a few of them are added to the metrics as ``examples``.
        """
        return None

    def fails(self, values: Mapping[str, Any]) -> bool:
        """Whether there are examples to be had in a batch of these metrics."""
        return False

    @property
    def asks_windows(self) -> bool:
        """Whether its query reads the bounds of the windows, too."""
        return False

    @property
    def no_answer(self) -> dict[str, Any]:
        """The metrics of a window of which the query says nothing."""
        return {}

    @property
    def scope(self) -> Literal["row", "batch"]:
        """The whole batch."""
        return "batch"
