"""The first of the two aggregations: counts and rules of every window of a staged batch, in one grouped scan.

Belongs here: rows → numbers for the rules. Does not: drift's sketches (profile), or any judgement.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import Check, CheckContext
from lakehouse_assets.decisions.numbers import BatchNumbers

BITS = 60
READABLE = "readable_row"


def bit(position: int) -> tuple[str, int]:
    """The staged column and the mask that hold the flag of the row check at this position."""
    return f"_failed_{position // BITS}", 1 << (position % BITS)


def any_of(positions: Iterable[int]) -> Column:
    """Whether a staged row fails a row check at one of these positions: one comparison for each column of bits."""
    masks: dict[str, int] = {}
    for position in positions:
        column, mask = bit(position)
        masks[column] = masks.get(column, 0) | mask
    found = F.lit(False)
    for column, mask in masks.items():
        failed = F.col(column).bitwiseAND(F.lit(mask).cast("bigint")) != 0
        found = failed if len(masks) == 1 else found | failed
    return found


def riding(checks: Iterable[Check], context: CheckContext, row_checks: Sequence[str]) -> dict[str, dict[str, str]]:
    """The metrics of these checks that one scan answers. ``row_checks``: ids in bit order. A record that could not be read is
    no row that a check looks at.
    """
    readable = ""
    if READABLE in row_checks:
        column, mask = bit(row_checks.index(READABLE))
        readable = f" FILTER (WHERE ({column} & {mask}) = 0)"
    found = [(check, check.metrics(context)) for check in checks]
    return {
        check.id: metrics if check.scope == "batch" else {name: sql + readable for name, sql in metrics.items()}
        for check, metrics in found
        if check.scope == "batch" or metrics
    }


def scan(
    staged: DataFrame, row_checks: Sequence[str], metrics: Mapping[str, Mapping[str, str]]
) -> dict[tuple[datetime, int], BatchNumbers]:
    """One aggregation grouped by batch. ``row_checks``: ids in bit order. ``metrics``: ``{check: {metric: SQL}}``.

    Collects one row per batch. A batch of no rows has no entry.
    """
    aggregates = [
        F.count(F.lit(1)).alias("rows_in"),
        F.count_if(F.col("_newest")).alias("newest"),
        F.count_if(F.col("_clean") & ~F.col("_newest")).alias("older"),
        F.count_if(~F.col("_clean")).alias("failing"),
        F.count_if(F.col("_conflict")).alias("key_conflicts"),
        F.count_if(F.col("_unreadable")).alias("unreadable"),
    ]
    for position in range(len(row_checks)):
        aggregates.append(F.count_if(any_of([position])).alias(f"r{position}"))
    names = [(check, metric, sql) for check, given in metrics.items() for metric, sql in given.items()]
    aggregates += [F.expr(sql).alias(f"m{position}") for position, (_, _, sql) in enumerate(names)]
    found: dict[tuple[datetime, int], BatchNumbers] = {}
    for row in staged.groupBy(F.unix_micros("p_extracted_at").alias("window"), "extraction_seq").agg(*aggregates).collect():
        measured: dict[str, dict[str, Any]] = {check: {} for check in metrics}
        for position, (check, metric, _) in enumerate(names):
            measured[check][metric] = row[f"m{position}"]
        found[(moment(row["window"]), row["extraction_seq"])] = BatchNumbers(
            rows_in=row["rows_in"],
            newest=row["newest"],
            older=row["older"],
            failing=row["failing"],
            key_conflicts=row["key_conflicts"],
            unreadable=row["unreadable"],
            failed_rows={check: row[f"r{position}"] for position, check in enumerate(row_checks)},
            metrics=measured,
        )
    return found


def moment(micros: int) -> datetime:
    """UTC time of microseconds since 1970: what Spark collects as a naive local time is not used."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
