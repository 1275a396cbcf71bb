"""Apply decisions: quarantine, then silver in one commit, then the baseline's profiles, then the mark *applied*.

Belongs here: the order of the writes and what makes each safe to repeat. Does not: deciding, or the fold itself.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lakehouse_assets.checks.sql_text import identifier, literal
from lakehouse_assets.contracts.decision import ACCEPTED, Decision, ExtractionRecord
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.spark_types import parse_type, type_of_json
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import gate, ledger
from lakehouse_assets.decisions.evolution import effective
from lakehouse_assets.decisions.exchange import may_merge
from lakehouse_assets.decisions.schema_gate import lacking_columns
from lakehouse_assets.layers.afterwards import results_afterwards
from lakehouse_assets.layers.fold import clean_rows, empty_silver, fold, order, silver_columns
from lakehouse_assets.layers.judge import context_at
from lakehouse_assets.layers.run import Run
from lakehouse_assets.measures.stage import check_context, given_reasons, select_batches, stage
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.baseline import write_profiles

Batch = tuple[datetime | None, int]
# Gold asks which rows changed between two versions, to derive only what they concern.
SILVER_PROPERTIES = {"delta.enableChangeDataFeed": "true"}


def apply(
    run: Run,
    made: Sequence[Decision],
    staged: DataFrame,
    known: Sequence[Decision],
    *,
    again: bool,
    judged_by: TableSpec | None = None,
) -> list[Decision]:
    """Carry out logged decisions of one table and one rule set. ``again``: an earlier run may have got part of the way.

    ``known``: all the table's decisions, those in ``made`` included. ``judged_by``: the rules of these decisions, where they
    are not today's. Returns those of ``made`` that supersede nothing, with what the checks said that no exchange waits for.
    """
    own = [d for d in made if d.superseded_by is None]
    if not own:
        return []
    _quarantine(run, own, staged, again)
    run.step("quarantine_committed")
    version = _exchange(run, own, staged, known, again)
    run.step("silver_committed")
    write_profiles(run.settings, run.spec.name, [d for d in own if d.accepted and d.teaches], again=again)
    run.step("profiles_committed")
    own = check_afterwards(replace(run, spec=judged_by or run.spec), own, staged)
    logs.mark_applied(run.settings, own, version, run.clock())
    run.step("applied")
    return own


def check_afterwards(run: Run, made: Sequence[Decision], staged: DataFrame, *, log: bool = True) -> list[Decision]:
    """These decisions with what their late checks say, which is logged before the mark, so that a recovery cannot miss it."""
    placed = [(d, (d.p_extracted_at, d.extraction_seq)) for d in made if d.p_extracted_at]

    @cache
    def records() -> dict[Batch, ExtractionRecord]:
        return {(r.p_extracted_at, r.extraction_seq): r for r in logs.extractions(run.settings, run.spec.name)}

    told = results_afterwards(
        run.spec.checks,
        check_context(run.spec),
        staged,
        placed,
        run.spec.pii_columns,
        lambda d: context_at(run, d.p_extracted_at) if d.p_extracted_at else check_context(run.spec),
        lambda d: lacking_columns(run.spec, records()[d.batch]),
    )
    if log and told:
        logs.log_checked(run.settings, told)
        run.step("checked_afterwards")
    later = {decision.decision_id: outcomes for decision, outcomes in told}
    return [gate.completed(decision, later.get(decision.decision_id, ())) for decision in made]


def _quarantine(run: Run, made: Sequence[Decision], staged: DataFrame, again: bool) -> None:
    """Bronze rows with their reasons and the decision's id: whole batches, or the rows that a check removes."""
    holding = [d for d in made if d.counts.rows_quarantined or d.counts.rows_discarded]
    if not holding:
        return
    whole = [
        (
            *(d.p_extracted_at, d.extraction_seq, d.decision_id),
            d.counts.rows_in == d.counts.rows_quarantined + d.counts.rows_discarded,
            "discarded" if d.counts.rows_discarded else "quarantined",
            [f"{r.check}: {r.message}" for r in d.reasons if r.effect == "batch"],
        )
        for d in holding
    ]
    ids = run.spark.createDataFrame(
        whole,
        "p_extracted_at timestamp, extraction_seq int, decision_id string, _whole boolean, outcome string, "
        "batch_reasons array<string>",
    )
    same = ["p_extracted_at", "extraction_seq", "_content_hash"]
    found = staged.join(F.broadcast(ids), same[:2]).where(F.col("_whole") | ~F.col("_clean"))
    # Identical rows of a batch have identical reasons: one of them tells for all copies in bronze.
    told = found.select(*same, "decision_id", "outcome", "batch_reasons", given_reasons()).dropDuplicates(same)
    bronze = run.spark.read.format("delta").load(run.path("bronze"))
    rows = select_batches(bronze, [(d.p_extracted_at, d.extraction_seq) for d in holding if d.p_extracted_at]).join(told, same)
    first = ["decision_id", "outcome", *same, "reasons", "batch_reasons"]
    rows = rows.select(*first, *[identifier(c) for c in bronze.columns if c not in first])
    named = delta.metadata_of([d.decision_id for d in holding], "quarantine")
    if again:
        where = "decision_id IN (" + ", ".join(literal(d.decision_id) for d in holding) + ")"
        delta.replace(rows, run.path("quarantine"), where, named=named)
    else:
        delta.append(rows, run.path("quarantine"), named=named)


def _exchange(run: Run, made: Sequence[Decision], staged: DataFrame, known: Sequence[Decision], again: bool) -> int | None:
    """Silver, in one commit that names its decisions. Returns the version that holds them."""
    run = replace(run, spec=effective(run.spec, known))
    spec, path = run.spec, run.path("silver")
    replaced = {d.superseded_by for d in known if d.superseded_by}
    live = ledger.accepted(known)
    ids = {d.decision_id for d in live.values()}
    taken = [d for d in made if d.decision_id in ids]
    # An accepted snapshot of no rows empties the table; elsewhere a batch of which nothing is published changes nothing.
    whole = spec.extraction.mode == "snapshot"
    touched = [d for d in taken if d.counts.rows_published or d.decision_id in replaced or d.kind != "judged" or whole]
    # Judged again, and held this time: its rows are in silver still.
    before = ledger.accepted(known, min(d.number for d in made) - 1)
    touched += [d for d in made if d.decision_id not in ids and d.batch in before]
    if not delta.exists(path):
        delta.create(empty_silver(run.spark, spec), path, SILVER_PROPERTIES)
    if delta.MEANING not in delta.properties(path):
        delta.set_property(run.spark, path, delta.MEANING, spec.meaning)
    if not touched:
        return delta.version(path)
    delta.allow_types(run.spark, path, [column.type for column in spec.columns.values()])
    named = delta.metadata_of([d.decision_id for d in touched], "silver")
    run.step("before_silver")
    with delta.commit_named(run.spark, named):
        if _contract_changed(run, live, touched) or not _staged_so(spec, staged):
            rebuild_whole(run, live)
        elif _needs_fold(run, touched, live, replaced):
            _rebuild_keys(run, touched, known, live)
        else:
            _merge_newest(run, touched, staged, again)
    return delta.version(path)


def _contract_changed(run: Run, live: Mapping[Batch, Decision], touched: Sequence[Decision]) -> bool:
    """Whether silver was made by another contract than today's, so that it is folded anew, whole: other columns or types, or
    other values for the same bronze. Not for columns at its end that only these batches have: their write adds them.
    """
    if delta.properties(run.path("silver")).get(delta.MEANING) != run.spec.meaning:
        return True
    stands = [(f.name, f.dataType) for f in run.spark.read.format("delta").load(run.path("silver")).schema]
    promised = [(f.name, f.dataType) for f in empty_silver(run.spark, run.spec).schema]
    if stands == promised:
        return False
    added = {safe_name(run.spec.source_column(name)) for name, _ in promised[len(stands) :] if name in run.spec.columns}
    if promised[: len(stands)] != stands or len(added) != len(promised) - len(stands):
        return True
    now = {decision.batch for decision in touched}
    records = logs.extractions(run.settings, run.spec.name)
    batches = [(r, (r.p_extracted_at, r.extraction_seq)) for r in records]
    return any(added & set(r.columns) for r, batch in batches if batch in live and batch not in now)


def _staged_so(spec: TableSpec, staged: DataFrame) -> bool:
    """Whether the rows were staged by the types that silver has: a batch beside them may have been held that was to widen
    one.
    """
    kinds = {field["name"]: type_of_json(field["type"]) for field in staged.schema.jsonValue()["fields"]}
    return all(kinds.get(name) == parse_type(column.type) for name, column in spec.columns.items())


def rebuild_whole(run: Run, live: dict[Batch, Decision]) -> None:
    """Silver anew from bronze and the accepted decisions, schema included, in one commit."""
    replace_whole(run, fold(clean_rows(run, live), run.spec, live), live)


def replace_whole(run: Run, folded: DataFrame, live: Mapping[Batch, Decision]) -> None:
    """These rows in the place of all that silver has, schema included, in one commit."""
    path = run.path("silver")
    delta.allow_types(run.spark, path, [kind for _, kind in folded.dtypes])
    with delta.commit_named(run.spark, delta.metadata_of([d.decision_id for d in live.values()], "rebuild")):
        if delta.properties(path).get(delta.MEANING) != run.spec.meaning:
            # First it has none: left here, silver is folded once more by the next exchange, whatever the contract is by then.
            delta.set_property(run.spark, path, delta.MEANING, "none")
        folded.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
        run.step("silver_rebuilt")
        delta.set_property(run.spark, path, delta.MEANING, run.spec.meaning)


def _needs_fold(run: Run, touched: Sequence[Decision], live: dict[Batch, Decision], replaced: Collection[str]) -> bool:
    """Whether a MERGE of newest rows could differ from the fold."""
    spec = run.spec
    if not may_merge(spec.extraction, touched, replaced):
        return True
    wanted = {safe_name(spec.source_column(name)) for name in spec.columns}
    records: list[ExtractionRecord] = logs.extractions(run.settings, spec.name)
    return any(wanted - set(r.in_every_file) for r in records if r.rows and (r.p_extracted_at, r.extraction_seq) in live)


def _merge_newest(run: Run, touched: Sequence[Decision], staged: DataFrame, again: bool) -> None:
    """The fast path: the accepted batches' newest clean rows, one per key, by one MERGE (or an append to an empty table)."""
    spec, path = run.spec, run.path("silver")
    batches = [(d.p_extracted_at, d.extraction_seq) for d in touched if d.p_extracted_at]
    rows = select_batches(staged, batches).where(F.col("_newest"))
    if spec.key:
        newest = W.partitionBy(*[identifier(name) for name in spec.key]).orderBy(order(spec).desc())
        rows = rows.withColumn("_nth", F.row_number().over(newest)).where(F.col("_nth") == 1)
    rows = rows.select(*[identifier(c) for c in silver_columns(spec)])
    if _is_empty(path) or (not spec.key and not again):
        # Nothing can be in silver from these batches: each is judged for the first time, under the table's lock.
        delta.append(rows, path)  # adds columns, where there are new ones
        return
    same = " AND ".join(f"t.{identifier(name)} = s.{identifier(name)}" for name in spec.silver_key)
    (
        _adding(DeltaTable.forPath(run.spark, path), rows, same, spec)
        .whenMatchedUpdateAll(condition=order(spec, "s.") > order(spec, "t."))
        .whenNotMatchedInsertAll()
        .execute()
    )


def _rebuild_keys(run: Run, touched: Sequence[Decision], known: Sequence[Decision], live: dict[Batch, Decision]) -> None:
    """The sure path: every key that these batches, or the extractions they replaced, speak of is folded anew."""
    spec, path = run.spec, run.path("silver")
    windows = {d.p_extracted_at for d in touched}
    # What was never accepted left nothing in silver; it may be held since its key cannot even be evaluated.
    involved = {d.batch: d for d in known if d.p_extracted_at in windows and d.verdict in ACCEPTED}
    rows = clean_rows(run, live)
    if _is_empty(path):
        delta.append(fold(rows, spec, live), path)
        return
    target = DeltaTable.forPath(run.spark, path)
    if spec.extraction.mode == "snapshot":
        keys = rows.select(*map(identifier, spec.silver_key)).union(target.toDF().select(*map(identifier, spec.silver_key)))
    else:
        # What was accepted of these windows before is still in silver under the window, or lost to another row of its key,
        # which then stands in these extractions in bronze: both give the key.
        spoken = _typed_keys(run, involved)
        keys = spoken.union(
            target.toDF().where(F.col("p_extracted_at").isin(list(windows))).select(*map(identifier, spec.silver_key))
        )
    keys = keys.distinct()
    same = F.lit(True)
    for name in spec.silver_key:
        same = same & (F.col(f"k.{identifier(name)}") == F.col(f"f.{identifier(name)}"))
    concerned = rows.join(keys, list(spec.silver_key), "left_semi")
    folded = fold(concerned, spec, live).withColumn("_alive", F.lit(True))
    kept = [F.col(f"k.{identifier(name)}").alias(name) for name in spec.silver_key]
    rest = [F.col(f"f.{identifier(c)}") for c in [*silver_columns(spec), "_alive"] if c not in spec.silver_key]
    source = keys.alias("k").join(folded.alias("f"), same, "left").select(*kept, *rest)
    on = " AND ".join(f"t.{identifier(name)} = s.{identifier(name)}" for name in spec.silver_key)
    cells: dict[str, Any] = {identifier(c): f"s.{identifier(c)}" for c in silver_columns(spec)}
    (
        _adding(target, source, on, spec)
        .whenMatchedDelete(condition="s._alive IS NULL")
        .whenMatchedUpdate(set=cells)
        .whenNotMatchedInsert(condition="s._alive", values=cells)
        .execute()
    )


def _is_empty(path: str) -> bool:
    """Whether silver holds no rows at all, so that what is to be in it is appended: nothing has to be looked for there."""
    return not sum(delta.row_counts(path)["num_records"].to_pylist())


def _adding(target: DeltaTable, source: DataFrame, on: str, spec: TableSpec) -> DeltaMergeBuilder:
    """A MERGE of `s` into `t` that adds the columns that silver lacks, if there are any: for this write, and no other."""
    merge = target.alias("t").merge(source.alias("s"), on)
    return merge.withSchemaEvolution() if set(silver_columns(spec)) - set(target.toDF().columns) else merge


def _typed_keys(run: Run, involved: dict[Batch, Decision]) -> DataFrame:
    bronze = run.spark.read.format("delta").load(run.path("bronze"))
    batches = [(start, seq) for start, seq in involved if start is not None]
    keys = stage(select_batches(bronze, batches), run.spec).select(*map(identifier, run.spec.silver_key))
    return keys.where(" AND ".join(f"{identifier(name)} IS NOT NULL" for name in run.spec.silver_key))
