"""Gold: a SELECT over published tables, rewritten whole, gated as one batch whose input versions stand for its window.

Belongs here: stage → measure → decide → log → exchange of a gold table. Does not: reading lineage (contracts).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql_text import identifier, literal
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.decisions import gate
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.layers import grain
from lakehouse_assets.layers.afterwards import results_afterwards
from lakehouse_assets.layers.gold_batch import GoldRun, context_at, input_path, inputs_of, judge_gold, stage_gold
from lakehouse_assets.layers.gold_schema import Shape, shape_of, yielded
from lakehouse_assets.layers.results import keep_results
from lakehouse_assets.measures.samples import failing_samples
from lakehouse_assets.measures.stage import given_reasons
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.lock import table_lock


@dataclass(frozen=True)
class GoldPublished:
    """The standing decision, whether it is new, and failing values by check. ``judged``: the decision whose checks speak of
    the table as it is: an earlier one where nothing was derived since, so that nothing was judged.
    """

    decision: Decision
    new: bool
    samples: dict[str, list[str]]
    judged: Decision


def publish_gold(run: GoldRun) -> GoldPublished:
    """Bring a gold table up to its inputs. With the same input versions and rules as the last decision, nothing happens.

    Raises RefusedError when an input has never been published.
    """
    with table_lock(run.settings, run.table):
        published = _published(run)
        keep_results(run.settings, run.table, run.step)
        return published


def _published(run: GoldRun) -> GoldPublished:
    known = logs.decisions(run.settings, run.table)
    last = max(known, key=lambda d: d.number, default=None)
    if last is not None and last.applied_at is None:
        last = _finished(run, last)
        known = [*known[:-1], last] if known[-1].number == last.number else known
    inputs = _input_versions(run)
    rules = run.ruleset_hash
    if last is not None and last.applied_at and last.inputs == inputs and last.ruleset_hash == rules:
        return GoldPublished(last, False, {}, _judged(last, known))
    number = (last.number if last else 0) + 1
    at = run.clock()
    parts = _changed_parts(run, known, inputs)
    staged, broken = stage_gold(run, inputs, at, number, parts)
    shape = shape_of(run, staged, known)
    if shape.grows and parts is not None:
        parts = None
        staged, broken = stage_gold(run, inputs, at, number, parts)
    # Versions without a change in them (a compaction, an empty commit) leave nothing to judge or to write.
    outcomes, numbers = judge_gold(run, staged, broken, at, number, parts) if parts != () else ([], BatchNumbers())
    outcomes += shape.outcomes()
    verdict, counts = gate.verdict_of(outcomes, numbers)
    decision = Decision(
        table=run.table,
        p_extracted_at=None,
        extraction_seq=number,
        number=number,
        kind="judged",
        verdict=verdict,
        counts=counts,
        reasons=gate.reasons_of(outcomes),
        ruleset_hash=rules,
        ruleset=run.ruleset,
        bronze_version=None,
        baseline_version=None,
        run_id=run.run_id,
        decided_at=at,
        inputs=inputs,
        recomputed=parts,
        checks=tuple(outcome.as_dict() for outcome in outcomes),
    )
    logs.log_decisions(run.settings, [decision])
    run.step("decisions_logged")
    decision = _apply(run, decision, staged, shape, again=False)
    samples = failing_samples(staged) if numbers.failing or any(numbers.failed_rows.values()) else {}
    delta.remove_folder(run.settings.path("staging", run.table))
    return GoldPublished(decision, True, samples, _judged(decision, known))


def _judged(decision: Decision, known: Sequence[Decision]) -> Decision:
    if decision.recomputed != ():
        return decision
    return max((d for d in known if d.applied_at and d.recomputed != ()), key=lambda d: d.number, default=decision)


def _input_versions(run: GoldRun) -> dict[str, int]:
    versions = {}
    for name in inputs_of(run.spec, run.query):
        path = input_path(run.settings, name)
        if not delta.exists(path):
            raise RefusedError(f"{run.table} reads {name}, which has never been published; materialize {name} first")
        versions[name] = delta.version(path)
    return versions


def _changed_parts(run: GoldRun, known: Sequence[Decision], inputs: dict[str, int]) -> grain.Values | None:
    """The parts that changed since gold was last rewritten by the same rules; None: all of it."""
    rules = run.ruleset_hash
    published = [d for d in known if d.accepted and d.applied_at and d.ruleset_hash == rules]
    if run.spec.grain is None or not published or not delta.exists(run.path):
        return None
    base = max(published, key=lambda d: d.number)
    places = {name: input_path(run.settings, name) for name in inputs}
    return grain.changed_values(run.session(), run.spec.grain, places, base.inputs, inputs)


def _apply(run: GoldRun, decision: Decision, staged: DataFrame, shape: Shape, *, again: bool) -> Decision:
    columns = list(yielded(staged))
    quarantine = run.settings.path("quarantine", run.table)
    if decision.counts.rows_quarantined:
        rows = staged if not decision.accepted else staged.where(~F.col("_clean"))
        # As text: what was held by last year's SQL lies beside what is held by today's.
        row = F.to_json(F.struct(*[identifier(c) for c in columns])).alias("row")
        rows = rows.select(F.lit(decision.decision_id).alias("decision_id"), row, given_reasons())
        named = delta.metadata_of([decision.decision_id], "quarantine")
        if again:
            delta.replace(rows, quarantine, f"decision_id = {literal(decision.decision_id)}", named=named)
        else:
            delta.append(rows, quarantine, named=named)
    run.step("quarantine_committed")
    version = None
    if decision.recomputed == ():
        version = delta.version(run.path)
    elif decision.accepted:
        rows = shape.of(staged.where(F.col("_newest")))
        delta.allow_types(run.session(), run.path, [kind for _, kind in rows.dtypes])
        named = delta.metadata_of([decision.decision_id], "gold")
        if run.spec.grain and decision.recomputed is not None:
            delta.replace(rows, run.path, grain.selects(run.spec.grain.column, decision.recomputed), named=named)
        else:
            writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
            writer.option("userMetadata", named).save(run.path)
        version = delta.version(run.path)
    run.step("gold_committed")
    context = context_at(run, decision.decided_at)
    batch = (decision.decided_at, decision.number)
    checks = run.spec.checks if decision.recomputed != () else ()
    told = results_afterwards(checks, context, staged, [(decision, batch)], run.pii, lambda _: context)
    if told:
        logs.log_checked(run.settings, told)
    logs.mark_applied(run.settings, [decision], version, run.clock())
    return gate.completed(decision, told[0][1] if told else ())


def _finished(run: GoldRun, left: Decision) -> Decision:
    """What an earlier run decided and did not apply; left as it is where the versions that it saw are gone: gold is then
    decided anew.
    """
    try:
        _finish(run, left)
    except SCAN_ERRORS:
        run.step("inputs_of_an_unapplied_decision_are_gone")
        return left
    return replace(left, applied_at=run.clock())


def _finish(run: GoldRun, left: Decision) -> None:
    """Complete a decision that an earlier run logged: the same inputs at the same versions, by the same rules."""
    rules = json.loads(left.ruleset)
    types = rules.pop("types")
    spec = GoldSpec.model_validate({**rules, "sql": run.spec.sql})
    then = replace(run, spec=spec, query=replace(run.query, sql=rules["sql"], types=types), run_id=f"{run.run_id}-recovery")
    staged, _ = stage_gold(then, left.inputs, left.decided_at, left.number, left.recomputed)
    before = [d for d in logs.decisions(run.settings, run.table) if d.number < left.number]
    _apply(then, left, staged, shape_of(then, staged, before), again=True)
