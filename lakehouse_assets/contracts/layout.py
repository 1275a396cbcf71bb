"""How a table's files lie: partitioned or clustered by some of its columns, which may be derived for it.

Belongs here: the shape, and which columns it may name. Does not: computing or writing them (measures, storage).
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from lakehouse_assets.checks.parameters import require_java
from lakehouse_assets.checks.sql.text import columns_of, parse_expression
from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.columns import Column, DeclaredType, unfit_name
from lakehouse_assets.contracts.spark_types import NESTED, SparkType, Struct, parse_type

MOST_CLUSTERED = 4  # of Delta
WITHOUT_STATISTICS = ("boolean", "binary")
MOST_INDEXED = 32  # Delta keeps statistics of a table's first columns only, and counts the fields of a struct
UNFIT_FOLDERS = ("float", "double", "binary", "variant", "void")
INEXACT = ("float", "double")  # 0.0 and -0.0 are equal, and two texts


class DerivedColumn(StrictModel):
    """A column of silver that is computed from the row as silver has it."""

    type: DeclaredType
    """Its type, as of `columns`."""
    expr: str
    """SQL over the declared columns: `"to_date(time_hour)"`. What it stops at, what is no value of the type, and an empty text
    are NULL."""

    @field_validator("expr")
    @classmethod
    def _parsed(cls, value: str, info: ValidationInfo) -> str:
        require_java(parse_expression(value, "expr"), info)
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
    """Columns, each value of which is a folder of its own. For a few hundred values, each with many rows. In `upsert` and
    `snapshot` mode they follow from the key. Not `float`, `double`, `binary` or nested. Not `pii`: folders show the values."""
    cluster_by: tuple[str, ...] = Field(default=(), max_length=MOST_CLUSTERED)
    """Columns whose near values lie in the same files once maintenance has compacted them. At most four."""
    derived: dict[str, DerivedColumn] = {}
    """Silver only: `name: {type, expr}` of columns that are computed for the layout. Gold's SQL may read them."""

    @model_validator(mode="after")
    def _one_way(self) -> "LayoutSpec":
        if bool(self.partition_by) == bool(self.cluster_by):
            both = "it has both" if self.partition_by else "it has neither"
            raise ValueError(f"state either partition_by or cluster_by; {both}")
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

    def describe(self) -> str:
        """Return the layout as one line, for people."""
        return layout_text(self.partition_by, self.cluster_by)

    def sources_of(self, name: str) -> frozenset[str]:
        """Return the declared columns that a column of the layout is made of: itself, unless it is derived."""
        return self.derived[name].columns_used if name in self.derived else frozenset({name})

    def mistake(self, types: Mapping[str, str], personal: Collection[str], key: Collection[str] | None = None) -> str | None:
        """Return why a table cannot lie so, after the key; None if it can. ``types``: its columns in order. ``personal``: those
        that are `pii`. ``key``: of silver, the columns that a MERGE matches by, none in append mode; None: the table is gold.
        """
        for index, name in enumerate(self.columns):
            if name not in types:
                why = f"there is no column {name!r}; there are {', '.join(types)}"
            elif self.partition_by:
                why = self._unfit_partition(name, types, personal)
                why = why or (None if key is None else self._unfit_for_silver(name, types, key))
            else:
                why = _unfit_clustering(name, types)
            if why:
                return f"{self.way}.{index}: {why}"
        if self.partition_by and set(self.columns) >= set(types):
            return f"{self.way}: a column has to remain for the files"
        return None

    def _unfit_partition(self, name: str, types: Mapping[str, str], personal: Collection[str]) -> str | None:
        kind = types[name]
        if isinstance(_parsed(kind), NESTED):
            return f"{name} is {kind}; use a plain column"
        if kind in UNFIT_FOLDERS:
            return f"{name} is {kind}, whose values make no folders; use a date, a text or a whole number"
        if name in personal:
            return f"{name} is pii, and folders would show its values; cluster by it, or leave it out"
        return None

    def _unfit_for_silver(self, name: str, types: Mapping[str, str], key: Collection[str]) -> str | None:
        """Why a row of silver would not be in one partition, which is known from its key, with the value that it has."""
        sources = sorted(self.sources_of(name))
        if key and (others := [each for each in sources if each not in key]):
            return (
                f"{name} does not follow from the key ({', '.join(key)}), because of {others[0]}: each MERGE would read every"
                " partition. Derive it from columns of the key, or use cluster_by"
            )
        if inexact := [each for each in sources if types.get(each) in INEXACT]:
            return f"{inexact[0]} is {types[inexact[0]]}: equal keys could lie in two partitions; use cluster_by"
        if types[name] == "string" and name not in self.derived:
            return (
                f"Delta stores an empty text of a partition as NULL, which would change {name}; list a derived column instead,"
                f" as in `derived: {{{name}_folder: {{type: string, expr: {name}}}}}`, or use cluster_by"
            )
        return None


def layout_text(partitions: Sequence[str], clustering: Sequence[str]) -> str:
    """Return a layout as one line, for people."""
    if partitions:
        return f"partition_by {', '.join(partitions)}"
    return f"cluster_by {', '.join(clustering)}" if clustering else "one folder"


def _unfit_clustering(name: str, types: Mapping[str, str]) -> str | None:
    kind = types[name]
    if isinstance(_parsed(kind), NESTED):
        return f"{name} is {kind}; use a plain column"
    before = itertools.takewhile(lambda each: each != name, types)
    if kind in WITHOUT_STATISTICS or sum(_leaves(_parsed(types[each])) for each in before) >= MOST_INDEXED:
        return f"Delta keeps no statistics of {name} ({kind}); use one of the first {MOST_INDEXED} columns"
    return None


def _parsed(kind: str) -> SparkType | None:
    """Return a type's tree; None for a type of gold's SQL that is not known."""
    try:
        return parse_type(kind)
    except ValueError:
        return None


def _leaves(kind: SparkType | None) -> int:
    """Return as how many columns Delta counts a column."""
    return sum(_leaves(each) for _, each in kind.fields) if isinstance(kind, Struct) else 1
