"""How a table's files lie: partitioned or clustered by some of its columns, which may be derived for it.

Belongs here: the shape, and which columns it may name. Does not: computing or writing them (measures, storage).
"""

from collections.abc import Collection, Mapping
from typing import Literal

from pydantic import Field, field_validator, model_validator

from lakehouse_assets.checks.sql.text import columns_of, parse_expression
from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.columns import Column, declared_type, unfit_name
from lakehouse_assets.contracts.spark_types import NESTED, parse_type

MOST_CLUSTERED = 4  # of Delta
WITHOUT_STATISTICS = ("boolean", "binary")
MOST_INDEXED = 32  # Delta keeps statistics of a table's first columns only


class DerivedColumn(StrictModel):
    """A column of silver that is computed from the row as silver has it."""

    type: str
    """Its type, as of `columns`."""
    expr: str
    """SQL over the declared columns: `"to_date(time_hour)"`. What it stops at, or what is no value of the type, is NULL."""

    @field_validator("type")
    @classmethod
    def _known_type(cls, value: str) -> str:
        return declared_type(value)

    @field_validator("expr")
    @classmethod
    def _parsed(cls, value: str) -> str:
        parse_expression(value, "expr")
        return value

    @property
    def columns_used(self) -> frozenset[str]:
        """The columns that the expression reads."""
        return frozenset(columns_of(parse_expression(self.expr, "expr")))

    def as_column(self, *, pii: bool) -> Column:
        """Return the declaration of the column in silver."""
        return Column(type=self.type, description=f"derived: {self.expr}", pii=pii)


class LayoutSpec(StrictModel):
    """How the table's files lie: `partition_by` or `cluster_by` ([what it costs](tables.md#layout)). It changes no value, and
    no verdict.
    """

    partition_by: tuple[str, ...] = ()
    """Columns, each value of which is a folder of its own. For a few hundred values, each with many rows. Not `pii`: folders
    show the values."""
    cluster_by: tuple[str, ...] = Field(default=(), max_length=MOST_CLUSTERED)
    """Columns whose near values lie in the same files once maintenance has compacted them. At most four."""
    derived: dict[str, DerivedColumn] = {}
    """Silver only: `name: {type, expr}` of columns that are computed for the layout. Gold's SQL may read them."""

    @model_validator(mode="after")
    def _one_way(self) -> "LayoutSpec":
        if bool(self.partition_by) == bool(self.cluster_by):
            raise ValueError("state either partition_by or cluster_by")
        if twice := [name for index, name in enumerate(self.columns) if name in self.columns[:index]]:
            raise ValueError(f"{self.way}: {twice[0]!r} is listed twice")
        for name in self.derived:
            if why := unfit_name(name):
                raise ValueError(f"derived.{name}: column {name!r}: {why}")
            if name not in self.columns:
                raise ValueError(f"derived.{name}: {self.way} does not list it")
        return self

    @property
    def way(self) -> Literal["partition_by", "cluster_by"]:
        """The key that lists the columns."""
        return "partition_by" if self.partition_by else "cluster_by"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the files lie by."""
        return self.partition_by or self.cluster_by

    def mistake(self, types: Mapping[str, str], personal: Collection[str]) -> str | None:
        """Return why a table cannot lie so, after the key; None if it can. ``types``: its columns in order. ``personal``: those
        that are `pii`.
        """
        names = list(types)
        for index, name in enumerate(self.columns):
            where = f"{self.way}.{index}"
            if name not in types:
                return f"{where}: there is no column {name!r}; there are {', '.join(types)}"
            try:
                nested = isinstance(parse_type(types[name]), NESTED)
            except ValueError:
                nested = False
            if nested:
                return f"{where}: {name} is {types[name]}; use a plain column"
            if self.partition_by and name in personal:
                return f"{where}: {name} is pii, and folders would show its values; cluster by it, or leave it out"
            if self.cluster_by and (types[name] in WITHOUT_STATISTICS or names.index(name) >= MOST_INDEXED):
                return (
                    f"{where}: Delta keeps no statistics of {name} ({types[name]}); use one of the first {MOST_INDEXED} columns"
                )
        if self.partition_by and set(self.columns) >= set(types):
            return f"{self.way}: a column has to remain for the files"
        return None
