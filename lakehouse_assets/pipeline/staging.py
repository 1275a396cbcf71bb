"""Stage batches: write or keep the staged rows once, and find the expression that stops the scan.

Belongs here: how often rows are read, and how few are sorted. Does not: what a staged row is, or the bisection (measures).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import Check, CheckContext
from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.batch import BATCH_COLUMNS, CONTENT_HASH, SEQUENCE, WINDOW, Batch, start_of
from lakehouse_assets.contracts.check_context import gold_context
from lakehouse_assets.contracts.frame_rules import FrameRules
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.measures.batches import Broken, Build, row_probes, select_batches, stage_or_isolate
from lakehouse_assets.measures.computed_columns import as_partitioned
from lakehouse_assets.measures.duplicates import find_repeated_keys, flag_distinct, flag_duplicates, key_hash
from lakehouse_assets.measures.error_text import masked_text
from lakehouse_assets.measures.frames import local_frame
from lakehouse_assets.measures.stage import flag_typed_rows, key_rules, row_rules, stage
from lakehouse_assets.measures.typed import typed_columns
from lakehouse_assets.pipeline.few_rows import FEW
from lakehouse_assets.pipeline.reference_tables import ReferenceTables
from lakehouse_assets.pipeline.run import FrameRun, GoldRun, Run
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.disk_errors import find_disk_fault
from lakehouse_assets.storage.footers import path_of, read_footer
from lakehouse_assets.storage.json_texts import as_json
from lakehouse_assets.storage.session_properties import limit_codegen, rule_semantics, write_unsorted
from lakehouse_assets.storage.window_files import select_files

FEW_REPEATED = 10_000  # repeated keys up to which the others are spared the sort
SORTED_AT_ONCE = 100_000  # rows
Store = Callable[[DataFrame], DataFrame]
# Rows, checks, and those not to evaluate → rows with a staging's flags.
Flag = Callable[[DataFrame, Sequence[Check], Broken], DataFrame]


def write_once(spark: SparkSession, frame: DataFrame, path: str, few: bool = False, apart: bool = False) -> DataFrame:
    """Materialize a frame as Parquet under a scratch path of this run; reading it back takes no job.

    Without `_absent`: it takes long to compute, and only the fold needs it, which reads bronze itself. ``few``: one task reads
    them, so that no aggregation exchanges rows. ``apart``: the rows to publish are in files of their own (`files_to_publish`).
    """
    frame = frame.drop("_absent")
    if apart:
        with write_unsorted(spark):
            # Two files are open in each task: together they take the memory of one with Parquet's default.
            options = {"parquet.block.size": str(64 << 20), "partitionOverwriteMode": "static"}
            frame.write.mode("overwrite").partitionBy("_newest").options(**options).parquet(path)
    else:
        # For what is read a few times and deleted, looking each value up in a dictionary costs more than it saves.
        frame.write.mode("overwrite").option("parquet.enable.dictionary", "false").parquet(path)
    stored = spark.read.schema(frame.schema).parquet(path)
    return stored.coalesce(1) if few else stored


def files_to_publish(staged: DataFrame) -> list[str]:
    """Return the local files that have the newest clean rows of a staged batch, and no others; none where its rows, or those of
    batches beside it, are not staged apart.
    """
    files = list(staged.inputFiles())
    if not all("/_newest=" in file for file in files):
        return []
    return [path_of(file) for file in files if "/_newest=true/" in file]


def stage_batches(
    run: Run,
    bronze: DataFrame,
    batches: Collection[Batch],
    store: Store,
    others: ReferenceTables,
    waived: Collection[str] = (),
    all_readable: bool | None = None,
    count: int | None = None,
) -> tuple[DataFrame, Broken]:
    """Stage these batches of rows as bronze has them. Should an expression stop the scan, only the rule and the batches at
    fault are in error: returns the staged frame and what is broken.

    ``others``: the tables that checks look into; one that is missing puts its checks in error. ``all_readable``: whether no
    record of these batches is corrupt; None: their source is read once only. ``count``: their rows; None: unknown.
    """
    spec, missing = run.spec, _in_all(batches, others.errors(run.spec.checks))
    staged = partial(stage, spec=spec, waived=waived, others=others.frames)

    def build(rows: DataFrame, broken: Broken) -> DataFrame:
        if all_readable is None or broken.keys() > missing.keys():
            return staged(rows, broken=broken)
        flag = partial(staged, broken=broken, all_readable=all_readable)
        if count is not None and count <= SORTED_AT_ONCE:  # to sort them takes less than to ask whether one must
            return flag(rows.coalesce(1) if count <= FEW else rows)
        return _sorted_where_needed(rows, key_hash(rows, spec), flag, count) if spec.key else flag(rows)

    with limit_codegen(run.spark, len(spec.checks)):
        rows, probes = select_batches(bronze, batches), partial(_bronze_probes, bronze, spec, others)
        return stage_or_isolate(rows, batches, build, probes, store, missing, personal=run.personal)


def stage_typed(
    run: Run | GoldRun | FrameRun,
    rows: DataFrame,
    batches: Collection[Batch],
    flag: Flag,
    store: Store,
    missing: Mapping[str, str],
) -> tuple[DataFrame, Broken]:
    """The same of rows that are typed already. ``missing``: checks that cannot be evaluated anyway, and why."""
    checks, unread = run.spec.checks, _in_all(batches, missing)

    def build(rows: DataFrame, broken: Broken) -> DataFrame:
        return flag(rows, checks, broken)

    def probes() -> dict[str, Build]:
        return row_probes(checks, lambda rows, some: flag(rows, some, unread))

    with limit_codegen(run.spark, len(checks)):
        return stage_or_isolate(rows, batches, build, probes, store, unread, personal=run.personal)


def _in_all(batches: Collection[Batch], errors: Mapping[str, str]) -> Broken:
    return {check: dict.fromkeys(batches, why) for check, why in errors.items()}


def flag_rows(
    frame: DataFrame,
    checks: Sequence[Check],
    context: CheckContext,
    others: Mapping[str, DataFrame] | None = None,
    broken: Broken | None = None,
    pii: Collection[str] = (),
) -> DataFrame:
    """Return typed rows with a staging's flags, lazily: unread flags are not computed. ``frame``: has `p_extracted_at` and
    `extraction_seq`. ``broken``: checks not to evaluate, with their batches. ``pii``: columns whose values no reason quotes.
    """
    rows = flag_typed_rows(frame.withColumn("_unreadable", F.lit(False)), checks, context, pii, others or {}, broken)
    # Contradicting rows of a key need a sort: only if a check reads them.
    if not any("_conflict" in sql for check in checks for sql in check.metrics(context).values()):
        return flag_distinct(rows)
    if CONTENT_HASH not in rows.columns:
        rows = rows.withColumn(CONTENT_HASH, F.md5(as_json(F.struct(*map(identifier, frame.columns)))))
    return flag_duplicates(rows, context.key, context.last_modified)


def _sorted_where_needed(rows: DataFrame, key: Column, flag: Callable[..., DataFrame], count: int | None) -> DataFrame:
    """These rows with their flags, those of repeated keys ranked. Parameters: see `_choose_ranking`."""
    return _choose_ranking(rows, key, flag, count).flag(rows)


class Ranking(NamedTuple):
    """How to flag rows, whether that sorts all of them, and whether no key is repeated: then the clean rows are the newest."""

    flag: Callable[[DataFrame], DataFrame]
    sorts_all: bool = False
    all_differ: bool = False


def _choose_ranking(rows: DataFrame, key: Column, flag: Callable[..., DataFrame], count: int | None) -> Ranking:
    """Choose how to flag these rows. To rank the rows of each key, whole rows are shuffled and
    sorted; to count the keys, only hashes are. So only rows whose key is repeated are ranked, unless there are many.

    ``key``: a hash of batch and key. ``flag``: rows → flagged rows; with `all_differ`, no key of them is repeated. ``count``:
    the rows; None: unknown.
    """
    again = find_repeated_keys(rows, key, FEW_REPEATED + 1, count)
    if len(again) > FEW_REPEATED:
        return Ranking(flag, sorts_all=True)
    if not again:
        return Ranking(partial(flag, all_differ=True), all_differ=True)

    def flag_apart(rows: DataFrame) -> DataFrame:
        repeated = F.broadcast(local_frame(rows.sparkSession, [("_again", pa.int64())], [(each,) for each in again]))
        same = key == F.col("_again")
        once = flag(rows.join(repeated, same, "left_anti"), all_differ=True)
        return once.unionByName(flag(rows.join(repeated, same, "left_semi")))

    return Ranking(flag_apart)


def all_readable(path: str, batches: Collection[Batch]) -> bool:
    """Whether bronze's own statistics say that no record of these windows is corrupt: no scan."""
    files = delta.row_counts(path)
    if not {"num_records", "null_count._corrupt_record"} <= set(files.column_names):
        return False
    of_windows = files.filter(pa.array(select_files(files, [start_of(batch) for batch in batches]), pa.bool_()))
    pairs = zip(of_windows["num_records"].to_pylist(), of_windows["null_count._corrupt_record"].to_pylist(), strict=True)
    return all(count is not None and nulls == count for count, nulls in pairs)


def _bronze_probes(bronze: DataFrame, spec: TableContract, others: ReferenceTables) -> dict[str, Build]:

    def value(sql: str, rows: DataFrame, _: Broken) -> DataFrame:
        return rows.select(F.expr(sql).alias("v"))

    def flag(rule: str, rows: DataFrame, broken: Broken) -> DataFrame:
        return stage(rows, spec, broken=broken, only=rule, others=others.frames)

    columns = {f"column:{c.name}": partial(value, c.value) for c in typed_columns(spec, set(bronze.columns))}
    return columns | {rule.id: partial(flag, rule.id) for rule in row_rules(spec)}


def stage_frame(
    run: FrameRun, batch: Batch, rows: DataFrame, context: CheckContext, others: Mapping[str, DataFrame], store: Store
) -> tuple[DataFrame, Broken]:
    """These typed rows as one batch, read once and stored with the flags of single rows. The batch's own columns are constant,
    and not stored.
    """

    def flag(rows: DataFrame, checks: Sequence[Check], broken: Broken) -> DataFrame:
        with rule_semantics(rows.sparkSession):
            flagged = flag_typed_rows(rows, checks, context, run.pii, others, broken, key_rules(run.spec.key))
        return flagged.drop(*BATCH_COLUMNS, "_unreadable")

    staged, broken = stage_typed(run, with_batch(rows, batch), [batch], flag, store, {})
    return with_batch(staged, batch), broken


def choose_frame_ranking(spec: FrameRules, staged: DataFrame) -> Ranking:
    """Choose how to flag the newest row of each key among a frame's staged rows."""
    own = [identifier(name) for name in staged.columns if name not in BATCH_COLUMNS and not name.startswith("_")]

    def rank(rows: DataFrame, all_differ: bool = False) -> DataFrame:
        if all_differ:
            return flag_distinct(rows)
        hashed = rows.withColumn(CONTENT_HASH, F.md5(as_json(F.struct(*own))))
        return flag_duplicates(hashed, spec.key, spec.last_modified).drop(CONTENT_HASH)

    if not spec.key:
        return Ranking(flag_distinct, all_differ=True)
    return _choose_ranking(staged, F.xxhash64(*map(identifier, spec.key)), rank, _count_rows(staged.inputFiles()))


def _count_rows(files: Sequence[str]) -> int | None:
    """Return the rows of these files; None where only Spark reaches them, by the caller's own session."""
    try:
        return sum(read_footer(path_of(file)).num_rows for file in files) if files else None
    except (OSError, pa.ArrowException, LakehouseError):
        return None


def with_batch(rows: DataFrame, batch: Batch) -> DataFrame:
    """The rows as those of a batch, all of them readable."""
    columns = {WINDOW: F.lit(batch[0]), SEQUENCE: F.lit(batch[1]), "_unreadable": F.lit(False)}
    return rows.withColumns(columns)


def stage_gold(
    run: GoldRun,
    batch: Batch,
    rows: DataFrame,
    others: Mapping[str, DataFrame],
    store: Store,
    missing: Mapping[str, str] | None = None,
) -> tuple[DataFrame, Broken]:
    """These rows as one batch. Raises LakehouseError, which quotes no value, where the SQL itself stops on personal rows."""
    columns = [identifier(c) for c in rows.columns]
    rows = as_partitioned(rows, run.spec.layout).select(
        *columns,
        F.lit(batch[0]).alias("p_extracted_at"),
        F.lit(batch[1]).alias("extraction_seq"),
        F.md5(as_json(F.struct(*columns))).alias("_content_hash"),
        F.lit(False).alias("_unreadable"),
    )

    def flag(rows: DataFrame, checks: Sequence[Check], broken: Broken) -> DataFrame:
        return flag_duplicates(flag_typed_rows(rows, checks, gold_context(()), run.pii, others, broken), run.spec.key, None)

    try:
        return stage_typed(run, rows, [batch], flag, store, missing or {})
    except SCAN_ERRORS as error:
        if find_disk_fault(error) or not run.personal:
            raise
        why = masked_text(error)
        raise LakehouseError(f"{run.table}: its SQL fails on a value: {why}; rewrite it with `try_` functions") from None
