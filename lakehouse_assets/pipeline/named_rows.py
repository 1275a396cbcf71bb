"""A window that drifts, without the rows that drift names: staged again with them as a row check, measured, and judged anew.

Belongs here: that one round, and the window as it was where the rest is not accepted. Does not: which rows are named
(decisions/drift/named_rows), or the gate's steps.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from lakehouse_assets.checks.drift_rows import DriftRows
from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.decide import BatchEvidence, DecidedBatch, Knowledge
from lakehouse_assets.decisions.drift import named_rows
from lakehouse_assets.decisions.drift.named_rows import NAMED_ROWS
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.decisions.drift.verdict import DriftVerdict
from lakehouse_assets.measures.batch_numbers import measure_batches
from lakehouse_assets.measures.batches import errors_by_batch, select_batches, without_batches
from lakehouse_assets.measures.slice_rows import measure_slice

if TYPE_CHECKING:
    from lakehouse_assets.pipeline.silver import SilverTarget

# Evidence, and the rules of one batch → its decision.
Decide = Callable[[BatchEvidence, TableSpec], DecidedBatch]


def divide(
    target: "SilverTarget",
    record: ExtractionRecord,
    undivided: DecidedBatch,
    evidence: BatchEvidence,
    knowledge: Knowledge,
    decide: Decide,
) -> tuple[DecidedBatch, BatchEvidence]:
    """Judge a batch that fails by drift alone (``undivided``) without the rows that drift names. Return that decision and its
    evidence, if it accepts; else the decision on the whole batch. The staged rows, numbers and profiles of ``target`` are then
    those of the rest. There is one round: a rest that drifts is not divided again.
    """
    batch = record.batch
    check = _name_rows(target, batch, undivided.drift, knowledge) if undivided.drift else None
    if check is None:
        return undivided, evidence
    rest = _stage_rest(target, record, check)
    before = target.staged, target.replaced_by
    others = without_batches(target.staged, [batch])
    target.staged = others.unionByName(rest.staged, allowMissingColumns=True) if len(target.records) > 1 else rest.staged
    target.measure_replaced()
    replaced = target.replaced_by(batch, knowledge.decisions)
    target.run.step("rest_measured")
    numbers, profiles = rest.numbers[batch], rest.profiles.get(batch, [])
    evidence_of_rest = replace(evidence, numbers=numbers, profiles=profiles, replaced=replaced)
    result = decide(evidence_of_rest, target.run.spec.with_drift_rows(check))
    if result.decisions[0].accepted and not (replaced and replaced.undecided):
        target.numbers = {**target.numbers, batch: numbers}
        target.profiles = {**target.profiles, batch: profiles}
        return result, evidence_of_rest
    target.staged, target.replaced_by = before
    return _with_attempt(undivided, check, result.decisions[0]), evidence


def _name_rows(target: "SilverTarget", batch: Batch, drift: DriftVerdict, knowledge: Knowledge) -> DriftRows | None:
    """The rows of the slice that the verdict names, or of its interval or category: those with more beyond what is usual."""
    rules = target.run.spec
    spec, worst = rules.drift_in_units, named_rows.find_worst(drift, rules.drift_in_units)
    if spec is None or worst is None or knowledge.baseline is None or named_rows.find_check(rules.checks):
        return None
    named = [named_rows.name_excess(drift, spec)]
    if conditions := named_rows.slice_conditions(worst, spec):
        rows, history = select_batches(target.staged, [batch]), knowledge.baseline.without_window(start_of(batch))[1]
        profiles = measure_slice(rows, batch, spec, worst.feature, conditions, personal=target.staging.personal)
        named.insert(0, named_rows.name_slice(drift, spec, *profiles, history.slices) if profiles else None)
    return named_rows.choose_check(named)


def _stage_rest(target: "SilverTarget", record: ExtractionRecord, check: DriftRows) -> "SilverTarget":
    """The batch by itself, staged with the check as well, and measured."""
    rest, batch, spec = target.with_check(record, check), record.batch, target.run.spec.drift
    rest.staged, rest.broken = rest.stage_rows()
    rest.numbers = measure_batches(rest.staged, rest.plan, [batch], errors_by_batch(rest.broken), rest.observed)
    rest.measure_features()
    if spec is not None:
        unchanged = named_rows.unchanged_features(check, spec)
        rest.profiles = {batch: _replace(rest.profiles.get(batch, ()), target.profiles.get(batch, ()), unchanged)}
    return rest


def _replace(rest: Iterable[Measurement], of_all: Iterable[Measurement], unchanged: Collection[str]) -> list[Measurement]:
    """The measurements of the rest, and of these features those of the whole batch."""
    own = [each for each in rest if each.key[0] not in unchanged]
    return [*own, *(each for each in of_all if each.key[0] in unchanged)]


def _with_attempt(result: DecidedBatch, check: DriftRows, rest: Decision) -> DecidedBatch:
    """The decision on the whole batch, whose evidence says which rows were named, and why the rest was not published."""
    first, *others = result.decisions
    why = "; ".join(f"{reason.check}: {reason.message}" for reason in rest.reasons if reason.effect == "batch")
    attempt = {"condition": check.model_dump(mode="json", include=check.recorded), "rest": why}
    shown = f"{check.shown}; the rest is not accepted: {why}"
    checks = tuple(
        {**each, "observed": {**each["observed"], NAMED_ROWS: shown}} if each["check"] == "drift" else each
        for each in first.checks
    )
    first = replace(first, checks=checks, drift={**(first.drift or {}), NAMED_ROWS: attempt})
    return replace(result, decisions=[first, *others])
