"""What a batch says of another table: keys that are found there, figures that agree.

Belongs here: kinds that read another table's silver. Does not: which tables may be read (contracts/references).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator
from sqlglot import exp

from lakehouse_assets.checks.base import BatchCheck, CheckContext, Judgement, Reads, RowCheck
from lakehouse_assets.checks.sql_text import columns_of, identifier, literal, parse_aggregate, parse_expression


class ForeignKey(RowCheck):
    """The row's ``columns`` are found together in one row of another table's silver, as it is when the batch is judged.

    A row with a NULL among its ``columns`` passes (SQL's MATCH SIMPLE); a NULL in the other table is never a match. A table
    that has never been published puts the check in error.
    """

    summary: ClassVar[str] = "the row's columns are found in another table"
    example: ClassVar[str] = "{check: foreign_key, columns: [tail_number], table: planes, severity: warning, threshold: 0.8}"

    check: Literal["foreign_key"]
    columns: tuple[str, ...] = Field(min_length=1)
    """The columns that refer."""
    table: str
    """The table that is referred to."""
    to: tuple[str, ...] = ()
    """The other table's columns; without it, those of the same names."""

    @model_validator(mode="after")
    def _as_many(self) -> "ForeignKey":
        if self.to and len(self.to) != len(self.columns):
            raise ValueError(f"to: {len(self.to)} column(s) for {len(self.columns)} of `columns`")
        return self

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The columns that refer."""
        return self.columns

    @property
    def reads(self) -> Reads:
        """The table that is referred to."""
        return Reads(self.table, dict(zip(self.to or self.columns, self.columns, strict=True)))

    @property
    def found(self) -> str:
        """The staged column that says whether the row's match was found."""
        return f"_found_{self.id}"

    def condition(self, context: CheckContext) -> str:
        """All of the columns are there, and their match is not."""
        known = " AND ".join(f"{identifier(name)} IS NOT NULL" for name in self.columns)
        return f"({known} AND NOT coalesce({identifier(self.found)}, FALSE))"

    def message(self) -> str:
        """What is promised."""
        return f"({', '.join(self.columns)}) in {self.table} ({', '.join(self.reads.columns)})"


class Reconcile(BatchCheck):
    """A figure of the batch equals a figure of another table's silver, for each group of the batch.

    ``measure`` is an aggregate over the batch's clean rows, ``against`` one over the other table. ``by``: ``{SQL over the
    batch: SQL over the other table}``; a group is compared with the one of equal values (NULL equals NULL here).
    Without ``by``, the whole batch is compared with the whole table, also where the batch has no clean row. ``tolerance``: the
    difference that is allowed, as a share of the other table's figure. A NULL figure equals NULL, and nothing else; so a group
    that the other table lacks differs.

    With ``by``, a group that only the other table has is not compared, since that table may well know more than one window: a
    batch that lacks a whole group, or has no clean row, passes. `not_empty`, `row_count` or `distinct_count` find that.
    """

    summary: ClassVar[str] = "a figure of the batch equals a figure of another table, by group"
    example: ClassVar[str] = (
        "{check: reconcile, measure: sum(departures), table: flights, against: count_if(departed_at is not null),"
        " by: {day: to_date(scheduled_departure_at)}}"
    )

    check: Literal["reconcile"]
    measure: str
    """An aggregate over the batch's clean rows."""
    table: str
    """The other table."""
    against: str
    """An aggregate over the other table's silver."""
    by: dict[str, str] = {}
    """`SQL over the batch: SQL over the other table`. A group of the batch is compared with the one of equal values; one that
    only the other table has is not. Without it, the whole batch is compared with the whole table."""
    tolerance: float = Field(default=0, ge=0, allow_inf_nan=False)
    """The difference that is allowed, as a share of the other table's figure."""

    @field_validator("measure", "against")
    @classmethod
    def _aggregates(cls, value: str) -> str:
        parse_aggregate(value, "an aggregate")
        return value

    @field_validator("by")
    @classmethod
    def _expressions(cls, value: dict[str, str]) -> dict[str, str]:
        for own, other in value.items():
            parse_expression(own, "by")
            parse_expression(other, "by")
        return value

    @property
    def columns_used(self) -> tuple[str, ...]:
        """Columns of the batch that it measures or groups by."""
        used = columns_of(parse_aggregate(self.measure, "measure"))
        for own in self.by:
            used |= columns_of(parse_expression(own, "by"))
        return tuple(sorted(used - {"p_extracted_at"}))

    @property
    def parts(self) -> tuple[str, ...]:
        """The other table, and what is measured."""
        return (self.table, *self.columns_used)

    @property
    def reads(self) -> Reads:
        """The table that it is compared with."""
        used = columns_of(parse_aggregate(self.against, "against"))
        for other in self.by.values():
            used |= columns_of(parse_expression(other, "by"))
        return Reads(self.table, dict.fromkeys(sorted(used - {"p_extracted_at"})), shown=True)

    def query_by_window(self, context: CheckContext) -> str | None:
        """``groups`` that the batch has, ``differing`` ones, and the ``worst`` of these as JSON. Without ``by``, one row more,
        of no window: what is so of a batch without clean rows.
        """
        own = [_text(parse_expression(sql, "by")) for sql in self.by]
        other = [_text(parse_expression(sql, "by")) for sql in self.by.values()]
        names = [identifier(name) for name in (f"k{i}" for i in range(len(own)))]
        measure = _text(parse_aggregate(self.measure, "measure"))
        against = _text(parse_aggregate(self.against, "against"))
        here = ["p_extracted_at", *(f"{sql} AS {name}" for sql, name in zip(own, names, strict=True)), f"{measure} AS own"]
        there = [*(f"{sql} AS {name}" for sql, name in zip(other, names, strict=True)), f"{against} AS other"]
        grouped = f"GROUP BY {', '.join(other)}" if other else ""
        same = " AND ".join(f"a.{name} <=> b.{name}" for name in names) or "TRUE"
        allowed = f"{literal(float(self.tolerance))} * abs(b.other)"
        equal = f"coalesce(abs(a.own - b.other) <= {allowed}, a.own IS NULL AND b.other IS NULL)"
        told = ", ".join(f"a.{name} AS {_label(sql)}" for name, sql in zip(names, self.by, strict=True))
        told = f"struct({told}{', ' if told else ''}a.own AS own, b.other AS other)"
        ranked = "coalesce(CAST(abs(a.own - b.other) AS DOUBLE), DOUBLE('Infinity'))"
        batch = identifier(context.batch_view)
        figures = f"SELECT {', '.join(here)} FROM {batch} GROUP BY {', '.join(['p_extracted_at', *own])}"
        if not own:
            figures += f" UNION ALL SELECT CAST(NULL AS TIMESTAMP) AS p_extracted_at, {measure} AS own FROM {batch} WHERE FALSE"
        parts = [
            f"SELECT p_extracted_at, count(1) AS groups, count_if(NOT {equal}) AS differing,",
            f"to_json(max_by({told}, {ranked}) FILTER (WHERE NOT {equal})) AS worst",
            f"FROM ({figures}) AS a",
            f"LEFT JOIN (SELECT {', '.join(there)}",
            f"FROM {identifier(self.reads.view)} {grouped}) AS b ON {same} GROUP BY p_extracted_at",
        ]
        return " ".join(parts)

    @property
    def no_answer(self) -> dict[str, Any]:
        """A batch without clean rows has no group to compare. Without ``by`` it is one, of which the query speaks."""
        return {"groups": 0, "differing": 0} if self.by else {}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Fails when a group differs by more than the tolerance."""
        if "differing" not in values:
            return Judgement("error", {}, "the tables were not compared")
        groups, differing = int(values["groups"]), int(values["differing"])
        text = f"{differing} of {groups} group(s): {self.measure} is not {self.against} of {self.table}" if differing else ""
        observed = {"groups": groups, "differing": differing, "worst": values.get("worst"), "tolerance": self.tolerance}
        observed["compared"] = f"the batch's groups; not those that only {self.table} has" if self.by else "the whole batch"
        return Judgement("failed" if differing else "passed", observed, text)


def _text(tree: exp.Expr) -> str:
    return tree.sql(dialect="spark")


def _label(sql: str) -> str:
    """A group's expression as a field's name, within what Spark takes for one."""
    return identifier(sql[:60])
