"""What cannot ride along in the scan: uniqueness of other columns than the key, other tables, SQL over a whole batch.

Belongs here: one query per such check, over all batches at once (SQL of the user: over each batch). Does not: judging.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import BatchCheck, Check, CheckContext
from lakehouse_assets.checks.kinds.sql import Sql
from lakehouse_assets.checks.sql_text import literal
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.measures.examples import examples_of, rows_as_examples
from lakehouse_assets.measures.isolate import culprits, plain
from lakehouse_assets.measures.scan import moment
from lakehouse_assets.measures.stage import select_batches
from lakehouse_assets.sources.base import SCAN_ERRORS

Batch = tuple[datetime, int]


def query_failures(
    staged: DataFrame,
    checks: Sequence[Check],
    context: CheckContext,
    batches: Collection[Batch],
    errors: dict[Batch, dict[str, str]],
    scanned: Mapping[Batch, BatchNumbers] | None = None,
) -> dict[Batch, dict[str, dict[str, Any]]]:
    """Metrics of these checks by batch. A query that fails puts its check in error, in ``errors``, and stops nothing else.

    ``scanned``: what rode along in the scan; of a check that failed there, examples are asked for here as well.
    """
    found: dict[Batch, dict[str, dict[str, Any]]] = {batch: {} for batch in batches}
    clean = staged.where(F.col("_clean"))
    for check in checks:
        if all(check.id in errors.get(batch, {}) for batch in batches):
            continue  # it is known already why it cannot be evaluated
        if isinstance(check, Sql) and check.scope == "batch":
            _each_batch(clean, check, context, batches, found, errors)
        if not isinstance(check, BatchCheck):
            continue
        if query := check.query_by_window(context):

            def answer(some: Sequence[Batch], check: BatchCheck = check, query: str = query) -> None:
                rows = clean if len(some) == len(batches) else select_batches(clean, some)
                rows.createOrReplaceTempView(context.batch_view)
                if check.asks_windows:
                    windows = _windows(clean, context, some).drop("extraction_seq").distinct()
                    windows.createOrReplaceTempView(context.windows_view)
                told = staged.sparkSession.sql(query).withColumn("p_extracted_at", F.unix_micros("p_extracted_at"))
                # One row per window of this run, and at most one of those that have no clean row.
                answers = {row.pop("p_extracted_at"): row for row in (row.asDict() for row in told.collect())}
                empty = answers.pop(None, check.no_answer)
                by_window = {moment(micros): values for micros, values in answers.items()}
                for batch in some:
                    found[batch][check.id] = by_window.get(batch[0], empty)

            for batch, message in culprits(sorted(batches), answer).items():
                errors.setdefault(batch, {})[check.id] = message
            metrics = {batch: of[check.id] for batch, of in found.items() if check.id in of}
        else:
            metrics = {batch: numbers.metrics.get(check.id, {}) for batch, numbers in (scanned or {}).items()}
        for batch, texts in examples_of(clean, check, context, metrics).items():
            found[batch][check.id] = {**found[batch].get(check.id, {}), "examples": texts}
    return found


def _each_batch(
    clean: DataFrame,
    check: Sql,
    context: CheckContext,
    batches: Collection[Batch],
    found: dict[Batch, dict[str, dict[str, Any]]],
    errors: dict[Batch, dict[str, str]],
) -> None:
    ends = _window_ends(clean, context, batches)
    for batch in batches:
        here = clean.where((F.unix_micros("p_extracted_at") == _micros(batch[0])) & (F.col("extraction_seq") == batch[1]))
        here.createOrReplaceTempView(context.batch_view)
        bound = replace(context, window_start_sql=literal(batch[0]), window_end_sql=literal(ends[batch]))
        try:
            rows = clean.sparkSession.sql(check.query(bound))
            count = rows.count()
            found[batch][check.id] = {"failing": count, **({"examples": rows_as_examples(rows)} if count else {})}
        except SCAN_ERRORS as error:
            errors.setdefault(batch, {})[check.id] = plain(error)


def _window_ends(clean: DataFrame, context: CheckContext, batches: Collection[Batch]) -> dict[Batch, datetime]:
    columns = [F.unix_micros("_window_start").alias("s"), "extraction_seq", F.unix_micros("_window_end").alias("e")]
    rows = _windows(clean, context, batches).select(*columns).collect()
    return {(moment(row["s"]), row["extraction_seq"]): moment(row["e"]) for row in rows}


def _windows(clean: DataFrame, context: CheckContext, batches: Collection[Batch]) -> DataFrame:
    """The bounds of these batches' windows, whether or not they have clean rows."""
    given = [(start, seq) for start, seq in batches]
    starts = clean.sparkSession.createDataFrame(given, "p_extracted_at timestamp, extraction_seq int")
    ends = F.expr(context.window_end_sql).alias("_window_end")
    return starts.select(F.col("p_extracted_at").alias("_window_start"), ends, "extraction_seq")


def _micros(at: datetime) -> int:
    return int(at.timestamp()) * 1_000_000 + at.microsecond
