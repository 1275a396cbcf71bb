"""Figures of a batch that agree with another table's.

Belongs here: the check that compares them, by group, and its query. Does not: single rows (references), or which tables may
be read (contracts/references).
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator
from sqlglot import exp

from lakehouse_assets.checks.base import CheckContext, Judgement, Reads
from lakehouse_assets.checks.families import BatchCheck
from lakehouse_assets.checks.judgements import ROUNDING
from lakehouse_assets.checks.kinds.sql import PARAMETERS
from lakehouse_assets.checks.parameters import Aggregate, require_java
from lakehouse_assets.checks.sql.text import columns_of, identifier, literal, parse_aggregate, parse_expression

WINDOW = "p_extracted_at"


class Reconcile(BatchCheck):
    """A figure of the batch equals a figure of another table's silver, for each group of the batch.

    ``measure`` is an aggregate over the batch's clean rows, ``against`` one over the other table. ``by``: ``{SQL over the
    batch: SQL over the other table}``; a group is compared with the one of equal values (NULL equals NULL here). Without
    ``by``, the whole batch is compared with the whole table, also where the batch has no clean row. ``tolerance``: the
    difference that is allowed, as a share of the other table's figure. Between fractions (doubles) a difference in the last
    digits, 1e-9 of it, is none. A NULL figure equals NULL, and nothing else. One that is NaN or infinite differs from all, and
    so does a group that the other table lacks.

    A group that only the other table has is compared only if it is known to belong to this window. Either ``against_where``
    selects the window's rows of the other table, or the batch's side of ``by`` has ``p_extracted_at``. Then a batch without
    clean rows is compared as well. Otherwise such a group is not compared, since the other table may cover more than one
    window: a batch that lacks a whole group passes.
    """

    quoting = ("worst",)
    summary = "a figure of the batch equals a figure of another table, by group"
    example = (
        "{check: reconcile, measure: sum(departures), table: flights, against: count_if(departed_at is not null),"
        " by: {day: to_date(scheduled_departure_at)}}"
    )

    check: Literal["reconcile"]
    measure: Aggregate
    """An aggregate over the batch's clean rows."""
    table: str
    """The other table."""
    against: Aggregate
    """An aggregate over the other table's silver."""
    against_where: str | None = None
    """A SQL condition over the other table, which may use `:window_start` and `:window_end`: the rows that belong to the
    batch's window, as `day >= :window_start and day < :window_end`. Only these are compared, and a group that only they have
    differs. Gold has no window; there, `true` compares with the whole table both ways."""
    by: dict[str, str] = {}
    """`SQL over the batch: SQL over the other table`. A group of the batch is compared with the one of equal values. Without
    it, the whole batch is compared with the whole table (or with what `against_where` leaves of it)."""
    tolerance: float = Field(default=0, ge=0, allow_inf_nan=False)
    """The difference that is allowed, as a share of the other table's figure."""

    @field_validator("against_where")
    @classmethod
    def _condition(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            require_java(_parse_where(value), info)
        return value

    @field_validator("by")
    @classmethod
    def _expressions(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for text in (*value, *value.values()):
            require_java(parse_expression(text, "by"), info)
        return value

    @property
    def own_columns(self) -> tuple[str, ...]:
        trees = [parse_aggregate(self.measure, "measure"), *(parse_expression(own, "by") for own in self.by)]
        return _columns(trees)

    @property
    def id_parts(self) -> tuple[str, ...]:
        return (self.table, *self.own_columns)

    @property
    def reads(self) -> Reads:
        trees = [parse_aggregate(self.against, "against"), *(parse_expression(other, "by") for other in self.by.values())]
        trees += [_parse_where(self.against_where)] if self.against_where is not None else []
        return Reads(self.table, dict.fromkeys(_columns(trees)), shown=True)

    @property
    def needs_windows(self) -> bool:
        return bool(self._of_window)

    @property
    def parameters(self) -> set[str]:
        """The bounds of the window that `against_where` names."""
        if self.against_where is None:
            return set()
        return {parameter.name for parameter in _parse_where(self.against_where).find_all(exp.Placeholder)}

    @property
    def _of_window(self) -> list[str]:
        """Conditions that select the window's rows of the other table; none if they are not known."""
        conditions = []
        if self.against_where is not None:
            tree = _parse_where(self.against_where)
            bound = tree.transform(lambda n: exp.column(f"_{n.name}", "_w") if isinstance(n, exp.Placeholder) else n)
            conditions.append(f"({_text(bound)})")
        for own, other in self.by.items():
            tree = parse_expression(own, "by")
            if isinstance(tree, exp.Column) and not tree.table and tree.name.lower() == WINDOW:
                conditions.append(f"({_text(parse_expression(other, 'by'))}) = _w._window_start")
        return conditions

    def query_by_window(self, context: CheckContext) -> str | None:
        """Return SQL of ``groups``, ``differing`` ones, those ``lacking`` in the batch, and the ``worst`` as JSON.

        Without ``by``, a batch without clean rows is compared by its figure: with `needs_windows`, a row for each window; else
        one row without a window.
        """
        names = [identifier(f"k{index}") for index, _ in enumerate(self.by)]
        same = "".join(f" AND a.{name} <=> b.{name}" for name in names)
        if self.needs_windows:
            joined = f"FULL OUTER JOIN ({self._there(context, names)}) AS b ON a.{WINDOW} = b._window{same}"
            window, keys = f"coalesce(a.{WINDOW}, b._window)", [f"coalesce({_shown('a', n)}, {_shown('b', n)})" for n in names]
        else:
            joined = f"LEFT JOIN ({self._there(context, names)}) AS b ON b._window{same}"
            window, keys = f"a.{WINDOW}", [f"a.{name}" for name in names]
        # Two sums of the same fractions, added in another order, differ in their last digits.
        fractions = "typeof(a.own) IN ('double', 'float') OR typeof(b.other) IN ('double', 'float')"
        share = f"greatest({literal(float(self.tolerance))}, if({fractions}, {literal(ROUNDING)}, DOUBLE(0)))"
        # To Spark NaN equals NaN, and is above every number: what is no finite number agrees with nothing.
        finite = " AND ".join(f"abs({side}) < DOUBLE('Infinity')" for side in ("a.own", "b.other"))
        # Divided: a tolerance of 0.29 times 100 is less than 29.
        off = "CAST(abs(a.own - b.other) AS DOUBLE) / CAST(abs(b.other) AS DOUBLE)"
        equal = f"{finite} AND CASE WHEN b.other = 0 THEN a.own = 0 ELSE {off} <= {share} END"
        equal = f"coalesce({equal}, a.own IS NULL AND b.other IS NULL)"
        equal = f"(a._here IS NOT NULL AND b._window IS NOT NULL AND {equal})"
        # Spark limits the length of a field's name.
        fields = [f"{key} AS {identifier(sql[:60])}" for key, sql in zip(keys, self.by, strict=True)]
        fields = ", ".join([*fields, "a.own AS own", "b.other AS other"])
        worst = f"to_json(struct({fields}), map('ignoreNullFields', 'false'))"
        ranked = "coalesce(CAST(abs(a.own - b.other) AS DOUBLE), DOUBLE('Infinity'))"
        return (
            f"SELECT {window} AS {WINDOW}, count(1) AS groups, count_if(NOT {equal}) AS differing,"
            f" count_if(a._here IS NULL) AS lacking, max_by({worst}, {ranked}) FILTER (WHERE NOT {equal}) AS worst"
            f" FROM ({self._here(context, names)}) AS a {joined} GROUP BY {window}"
        )

    def _here(self, context: CheckContext, names: list[str]) -> str:
        """Return SQL of the batch's figures by window and group."""
        batch, measure = identifier(context.batch_view), _text(parse_aggregate(self.measure, "measure"))
        own = [_text(parse_expression(sql, "by")) for sql in self.by]
        keys = [f"{sql} AS {name}" for sql, name in zip(own, names, strict=True)]
        columns, groups = ", ".join([WINDOW, "TRUE AS _here", *keys, f"{measure} AS own"]), ", ".join([WINDOW, *own])
        figures = f"SELECT {columns} FROM {batch} GROUP BY {groups}"
        if own:
            return figures
        none = f"SELECT {measure} AS own FROM {batch} WHERE FALSE"
        if not self.needs_windows:
            return f"{figures} UNION ALL SELECT CAST(NULL AS TIMESTAMP), TRUE, z.own FROM ({none}) AS z"
        there = f"SELECT {WINDOW} FROM {batch}"
        left = f"{identifier(context.windows_view)} AS _w LEFT ANTI JOIN ({there}) AS f ON _w._window_start = f.{WINDOW}"
        return f"{figures} UNION ALL SELECT _w._window_start, TRUE, z.own FROM {left} CROSS JOIN ({none}) AS z"

    def _there(self, context: CheckContext, names: list[str]) -> str:
        """Return SQL of the other table's figures by group; with `needs_windows`, by window and group."""
        table, against = identifier(self.reads.view), _text(parse_aggregate(self.against, "against"))
        other = [_text(parse_expression(sql, "by")) for sql in self.by.values()]
        keys = [f"{sql} AS {name}" for sql, name in zip(other, names, strict=True)]
        if not self.needs_windows:
            grouped = f" GROUP BY {', '.join(other)}" if other else ""
            return f"SELECT {', '.join(['TRUE AS _window', *keys, f'{against} AS other'])} FROM {table}{grouped}"
        windows, of_window = identifier(context.windows_view), " AND ".join(self._of_window)
        columns = ", ".join(["_w._window_start AS _window", *keys, f"{against} AS other"])
        joined = f"{table} JOIN {windows} AS _w ON {of_window}"
        figures = f"SELECT {columns} FROM {joined} GROUP BY {', '.join(['_w._window_start', *other])}"
        if other:
            return figures
        left = f"{windows} AS _v LEFT ANTI JOIN (SELECT _w._window_start FROM {joined}) AS f"
        none = f"SELECT {against} AS other FROM {table} WHERE FALSE"
        empty = f"SELECT _v._window_start, z.other FROM {left} ON _v._window_start = f._window_start CROSS JOIN ({none}) AS z"
        return f"{figures} UNION ALL {empty}"

    @property
    def default_metrics(self) -> dict[str, Any]:
        # Neither side has a group in this window. Without `by` the batch is one group, and in the query's result.
        return {"groups": 0, "differing": 0, "lacking": 0} if self.by else {}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        if "differing" not in values:
            return Judgement("error", {}, "the tables were not compared")
        groups, differing = int(values["groups"]), int(values["differing"])
        text = f"{differing} of {groups} group(s): {self.measure} is not {self.against} of {self.table}" if differing else ""
        if lacking := int(values["lacking"]):
            text += f"; {lacking} of them only {self.table} has"
        observed = {"groups": groups, "differing": differing, "worst": values.get("worst"), "tolerance": self.tolerance}
        observed["compared"] = self._compared
        return Judgement.of(observed, text)

    @property
    def _compared(self) -> str:
        if self.needs_windows:
            return f"the batch and what {self.table} has of its window, both ways"
        return f"the batch's groups; not those that only {self.table} has" if self.by else "the whole batch"


def _columns(trees: list[exp.Expr]) -> tuple[str, ...]:
    return tuple(sorted({name for tree in trees for name in columns_of(tree)} - {WINDOW}))


def _parse_where(text: str) -> exp.Expr:
    return parse_expression(text, "against_where", parameters=PARAMETERS)


def _text(tree: exp.Expr) -> str:
    return tree.sql(dialect="spark")


def _shown(side: str, name: str) -> str:
    """Return SQL of a group's value of one side, as text: the sides may have types without a common one."""
    return f"CAST({side}.{name} AS STRING)"
