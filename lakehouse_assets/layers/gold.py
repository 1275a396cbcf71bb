"""Gold: a SELECT over published tables, rewritten whole, gated as one batch whose input versions stand for its window.

Belongs here: stage → measure → decide → log → exchange of a gold table. Does not: reading lineage (contracts).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.sql_text import identifier, literal
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.decisions import gate
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.layers import grain
from lakehouse_assets.layers.afterwards import at_once, results_afterwards
from lakehouse_assets.layers.others import tables_read
from lakehouse_assets.layers.results import keep_results
from lakehouse_assets.layers.staging import MOST_COMPILED, write_once
from lakehouse_assets.measures.duplicates import flag_duplicates
from lakehouse_assets.measures.samples import failing_samples
from lakehouse_assets.measures.scan import scan
from lakehouse_assets.measures.special import query_failures
from lakehouse_assets.measures.stage import declared_rules, flagged, given_reasons
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.session import uncompiled_stages


@dataclass(frozen=True)
class GoldRun:
    """One run of one gold table, as `Run` is of a table. ``pii``: its columns that are made of personal ones."""

    settings: Settings
    spec: GoldSpec
    query: GoldQuery
    session: Callable[[], SparkSession]
    run_id: str
    clock: Callable[[], datetime]
    pii: frozenset[str] = frozenset()
    step: Callable[[str], None] = lambda _: None

    @property
    def table(self) -> str:
        """Its name in the logs and as an asset."""
        return f"gold_{self.spec.name}"

    @property
    def path(self) -> str:
        """Where it lies."""
        return self.settings.path("gold", self.spec.name)

    @property
    def ruleset_hash(self) -> str:
        """The first 16 hex digits of the rule set's SHA-256."""
        return ruleset_hash(self.spec, self.query)

    @property
    def ruleset(self) -> str:
        """What it is judged by, as JSON: its SQL, key and checks."""
        return ruleset(self.spec, self.query)


def inputs_of(spec: GoldSpec, query: GoldQuery) -> list[str]:
    """What a gold table is made of: the tables of its SQL, and those that its checks look into."""
    return sorted({*query.inputs, *(f"silver_{table}" for table in tables_read(spec.checks))})


def ruleset(spec: GoldSpec, query: GoldQuery) -> str:
    """What a gold table is judged by, as canonical JSON. The types are those that its inputs' contracts give it."""
    rules = spec.model_copy(update={"sql": query.sql, "description": "", "units": {}}).model_dump(mode="json")
    return json.dumps({**rules, "types": dict(query.types)}, sort_keys=True)


def ruleset_hash(spec: GoldSpec, query: GoldQuery) -> str:
    """The first 16 hex digits of the rule set's SHA-256: it changes with the SQL, the key and the checks."""
    return sha256(ruleset(spec, query).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class GoldPublished:
    """The standing decision, whether it is new, and failing values by check."""

    decision: Decision
    new: bool
    samples: dict[str, list[str]]


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
        return GoldPublished(last, False, {})
    number = (last.number if last else 0) + 1
    at = run.clock()
    parts = _changed_parts(run, known, inputs)
    staged = _stage(run, inputs, at, number, parts)
    # Versions without a change in them (a compaction, an empty commit) leave nothing to judge or to write.
    outcomes, numbers = _judge(run, staged, at, number, parts) if parts != () else ([], BatchNumbers())
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
    decision = _apply(run, decision, staged, again=False)
    samples = failing_samples(staged) if numbers.failing or any(numbers.failed_rows.values()) else {}
    delta.remove_folder(run.settings.path("staging", run.table))
    return GoldPublished(decision, True, samples)


def _input_versions(run: GoldRun) -> dict[str, int]:
    versions = {}
    for name in inputs_of(run.spec, run.query):
        path = _input_path(run.settings, name)
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
    places = {name: _input_path(run.settings, name) for name in inputs}
    return grain.changed_values(run.session(), run.spec.grain, places, base.inputs, inputs)


def _input_path(settings: Settings, name: str) -> str:
    layer, _, table = name.partition("_")
    return settings.path(layer, table)


def _context() -> CheckContext:
    return CheckContext(
        key=(), window_start_sql="p_extracted_at", window_end_sql="p_extracted_at", batch_view="batch", last_modified=None
    )


def _context_at(run: GoldRun, at: datetime) -> CheckContext:
    return replace(_context(), key=run.spec.key, window_start_sql=literal(at), window_end_sql=literal(at))


def _stage(run: GoldRun, inputs: dict[str, int], at: datetime, number: int, parts: grain.Values | None) -> DataFrame:
    spark = run.session()
    others: dict[str, DataFrame] = {}
    for name, version in inputs.items():
        table = spark.read.format("delta").option("versionAsOf", version).load(_input_path(run.settings, name))
        if run.spec.grain and parts is not None and name in run.spec.grain.inputs:
            table.where(grain.selects(run.spec.grain.inputs[name], parts)).createOrReplaceTempView(name)
        else:
            table.createOrReplaceTempView(name)
        others[name.removeprefix("silver_")] = table
    rows = spark.sql(run.query.sql)
    columns = [identifier(c) for c in rows.columns]
    rows = rows.select(
        *columns,
        F.lit(at).alias("p_extracted_at"),
        F.lit(number).alias("extraction_seq"),
        F.md5(F.to_json(F.struct(*columns))).alias("_content_hash"),
        F.lit(False).alias("_unreadable"),
    )
    rows = flagged(rows, run.spec.checks, _context(), run.pii, others)
    rows = flag_duplicates(rows, run.spec.key, None)
    with uncompiled_stages(spark, len(run.spec.checks) > MOST_COMPILED):
        return write_once(spark, rows, run.settings.path("staging", run.table, run.run_id))


def _judge(
    run: GoldRun, staged: DataFrame, at: datetime, number: int, parts: grain.Values | None
) -> tuple[list[gate.Outcome], BatchNumbers]:
    context = _context_at(run, at)
    awaited = at_once(run.spec.checks, context)
    riding = {c.id: c.metrics(context) for c in awaited if c.scope == "batch"}
    rules = [rule.id for rule in declared_rules(run.spec.checks, _context())]
    numbers = scan(staged, rules, riding).get((at, number), BatchNumbers(metrics={check: {} for check in riding}))
    errors: dict[tuple[datetime, int], dict[str, str]] = {}
    extra = query_failures(staged, awaited, context, [(at, number)], errors).get((at, number), {})
    metrics = {check: {**numbers.metrics.get(check, {}), **extra.get(check, {})} for check in riding}
    numbers = replace(numbers, metrics=metrics, errors=errors.get((at, number), {}))
    outcomes = gate.judge_checks(awaited, context, numbers, run.pii)
    if numbers.key_conflicts:
        text = f"{numbers.key_conflicts} key(s) ({', '.join(run.spec.key)}) with more than one row"
        outcomes.append(gate.Outcome("key", "unique", "critical", "failed", "batch", numbers.key_conflicts, text))
    if run.spec.grain and parts is not None:
        outside = staged.where(f"NOT {grain.selects(run.spec.grain.column, parts)}").count()
        if outside:
            column = run.spec.grain.column
            text = f"{outside} row(s) have a {column} that none of their inputs has: is `grain.inputs` what the SQL says?"
            outcomes.append(gate.Outcome("grain", "grain", "critical", "failed", "batch", outside, text))
    run.step("measured_rules")
    return outcomes, numbers


def _apply(run: GoldRun, decision: Decision, staged: DataFrame, *, again: bool) -> Decision:
    columns = [c for c in staged.columns if not c.startswith("_") and c not in ("p_extracted_at", "extraction_seq")]
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
        rows = staged.where(F.col("_newest")).select(*columns)
        named = delta.metadata_of([decision.decision_id], "gold")
        if run.spec.grain and decision.recomputed is not None:
            delta.replace(rows, run.path, grain.selects(run.spec.grain.column, decision.recomputed), named=named)
        else:
            writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
            writer.option("userMetadata", named).save(run.path)
        version = delta.version(run.path)
    run.step("gold_committed")
    context = _context_at(run, decision.decided_at)
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
    del rules["types"]
    spec = GoldSpec.model_validate({**rules, "sql": run.spec.sql})
    then = replace(run, spec=spec, query=replace(run.query, sql=rules["sql"]), run_id=f"{run.run_id}-recovery")
    staged = _stage(then, left.inputs, left.decided_at, left.number, left.recomputed)
    _apply(then, left, staged, again=True)
