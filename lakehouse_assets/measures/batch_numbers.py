"""The numbers of staged batches: one scan with one fallback, a query for each other check, and examples of failures.

Belongs here: the order of the queries, what one error costs, and which failures are shown. Does not: the aggregations (scan,
profile), all failing rows (quarantine), or any judgement.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lakehouse_assets.checks.base import Check, CheckContext
from lakehouse_assets.checks.families import BatchCheck
from lakehouse_assets.checks.kinds.sql import Sql
from lakehouse_assets.checks.sql.text import MOST_EXAMPLES, literal, short_text
from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.pseudonyms import NameMask
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.measures.batches import batches_of, isolate_failures, one_of_each_window, select_batches
from lakehouse_assets.measures.drift_features import profile_batches
from lakehouse_assets.measures.frames import MOMENT, local_frame, micros, moment
from lakehouse_assets.measures.profile_files import StoredRows, find_stored_rows
from lakehouse_assets.measures.repeated_rows import select_repeated
from lakehouse_assets.measures.scan import fused_metrics, scan
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage.json_texts import as_json

Metrics = dict[str, Any]
Numbers = dict[Batch, BatchNumbers]
Errors = dict[Batch, dict[str, str]]


@dataclass(frozen=True)
class MeasurePlan:
    """``checks``: those that a decision waits for. ``rules``: ids of the row checks with flags in the rows, in bit order.
    ``personal``: the rows have personal values, which no error may quote. ``deferred``: checks that run after the write.
    ``more``: what the scan measures besides, as `scan` takes it.
    """

    checks: Sequence[Check]
    context: CheckContext
    rules: Sequence[str]
    personal: bool
    deferred: Sequence[Check] = ()
    examples: bool = True
    more: Metrics = field(default_factory=dict)

    @property
    def metrics(self) -> dict[str, dict[str, str]]:
        """``{check: {metric: SQL}}``: what the scan measures."""
        return fused_metrics(self.checks, self.context, self.rules) | self.more


def measure_batches(
    staged: DataFrame,
    plan: MeasurePlan,
    batches: Collection[Batch] | None = None,
    errors: Errors | None = None,
    observed: Numbers | None = None,
) -> Numbers:
    """Return the numbers of these batches, from one grouped aggregation and one query for each check that is not fused. A check
    that stops the aggregation is in error in the batches where it fails, and measured in the others.

    ``batches``: by default those with rows. ``errors``: of checks that cannot be evaluated anyway. ``observed``: what the
    aggregation would give, where it is known.
    """
    metrics, errors = plan.metrics, errors or {}
    try:
        numbers = scan(staged, plan.rules, metrics) if observed is None else observed
    except SCAN_ERRORS:
        numbers = _scan_by_check(staged, plan, metrics, errors, batches_of(staged) if batches is None else batches)
    chosen = sorted(numbers) if batches is None else batches
    answers: dict[Batch, dict[str, Metrics]] = {}
    for some in one_of_each_window(chosen):
        rows = staged if len(some) == len(chosen) else select_batches(staged, some)
        scanned = {batch: numbers[batch] for batch in some if batch in numbers} if plan.examples else None
        counts = {batch: numbers[batch].rows_in for batch in some if batch in numbers}
        answers |= query_failures(
            rows, plan.checks, plan.context, some, errors, scanned, counts, personal=plan.personal, examples=plan.examples
        )
    return {b: numbers.get(b, BatchNumbers()).completed(metrics, answers.get(b, {}), errors.get(b, {})) for b in chosen}


def _scan_by_check(
    staged: DataFrame,
    plan: MeasurePlan,
    metrics: Mapping[str, Mapping[str, str]],
    errors: Errors,
    batches: Collection[Batch],
) -> Numbers:
    """Scan without the metrics that stop the scan. Each is tried alone, and scanned again for the batches in which it works."""

    def attempt(check: str, some: Sequence[Batch]) -> None:
        scan(select_batches(staged, some), [], {check: metrics[check]})

    usable: dict[str, list[Batch]] = {}
    for check in metrics:
        failures = isolate_failures(sorted(batches), partial(attempt, check), personal=plan.personal)
        for batch, message in failures.items():
            errors.setdefault(batch, {})[check] = message
        usable[check] = [batch for batch in batches if batch not in failures]
    numbers = scan(staged, plan.rules, {check: metrics[check] for check, good in usable.items() if len(good) == len(batches)})
    for check, good in usable.items():
        if good and len(good) < len(batches):
            for batch, apart in scan(select_batches(staged, good), [], {check: metrics[check]}).items():
                old = numbers[batch]
                numbers[batch] = replace(old, metrics={**old.metrics, check: apart.metrics[check]})
    return numbers


def measure_drift(
    staged: DataFrame,
    drift: DriftSpec | None,
    numbers: Numbers,
    mask: NameMask | None,
    stored: StoredRows | None = None,
    *,
    personal: bool,
) -> tuple[dict[Batch, list[Measurement]], Numbers]:
    """Return the batches' profiles, masked, and their numbers: a batch whose features cannot be measured is in error.
    ``stored``: where the rows of one batch are; without it, they are where the frame reads them.
    """
    if drift is None:
        return {}, numbers
    if stored is None and len(numbers) == 1:
        stored = find_stored_rows(staged, *numbers.values())
    profiles, errors = profile_batches(staged, drift, list(numbers), stored, personal=personal)
    failed = {b: replace(numbers[b], errors={**numbers[b].errors, "drift": message}) for b, message in errors.items()}
    masked = {batch: list(map(mask.measurement, own)) if mask else own for batch, own in profiles.items()}
    return masked, {**numbers, **failed}


def query_failures(
    staged: DataFrame,
    checks: Sequence[Check],
    context: CheckContext,
    batches: Collection[Batch],
    errors: dict[Batch, dict[str, str]],
    scanned: Mapping[Batch, BatchNumbers] | None = None,
    counts: Mapping[Batch, int] | None = None,
    *,
    personal: bool,
    examples: bool = True,
) -> dict[Batch, dict[str, Metrics]]:
    """Return the metrics of these checks by batch. A failing query puts its check in error, in ``errors``, and stops no other.

    ``scanned``: the fused metrics. A fused check that fails by them gets its examples here, unless none are wanted.
    ``counts``: the batches' rows; None: unknown.
    ``personal``: the rows have personal values, which no error may quote.
    """
    metrics_of: dict[Batch, dict[str, Metrics]] = {batch: {} for batch in batches}
    queries = _Queries(staged.where(F.col("_clean")), context, sorted(batches), personal, counts or {})
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
            if not examples:
                for values in measured.values():
                    values.pop("examples", None)
            failing = (measured if query else fused) if examples else {}
            for batch, texts in collect_examples(queries.clean, check, context, failing).items():
                measured[batch] = {**measured.get(batch, {}), "examples": texts}
        for batch, message in failures.items():
            errors.setdefault(batch, {})[check.id] = message
        for batch, values in measured.items():
            metrics_of[batch][check.id] = values
    return metrics_of


@dataclass(frozen=True)
class _Queries:
    """Queries over the clean rows of these batches. Each run adds to ``measured``. ``counts``: the rows of each, where they are
    known.
    """

    clean: DataFrame
    context: CheckContext
    batches: Sequence[Batch]
    personal: bool
    counts: Mapping[Batch, int]

    def run_by_window(self, check: BatchCheck, query: str, measured: dict[Batch, Metrics], some: Sequence[Batch]) -> None:
        rows = self.clean if len(some) == len(self.batches) else select_batches(self.clean, some)
        if check.repeated_columns:
            repeated = select_repeated(rows, check.repeated_columns, sum(self.counts.get(batch, 0) for batch in some))
            if repeated is None:
                measured.update(dict.fromkeys(some, check.default_metrics))
                return
            rows = repeated
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

        by_batch = [isolate_failures([batch], attempt, personal=self.personal) for batch in self.batches]
        return {batch: error for failures in by_batch for batch, error in failures.items()}

    def _windows(self, batches: Collection[Batch]) -> DataFrame:
        """Return the bounds of these batches' windows, with or without clean rows."""
        kinds = [("p_extracted_at", MOMENT), ("extraction_seq", pa.int32())]
        starts = local_frame(self.clean.sparkSession, kinds, batches)
        end = F.expr(self.context.window_end_sql).alias("_window_end")
        return starts.select(F.col("p_extracted_at").alias("_window_start"), end, "extraction_seq")


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
        texts = clean.sparkSession.sql(query).select(F.unix_micros("p_extracted_at").alias("at"), _short_value())
        first = F.row_number().over(W.partitionBy("at").orderBy("value"))
        rows = texts.select("*", first.alias("n")).where(F.col("n") <= MOST_EXAMPLES).orderBy("at", "n").collect()
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
        texts = named.select(as_json(F.struct(*shown)).alias("value")).select(_short_value())
        return [row["value"] for row in texts.orderBy("value").limit(MOST_EXAMPLES).collect()]
    except SCAN_ERRORS:
        return []


def _short_value() -> Column:
    return F.expr(short_text("value")).alias("value")
