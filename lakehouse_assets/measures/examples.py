"""A few examples of failures, for people: values of failing rows, values that occur twice, rows that a query returns.

Belongs here: which failures are shown; equal rows give equal examples. Does not: all failing rows, which are in quarantine, or
masking (the gate).
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.families import BatchCheck
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.measures.frames import moment, select_batches
from lakehouse_assets.sources.base import SCAN_ERRORS

PER_CHECK = 5
PER_BATCH = 3
LENGTH = 200


def collect_failing_samples(staged: DataFrame) -> dict[str, list[str]]:
    """Return at most five different ``window value`` texts per check over all batches of a run. Collects 5 × checks rows.
    Values of `pii` columns were masked at staging.
    """
    reasons = staged.select("p_extracted_at", F.explode("_reasons").alias("r"))
    texts = reasons.select(
        F.col("r.check").alias("check"),
        F.date_format("p_extracted_at", "yyyy-MM-dd HH:mm").alias("window"),
        F.coalesce("r.value", F.lit("NULL")).alias("value"),
    ).distinct()
    # In the order of a hash of the text: samples come from all windows, and no other column is read.
    first = W.partitionBy("check").orderBy(F.xxhash64("window", "value"), "window", "value")
    ranked = texts.select("*", F.row_number().over(first).alias("n"))
    samples: dict[str, list[str]] = {}
    for row in ranked.where(F.col("n") <= PER_CHECK).orderBy("check", "n").collect():
        samples.setdefault(row["check"], []).append(f"{row['window']}: {row['value']}")
    return samples


def collect_examples(
    clean: DataFrame, check: BatchCheck, context: CheckContext, metrics: Mapping[Batch, Mapping[str, Any]]
) -> dict[Batch, list[str]]:
    """Return three texts for each batch that fails by the check's ``metrics``, from one query for all of them.

    None if the check has no examples, or the query fails.
    """
    failing = [batch for batch, values in metrics.items() if check.has_failures(values)]
    query = check.examples(context) if failing else None
    if not query:
        return {}
    select_batches(clean, failing).createOrReplaceTempView(context.batch_view)
    try:
        texts = clean.sparkSession.sql(query).select(F.unix_micros("p_extracted_at").alias("at"), _short("value"))
        first = F.row_number().over(W.partitionBy("at").orderBy("value"))
        rows = texts.select("*", first.alias("n")).where(F.col("n") <= PER_BATCH).orderBy("at", "n").collect()
    except SCAN_ERRORS:
        return {}  # the failure itself is measured already
    return {batch: [row["value"] for row in rows if moment(row["at"]) == batch[0]] for batch in failing}


def rows_as_examples(rows: DataFrame) -> list[str]:
    """Return three of these rows as JSON without the staging's own columns; none if the query fails."""
    named = rows.toDF(*[f"c{index}" for index in range(len(rows.columns))])  # two may have one name
    shown = [F.col(f"c{n}").alias(name) for n, name in enumerate(rows.columns) if not name.startswith("_")]
    if not shown:
        return []
    try:
        texts = named.select(F.to_json(F.struct(*shown)).alias("value")).select(_short("value"))
        return [row["value"] for row in texts.orderBy("value").limit(PER_BATCH).collect()]
    except SCAN_ERRORS:
        return []


def _short(name: str) -> Column:
    """Return a short text on one line: line breaks mean something in the channels that show it."""
    return F.substring(F.regexp_replace(name, r"\p{Cntrl}+", " "), 1, LENGTH).alias(name)
