"""The numbers of staged batches: one scan, with one fallback if it stops, then the queries of other checks and the profiles.

Belongs here: the order of the aggregations, and what one error costs. Does not: the aggregations (scan, special, profile), or
any judgement.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame

from lakehouse_assets.checks.base import Check, CheckContext
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.pseudonyms import NameMask
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.measures.frames import batches_of, select_batches
from lakehouse_assets.measures.isolate import isolate_failures
from lakehouse_assets.measures.profile import TOO_MANY_STRATA, measure_profiles
from lakehouse_assets.measures.scan import fused_metrics, scan
from lakehouse_assets.measures.special import query_failures
from lakehouse_assets.sources.base import SCAN_ERRORS

Numbers = dict[Batch, BatchNumbers]
Errors = dict[Batch, dict[str, str]]


@dataclass(frozen=True)
class MeasurePlan:
    """``checks``: those that a decision waits for. ``rules``: ids of the row checks with flags in the rows, in bit order.
    ``personal``: the rows have personal values, which no error may quote. ``deferred``: checks that run after the write.
    """

    checks: Sequence[Check]
    context: CheckContext
    rules: Sequence[str]
    personal: bool
    deferred: Sequence[Check] = ()


def measure_batches(
    staged: DataFrame, plan: MeasurePlan, batches: Collection[Batch] | None = None, errors: Errors | None = None
) -> Numbers:
    """Return the numbers of these batches, from one grouped aggregation and one query for each check that is not fused. A check
    that stops the aggregation is in error in the batches where it fails, and measured in the others.

    ``batches``: by default those with rows. ``errors``: of checks that cannot be evaluated anyway.
    """
    metrics, errors = fused_metrics(plan.checks, plan.context, plan.rules), errors or {}
    try:
        numbers = scan(staged, plan.rules, metrics)
    except SCAN_ERRORS:
        numbers = _scan_by_check(staged, plan, metrics, errors, batches_of(staged) if batches is None else batches)
    chosen = sorted(numbers) if batches is None else batches
    answers = query_failures(staged, plan.checks, plan.context, chosen, errors, numbers, personal=plan.personal)
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


def profile_batches(
    staged: DataFrame, drift: DriftSpec, batches: Sequence[Batch], *, personal: bool
) -> tuple[dict[Batch, list[Measurement]], dict[Batch, str]]:
    """Return each batch's profiles and relations, from one more aggregation, and the errors of batches without them."""
    profiles: dict[Batch, list[Measurement]] = {}
    errors: dict[Batch, str] = {}

    def attempt(some: Sequence[Batch]) -> None:
        rows = staged if len(some) == len(batches) else select_batches(staged, some)
        measured, too_many = measure_profiles(rows, drift, some[0] if len(some) == 1 else None)
        profiles.update(measured)
        errors.update(dict.fromkeys(too_many & set(some), TOO_MANY_STRATA))

    for batch, message in isolate_failures(sorted(batches), attempt, personal=personal).items():
        errors[batch] = f"the features could not be measured: {message}"
    return profiles, errors


def measure_drift(
    staged: DataFrame, drift: DriftSpec | None, numbers: Numbers, mask: NameMask | None, *, personal: bool
) -> tuple[dict[Batch, list[Measurement]], Numbers]:
    """Return the batches' profiles, masked, and their numbers: a batch whose features cannot be measured is in error."""
    if drift is None:
        return {}, numbers
    profiles, errors = profile_batches(staged, drift, list(numbers), personal=personal)
    failed = {b: replace(numbers[b], errors={**numbers[b].errors, "drift": message}) for b, message in errors.items()}
    masked = {batch: list(map(mask.measurement, own)) if mask else own for batch, own in profiles.items()}
    return masked, {**numbers, **failed}
