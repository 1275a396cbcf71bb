"""Checks over rows that are typed already: what the scan of a staging would say of them, with nothing written.

Belongs here: flags by the rows' own values, and the same scan and queries as the gate's. Does not: casting, staging, judging,
other tables' versions, drift's sketches (profile takes the same `flagged` rows).
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import Check, CheckContext
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.measures import stage
from lakehouse_assets.measures.duplicates import flag_duplicates, unrepeated
from lakehouse_assets.measures.isolate import errors_of
from lakehouse_assets.measures.scan import riding, scan
from lakehouse_assets.measures.special import query_failures
from lakehouse_assets.measures.stage import declared_rules
from lakehouse_assets.sources.base import SCAN_ERRORS

Batch = tuple[datetime, int]


def measure_checks(
    frame: DataFrame, checks: Sequence[Check], context: CheckContext, others: Mapping[str, DataFrame] | None = None
) -> dict[Batch, BatchNumbers]:
    """The numbers of every batch of these rows: one grouped aggregation for all row checks and all metrics that ride along,
    one query for each check that cannot.

    ``frame``: typed rows as silver has them, with `p_extracted_at` and `extraction_seq`. ``others``: the tables that foreign
    keys and reconciliations look into. A row that a check would hold is no clean row for batch checks, as in the gate. A
    check that stops the scan is in error in every batch. A batch of no rows has no entry.
    """
    rules = declared_rules(checks, context)
    along = riding(checks, context, [rule.id for rule in rules])
    others = others or {}
    broken: dict[str, str] = {}
    rows = flagged(frame, checks, context, others)
    try:
        numbers = scan(rows, [rule.id for rule in rules], along)
    except SCAN_ERRORS:
        broken = _broken(frame, checks, context, others)
        if not broken:
            raise
        rows = flagged(frame, checks, context, others, broken)
        numbers = scan(rows, [rule.id for rule in rules], {c: {} if c in broken else found for c, found in along.items()})
    errors = {batch: dict(broken) for batch in numbers}
    extra = query_failures(rows, checks, context, sorted(numbers), errors, numbers)
    measured = {}
    for batch, found in numbers.items():
        measured[batch] = found.completed(along, extra[batch], errors[batch])
    return measured


def flagged(
    frame: DataFrame,
    checks: Sequence[Check],
    context: CheckContext,
    others: Mapping[str, DataFrame] | None = None,
    broken: Collection[str] = (),
    pii: Collection[str] = (),
) -> DataFrame:
    """The rows with a staging's flags, lazily: what nobody asks for is not computed. ``broken``: checks not to evaluate.
    ``pii``: columns whose values no reason tells.
    """
    rows = frame.withColumn("_unreadable", F.lit(False))
    rows = stage.flagged(rows, checks, context, pii, others or {}, broken)
    # To find out which rows of a key contradict each other takes a sort: only where it is asked for.
    if not any("_conflict" in sql for check in checks for sql in check.metrics(context).values()):
        return unrepeated(rows)
    if "_content_hash" not in rows.columns:
        rows = rows.withColumn("_content_hash", F.md5(F.to_json(F.struct(*frame.columns))))
    return flag_duplicates(rows, context.key, context.last_modified)


def _broken(
    frame: DataFrame, checks: Sequence[Check], context: CheckContext, others: Mapping[str, DataFrame]
) -> dict[str, str]:
    """The checks that stop the scan by themselves, each with its error."""

    def alone(check: Check) -> None:
        rules = [rule.id for rule in declared_rules([check], context)]
        along = riding([check], context, rules)
        if rules or any(along.values()):
            scan(flagged(frame, [check], context, others), rules, along)

    return errors_of({check.id: partial(alone, check) for check in checks})
