"""Which rows of a gold table are derived anew, and the shape in which they are written.

Belongs here: changed parts of the grain, and types against the table's. Does not: comparing types, or publishing (gold).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier, literal, parse_expression
from lakehouse_assets.contracts.batch import BATCH_COLUMNS
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold_rules import ruleset_hash
from lakehouse_assets.contracts.spark_types import Array, Map, SparkType, Struct, parse_type, sql_type, type_of_json
from lakehouse_assets.decisions.gate import Outcome
from lakehouse_assets.decisions.schema.comparison import Comparison, compare
from lakehouse_assets.decisions.schema.gate import NAMED, schema_outcome
from lakehouse_assets.measures.typed import inside_calendar
from lakehouse_assets.pipeline.gold_inputs import GoldInputs, input_path
from lakehouse_assets.pipeline.run import GoldRun
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta

CHECK = "schema_matches_contract"
Values = tuple[str | None, ...]
# More parts than these are not worth selecting: the table is then derived whole.
MOST = 1000


def changed_parts(run: GoldRun, log: Sequence[Decision], inputs: GoldInputs) -> Values | None:
    """Values of the grain, as text, of every row of the inputs that was added, changed or removed since gold was last
    published; None: derive the whole table, as after other rules. ``inputs``: as they are now. Collects at most `MOST` values.
    """
    rules, grain = ruleset_hash(run.spec, run.query), run.spec.grain
    # The newest, whatever its rules: the table has its rows. One that was not applied may have written some of them.
    base = max((d for d in log if d.accepted), key=lambda d: d.number, default=None)
    if grain is None or base is None or base.ruleset_hash != rules or not base.applied_at:
        return None
    if not delta.exists(run.published_path):
        return None
    before, now = base.inputs, inputs.versions
    if before.keys() != now.keys() or not inputs.are_tables_of(run.settings, base):
        return None
    changed = [name for name in now if before[name] != now[name]]
    if any(name not in grain.inputs or before[name] > now[name] for name in changed):
        return None
    values: set[str | None] = set()
    for name in changed:
        feed = run.spark.read.format("delta").option("readChangeFeed", "true")
        feed = feed.option("startingVersion", before[name] + 1).option("endingVersion", now[name])
        try:
            # Old images of updated rows are among them: a row may have moved from one part to another.
            rows = feed.load(input_path(run.settings, run.spec, name))
            texts = rows.select(F.expr(_text(grain.inputs[name])).cast("string").alias("v")).distinct()
            values |= {row["v"] for row in texts.limit(MOST + 1).collect()}
        except SCAN_ERRORS:
            # The feed of these versions is gone, was never kept, or has other columns.
            return None
        if len(values) > MOST:
            return None
    return tuple(sorted(values, key=lambda v: (v is not None, v)))


def selects(expr: str, values: Values) -> str:
    """SQL that is true for the rows of these parts, and never NULL."""
    text = f"CAST({_text(expr)} AS STRING)"
    literals = [literal(value) for value in values if value is not None]
    parts = [f"coalesce({text} IN ({', '.join(literals)}), FALSE)"] if literals else []
    parts += [f"{text} IS NULL"] if None in values else []
    return f"({' OR '.join(parts) or 'FALSE'})"


def format_values(values: Sequence[str | None]) -> str:
    """A few of the values, for people."""
    text = ", ".join("NULL" if value is None else value for value in values[:20])
    return text + (f", … {len(values)} in all" if len(values) > 20 else "")


def _text(expr: str) -> str:
    return parse_expression(expr, "grain").sql(dialect="spark")


@dataclass(frozen=True)
class Shape:
    """``comparison``: None where the table follows the SQL: it is not there, or its SQL was changed by a person."""

    columns: Mapping[str, SparkType]
    comparison: Comparison | None = None

    @property
    def grows(self) -> bool:
        """Whether the table gets other columns or types, so that all of it has to be derived."""
        return self.comparison is not None and self.comparison.outcome == "widened"

    def outcomes(self, rows: DataFrame) -> list[Outcome]:
        """Return the outcomes for changed columns, and for dates that Python cannot open; none if neither occurs."""
        differ = [d for d in (self.comparison.differences if self.comparison else ()) if d.outcome != "accepted"]
        if not differ:
            return _calendar_outcomes(rows)
        pairs = ", ".join(f"{d.path}: {d.promised or 'no column'} → {d.arrived or 'no column'}" for d in differ[:NAMED])
        text = f"what the SQL yields is not what the table has, though the SQL is the same: {pairs}"
        return [schema_outcome(CHECK, differ, text), *_calendar_outcomes(rows)]

    def of(self, rows: DataFrame) -> DataFrame:
        """The rows as they are written."""
        has = selected_columns(rows)
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


def selected_columns(rows: DataFrame) -> dict[str, SparkType]:
    """The columns of the SQL among those of a staging."""
    fields = rows.schema.jsonValue()["fields"]
    return {
        f["name"]: type_of_json(f["type"]) for f in fields if not f["name"].startswith("_") and f["name"] not in BATCH_COLUMNS
    }


def _calendar_outcomes(rows: DataFrame) -> list[Outcome]:
    """Return the outcome for rows with a date or moment outside the years 1 to 9999, by column. Python's readers, deltalake
    and pyarrow among them, could not open the table. Nothing without such rows.
    """
    by_column = {name: inside_calendar(kind, identifier(name)) for name, kind in selected_columns(rows).items()}
    conditions = {name: inside for name, inside in by_column.items() if inside is not None}
    if not conditions:
        return []
    (counts,) = rows.agg(*[F.count_if(~F.expr(inside)) for inside in conditions.values()]).collect()
    beyond = {name: count for name, count in zip(conditions, counts, strict=True) if count}
    if not beyond:
        return []
    named = ", ".join(f"{name} ({count} row(s))" for name, count in beyond.items())
    text = f"dates outside the years 1 to 9999, which no Python reader can open: {named}; mend the SQL"
    return [Outcome("calendar", "calendar", "critical", "failed", "batch", max(beyond.values()), text)]


def shape_of(run: GoldRun, rows: DataFrame, log: Sequence[Decision]) -> Shape:
    """Return the shape in which these rows are written: the table's own, unless someone changed the SQL or its types."""
    has = selected_columns(rows)
    last = max((d.number for d in log if d.accepted and d.applied_at), default=None)
    if last is None or not delta.exists(run.published_path):
        return Shape(has)
    # A later one that was not applied may have written the table, too.
    rulesets = [json.loads(d.ruleset) for d in log if d.accepted and d.number >= last]
    if any((each["sql"], each["types"]) != (run.query.sql, dict(run.query.types)) for each in rulesets):
        return Shape(has)
    table: dict[str, SparkType | None] = {name: parse_type(kind) for name, kind in delta.schema_types(run.published_path)}
    comparison = compare(table, has, run.spec.schema_policy, "gold")
    return Shape({name: kind for name, kind in comparison.result.items() if kind is not None}, comparison)
