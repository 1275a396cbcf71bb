"""Law 1: silver as the fold of the clean rows of each window's accepted extractions, in the total order.

Belongs here: which rows are clean by the decisions, folding them, and comparing silver with its fold. Does not: writing silver
(silver_write).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lakehouse_assets.checks.sql.text import identifier, literal, parse_expression
from lakehouse_assets.contracts.batch import BATCH_COLUMNS, ROW_COLUMNS, SEQUENCE, WINDOW, Batch
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.silver import columns_from_bronze, silver_types
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.contracts.total_order import total_order
from lakehouse_assets.decisions.ledger import Link, Live
from lakehouse_assets.measures.computed_columns import as_silver
from lakehouse_assets.measures.frames import MOMENT, local_frame
from lakehouse_assets.measures.keys import Chain, is_readable, key_columns, published_keys, unread_windows
from lakehouse_assets.measures.stage import stage
from lakehouse_assets.pipeline.bronze_rows import bronze_rows
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.json_texts import as_json
from lakehouse_assets.storage.session_properties import disable_ansi


def order(spec: TableContract, prefix: str = "") -> Column:
    """The total order of silver's rows as one comparable struct."""
    null = F.lit(None).cast("timestamp")
    columns = [F.col(f"{prefix}{identifier(name)}") if name else null for name in total_order(spec.last_modified)]
    return F.struct(*[column.alias(f"_{index}") for index, column in enumerate(columns)])


@dataclass(frozen=True)
class Foldable:
    """Rows that silver is folded from. In snapshot mode rows in quarantine are among them (`_clean` is false): they show that
    their key is not absent. ``deleting``: windows of the snapshots that delete the keys which they lack.
    """

    rows: DataFrame
    deleting: tuple[datetime, ...] = ()


def foldable(run: Run, live: Live) -> Foldable:
    """The typed rows from which silver follows: clean ones of each window's last accepted extraction, and of earlier ones those
    whose key is in quarantine there.
    """
    spec = run.spec
    if spec.extraction.mode != "snapshot":
        return Foldable(clean_rows(run, live))
    starts = tuple(sorted(start for start, _ in live.accepted if start is not None))
    quarantined = {b: d for b, d in live.accepted.items() if d.counts.rows_quarantined or d.counts.rows_discarded}
    rows = clean_rows(run, live).withColumn("_clean", F.lit(True))
    if not quarantined:
        return Foldable(rows, starts)
    evidence = status_rows(run, quarantined).where(~F.col("_clean"))
    unread = unread_windows(evidence, key_columns(spec))
    evidence = evidence.where(is_readable(key_columns(spec)))
    return Foldable(rows.unionByName(evidence), tuple(start for start in starts if start not in unread))


def clean_rows(run: Run, live: Live) -> DataFrame:
    """Typed rows that silver is folded from."""
    rows = _without_quarantined(run, live.accepted)
    if not live.chains:
        return rows
    earlier = {b: d for b, d in live.publishing.items() if b not in live.accepted}
    statuses = status_rows(run, {link.decision.batch: link.decision for chain in live.chains.values() for link in chain})
    key = key_columns(run.spec)
    published = published_keys(statuses, {start: chain_of(links) for start, links in live.chains.items()}, key)
    return rows.unionByName(_without_quarantined(run, earlier).join(published, [WINDOW, SEQUENCE, *key], "left_semi"))


def chain_of(links: Sequence[Link]) -> Chain:
    """The chain of a window as measures take it."""
    seqs = tuple(link.decision.extraction_seq for link in links)
    return Chain(seqs, tuple(link.decision.extraction_seq for link in links if link.publishes))


def status_rows(run: Run, decisions: Mapping[Batch, Decision]) -> DataFrame:
    """Typed rows of these batches with `_clean`: false for those that their own decision put into quarantine."""
    rows = _typed_rows(run, decisions)
    if not _lacking(decisions) or not delta.exists(run.path("quarantine")):
        return rows.withColumn("_clean", F.lit(True))
    quarantined = _quarantined(run, decisions).distinct().withColumn("_dirty", F.lit(True))
    return rows.join(quarantined, [*ROW_COLUMNS], "left").withColumn("_clean", F.col("_dirty").isNull()).drop("_dirty")


def _typed_rows(run: Run, decisions: Mapping[Batch, Decision]) -> DataFrame:
    batches = [batch for batch in decisions if batch[0]]
    rows = stage(bronze_rows(run, batches), run.spec)
    return rows.select(*map(identifier, columns_from_bronze(run.spec)), "_absent")


def _without_quarantined(run: Run, decisions: Mapping[Batch, Decision]) -> DataFrame:
    rows = _typed_rows(run, decisions)
    # An earlier version may have accepted a key that today's casts cannot read: it names no row.
    rows = rows if run.spec.extraction.mode == "append" else rows.where(is_readable(key_columns(run.spec)))
    if not _lacking(decisions) or not delta.exists(run.path("quarantine")):
        return rows
    return rows.join(_quarantined(run, decisions), [*ROW_COLUMNS], "left_anti")


def _lacking(decisions: Mapping[Batch, Decision]) -> list[Decision]:
    """The decisions that published fewer rows than their batch has."""
    return [d for d in decisions.values() if d.counts.rows_in > d.counts.rows_published]


def _quarantined(run: Run, decisions: Mapping[Batch, Decision]) -> DataFrame:
    """`ROW_COLUMNS` of the rows that these decisions put into quarantine."""
    kinds = [(WINDOW, MOMENT), (SEQUENCE, pa.int32()), ("decision_id", pa.string())]
    ids = local_frame(run.spark, kinds, [(*d.batch, d.decision_id) for d in _lacking(decisions)])
    rows = run.spark.read.format("delta").load(run.path("quarantine")).select(*ROW_COLUMNS, "decision_id")
    return rows.join(F.broadcast(ids), [*BATCH_COLUMNS, "decision_id"], "left_semi").select(*ROW_COLUMNS)


def fold(foldable: Foldable, spec: TableContract) -> DataFrame:
    """Return one row per key that is not deleted. In append mode no rows share a key, so all rows are returned."""
    rows = foldable.rows
    if spec.extraction.mode == "append":
        return as_silver(rows, spec)
    key = [identifier(name) for name in spec.key]
    rows = rows.withColumn("_order", order(spec))
    if spec.extraction.delete_when:
        rows = _after_last_delete(rows, key, spec.extraction.delete_when)
    if spec.extraction.mode == "snapshot":
        rows = _since_last_absence(rows, key, foldable.deleting)
    newest = []
    for name in spec.columns:
        if name in spec.key:
            continue
        had = f"NOT array_contains(_absent, {literal(name)})" if spec.schema_policy.missing_columns == "keep" else "TRUE"
        # Wrapped, so that a NULL that came is a value and an absent column is none.
        value, at = (f"CASE WHEN {had} THEN {sql} END" for sql in (f"named_struct('v', {identifier(name)})", "_order"))
        newest.append(f"max_by({value}, {at}).v AS {identifier(name)}")
    newest += [f"max_by({name}, _order) AS {name}" for name in columns_from_bronze(spec) if name not in spec.columns]
    return as_silver(rows.groupBy(*key).agg(*map(F.expr, newest)), spec)


def with_deletions(rows: DataFrame, delete_when: str) -> DataFrame:
    """Return typed rows with `_gone`: whether a row deletes its key."""
    # Staging has evaluated it in every accepted batch; where it has been changed since, a row that it stops at deletes nothing.
    with disable_ansi(rows.sparkSession):
        is_deletion = F.expr(parse_expression(delete_when, "delete_when").sql(dialect="spark"))
        return rows.withColumn("_gone", F.coalesce(is_deletion, F.lit(False)))


def _after_last_delete(rows: DataFrame, key: list[str], delete_when: str) -> DataFrame:
    rows = with_deletions(rows, delete_when)
    last = F.max(F.when(F.col("_gone"), F.col("_order"))).over(W.partitionBy(*key))
    marked = rows.withColumn("_last_delete", last)
    alive = marked.where(F.col("_last_delete").isNull() | (F.col("_order") > F.col("_last_delete")))
    return alive.drop("_gone", "_last_delete")


def _since_last_absence(rows: DataFrame, key: list[str], deleting: Sequence[datetime]) -> DataFrame:
    """Clean rows of the snapshots since the last one that lacks the key. ``deleting``: those that delete, ascending."""
    snapshots = F.array(*map(F.lit, deleting)).cast("array<timestamp>")
    since = F.size(F.filter(snapshots, lambda start: start >= F.col(WINDOW)))
    once = F.row_number().over(W.partitionBy(*key, WINDOW).orderBy(F.lit(1))) == 1
    has = F.when(once & F.array_contains(snapshots, F.col(WINDOW)), 1).otherwise(0)
    newest_first = W.partitionBy(*key).orderBy(F.col(WINDOW).desc()).rangeBetween(W.unboundedPreceding, W.currentRow)
    marked = rows.withColumn("_has", has).withColumn("_present", F.sum("_has").over(newest_first))
    return marked.where((F.col("_present") == since) & F.col("_clean")).drop("_has", "_present", "_clean")


def empty_silver(spark: SparkSession, spec: TableContract) -> DataFrame:
    """No rows, silver's schema."""
    return spark.range(0).select(*[F.lit(None).cast(kind).alias(name) for name, kind in silver_types(spec).items()])


def find_differences(silver: DataFrame, folded: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the rows that only silver has, and those that only the fold has, each as often as the other lacks it.

    Only columns of both in the same type are compared: of another type nothing can be.
    """
    kinds = dict(silver.dtypes)
    shared = [name for name, kind in folded.dtypes if kinds.get(name) == kind]
    of_silver, of_fold = _select_comparable(silver, shared), _select_comparable(folded, shared)
    return of_silver.exceptAll(of_fold), of_fold.exceptAll(of_silver)


def _select_comparable(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return these columns. Spark compares all but maps, and what has one within: those as text."""
    kinds = dict(rows.dtypes)
    texts = {name: as_json(F.col(identifier(name))).alias(name) for name in columns if "map<" in kinds[name]}
    return rows.select(*[texts.get(name, F.col(identifier(name))) for name in columns])
