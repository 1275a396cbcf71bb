"""A gold table's rows, staged and judged: the same gate as silver's, over the rows of a SELECT.

Belongs here: a run of a gold table, its staging, its measures, its outcomes. Does not: logging and publishing (gold).
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from hashlib import sha256

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import Check, CheckContext
from lakehouse_assets.checks.dependencies import rows_passed_over
from lakehouse_assets.checks.sql_text import identifier, literal
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.decisions import gate
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.layers import grain
from lakehouse_assets.layers.afterwards import at_once
from lakehouse_assets.layers.others import tables_read
from lakehouse_assets.layers.staging import write_once
from lakehouse_assets.measures.duplicates import flag_duplicates
from lakehouse_assets.measures.isolate import errors_of, evaluate
from lakehouse_assets.measures.scan import riding, scan
from lakehouse_assets.measures.special import query_failures
from lakehouse_assets.measures.stage import declared_rules, flagged
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage.session import compiled_as_fits


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


def input_path(settings: Settings, name: str) -> str:
    """Where an input lies, by its name in SQL."""
    layer, _, table = name.partition("_")
    return settings.path(layer, table)


def _context() -> CheckContext:
    return CheckContext(
        key=(), window_start_sql="p_extracted_at", window_end_sql="p_extracted_at", batch_view="batch", last_modified=None
    )


def context_at(run: GoldRun, at: datetime) -> CheckContext:
    """What a check may know of the one batch, decided at this time."""
    return replace(_context(), key=run.spec.key, window_start_sql=literal(at), window_end_sql=literal(at))


def stage_gold(
    run: GoldRun, inputs: dict[str, int], at: datetime, number: int, parts: grain.Values | None
) -> tuple[DataFrame, dict[str, str]]:
    """The staged rows; and what went wrong in row checks that stop the scan, which are then not evaluated."""
    spark = run.session()
    others: dict[str, DataFrame] = {}
    for name, version in inputs.items():
        table = spark.read.format("delta").option("versionAsOf", version).load(input_path(run.settings, name))
        if run.spec.grain and parts is not None and name in run.spec.grain.inputs:
            _as_declared(table.where(grain.selects(run.spec.grain.inputs[name], parts))).createOrReplaceTempView(name)
        else:
            _as_declared(table).createOrReplaceTempView(name)
        others[name.removeprefix("silver_")] = table
    path = run.settings.path("staging", run.table, run.run_id)
    return flag_and_keep(run, spark.sql(run.query.limited), at, number, others, lambda frame: write_once(spark, frame, path))


def _as_declared(table: DataFrame) -> DataFrame:
    """What the SQL was read against: without silver's bookkeeping, which a `*` would bring along."""
    return table.drop("extraction_seq", *[name for name in table.columns if name.startswith("_")])


def flag_and_keep(
    run: GoldRun,
    rows: DataFrame,
    at: datetime,
    number: int,
    others: Mapping[str, DataFrame],
    keep: Callable[[DataFrame], DataFrame],
    missing: Collection[str] = (),
) -> tuple[DataFrame, dict[str, str]]:
    """These rows as one batch with a staging's flags, kept once; and what went wrong in row checks that stop the scan, which
    are then not evaluated. Nor are the ``missing``, whose table is not there.
    """
    columns, checks = [identifier(c) for c in rows.columns], run.spec.checks
    rows = rows.select(
        *columns,
        F.lit(at).alias("p_extracted_at"),
        F.lit(number).alias("extraction_seq"),
        F.md5(F.to_json(F.struct(*columns))).alias("_content_hash"),
        F.lit(False).alias("_unreadable"),
    )

    def frame(some: Sequence[Check], broken: Collection[str] = ()) -> DataFrame:
        return flag_duplicates(flagged(rows, some, _context(), run.pii, others, {*broken, *missing}), run.spec.key, None)

    def alone(check: Check) -> None:
        evaluate(frame([*rows_passed_over(check, checks), check]))

    with compiled_as_fits(run.session(), len(checks)):
        try:
            return keep(frame(checks)), {}
        except SCAN_ERRORS:
            broken = _told(run, errors_of({check.id: partial(alone, check) for check in checks if check.scope == "row"}))
            if not broken and run.pii:
                raise LakehouseError(
                    f"{run.table}: its SQL stops on a value {gate.MASKED}; see it with `try_` functions"
                ) from None
            if not broken:
                raise
            return keep(frame(checks, broken)), broken


def _told(run: GoldRun, errors: dict[str, str]) -> dict[str, str]:
    """A value may stand in an error, of any column."""
    return dict.fromkeys(errors, gate.MASKED) if run.pii else errors


def measure_gold(
    run: GoldRun, checks: Sequence[Check], staged: DataFrame, broken: dict[str, str], at: datetime, number: int
) -> BatchNumbers:
    """The numbers of these checks over staged rows: one aggregation, and one query for each check that cannot ride along.
    ``broken``: checks that cannot be evaluated, and why.
    """
    context, batch = context_at(run, at), (at, number)
    rules = [rule.id for rule in declared_rules(run.spec.checks, _context())]
    along = riding(checks, context, rules)
    errors = {batch: dict(broken)}
    try:
        scanned = scan(staged, rules, along)
    except SCAN_ERRORS:
        alone = {check: partial(scan, staged, [], {check: metrics}) for check, metrics in along.items()}
        errors[batch] |= _told(run, errors_of(alone))
        scanned = scan(staged, rules, {c: {} if c in errors[batch] else m for c, m in along.items()})
    extra = query_failures(staged, checks, context, [batch], errors, scanned).get(batch, {})
    return scanned.get(batch, BatchNumbers()).completed(along, extra, errors[batch])


def judge_gold(
    run: GoldRun, staged: DataFrame, broken: dict[str, str], at: datetime, number: int, parts: grain.Values | None
) -> tuple[list[gate.Outcome], BatchNumbers]:
    """Outcomes of the checks that the decision waits for, and the counts. ``broken``: as `stage_gold` gives it."""
    context = context_at(run, at)
    awaited = at_once(run.spec.checks, context)
    numbers = measure_gold(run, awaited, staged, broken, at, number)
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
