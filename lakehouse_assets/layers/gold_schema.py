"""A gold table's columns: what the SQL yields beside what the table has, and the shape in which rows are written.

Belongs here: a frame's types against a table's. Does not: comparing (decisions), staging or writing gold.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql_text import identifier
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.spark_types import Array, Map, SparkType, Struct, parse_type, sql_type, type_of_json
from lakehouse_assets.decisions.gate import Outcome
from lakehouse_assets.decisions.schema import Comparison, compare
from lakehouse_assets.decisions.schema_gate import NAMED, told
from lakehouse_assets.layers.gold_batch import GoldRun
from lakehouse_assets.storage import delta

CHECK = "schema_matches_contract"
OWN = ("p_extracted_at", "extraction_seq")


@dataclass(frozen=True)
class Shape:
    """``comparison``: None where the table follows the SQL: it is not there, or its SQL was changed by a person."""

    columns: Mapping[str, SparkType]
    comparison: Comparison | None = None

    @property
    def grows(self) -> bool:
        """Whether the table gets other columns or types, so that all of it has to be derived."""
        return self.comparison is not None and self.comparison.outcome == "widened"

    def outcomes(self) -> list[Outcome]:
        """What the decision says of it; nothing where it is as it was."""
        differ = [d for d in (self.comparison.differences if self.comparison else ()) if d.outcome != "accepted"]
        if not differ:
            return []
        pairs = ", ".join(f"{d.path}: {d.promised or 'no column'} → {d.arrived or 'no column'}" for d in differ[:NAMED])
        return [told(CHECK, differ, f"what the SQL yields is not what the table has, though the SQL is the same: {pairs}")]

    def of(self, rows: DataFrame) -> DataFrame:
        """The rows as they are written."""
        has = yielded(rows)
        return rows.select(*[self._cell(name, kind, has) for name, kind in self.columns.items()])

    def _cell(self, name: str, kind: SparkType, has: Mapping[str, SparkType]) -> Column:
        if name not in has:
            return F.lit(None).cast(sql_type(kind)).alias(name)
        return _shaped(F.col(identifier(name)), has[name], kind).alias(name)


def _shaped(value: Column, has: SparkType, wants: SparkType) -> Column:
    """The value as another type: fields of structs by their names, where Spark's own cast goes by their places."""
    if has == wants:
        return value
    if isinstance(has, Struct) and isinstance(wants, Struct):
        inner = dict(has.fields)
        fields = [
            _shaped(value[name], inner[name], kind).alias(name)
            if name in inner
            else F.lit(None).cast(sql_type(kind)).alias(name)
            for name, kind in wants.fields
        ]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(has, Array) and isinstance(wants, Array):
        return F.transform(value, lambda each: _shaped(each, has.element, wants.element))
    if isinstance(has, Map) and isinstance(wants, Map) and has.key == wants.key:
        return F.transform_values(value, lambda _, each: _shaped(each, has.value, wants.value))
    return value.cast(sql_type(wants))


def yielded(rows: DataFrame) -> dict[str, SparkType]:
    """The columns of the SQL among those of a staging."""
    fields = rows.schema.jsonValue()["fields"]
    return {f["name"]: type_of_json(f["type"]) for f in fields if not f["name"].startswith("_") and f["name"] not in OWN}


def shape_of(run: GoldRun, rows: DataFrame, known: Sequence[Decision]) -> Shape:
    """How these rows are written: as the table stands, where nobody has changed what it is to be."""
    has = yielded(rows)
    written = [d for d in known if d.accepted and d.applied_at]
    if not written or not delta.exists(run.path):
        return Shape(has)
    last = json.loads(max(written, key=lambda d: d.number).ruleset)
    if (last["sql"], last["types"]) != (run.query.sql, dict(run.query.types)):
        return Shape(has)
    table: dict[str, SparkType | None] = {name: parse_type(kind) for name, kind in delta.schema_types(run.path)}
    comparison = compare(table, has, run.spec.schema_policy, "gold")
    return Shape({name: kind for name, kind in comparison.result.items() if kind is not None}, comparison)
