"""Checks that the scan cannot measure: uniqueness of columns other than the key, other tables, SQL over a whole batch.

Belongs here: one query per such check, over all batches at once (the user's own SQL: over each batch). Does not: judging.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import Check, CheckContext
from lakehouse_assets.checks.families import BatchCheck
from lakehouse_assets.checks.kinds.sql import Sql
from lakehouse_assets.checks.sql.text import literal
from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.measures.examples import collect_examples, rows_as_examples
from lakehouse_assets.measures.frames import MOMENT, local_frame, micros, moment, select_batches
from lakehouse_assets.measures.isolate import isolate_failures

Metrics = dict[str, Any]


def query_failures(
    staged: DataFrame,
    checks: Sequence[Check],
    context: CheckContext,
    batches: Collection[Batch],
    errors: dict[Batch, dict[str, str]],
    scanned: Mapping[Batch, BatchNumbers] | None = None,
    *,
    personal: bool,
) -> dict[Batch, dict[str, Metrics]]:
    """Return the metrics of these checks by batch. A failing query puts its check in error, in ``errors``, and stops no other.

    ``scanned``: the fused metrics. A fused check that fails by them gets its examples here. ``personal``: the rows have
    personal values, which no error may quote.
    """
    metrics_of: dict[Batch, dict[str, Metrics]] = {batch: {} for batch in batches}
    queries = _Queries(staged.where(F.col("_clean")), context, sorted(batches), personal)
    for check in checks:
        if all(check.id in errors.get(batch, {}) for batch in batches):
            continue  # its error is known already
        measured: dict[Batch, Metrics] = {}
        failures: dict[Batch, str] = {}
        if isinstance(check, Sql) and check.scope == "batch":
            failures = queries.run_sql(check, measured)
        elif isinstance(check, BatchCheck):
            if query := check.query_by_window(context):
                attempt = partial(queries.run_by_window, check, query, measured)
                failures = isolate_failures(queries.batches, attempt, personal=personal)
            fused = {batch: numbers.metrics.get(check.id, {}) for batch, numbers in (scanned or {}).items()}
            for batch, texts in collect_examples(queries.clean, check, context, measured if query else fused).items():
                measured[batch] = {**measured.get(batch, {}), "examples": texts}
        for batch, message in failures.items():
            errors.setdefault(batch, {})[check.id] = message
        for batch, values in measured.items():
            metrics_of[batch][check.id] = values
    return metrics_of


@dataclass(frozen=True)
class _Queries:
    """Queries over the clean rows of these batches. Each run adds to ``measured``."""

    clean: DataFrame
    context: CheckContext
    batches: Sequence[Batch]
    personal: bool

    def run_by_window(self, check: BatchCheck, query: str, measured: dict[Batch, Metrics], some: Sequence[Batch]) -> None:
        rows = self.clean if len(some) == len(self.batches) else select_batches(self.clean, some)
        rows.createOrReplaceTempView(self.context.batch_view)
        if check.needs_windows:
            windows = self._windows(some).drop("extraction_seq").distinct()
            windows.createOrReplaceTempView(self.context.windows_view)
        answered = self.clean.sparkSession.sql(query).withColumn("p_extracted_at", F.unix_micros("p_extracted_at"))
        # One row per window of this run, and at most one for the windows without clean rows.
        answers = {row.pop("p_extracted_at"): row for row in (row.asDict() for row in answered.collect())}
        default = answers.pop(None, check.default_metrics)
        by_window = {moment(start): values for start, values in answers.items()}
        measured.update({batch: by_window.get(start_of(batch), default) for batch in some})

    def run_sql(self, check: Sql, measured: dict[Batch, Metrics]) -> dict[Batch, str]:
        """Run the user's query over each batch. Return the errors."""
        columns = [F.unix_micros("_window_start").alias("s"), "extraction_seq", F.unix_micros("_window_end").alias("e")]
        rows = self._windows(self.batches).select(*columns).collect()
        ends: dict[Batch, datetime] = {(moment(row["s"]), row["extraction_seq"]): moment(row["e"]) for row in rows}

        def attempt(some: Sequence[Batch]) -> None:
            (batch,) = some
            in_window = F.unix_micros("p_extracted_at") == micros(start_of(batch))
            self.clean.where(in_window & (F.col("extraction_seq") == batch[1])).createOrReplaceTempView(self.context.batch_view)
            bounds = {"window_start_sql": literal(batch[0]), "window_end_sql": literal(ends[batch])}
            returned = self.clean.sparkSession.sql(check.query(replace(self.context, **bounds)))
            count = returned.count()
            measured[batch] = {"failing": count, **({"examples": rows_as_examples(returned)} if count else {})}

        failures: dict[Batch, str] = {}
        for batch in self.batches:
            failures |= isolate_failures([batch], attempt, personal=self.personal)
        return failures

    def _windows(self, batches: Collection[Batch]) -> DataFrame:
        """Return the bounds of these batches' windows, with or without clean rows."""
        kinds = [("p_extracted_at", MOMENT), ("extraction_seq", pa.int32())]
        starts = local_frame(self.clean.sparkSession, kinds, batches)
        end = F.expr(self.context.window_end_sql).alias("_window_end")
        return starts.select(F.col("p_extracted_at").alias("_window_start"), end, "extraction_seq")
