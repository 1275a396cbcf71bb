"""Checks over rows that are typed already: the gate's measurements of them, with nothing written.

Belongs here: flags by the rows' own values, and the gate's scan and queries. Does not: casting, staging, judging, other tables'
versions, drift's sketches (profile reads the same flagged rows).
"""

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import Check, CheckContext
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.measures import stage
from lakehouse_assets.measures.batch_numbers import MeasurePlan, measure_batches
from lakehouse_assets.measures.duplicates import flag_distinct, flag_duplicates
from lakehouse_assets.measures.frames import batches_of
from lakehouse_assets.measures.isolate import Broken, errors_by_batch, failing_rules, row_probes
from lakehouse_assets.sources.base import SCAN_ERRORS


def measure_checks(
    frame: DataFrame,
    checks: Sequence[Check],
    context: CheckContext,
    others: Mapping[str, DataFrame] | None = None,
    *,
    personal: bool = False,
) -> dict[Batch, BatchNumbers]:
    """Return the numbers of every batch of these rows: one grouped aggregation for all row checks and fused metrics, one query
    for each other check.

    ``frame``: typed rows of silver, with `p_extracted_at` and `extraction_seq`. ``others``: the tables that foreign keys and
    reconciliations read. As in the gate, a row that a check would quarantine is not clean for batch checks. A check that stops
    the scan is in error in the batches where it fails. A batch without rows has no entry. ``personal``: errors quote no value.
    """
    plan = MeasurePlan(checks, context, [rule.id for rule in stage.declared_rules(checks, context)], personal)
    try:
        return measure_batches(flag_rows(frame, checks, context, others), plan)
    except SCAN_ERRORS:
        probes = row_probes(checks, lambda rows, some: flag_rows(rows, some, context, others))
        broken = failing_rules(frame, batches_of(frame), probes, {}, personal=personal)
        if not broken:
            raise
    return measure_batches(flag_rows(frame, checks, context, others, broken), plan, errors=errors_by_batch(broken))


def flag_rows(
    frame: DataFrame,
    checks: Sequence[Check],
    context: CheckContext,
    others: Mapping[str, DataFrame] | None = None,
    broken: Broken | None = None,
    pii: Collection[str] = (),
) -> DataFrame:
    """Return the rows with a staging's flags, lazily: unread flags are not computed. ``broken``: checks not to evaluate, with
    their batches. ``pii``: columns whose values no reason quotes.
    """
    rows = frame.withColumn("_unreadable", F.lit(False))
    rows = stage.flag_typed_rows(rows, checks, context, pii, others or {}, broken)
    # Contradicting rows of a key need a sort: only if a check reads them.
    if not any("_conflict" in sql for check in checks for sql in check.metrics(context).values()):
        return flag_distinct(rows)
    if "_content_hash" not in rows.columns:
        rows = rows.withColumn("_content_hash", F.md5(F.to_json(F.struct(*frame.columns))))
    return flag_duplicates(rows, context.key, context.last_modified)
