"""What every check is: its common parameters, its measurement as SQL text, and its judgement of the numbers.

Belongs here: what rows and batches have in common, and "Severity, said once". Does not: the two families (families), any kind,
or what a judgement does to its batch (judgements).
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator
from sqlglot import exp

from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.checks.parameters import Condition
from lakehouse_assets.checks.sql.columns import no_condition
from lakehouse_assets.checks.sql.text import columns_of, parse_expression
from lakehouse_assets.checks.strict_model import StrictModel

# Outcomes are stored by name: a declared check with one of these names would replace a built-in outcome.
BUILT_IN = {
    *("readable_row", "casts", "key_not_null", "delete_when", "source_columns", "new_columns", "supersede"),
    *("drift", "key", "grain"),
}
NAME = "[A-Za-z_][A-Za-z0-9_]{0,99}"
Status = Literal["passed", "failed", "error", "skipped"]
Effect = Literal["quarantine_rows", "quarantine_batch", "warn"]


@dataclass(frozen=True)
class CheckContext:
    """What a check knows of its batch: the table's key, the window's bounds as SQL, and the view that its SQL reads.

    ``control``: the source's own totals of the window; None if they were not requested.
    """

    key: tuple[str, ...]
    window_start_sql: str
    window_end_sql: str
    batch_view: str
    last_modified: str | None = None
    control: ControlTotals | None = None

    @property
    def windows_view(self) -> str:
        """The view with each window's `_window_start` and `_window_end`, for queries with `needs_windows`."""
        return f"{self.batch_view}_windows"


@dataclass(frozen=True)
class Judgement:
    """``observed``: JSON-safe figures for people. ``failed_rows``: 0 if the check counts no rows."""

    status: Status
    observed: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    failed_rows: int = 0

    @classmethod
    def of(cls, observed: Mapping[str, Any], problem: str = "") -> Self:
        """Return a failure with this message, or a pass if there is no problem."""
        return cls("failed" if problem else "passed", observed, problem)


@dataclass(frozen=True)
class Reads:
    """Columns that a check reads from another table's silver, each with the batch's column of the same type (or None).

    ``shown``: whether the check shows figures of these columns.
    """

    table: str
    columns: Mapping[str, str | None]
    shown: bool = False

    @property
    def view(self) -> str:
        """The name of its view in SQL."""
        return f"silver_{self.table}"


class Check(StrictModel):
    """Parameters that all kinds share."""

    summary: ClassVar[str]
    example: ClassVar[str]
    takes_where: ClassVar[bool] = False
    """Whether a batch check accepts `where`. Row checks always do."""
    quoting: ClassVar[tuple[str, ...]] = ()
    """Names of figures that may quote values of columns."""

    if TYPE_CHECKING:
        check: Any  # each kind declares its own literal

    name: str | None = Field(default=None, json_schema_extra={"pattern": f"^{NAME}$"})
    """Letters, digits and `_`, at most 100. Without it, the kind and the columns: `in_range_amount`. Names are unique within a
    table."""
    severity: Literal["critical", "warning", "info"] = "critical"
    """`critical` blocks; `warning` and `info` quarantine nothing."""
    threshold: float | None = Field(default=None, gt=0, le=1)
    """Row checks: the share of the rows read (those of `where`, or all) that must pass. 0 is refused, since every batch would
    pass."""
    on_fail: Effect | None = None
    """What a failure does. Without it, severity and kind decide. A contradiction (`warning` with a quarantine,
    `quarantine_rows` in a batch check) is refused."""
    where: Condition | None = None
    """A SQL condition; only rows for which it is true are read. Row checks have it, and those batch checks that mention it
    below. In an aggregate of your own, write `FILTER (WHERE …)` into its SQL."""
    description: str | None = None
    """Shown with the check in the UI."""
    depends_on: tuple[str, ...] = ()
    """Names of other checks of the same table that must pass first. A row check skips rows that fail a row check that it
    depends on. Any check is *skipped* if a check that it depends on is in error, is skipped, or failed without removing its
    failing rows. A blocking check can depend only on blocking checks."""

    @field_validator("name")
    @classmethod
    def _plain_name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(NAME, value):
            raise ValueError(f"name {value!r}: letters, digits and _ only, not beginning with a digit, at most 100")
        if value is not None and (value.lower() in BUILT_IN or value.lower().startswith("cast_")):
            raise ValueError(f"name {value!r}: every table has a built-in check of this name")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.on_fail in ("quarantine_rows", "quarantine_batch") and not self.blocking:
            raise ValueError(
                f"on_fail: {self.on_fail} contradicts severity: {self.severity}; only a critical check quarantines"
            )
        if self.scope == "batch":
            if self.threshold is not None:
                raise ValueError(f"threshold does not apply to {self.check}, which judges the batch as a whole")
            if self.where is not None and not self.takes_where:
                raise ValueError(f"where does not apply to {self.check}; if it has SQL, choose the rows there")
            if self.on_fail == "quarantine_rows":
                raise ValueError(f"on_fail: quarantine_rows contradicts {self.check}, which names no single rows")
        return self

    @property
    def scope(self) -> Literal["row", "batch"]:
        """Whether it judges single rows or the batch as a whole."""
        return "batch"

    @property
    def id_parts(self) -> tuple[str, ...]:
        """The parts of its default name after the kind."""
        return self.own_columns

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The columns of the kind's own parameters: `column`, `columns`, and those of its conditions."""
        column = getattr(self, "column", None)
        names = (column,) if column else getattr(self, "columns", ())
        return tuple(dict.fromkeys([*names, *(name for tree in self.own_conditions for name in sorted(columns_of(tree)))]))

    @property
    def columns_used(self) -> tuple[str, ...]:
        """The columns that it needs: its own, then those of `where`."""
        of_where = sorted(columns_of(parse_expression(self.where, "where"))) if self.where else []
        return tuple(dict.fromkeys([*self.own_columns, *of_where]))

    @property
    def columns_named(self) -> tuple[str, ...]:
        """The columns that it may read: those that it needs, and names in a query that may be columns."""
        return self.columns_used

    @property
    def where_sql(self) -> str:
        """`where`, as Spark SQL that is never NULL; TRUE without it."""
        return "TRUE" if not self.where else f"coalesce({parse_expression(self.where, 'where').sql(dialect='spark')}, FALSE)"

    def unknown_columns(self, columns: Collection[str]) -> list[str]:
        """Return the columns that it needs and the batch lacks."""
        return [name for name in self.columns_used if name not in columns]

    def type_problem(self, types: Mapping[str, str]) -> str:
        """Return why Spark cannot evaluate it on columns of these types, whatever their values; "" if it can, or if a type is
        unknown.
        """
        return ""

    @property
    def own_conditions(self) -> tuple[exp.Expr, ...]:
        """The kind's own parameters that must be true or false, parsed."""
        return ()

    def unfit_reason(self, types: Mapping[str, str]) -> str:
        """Return why it can never be judged with columns of these types; "" if it can, or if nothing is known."""
        conditions = [parse_expression(self.where, "where")] if self.where is not None else []
        problems = (no_condition(tree, types) for tree in (*conditions, *self.own_conditions))
        return self.type_problem(types) or next(filter(None, problems), "")

    @property
    def id(self) -> str:
        """Its name; by default the kind and the columns."""
        return self.name or re.sub(r"[^A-Za-z0-9_]", "_", "_".join([self.check, *self.id_parts]))[:100]

    @property
    def blocking(self) -> bool:
        """Whether a failure quarantines rows or the batch."""
        return self.severity == "critical" and self.on_fail != "warn"

    @property
    def effect(self) -> Effect:
        """Return what a failure does: `on_fail`, or the default of the severity."""
        default: Effect = "quarantine_rows" if self.scope == "row" else "quarantine_batch"
        return self.on_fail or (default if self.blocking else "warn")

    @property
    def removes_rows(self) -> bool:
        """Whether a failing row leaves the batch."""
        return self.effect == "quarantine_rows"

    @property
    def reads(self) -> Reads | None:
        """What it reads from another table."""
        return None

    def is_fused(self, context: CheckContext) -> bool:
        """Whether the one scan of the batch measures it; else it has a query of its own."""
        return True

    def metrics(self, context: CheckContext) -> dict[str, str]:
        """Return ``{metric: Spark SQL aggregate}``."""
        return {}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Judge one batch by its metrics. A batch without rows has none."""
        raise NotImplementedError  # each kind
