"""Checks tried on a published gold table: what they would say of it as it stands. Nothing is written, logged or published.

Belongs here: checks of gold by themselves. Does not: the gate (gold_batch), or checks of a table's windows (trial).
"""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.dependencies import with_prerequisites
from lakehouse_assets.decisions import gate
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.layers.gold_batch import GoldRun, context_at, flag_and_keep, measure_gold
from lakehouse_assets.layers.others import others_now
from lakehouse_assets.layers.trial import Trial, Tried, with_check
from lakehouse_assets.measures.samples import failing_samples
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta, logs


def try_gold_checks(run: GoldRun, checks: Sequence[Check]) -> Tried:
    """Judge the published table by these checks, as one batch at the time of its last accepted decision. Checks that they
    depend on are judged before them; one that stops the scan is alone in error. Reads the table once, whole.

    Raises RefusedError where nothing was ever published, or not yet with the columns of these checks.
    """
    spec, names = run.spec, {check.id for check in checks}
    for check in checks:
        spec = with_check(spec, check)
    wanted = with_prerequisites(spec.checks, names)
    run = replace(run, spec=spec.model_copy(update={"checks": tuple(wanted)}))
    published = [d for d in logs.decisions(run.settings, run.table, evidence=False) if d.accepted and d.applied_at]
    if not published or not delta.exists(run.path):
        raise RefusedError(f"{run.table} has never been published; `lakehouse run` first")
    stands = max(published, key=lambda d: d.number)
    at, number = stands.decided_at, stands.number
    spark = run.session()
    rows = spark.read.format("delta").load(run.path)
    for check in wanted:
        if missing := check.unknown_columns([*rows.columns, "p_extracted_at"]):
            has = ", ".join(rows.columns)
            raise RefusedError(f"{run.table} as it is published has no column {', '.join(missing)} ({check.id}); it has {has}")
    others = others_now(run.settings, wanted, spark)
    absent = others.errors(wanted)
    staged, broken = flag_and_keep(run, rows, at, number, others.frames, _in_memory, absent)
    try:
        numbers = measure_gold(run, wanted, staged, {**broken, **absent}, at, number)
        failing = any(numbers.failed_rows.get(name) for name in names)
        samples = failing_samples(staged) if failing else {}
    finally:
        staged.unpersist()
    judged = gate.judge_checks(wanted, context_at(run, at), numbers, run.pii)
    found = [Trial(None, numbers.rows_in, outcome, stands) for outcome in judged if outcome.check in names]
    return Tried(found, {name: values for name, values in samples.items() if name in names})


def _in_memory(frame: DataFrame) -> DataFrame:
    kept = frame.persist()
    try:
        kept.count()
    except SCAN_ERRORS:
        kept.unpersist()
        raise
    return kept
