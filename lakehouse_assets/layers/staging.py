"""Write the staging of a set of batches once, and read it back; find the culprit when an expression stops the scan.

Belongs here: the one write of a gate and its bisection. Does not: what a staged row is (measures), or its judgement.
"""

from collections.abc import Callable, Collection
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.layers.others import Others
from lakehouse_assets.layers.run import Run
from lakehouse_assets.measures.duplicates import key_hash, repeated_keys
from lakehouse_assets.measures.isolate import culprits, evaluate
from lakehouse_assets.measures.stage import row_rules, select_batches, stage
from lakehouse_assets.measures.typed import typed_columns
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.session import compiled_as_fits

Batch = tuple[datetime, int]
Broken = dict[str, dict[Batch, str]]
FEW = 10_000  # repeated keys up to which the others are spared the sort


def write_once(spark: SparkSession, frame: DataFrame, path: str) -> DataFrame:
    """Materialize a frame as Parquet under a scratch path of this run; reading it back takes no job.

    Without `_absent`: it takes long to compute, and only the fold needs it, which reads bronze itself. Without dictionaries:
    for what is read a few times and deleted, looking each value up costs more than it saves.
    """
    frame = frame.drop("_absent")
    frame.write.mode("overwrite").option("parquet.enable.dictionary", "false").parquet(path)
    return spark.read.schema(frame.schema).parquet(path)


def stage_batches(
    run: Run, batches: Collection[Batch], place: str, waived: Collection[str] = (), others: Others | None = None
) -> tuple[DataFrame, Broken]:
    """Stage these batches under ``place``. Should an expression stop the scan, only the rule and the batches at fault are
    in error: returns the staged frame and ``{rule or column:<name>: {batch: message}}``.

    ``others``: the tables that checks look into, as they are to be seen; one that cannot be had puts its checks in error.
    """
    spark, spec = run.spark, run.spec
    bronze = spark.read.format("delta").load(run.path("bronze"))
    path = run.settings.path("staging", spec.name, place)
    others = others or Others()
    rows, readable = select_batches(bronze, batches), _all_readable(run.path("bronze"), batches)
    missing = others.errors(spec.checks)
    broken: Broken = {check: dict.fromkeys(batches, why) for check, why in missing.items()}
    with compiled_as_fits(spark, len(spec.checks)):
        try:
            return write_once(spark, _sorted_where_needed(rows, spec, waived, broken, others, readable), path), broken
        except SCAN_ERRORS:
            broken = _culprits(bronze, spec, batches, broken, others)
            if broken.keys() <= missing.keys():
                raise
            return write_once(spark, stage(rows, spec, waived=waived, broken=broken, others=others.frames), path), broken


def _sorted_where_needed(
    rows: DataFrame, spec: TableSpec, waived: Collection[str], broken: Broken, others: Others, readable: bool
) -> DataFrame:
    """The staged frame of these rows. To rank the rows of each key, whole rows are shuffled and sorted; to count the keys,
    only hashes are. So only rows whose key is repeated are ranked, unless there are many.
    """

    def staged(some: DataFrame, *, all_differ: bool = False) -> DataFrame:
        return stage(
            some, spec, waived=waived, broken=broken, others=others.frames, all_differ=all_differ, all_readable=readable
        )

    if not spec.key:
        return staged(rows)
    again = repeated_keys(rows, spec).limit(FEW + 1).collect()  # at most one row more than FEW
    if len(again) > FEW:
        return staged(rows)
    if not again:
        return staged(rows, all_differ=True)
    repeated = F.broadcast(rows.sparkSession.createDataFrame(again, "_again bigint"))
    same = key_hash(rows, spec) == F.col("_again")
    once = staged(rows.join(repeated, same, "left_anti"), all_differ=True)
    return once.unionByName(staged(rows.join(repeated, same, "left_semi")))


def _all_readable(path: str, batches: Collection[Batch]) -> bool:
    """Whether bronze's own statistics say that no record of these windows is corrupt: no scan. Where they say nothing, it is
    not known.
    """
    files, starts = delta.row_counts(path), {start for start, _ in batches}
    wanted = ("partition.p_extracted_at", "num_records", "null_count._corrupt_record")
    if not set(wanted) <= set(files.column_names):
        return False
    rows = zip(*[files[name].to_pylist() for name in wanted], strict=True)
    return all(count is not None and nulls == count for start, count, nulls in rows if delta.utc(start) in starts)


def _culprits(bronze: DataFrame, spec: TableSpec, batches: Collection[Batch], missing: Broken, others: Others) -> Broken:
    """Bisect by rule and then by batch: each probe runs one expression over the rows and writes nothing."""
    broken: Broken = dict(missing)
    rows = select_batches(bronze, batches)
    for column in typed_columns(spec, set(bronze.columns)):

        def value(frame: DataFrame, sql: str = column.value) -> DataFrame:
            return frame.select(F.expr(sql).alias("v"))

        _probe(f"column:{column.name}", value, rows, batches, broken)
    for rule in row_rules(spec):
        if rule.id in missing:
            continue

        def flag(frame: DataFrame, rule_id: str = rule.id) -> DataFrame:
            return stage(frame, spec, broken=broken, only=rule_id, others=others.frames)

        _probe(rule.id, flag, rows, batches, broken)
    return broken


def _probe(
    name: str, build: Callable[[DataFrame], DataFrame], rows: DataFrame, batches: Collection[Batch], broken: Broken
) -> None:
    found = culprits(sorted(batches), lambda some: evaluate(build(select_batches(rows, some))))
    if found:
        broken[name] = found
