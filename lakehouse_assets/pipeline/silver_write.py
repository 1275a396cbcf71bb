"""Write silver in one commit: merge the newest rows, fold the keys of some batches anew where that could differ, or fold all.

Belongs here: the choice, folding anew, and the quarantined rows. Does not: the order of the writes (gate), the MERGE of newest
rows (silver_merge), or the fold itself.
"""

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.batch import ROW_COLUMNS
from lakehouse_assets.contracts.decision import ACCEPTED, Decision
from lakehouse_assets.contracts.declarations import declarations_of
from lakehouse_assets.contracts.quarantine import stored_name
from lakehouse_assets.contracts.silver import silver_columns
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.spark_types import parse_type, sql_type, type_of_json
from lakehouse_assets.contracts.table import EffectiveTable
from lakehouse_assets.decisions import ledger, log_parts
from lakehouse_assets.decisions.ledger import Live
from lakehouse_assets.decisions.merge_plan import MergePlan, plan_merge
from lakehouse_assets.decisions.schema.evolution import effective_table
from lakehouse_assets.measures.failing_samples import left_rows
from lakehouse_assets.measures.frames import MOMENT, local_frame
from lakehouse_assets.measures.stage import quarantine_reasons, stage
from lakehouse_assets.pipeline.bronze_rows import bronze_rows
from lakehouse_assets.pipeline.few_rows import FEW
from lakehouse_assets.pipeline.fold import clean_rows, empty_silver, fold, foldable
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.silver_merge import merge_by_key, merge_newest, reads_few_rows
from lakehouse_assets.storage import commit_metadata, delta, delta_writes, logs, silver_contract
from lakehouse_assets.storage.column_comments import with_comments, with_own_comments
from lakehouse_assets.storage.layout import create, overwrite
from lakehouse_assets.storage.session_properties import plan_for_few_rows

# Gold asks which rows changed between two versions, to derive only what they concern.
SILVER_PROPERTIES = {"delta.enableChangeDataFeed": "true"}

# Reasons of single rows, of some hundred bytes each, that a process holds at most.
MOST_REASONS = 100_000


def quarantined_rows(run: Run, decisions: Sequence[Decision], staged: DataFrame) -> DataFrame:
    """Bronze rows with their reasons and the decision's id: whole batches, or the rows that a check removes."""
    rows_of_ids = [
        (
            *(d.p_extracted_at, d.extraction_seq, d.decision_id),
            _is_whole(d),
            "discarded" if d.counts.rows_discarded else "quarantined",
            [f"{r.check}: {r.message}" for r in d.reasons if r.effect == "batch"],
        )
        for d in decisions
    ]
    kinds = [("p_extracted_at", MOMENT), ("extraction_seq", pa.int32()), ("decision_id", pa.string()), ("_whole", pa.bool_())]
    kinds += [("outcome", pa.string()), ("batch_reasons", pa.list_(pa.string()))]
    ids = local_frame(run.spark, kinds, rows_of_ids)
    same = [*ROW_COLUMNS]
    flagged = (staged if any(map(_is_whole, decisions)) else left_rows(staged)).select(*same, "_clean", "_reasons")
    rows = flagged.join(F.broadcast(ids), same[:2]).where(F.col("_whole") | ~F.col("_clean"))
    # Identical rows of a batch have identical reasons: those of one of them hold for all copies in bronze.
    reasons = rows.select(*same, "decision_id", "outcome", "batch_reasons", quarantine_reasons()).dropDuplicates(same)
    if has_few_reasons(decisions, len(run.spec.columns) + len(run.spec.checks)):
        reasons = F.broadcast(reasons)  # else Spark sorts all rows of these batches
    batches = [d.batch for d in decisions if d.p_extracted_at]
    rows_in_bronze = bronze_rows(run, batches)
    rows_in_bronze = rows_in_bronze.withColumnsRenamed({name: stored_name(name) for name in rows_in_bronze.columns})
    first = ["decision_id", "outcome", *same, "reasons", "batch_reasons"]
    columns = [identifier(c) for c in rows_in_bronze.columns if c not in first]
    return rows_in_bronze.join(reasons, same).select(*first, *columns)


def has_few_reasons(decisions: Sequence[Decision], rules: int) -> bool:
    """Whether few rows of many have reasons, and no batch as a whole: each row of such a batch has the batch's reasons, which
    are long. ``rules``: how many a row may fail.
    """
    rows_in = sum(d.counts.rows_in for d in decisions)
    rows = sum(d.counts.rows_quarantined + d.counts.rows_discarded for d in decisions)
    return rows_in > FEW and rows * rules <= MOST_REASONS and not any(map(_is_whole, decisions))


def _is_whole(decision: Decision) -> bool:
    counts = decision.counts
    return counts.rows_in == counts.rows_quarantined + counts.rows_discarded


def write_silver(run: Run, decisions: Sequence[Decision], staged: DataFrame, log: Sequence[Decision], *, again: bool) -> int:
    """Publish these decisions, of one rule set, in one commit that names them. Returns the version that has them.

    ``log``: all the table's decisions, these included. ``again``: an earlier run may have got part of the way.
    """
    run = run.with_contract(effective_table(run.spec, log))
    spec, path = run.spec, run.path("silver")
    replacing = ledger.superseding_ids(log)
    live = ledger.live_decisions(log)
    accepted = [d for d in decisions if d.batch in live.accepted and live.accepted[d.batch].decision_id == d.decision_id]
    # An accepted snapshot of no rows empties the table; elsewhere a batch of which nothing is published changes nothing.
    empties = spec.extraction.mode == "snapshot"
    touched = [d for d in accepted if d.counts.rows_published or d.decision_id in replacing or d.kind != "judged" or empties]
    # Judged again, and quarantined this time: its rows are in silver still.
    ids = {d.decision_id for d in accepted}
    others = [d for d in decisions if d.decision_id not in ids]
    of_windows = ledger.of_windows(log, {d.p_extracted_at for d in others if d.p_extracted_at}).values()
    before = ledger.accepted_decisions(chain(*of_windows), min(d.number for d in decisions) - 1)
    touched += [d for d in others if d.batch in before]
    _make_silver(run, live, decisions)
    if not touched and delta.properties(path).get(delta.MEANING, "none") != "none":
        return delta.version(path)
    delta_writes.allow_types(run.spark, path, [column.type for column in spec.columns.values()])
    own = {d.decision_id for d in decisions}
    logged = [*decisions, *log_parts.superseded_decisions(log, own)]
    named = commit_metadata.encode_decisions("silver", touched, logged)
    run.step("before_write")
    with silver_contract.constrained_write(run.spark, path, spec), delta_writes.tag_commits(run.spark, named):
        if _contract_changed(run, live, touched) or not _staged_so(spec, staged):
            rebuild_silver(run, live, logged, touched)
        elif (plan := _plan_merge(run, touched, live, replacing)) is None:
            _rebuild_keys(run, touched, log, live)
        else:
            with plan_for_few_rows(run.spark) if reads_few_rows(path, plan) else nullcontext():
                may_delete = bool(spec.extraction.delete_when and plan.newer.publishing)
                newer = clean_rows(run, plan.newer) if may_delete else None
                merge_newest(spec, path, plan, staged, newer, again=again)
    return delta.version(path)


def _make_silver(run: Run[EffectiveTable], live: Live, decisions: Sequence[Decision]) -> None:
    """Make the table where there is none. Where rows of other decisions than these belong in it, the table was lost: it does
    not say by which contract it was made then, so that this write, or the one after a crash, folds it whole.
    """
    path, own = run.path("silver"), {d.decision_id for d in decisions}
    if delta.exists(path):
        return
    create_silver(run)
    if not any(d.counts.rows_published for d in live.publishing.values() if d.decision_id not in own):
        silver_contract.record_contract(run.spark, path, run.spec)
        silver_contract.apply_declarations(run.spark, path, run.spec)


def create_silver(run: Run[EffectiveTable]) -> None:
    """Make the table without a row."""
    columns = with_own_comments(empty_silver(run.spark, run.spec), declarations_of(run.spec).comments)
    create(columns, run.path("silver"), SILVER_PROPERTIES, run.spec.layout)


def rebuild_silver(
    run: Run[EffectiveTable],
    live: Live,
    logged: Sequence[Decision] = (),
    touched: Sequence[Decision] = (),
    folded: DataFrame | None = None,
) -> None:
    """Replace all of silver by the fold of bronze and the accepted decisions, schema included, in one commit. ``logged``:
    decisions that it is the first to apply, which are stored with it; ``touched``: those of them that change silver.
    ``folded``: the fold, where the caller has it.
    """
    path = run.path("silver")
    folded = fold(foldable(run, live), run.spec) if folded is None else folded
    if not delta.exists(path):
        create_silver(run)
    delta_writes.allow_types(run.spark, path, [kind for _, kind in folded.dtypes])
    folded = with_comments(
        folded, path, declarations_of(run.spec).comments, silver_contract.recorded_declarations(path).comments
    )
    named = {d.decision_id: d for d in (*live.accepted.values(), *touched)}
    with delta_writes.tag_commits(run.spark, commit_metadata.encode_decisions("rebuild", named.values(), logged)):
        clustered = run.spec.layout is not None and run.spec.layout.cluster_by
        if clustered or delta.properties(path).get(delta.MEANING) != run.spec.meaning:
            # First it has none: left here, silver is folded once more by the next write, whatever the contract is by then.
            delta_writes.set_property(run.spark, path, delta.MEANING, "none")
        with silver_contract.constrained_write(run.spark, path, run.spec):
            overwrite(folded, path, run.spec.layout)
        run.step("silver_rebuilt")
        silver_contract.record_contract(run.spark, path, run.spec)


def _contract_changed(run: Run[EffectiveTable], live: Live, touched: Sequence[Decision]) -> bool:
    """Whether silver was made by another contract than today's, so that it is folded anew, whole: other columns or types, or
    other values for the same bronze. Not for columns at its end that only these batches have: their write adds them.
    """
    if delta.properties(run.path("silver")).get(delta.MEANING) != run.spec.meaning:
        return True
    # As text: without the comments that a person put on nested fields.
    actual = delta.schema_types(run.path("silver"))
    fields = empty_silver(run.spark, run.spec).schema.jsonValue()["fields"]
    promised = [(field["name"], sql_type(type_of_json(field["type"]))) for field in fields]
    if actual == promised:
        return False
    new = [name for name, _ in promised[len(actual) :] if name in run.spec.columns]
    sources = [safe_name(source).lower() for name in new for source in run.spec.source_columns(name)]
    added, computes = set(sources), len(new) < len(promised) - len(actual)
    if promised[: len(actual)] != actual or computes or len(added) < len(sources):
        return True
    now = {decision.batch for decision in touched}
    records = logs.extractions(run.settings, run.spec.name)
    return any(
        added & {column.lower() for column in r.columns} for r in records if r.batch in live.publishing and r.batch not in now
    )


def _staged_so(spec: EffectiveTable, staged: DataFrame) -> bool:
    """Whether the rows have silver's types: a quarantined batch beside them may have been staged to widen one."""
    kinds = {field["name"]: type_of_json(field["type"]) for field in staged.schema.jsonValue()["fields"]}
    return all(kinds.get(name) == parse_type(column.type) for name, column in spec.columns.items())


def _plan_merge(
    run: Run[EffectiveTable], touched: Sequence[Decision], live: Live, replacing: Collection[str]
) -> MergePlan | None:
    columns = [name for name, _ in delta.schema_types(run.path("silver"))]
    return plan_merge(run.spec, touched, live, replacing, logs.extractions(run.settings, run.table), columns)


def _rebuild_keys(run: Run[EffectiveTable], touched: Sequence[Decision], log: Sequence[Decision], live: Live) -> None:
    """The sure path: fold every key anew that these batches, or the extractions they replaced, speak of."""
    spec, path = run.spec, run.path("silver")
    windows = {d.p_extracted_at for d in touched}
    # What was never accepted left nothing in silver; its key may be one that cannot even be evaluated.
    involved = {d.batch for d in log if d.p_extracted_at in windows and d.verdict in ACCEPTED}
    every = foldable(run, live)
    if delta.snapshot(path).rows == 0:  # nothing has to be looked for there
        delta_writes.append(fold(every, spec), path)
        return
    target, key = DeltaTable.forPath(run.spark, path), [*map(identifier, spec.silver_key)]
    published = target.toDF()
    if spec.extraction.mode == "snapshot":
        keys = every.rows.select(*key).union(published.select(*key))
    else:
        # What was accepted of these windows before is still in silver under the window, or lost to another row of its key,
        # which then stands in these extractions in bronze: both give the key.
        batches = [batch for batch in involved if batch[0]]
        extracted = stage(bronze_rows(run, batches), run.spec).select(*key)
        extracted = extracted.where(" AND ".join(f"{name} IS NOT NULL" for name in key))
        keys = extracted.union(published.where(F.col("p_extracted_at").isin(list(windows))).select(*key))
    keys = keys.distinct()
    same = F.lit(True)
    for name in key:
        same = same & (F.col(f"k.{name}") == F.col(f"f.{name}"))
    concerned = replace(every, rows=every.rows.join(keys, list(spec.silver_key), "left_semi"))
    folded = fold(concerned, spec).withColumn("_alive", F.lit(True))
    key_columns = [F.col(f"k.{identifier(name)}").alias(name) for name in spec.silver_key]
    rest = [F.col(f"f.{identifier(c)}") for c in [*silver_columns(spec), "_alive"] if c not in spec.silver_key]
    source = keys.alias("k").join(folded.alias("f"), same, "left").select(*key_columns, *rest)
    cells: dict[str, Any] = {identifier(c): f"s.{identifier(c)}" for c in silver_columns(spec)}
    (
        merge_by_key(target, source, spec)
        .whenMatchedDelete(condition="s._alive IS NULL")
        .whenMatchedUpdate(set=cells)
        .whenNotMatchedInsert(condition="s._alive", values=cells)
        .execute()
    )
