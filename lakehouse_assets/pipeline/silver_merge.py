"""The fast way to write silver: one MERGE of the newest rows of some batches.

Belongs here: that MERGE. Does not: whether it gives what the fold would (decisions/merge_plan), or other ways (silver_write).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.silver import silver_columns
from lakehouse_assets.contracts.table import EffectiveTable
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.contracts.total_order import total_order
from lakehouse_assets.decisions.merge_plan import MergePlan
from lakehouse_assets.measures.batches import select_batches
from lakehouse_assets.measures.computed_columns import as_silver
from lakehouse_assets.measures.frames import all_of
from lakehouse_assets.pipeline.few_rows import FEW
from lakehouse_assets.pipeline.fold import order, with_deletions
from lakehouse_assets.pipeline.merge_bounds import Extent, bounded_columns, bounds_of, extents_of, files_near, skipping_extents
from lakehouse_assets.pipeline.staging import files_to_publish
from lakehouse_assets.pipeline.stored_extents import stored_extents
from lakehouse_assets.storage import delta, delta_writes
from lakehouse_assets.storage.adopted_files import adopt_files, is_adoptable_at
from lakehouse_assets.storage.session_properties import set_session_property
from lakehouse_assets.storage.small_merges import merge_few
from lakehouse_assets.storage.small_writes import write_few
from lakehouse_assets.storage.staged_rows import StagedBatch

HOLD_SOURCE = "spark.databricks.delta.merge.materializeSource"
TOLERATING = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")


def merge_newest(
    spec: EffectiveTable, path: str, plan: MergePlan, staged: DataFrame, newer: DataFrame | None = None, *, again: bool
) -> None:
    """Merge the batches' newest clean rows, one per key, into silver at ``path``. Where it has none of their keys, append them.
    ``newer``: clean rows of other batches, whose newer rows delete keys; None: there are none. ``again``: an earlier run may
    have merged them.
    """
    deletes = spec.extraction.delete_when
    newest = _newest_rows(spec, plan, staged)
    rows = _without_deleted(spec, newest, newer, deletes) if deletes and newer is not None else newest
    alive = rows.where(~F.col("_gone")).drop("_gone", "_begins") if deletes else rows
    if delta.snapshot(path).rows == 0 or (not spec.key and not again):
        # Nothing can be in silver from these batches: each is judged for the first time, under the table's lock.
        _append(spec, path, plan, alive, staged)
        return
    kinds = bounded_columns(newest, spec)
    stored = stored_extents(staged, plan.touched, kinds)
    extents = extents_of(newest, kinds) if stored is None else stored
    files = delta.row_counts(path)
    if spec.key and not any(files_near(files, extents, spec)):
        _append(spec, path, plan, alive, staged)
        return
    if not plan.kept_columns and _merge_few(spec, path, plan, rows, newest, extents):
        return
    bounds = bounds_of(newest, spec, skipping_extents(files, extents))
    is_staged = rows is newest and len(plan.touched) == 1
    with _read_twice(rows) if is_staged else nullcontext():
        _merge(spec, path, plan, rows, bounds)


def _read_twice(rows: DataFrame) -> AbstractContextManager[None]:
    """Let a MERGE read these rows twice: they are in staged files, which nobody changes. By default Delta first copies a source
    that is no Delta table into Spark's cache. It still does so if the session lets files be absent or sets this property
    itself, or if an expression of the rows is not deterministic.
    """
    session, frame = rows.sparkSession, cast(Any, rows)
    tolerates = any(session.conf.get(name, "false") != "false" for name in TOLERATING)
    if tolerates or session.conf.get(HOLD_SOURCE, None) or not frame._jdf.queryExecution().analyzed().deterministic():
        return nullcontext()
    return set_session_property(session, HOLD_SOURCE, "none")


def _merge_few(
    spec: EffectiveTable, path: str, plan: MergePlan, rows: DataFrame, newest: DataFrame, extents: Sequence[Extent]
) -> bool:
    """Merge these rows in this process, and return whether that was done. ``newest``: the staged rows that they are some of.
    ``extents``: of their keys.
    """
    deletes = "_gone" if spec.extraction.delete_when else None
    key, by_order, near = spec.silver_key, total_order(spec.last_modified), partial(files_near, extents=extents, spec=spec)
    is_whole = len(plan.touched) == 1 and _has_staged_rows(spec)
    staged = StagedBatch(newest.inputFiles(), plan.touched[0].counts.rows_in if is_whole else None)
    return merge_few(rows, path, plan.rows_published, key, by_order, deletes, staged, near)


def _merge(spec: EffectiveTable, path: str, plan: MergePlan, rows: DataFrame, bounds: Sequence[str]) -> None:
    deletes = spec.extraction.delete_when
    is_newer = order(spec, "s.") > order(spec, "t.")
    merge = merge_by_key(DeltaTable.forPath(rows.sparkSession, path), rows, spec, bounds)
    if not deletes and not plan.kept_columns:
        merge.whenMatchedUpdateAll(condition=is_newer).whenNotMatchedInsertAll().execute()
        return
    cells: dict[str, Any] = {identifier(c): f"s.{identifier(c)}" for c in silver_columns(spec)}
    kept_cells = {name: f"t.{name}" for name in map(identifier, plan.kept_columns)}
    if deletes:
        merge = merge.whenMatchedDelete(condition=is_newer & F.col("s._gone"))
        kept_cells = {name: f"CASE WHEN s._begins THEN s.{name} ELSE t.{name} END" for name in kept_cells}
    merge = merge.whenMatchedUpdate(condition=is_newer, set=cells | kept_cells)
    merge.whenNotMatchedInsert(condition="NOT s._gone" if deletes else "true", values=cells).execute()


def may_append_staged(spec: TableContract, path: str) -> bool:
    """Whether the rows of a batch that is about to be staged may be appended as they are: the last batch's were not merged."""
    if not _has_staged_rows(spec) or not is_adoptable_at(path):
        return False
    last = delta.read_commit(path, delta.version(path)) if delta.exists(path) else None
    return last is None or last.operation != "MERGE"


def _has_staged_rows(spec: TableContract) -> bool:
    """Whether silver has rows as they are staged, in one folder. With deletions, a row to publish may be one that deletes."""
    return spec.layout is None and not spec.computed_columns and not spec.extraction.delete_when


def _append(spec: EffectiveTable, path: str, plan: MergePlan, rows: DataFrame, staged: DataFrame) -> None:
    """Append these rows of staged batches, with the columns that silver lacks."""
    tag = rows.sparkSession.conf.get(delta_writes.USER_METADATA, None)
    # Of several batches, staged rows are not yet the newest of their keys.
    files = files_to_publish(staged) if len(plan.touched) == 1 and _has_staged_rows(spec) else []
    columns = rows.schema.jsonValue()["fields"]
    if not adopt_files(files, columns, path, plan.rows_published, tag) and not write_few(
        rows, path, plan.rows_published, "append", tag
    ):
        delta_writes.append(rows, path)


def reads_few_rows(path: str, plan: MergePlan) -> bool:
    """Whether this MERGE reads few rows: of silver, and of batches."""
    decisions = [*plan.touched, *plan.newer.publishing.values()]
    return delta.has_few_rows(path) and sum(decision.counts.rows_in for decision in decisions) <= FEW


def _newest_rows(spec: EffectiveTable, plan: MergePlan, staged: DataFrame) -> DataFrame:
    """Return the newest row of each key as silver has it, with `_gone` where rows delete: whether it does; and with `_begins`
    where columns are kept: whether a row of these batches deletes the key, so that its older values are gone.
    """
    deletes = spec.extraction.delete_when
    key = [identifier(name) for name in spec.key]
    batches = [decision.batch for decision in plan.touched if decision.p_extracted_at]
    rows = select_batches(staged, batches).where(F.col("_clean"))
    flags = (["_gone", "_begins"] if plan.kept_columns else ["_gone"]) if deletes else []
    if deletes:
        rows = with_deletions(rows, deletes)
    if "_begins" in flags:
        rows = rows.withColumn("_begins", F.max("_gone").over(W.partitionBy(*key)))
    rows = rows.where(F.col("_newest"))
    if spec.key and len(batches) > 1:  # of one batch, staging has sorted them
        newest = W.partitionBy(*key).orderBy(order(spec).desc())
        rows = rows.withColumn("_nth", F.row_number().over(newest)).where(F.col("_nth") == 1)
    return as_silver(rows, spec, *flags)


def _without_deleted(spec: EffectiveTable, rows: DataFrame, newer: DataFrame, delete_when: str) -> DataFrame:
    """Return the rows of keys that no row of ``newer`` deletes which is newer."""
    deletions = with_deletions(newer, delete_when).where("_gone")
    names = {name: f"_key_{index}" for index, name in enumerate(spec.key)}
    deletions = deletions.select(*[F.col(identifier(k)).alias(n) for k, n in names.items()], order(spec).alias("_deleted_at"))
    same = all_of(F.col(identifier(key)) == F.col(name) for key, name in names.items())
    return rows.join(deletions, same & (F.col("_deleted_at") > order(spec)), "left_anti")


def merge_by_key(target: DeltaTable, source: DataFrame, spec: EffectiveTable, bounds: Sequence[str] = ()) -> DeltaMergeBuilder:
    """A MERGE of `s` into `t` by key. It adds the columns that silver lacks, if there are any: for this write, and no other."""
    on = " AND ".join([*(f"t.{identifier(name)} = s.{identifier(name)}" for name in spec.silver_key), *bounds])
    merge = target.alias("t").merge(source.alias("s"), on)
    return merge.withSchemaEvolution() if set(silver_columns(spec)) - set(target.toDF().columns) else merge
