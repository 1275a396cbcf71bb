"""The first of the two aggregations: the counts and checks of every staged batch, in one grouped scan.

Belongs here: rows → numbers for the checks. Does not: drift's sketches (profile), or any judgement.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import Check, CheckContext
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.measures.frames import moment

BITS = 60
READABLE = "readable_row"
# Of a batch's staged rows.
COUNTS = {
    "rows_in": "count(1)",
    "newest": "count_if(_newest)",
    "older": "count_if(_clean AND NOT _newest)",
    "failing": "count_if(NOT _clean)",
    "key_conflicts": "count_if(_conflict)",
    "unreadable": "count_if(_unreadable)",
}


def bit(position: int) -> tuple[str, int]:
    """Return the staged column and the mask with the flag of the row check at this position."""
    return f"_failed_{position // BITS}", 1 << (position % BITS)


def fails_any(positions: Iterable[int]) -> str:
    """Return SQL: whether a staged row fails a row check at one of these positions. One comparison per column of bits."""
    masks: dict[str, int] = {}
    for position in positions:
        column, mask = bit(position)
        masks[column] = masks.get(column, 0) | mask
    return f"({' OR '.join(f'({column} & {mask}L) <> 0L' for column, mask in masks.items()) or 'FALSE'})"


def fused_metrics(checks: Iterable[Check], context: CheckContext, row_checks: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the metrics of these checks that the scan measures. ``row_checks``: ids in bit order. Unreadable records do not
    count in the metrics of row checks.
    """
    readable = ""
    if READABLE in row_checks:
        column, mask = bit(row_checks.index(READABLE))
        readable = f" FILTER (WHERE ({column} & {mask}) = 0)"
    fused = {}
    for check in checks:
        metrics = check.metrics(context)
        if check.scope == "batch":
            fused[check.id] = metrics
        elif metrics:
            fused[check.id] = {name: sql + readable for name, sql in metrics.items()}
    return fused


def scan(staged: DataFrame, row_checks: Sequence[str], metrics: Mapping[str, Mapping[str, str]]) -> dict[Batch, BatchNumbers]:
    """Return the numbers of each batch, from one aggregation. ``row_checks``: ids in bit order. ``metrics``: ``{check: {metric:
    SQL}}``. Collects one row per batch. A batch without rows has no entry.
    """
    aggregates = aggregates_of(row_checks, metrics)
    rows = staged.groupBy(F.unix_micros("p_extracted_at").alias("window"), "extraction_seq").agg(*aggregates).collect()
    return {(moment(row["window"]), row["extraction_seq"]): read_numbers(row.asDict(), row_checks, metrics) for row in rows}


def aggregates_of(row_checks: Sequence[str], metrics: Mapping[str, Mapping[str, str]]) -> list[Column]:
    """Return the aggregates of the scan, over the staged rows of a batch."""
    counts = [f"{count} AS {name}" for name, count in COUNTS.items()]
    counts += [f"count_if({fails_any([position])}) AS r{position}" for position in range(len(row_checks))]
    return [*map(F.expr, counts), *[F.expr(sql).alias(f"m{n}") for n, (_, _, sql) in enumerate(_named(metrics))]]


def read_numbers(row: Mapping[str, Any], row_checks: Sequence[str], metrics: Mapping[str, Mapping[str, str]]) -> BatchNumbers:
    """Return the numbers of a batch from these aggregates."""
    measured: dict[str, dict[str, Any]] = {check: {} for check in metrics}
    for position, (check, metric, _) in enumerate(_named(metrics)):
        measured[check][metric] = row[f"m{position}"]
    failed = {check: row[f"r{position}"] for position, check in enumerate(row_checks)}
    return BatchNumbers(**{name: row[name] for name in COUNTS}, failed_rows=failed, metrics=measured)


def _named(metrics: Mapping[str, Mapping[str, str]]) -> list[tuple[str, str, str]]:
    return [(check, metric, sql) for check, own in metrics.items() for metric, sql in own.items()]
