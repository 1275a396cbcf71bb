"""Examples of what fails a check of a whole batch: values that occur twice, rows that a query returns.

Belongs here: a few short texts for each batch that fails. Does not: values of single rows (samples), or masking (the gate).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lakehouse_assets.checks.base import BatchCheck, CheckContext
from lakehouse_assets.measures.scan import moment
from lakehouse_assets.measures.stage import select_batches
from lakehouse_assets.sources.base import SCAN_ERRORS

Batch = tuple[datetime, int]
PER_BATCH = 3
LENGTH = 200


def examples_of(
    clean: DataFrame, check: BatchCheck, context: CheckContext, metrics: Mapping[Batch, Mapping[str, Any]]
) -> dict[Batch, list[str]]:
    """Texts of what fails in the batches that fail by the check's ``metrics``: one query for all of them, which collects three
    rows for each. None where the check has no examples, or they cannot be had.
    """
    failing = [batch for batch, values in metrics.items() if check.fails(values)]
    query = check.examples(context) if failing else None
    if not query:
        return {}
    select_batches(clean, failing).createOrReplaceTempView(context.batch_view)
    try:
        told = clean.sparkSession.sql(query).select(F.unix_micros("p_extracted_at").alias("at"), _short("value"))
        first = F.row_number().over(W.partitionBy("at").orderBy("value"))
        rows = told.select("*", first.alias("n")).where(F.col("n") <= PER_BATCH).orderBy("at", "n").collect()
    except SCAN_ERRORS:
        return {}  # what fails is known without them
    return {batch: [row["value"] for row in rows if moment(row["at"]) == batch[0]] for batch in failing}


def rows_as_examples(rows: DataFrame) -> list[str]:
    """Three of these rows as JSON, the staging's own columns left out; none where they cannot be had."""
    named = rows.toDF(*[f"c{place}" for place in range(len(rows.columns))])  # two may have one name
    shown = [F.col(f"c{n}").alias(name) for n, name in enumerate(rows.columns) if not name.startswith("_")]
    if not shown:
        return []
    try:
        texts = named.select(F.to_json(F.struct(*shown)).alias("value")).select(_short("value"))
        return [row["value"] for row in texts.orderBy("value").limit(PER_BATCH).collect()]
    except SCAN_ERRORS:
        return []


def _short(name: str) -> Any:
    """On one line: a message is also sent where lines mean something."""
    return F.substring(F.regexp_replace(name, r"\p{Cntrl}+", " "), 1, LENGTH).alias(name)
