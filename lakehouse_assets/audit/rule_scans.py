"""The measurements of audit rules: failing rows of a sample and of the whole table, repeated values, examples.

Belongs here: the checks' SQL, evaluated over a flat frame. Does not: drawing the sample (sample), judging (decisions/audit).
"""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from lakehouse_assets.audit.sample import GROUP, PRIORITY, Sample
from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.families import RowCheck
from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.audit_binding import Bound
from lakehouse_assets.decisions.audit.share import inclusion_probability
from lakehouse_assets.measures.batches import errors_of
from lakehouse_assets.measures.scan import BITS
from lakehouse_assets.sources.base import SCAN_ERRORS

EXAMPLES, LONGEST_EXAMPLE = 5, 120
EXAMPLES_IN_ONE_QUERY = 200
Errors = dict[str, str]
T = TypeVar("T")


def _leaves(schema: StructType, above: tuple[str, ...] = ()) -> dict[str, tuple[tuple[str, ...], DataType]]:
    """Return every column that is no struct by its path (`address.country`), with parts and type. Lists are not entered."""
    leaves_by_path: dict[str, tuple[tuple[str, ...], DataType]] = {}
    for field in schema.fields:
        parts = (*above, field.name)
        if isinstance(field.dataType, StructType):
            leaves_by_path = _leaves(field.dataType, parts) | leaves_by_path
        else:
            leaves_by_path[".".join(parts)] = parts, field.dataType
    return leaves_by_path


def leaf_types(schema: StructType) -> dict[str, str]:
    """Return the type of every column that is no struct, by its path."""
    return {path: kind.simpleString() for path, (_, kind) in _leaves(schema).items()}


def select_leaves(frame: DataFrame, columns: Collection[str]) -> DataFrame:
    """Return these leaves, each named by its path, so that a check finds a nested column like any other."""
    leaves_by_path = _leaves(frame.schema)
    return frame.select(
        *[F.col(".".join(identifier(part) for part in leaves_by_path[name][0])).alias(name) for name in dict.fromkeys(columns)]
    )


def failures_in_sample(
    sample: Sample, bounds: Sequence[Bound], context: CheckContext
) -> tuple[tuple[np.ndarray, np.ndarray], Errors]:
    """Return which sampled row fails which rule (rows × rules) with each row's probability to be sampled; and rules in error.

    Collects a number per row and sixty rules.
    """
    return _scan_rules(sample.rows, bounds, context, partial(_flags, sample, bounds))


def _scan_rules(
    rows: DataFrame, bounds: Sequence[Bound], context: CheckContext, scan: Callable[[Mapping[str, str]], T]
) -> tuple[T, Errors]:
    """Scan all rules; if that fails, those that can be evaluated alone. Return the result and the others' errors, unmasked."""
    conditions, errors = compile_conditions(bounds, context)
    try:
        return scan(conditions), errors
    except SCAN_ERRORS:
        errors |= errors_of({name: partial(_evaluate, rows, sql) for name, sql in conditions.items()})
    return scan({name: sql for name, sql in conditions.items() if name not in errors}), errors


def compile_conditions(bounds: Sequence[Bound], context: CheckContext) -> tuple[dict[str, str], Errors]:
    """Return ``{rule's id: SQL that is true for a failing row}``, and the rules without valid SQL."""
    conditions: dict[str, str] = {}
    errors: Errors = {}
    for bound in bounds:
        if not isinstance(bound.check, RowCheck):
            continue
        try:
            conditions[bound.id] = bound.check.failing(context)
        except ValueError as error:
            errors[bound.id] = str(error)
    return conditions, errors


def _flags(sample: Sample, bounds: Sequence[Bound], conditions: Mapping[str, str]) -> tuple[np.ndarray, np.ndarray]:
    names = [bound.id for bound in bounds]
    bitmaps: list[Column] = []
    for start in range(0, len(names), BITS):
        bitmap = F.lit(0).cast("bigint")
        for bit, name in enumerate(names[start : start + BITS]):
            if name in conditions:
                bitmap = bitmap.bitwiseOR(F.when(F.expr(conditions[name]), F.lit(1 << bit).cast("bigint")).otherwise(F.lit(0)))
        bitmaps.append(bitmap)
    sampled = sample.rows.select(GROUP, PRIORITY, F.array(*bitmaps).alias("w")).collect()
    values = np.array([row["w"] for row in sampled], dtype=np.int64).reshape(len(sampled), len(bitmaps))
    rules = np.arange(len(names))
    flags = (values[:, rules // BITS] >> rules % BITS & 1).astype(bool)
    weights = [sample.weights.get(row[GROUP], 1.0) for row in sampled]
    return flags, np.array([inclusion_probability(weight, sample.cut) for weight in weights], dtype=float)


def _evaluate(rows: DataFrame, condition: str) -> None:
    rows.select(F.count_if(F.expr(condition))).collect()


def failures_in_full(
    frame: DataFrame, bounds: Sequence[Bound], context: CheckContext
) -> tuple[tuple[int, dict[str, int]], Errors]:
    """Return rows and failing rows of each rule; and rules in error. One aggregation, of which one row is collected."""
    return _scan_rules(frame, bounds, context, partial(_counts, frame))


def _counts(frame: DataFrame, conditions: Mapping[str, str]) -> tuple[int, dict[str, int]]:
    names = list(conditions)
    aggregates = [F.count_if(F.expr(conditions[name])).alias(f"r{n}") for n, name in enumerate(names)]
    (row,) = frame.agg(F.count(F.lit(1)).alias("rows"), *aggregates).collect()
    return row["rows"], {name: row[f"r{n}"] for n, name in enumerate(names)}


def count_duplicates(frame: DataFrame, bound: Bound, context: CheckContext) -> tuple[int, str | None]:
    """Return values on more than one row of the whole table, or its scan's error. The table is the one batch of the check."""
    check: Any = bound.check
    totals: list[int] = []

    def count() -> None:
        rows = select_leaves(frame, bound.columns)
        if "p_extracted_at" not in bound.columns:
            # A constant window, so that the rows' own windows do not split the table.
            rows = rows.withColumn("p_extracted_at", F.lit(0))
        view = f"audited_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(view)
        try:
            query = check.query_by_window(replace(context, batch_view=view))
            ((total,),) = rows.sparkSession.sql(query).agg(F.sum("duplicates")).collect()
        finally:
            rows.sparkSession.catalog.dropTempView(view)
        totals.append(int(total or 0))

    errors = errors_of({"": count})
    return sum(totals), errors.get("")


def sample_examples(rows: DataFrame, bounds: Sequence[Bound], context: CheckContext) -> dict[str, tuple[str, ...]]:
    """Return up to five different failing values of each rule, the least ones, so that the same rows show the same."""
    values = _aggregate_values(rows, bounds, context, F.collect_set)
    return {name: tuple(sorted(different)[:EXAMPLES]) for name, different in values.items()}


def least_examples(frame: DataFrame, bounds: Sequence[Bound], context: CheckContext) -> dict[str, tuple[str, ...]]:
    """Return the least failing value of each rule of a whole table, for rules whose failing rows no sample had."""
    return {name: (value,) for name, value in _aggregate_values(frame, bounds, context, F.min).items() if value is not None}


def _aggregate_values(
    rows: DataFrame, bounds: Sequence[Bound], context: CheckContext, aggregate: Callable[[Column], Column]
) -> dict[str, Any]:
    """Return the aggregate of each rule's failing values as texts; for several columns, of the first."""
    conditions, _ = compile_conditions(bounds[:EXAMPLES_IN_ONE_QUERY], context)
    if not conditions:
        return {}
    columns = {bound.id: bound.columns[0] for bound in bounds}
    aggregates = []
    for n, (name, sql) in enumerate(conditions.items()):
        value = F.substring(F.col(identifier(columns[name])).cast("string"), 1, LONGEST_EXAMPLE)
        aggregates.append(aggregate(F.when(F.expr(sql), F.coalesce(value, F.lit("NULL")))).alias(f"v{n}"))
    (row,) = rows.agg(*aggregates).collect()
    return {name: row[f"v{n}"] for n, name in enumerate(conditions)}
