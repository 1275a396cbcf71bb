"""Columns computed from a row's others once it is folded: the surrogate key, and those of the layout.

Belongs here: a folded row → the row as silver has it, and what a partition cannot hold. Does not: the hash (surrogate_key),
folding (pipeline), or writing.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier, parse_expression
from lakehouse_assets.contracts.layout import LayoutSpec
from lakehouse_assets.contracts.silver import silver_columns
from lakehouse_assets.contracts.spark_types import parse_type
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.measures.surrogate_key import hash_sql
from lakehouse_assets.measures.typed import within_calendar
from lakehouse_assets.storage.session_properties import disable_ansi, rule_semantics


def as_silver(rows: DataFrame, spec: TableContract, *more: str) -> DataFrame:
    """Return these rows with silver's columns in their order, the computed ones among them, and ``more`` of their own columns.
    ``rows``: has all others.
    """
    key, derived = spec.surrogate_key, spec.derived_columns
    if key is not None:
        types = [parse_type(spec.columns[name].type) for name in key.columns]
        # Casts to text depend on ANSI mode and zone.
        with rule_semantics(rows.sparkSession):
            rows = rows.withColumn(key.name, F.expr(hash_sql(key.columns, types)))
    if derived:
        # What an expression stops at is NULL: it must not stop the table.
        with rule_semantics(rows.sparkSession), disable_ansi(rows.sparkSession):
            for name, column in derived.items():
                value = parse_expression(column.expr, "expr").sql(dialect="spark")
                value = within_calendar(column.type, f"try_cast(({value}) AS {column.type})")
                rows = rows.withColumn(name, F.expr(value))
    return as_partitioned(rows, spec.layout).select(*map(identifier, silver_columns(spec)), *more)


def as_partitioned(rows: DataFrame, layout: LayoutSpec | None) -> DataFrame:
    """Return these rows as a table with this layout has them: Delta stores an empty text of a partition as NULL."""
    kinds = dict(rows.dtypes)
    texts = [name for name in (layout.partition_by if layout else ()) if kinds.get(name) == "string"]
    return rows.withColumns({name: F.expr(f"nullif({identifier(name)}, '')") for name in texts}) if texts else rows
