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


def bit(position: int) -> tuple[str, int]:
    """Return the staged column and the mask with the flag of the row check at this position."""
    return f"_failed_{position // BITS}", 1 << (position % BITS)


def fails_any(positions: Iterable[int]) -> Column:
    """Return whether a staged row fails a row check at one of these positions: one comparison per column of bits."""
    masks: dict[str, int] = {}
    for position in positions:
        column, mask = bit(position)
        masks[column] = masks.get(column, 0) | mask
    fails = F.lit(False)
    for column, mask in masks.items():
        failed = F.col(column).bitwiseAND(F.lit(mask).cast("bigint")) != 0
        fails = failed if len(masks) == 1 else fails | failed
    return fails


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
    counts = {
        "rows_in": F.count(F.lit(1)),
        "newest": F.count_if(F.col("_newest")),
        "older": F.count_if(F.col("_clean") & ~F.col("_newest")),
        "failing": F.count_if(~F.col("_clean")),
        "key_conflicts": F.count_if(F.col("_conflict")),
        "unreadable": F.count_if(F.col("_unreadable")),
    }
    aggregates = [count.alias(name) for name, count in counts.items()]
    aggregates += [F.count_if(fails_any([position])).alias(f"r{position}") for position in range(len(row_checks))]
    names = [(check, metric, sql) for check, own in metrics.items() for metric, sql in own.items()]
    aggregates += [F.expr(sql).alias(f"m{position}") for position, (_, _, sql) in enumerate(names)]
    numbers: dict[Batch, BatchNumbers] = {}
    for row in staged.groupBy(F.unix_micros("p_extracted_at").alias("window"), "extraction_seq").agg(*aggregates).collect():
        measured: dict[str, dict[str, Any]] = {check: {} for check in metrics}
        for position, (check, metric, _) in enumerate(names):
            measured[check][metric] = row[f"m{position}"]
        numbers[(moment(row["window"]), row["extraction_seq"])] = BatchNumbers(
            **{name: row[name] for name in counts},
            failed_rows={check: row[f"r{position}"] for position, check in enumerate(row_checks)},
            metrics=measured,
        )
    return numbers
