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
from lakehouse_assets.measures.isolate import culprits
from lakehouse_assets.measures.stage import row_rules, select_batches, stage
from lakehouse_assets.measures.typed import typed_columns
from lakehouse_assets.sources.base import SCAN_ERRORS

Batch = tuple[datetime, int]
Broken = dict[str, dict[Batch, str]]


def write_once(spark: SparkSession, frame: DataFrame, path: str) -> DataFrame:
    """Materialize a frame as Parquet under a scratch path of this run; reading it back takes no job."""
    frame.write.mode("overwrite").parquet(path)
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
    rows = select_batches(bronze, batches)
    missing = {c.id: others.missing[c.reads.table] for c in spec.checks if c.reads and c.reads.table in others.missing}
    broken: Broken = {check: dict.fromkeys(batches, why) for check, why in missing.items()}
    try:
        return write_once(spark, stage(rows, spec, waived=waived, broken=broken, others=others.frames), path), broken
    except SCAN_ERRORS:
        broken = _culprits(bronze, spec, batches, broken, others)
        if broken.keys() <= missing.keys():
            raise
        return write_once(spark, stage(rows, spec, waived=waived, broken=broken, others=others.frames), path), broken


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
    found = culprits(sorted(batches), lambda some: _run(build(select_batches(rows, some))))
    if found:
        broken[name] = found


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
