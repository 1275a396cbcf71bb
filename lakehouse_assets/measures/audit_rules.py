"""What audit rules measure: failing rows of a sample, of the whole table, values on more than one row, examples.

Belongs here: the Wall's checks, evaluated over a flat frame. Does not: drawing the sample (sample), judging (decisions/audit).
"""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from lakehouse_assets.checks.base import CheckContext, RowCheck
from lakehouse_assets.checks.sql_text import identifier
from lakehouse_assets.contracts.audit_binding import Bound
from lakehouse_assets.decisions.audit_share import inclusion
from lakehouse_assets.measures.isolate import errors_of
from lakehouse_assets.measures.sample import GROUP, PRIORITY
from lakehouse_assets.sources.base import SCAN_ERRORS

BITS = 60
EXAMPLES, LONGEST_EXAMPLE = 5, 120
EXAMPLES_IN_ONE_QUERY = 200
Errors = dict[str, str]


def _leaves(schema: StructType, above: tuple[str, ...] = ()) -> dict[str, tuple[tuple[str, ...], DataType]]:
    """Every column that is no struct, by its path (`address.country`), with its parts and its type; what is within lists is not
    a column.
    """
    found: dict[str, tuple[tuple[str, ...], DataType]] = {}
    for field in schema.fields:
        parts = (*above, field.name)
        if isinstance(field.dataType, StructType):
            found |= {name: leaf for name, leaf in _leaves(field.dataType, parts).items() if name not in found}
        else:
            found[".".join(parts)] = parts, field.dataType
    return found


def leaves(schema: StructType) -> dict[str, str]:
    """The type of every column that is no struct, by its path."""
    return {path: kind.simpleString() for path, (_, kind) in _leaves(schema).items()}


def flat(frame: DataFrame, columns: Collection[str]) -> DataFrame:
    """These leaves, each under its path as its name, so that a check finds a nested column as it finds any other."""
    known = _leaves(frame.schema)
    return frame.select(
        *[F.col(".".join(identifier(part) for part in known[name][0])).alias(name) for name in dict.fromkeys(columns)]
    )


def failures_in_sample(
    rows: DataFrame, bounds: Sequence[Bound], context: CheckContext, weights: Mapping[str, float], cut: float
) -> tuple[np.ndarray, np.ndarray, Errors]:
    """Which sampled row fails which rule (rows × rules), how likely each row was to be drawn, and rules in error.

    Collects a number per row and sixty rules.
    """
    conditions, errors = compiled(bounds, context)
    try:
        return *_flags(rows, bounds, conditions, weights, cut), errors
    except SCAN_ERRORS:
        errors |= errors_of({name: partial(_evaluate, rows, sql) for name, sql in conditions.items()})
    good = {name: sql for name, sql in conditions.items() if name not in errors}
    return *_flags(rows, bounds, good, weights, cut), errors


def compiled(bounds: Sequence[Bound], context: CheckContext) -> tuple[dict[str, str], Errors]:
    """``{rule's id: SQL that is true for a failing row}``, and what could not be written."""
    found: dict[str, str] = {}
    errors: Errors = {}
    for bound in bounds:
        if not isinstance(bound.check, RowCheck):
            continue
        try:
            found[bound.id] = bound.check.failing(context)
        except ValueError as error:
            errors[bound.id] = str(error)
    return found, errors


def _flags(
    rows: DataFrame, bounds: Sequence[Bound], conditions: Mapping[str, str], weights: Mapping[str, float], cut: float
) -> tuple[np.ndarray, np.ndarray]:
    names = [bound.id for bound in bounds]
    words: list[Column] = []
    for start in range(0, len(names), BITS):
        word = F.lit(0).cast("bigint")
        for place, name in enumerate(names[start : start + BITS]):
            if name in conditions:
                word = word.bitwiseOR(F.when(F.expr(conditions[name]), F.lit(1 << place).cast("bigint")).otherwise(F.lit(0)))
        words.append(word)
    found = rows.select(GROUP, PRIORITY, F.array(*words).alias("w") if words else F.array().alias("w")).collect()
    flags = np.zeros((len(found), len(names)), dtype=bool)
    for n, row in enumerate(found):
        for start, word in zip(range(0, len(names), BITS), row["w"], strict=False):
            for place in range(min(BITS, len(names) - start) if word else 0):
                flags[n, start + place] = bool(word >> place & 1)
    likely = np.array([inclusion(weights.get(row[GROUP], 1.0), cut) for row in found], dtype=float)
    return flags, likely


def _evaluate(rows: DataFrame, condition: str) -> None:
    rows.select(F.count_if(F.expr(condition))).collect()


def failures_in_full(frame: DataFrame, bounds: Sequence[Bound], context: CheckContext) -> tuple[int, dict[str, int], Errors]:
    """Rows, failing rows of each rule, rules in error: one aggregation, of which one row is collected."""
    conditions, errors = compiled(bounds, context)
    try:
        return *_counts(frame, conditions), errors
    except SCAN_ERRORS:
        errors |= errors_of({name: partial(_evaluate, frame, sql) for name, sql in conditions.items()})
        if not errors:
            raise
    return *_counts(frame, {name: sql for name, sql in conditions.items() if name not in errors}), errors


def _counts(frame: DataFrame, conditions: Mapping[str, str]) -> tuple[int, dict[str, int]]:
    names = list(conditions)
    aggregates = [F.count_if(F.expr(conditions[name])).alias(f"r{n}") for n, name in enumerate(names)]
    (row,) = frame.agg(F.count(F.lit(1)).alias("rows"), *aggregates).collect()
    return row["rows"], {name: row[f"r{n}"] for n, name in enumerate(names)}


def duplicates(frame: DataFrame, bound: Bound, context: CheckContext) -> int:
    """Values that stand on more than one row of the whole table, by the check's own query: the table is its one batch."""
    rows = frame
    if "p_extracted_at" not in bound.columns:
        # Aliased here, so that the window of each row, if it has one, does not part the table.
        rows = frame.select(*[F.col(identifier(name)) for name in bound.columns], F.lit(0).alias("p_extracted_at"))
    view = f"audited_{uuid.uuid4().hex}"
    given = CheckContext(context.key, context.window_start_sql, context.window_end_sql, view)
    check: Any = bound.check
    rows.createOrReplaceTempView(view)
    try:
        found = frame.sparkSession.sql(check.query_by_window(given)).agg(F.sum("duplicates")).collect()
    finally:
        frame.sparkSession.catalog.dropTempView(view)
    return int(found[0][0] or 0)


def attempt(work: Callable[[], Any]) -> tuple[Any, str | None]:
    """What it returns, or the error of the scan."""
    found: list[Any] = []
    errors = errors_of({"": lambda: found.append(work())})
    return (None, errors[""]) if errors else (found[0], None)


def examples(rows: DataFrame, bounds: Sequence[Bound], context: CheckContext) -> dict[str, tuple[str, ...]]:
    """Up to five different failing values of each rule, the least ones: the same rows show the same."""
    return {name: tuple(sorted(values)[:EXAMPLES]) for name, values in _shown(rows, bounds, context, F.collect_set).items()}


def least_examples(frame: DataFrame, bounds: Sequence[Bound], context: CheckContext) -> dict[str, tuple[str, ...]]:
    """One failing value of each rule, the least, of a whole table: for rules whose failing rows no sample had."""
    return {name: (value,) for name, value in _shown(frame, bounds, context, F.min).items() if value is not None}


def _shown(
    rows: DataFrame, bounds: Sequence[Bound], context: CheckContext, aggregate: Callable[[Column], Column]
) -> dict[str, Any]:
    """The aggregate of each rule's failing values as texts; of a rule over several columns, of the first."""
    conditions, _ = compiled(bounds[:EXAMPLES_IN_ONE_QUERY], context)
    if not conditions:
        return {}
    columns = {bound.id: bound.columns[0] for bound in bounds}
    told = []
    for n, (name, sql) in enumerate(conditions.items()):
        value = F.substring(F.col(identifier(columns[name])).cast("string"), 1, LONGEST_EXAMPLE)
        told.append(aggregate(F.when(F.expr(sql), F.coalesce(value, F.lit("NULL")))).alias(f"v{n}"))
    (row,) = rows.agg(*told).collect()
    return {name: row[f"v{n}"] for n, name in enumerate(conditions)}
