"""Given rows as targets of the gate's judging steps, without a lake: batches of a source, and gold derived from their silver.

Belongs here: rows of a test in the place of bronze, of other tables' silver and of gold's inputs. Does not: the steps
(pipeline/gate), the fold (pipeline/fold), or what a test expects (table_tests).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.checks.sql.text import identifier, literal
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.silver import columns_from_bronze, silver_types
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.spark_types import NESTED, parse_type
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.table_tests import GivenBatch, Row
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decide import Knowledge
from lakehouse_assets.decisions.schema.evolution import effective_table
from lakehouse_assets.measures.batches import Broken, select_batches
from lakehouse_assets.measures.frames import MOMENT, local_frame
from lakehouse_assets.measures.keys import is_readable, key_columns, unread_windows
from lakehouse_assets.pipeline.extract import bronze_rows
from lakehouse_assets.pipeline.fold import Foldable, empty_silver, fold
from lakehouse_assets.pipeline.gold import GoldTarget
from lakehouse_assets.pipeline.reference_tables import ReferenceTables, never_published
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.silver import SilverTarget
from lakehouse_assets.pipeline.staging import stage_batches, stage_gold


def batch_columns(spec: TableSpec, batch: GivenBatch) -> list[str]:
    """Return the columns that a batch has, by the source's names: the declared ones it does not lack, and its new ones."""
    declared = [source for name in spec.columns for source in _columns_of(spec, name, batch)]
    return [*dict.fromkeys(name for name in declared if name not in batch.missing_columns), *batch.new_columns]


def _columns_of(spec: TableSpec, name: str, batch: GivenBatch) -> Sequence[str]:
    """Return the source's names of a column in a batch: of several those that its rows have, or the newest."""
    sources = spec.source_columns(name)
    used = {key for row in batch.rows if isinstance(row, dict) for key in row}
    return [source for source in sources if source in used] or sources[:1]


def given_bronze(spark: SparkSession, spec: TableSpec, windows: Sequence[Window], batches: Sequence[GivenBatch]) -> DataFrame:
    """Return the rows of these batches as bronze has them. `_source_file` is the number of the row in its batch, from 1."""
    columns = list(dict.fromkeys(name for batch in batches for name in batch_columns(spec, batch)))
    types = [("p_extracted_at", MOMENT), ("_source_file", pa.string()), ("_columns", pa.list_(pa.string()))]
    types += [("_corrupt_record", pa.string()), *((safe_name(name), pa.string()) for name in columns)]
    rows = []
    for window, batch in zip(windows, batches, strict=True):
        present = [safe_name(name) for name in batch_columns(spec, batch)]
        for number, row in enumerate(batch.rows, 1):
            cells = row if isinstance(row, dict) else {}
            corrupt = None if isinstance(row, dict) else row
            rows.append((window.start, str(number), present, corrupt, *[cells.get(name) for name in columns]))
    return bronze_rows(local_frame(spark, types, rows), dict.fromkeys(windows, 1))


def given_records(
    spec: TableSpec, windows: Sequence[Window], batches: Sequence[GivenBatch], run: Run
) -> list[ExtractionRecord]:
    """Return the record of each batch's extraction, as a source of text would leave it."""
    return [
        ExtractionRecord(
            table=spec.name,
            p_extracted_at=window.start,
            extraction_seq=1,
            fingerprint="",
            rows=len(batch.rows),
            columns=tuple(safe_name(name) for name in batch_columns(spec, batch)),
            bronze_version=0,
            run_id=run.run_id,
            extracted_at=run.clock(),
            control=None if batch.control is None else ControlTotals(batch.control),
        )
        for window, batch in zip(windows, batches, strict=True)
    ]


def given_silver(spark: SparkSession, spec: TableSpec, rows: Sequence[Row]) -> DataFrame:
    """Return rows of another table's silver, cast from texts. Columns that no row lists are NULL."""
    types = silver_types(spec)
    texts = local_frame(spark, [(name, pa.string()) for name in types], [[row.get(name) for name in types] for row in rows])
    return texts.select(*[F.expr(_cast(name, kind)).alias(name) for name, kind in types.items()])


def _cast(name: str, kind: str) -> str:
    if isinstance(parse_type(kind), NESTED):
        return f"from_json({identifier(name)}, {literal(kind)})"
    return f"CAST({identifier(name)} AS {kind})" if kind != "binary" else f"unbase64({identifier(name)})"


def given_tables(frames: Mapping[str, DataFrame], spec: TableSpec) -> ReferenceTables:
    """Return the tables that a table's checks read, with a view of each for SQL. One that is not given was never published."""
    for table, frame in frames.items():
        frame.createOrReplaceTempView(f"silver_{table}")
    names = {check.reads.table for check in spec.checks if check.reads}
    missing = {table: never_published(table) for table in names - frames.keys()}
    return ReferenceTables(frames, dict.fromkeys(frames, 1), missing)


def computed_once(rows: DataFrame) -> DataFrame:
    """Return these rows, computed and in memory. What is built on them is planned without the plan by which they came about,
    which would take longer than to read a few rows.
    """
    return rows.localCheckpoint(eager=True)


@dataclass
class GivenBatches(SilverTarget):
    """Batches of given rows, judged together. ``rows``: as bronze has them. ``tables``: what checks read."""

    rows: DataFrame = field(kw_only=True)
    tables: ReferenceTables = field(kw_only=True)

    def stage_rows(self) -> tuple[DataFrame, Broken]:
        """Cast the given rows."""
        self.inputs = self.tables.inputs
        return stage_batches(self.staging, self.rows, self.batches, computed_once, self.tables)

    def add_measures(self) -> None:
        """Compare snapshots with the ones before. There is no history to compare distributions with."""
        self.measure_replaced()

    def read_knowledge(self) -> Knowledge:
        """Return what is known before the first batch: that every declared column has come before."""
        spec = self.run.spec
        return Knowledge(list(self.log), {safe_name(source) for source in spec.all_source_columns})

    def failing_checks(self) -> dict[tuple, tuple[str, ...]]:
        """Return the row checks that each failing row fails, by window, extraction and content hash."""
        rows = self.staged.where("_reasons IS NOT NULL").selectExpr(
            "unix_micros(p_extracted_at) AS at", "_content_hash", "transform(_reasons, r -> r.check) AS checks"
        )
        return {(row["at"], row["_content_hash"]): tuple(row["checks"]) for row in rows.collect()}

    def published_rows(self) -> DataFrame:
        """Return silver after these batches: law 1's fold of the clean rows of the accepted ones."""
        spec = effective_table(self.run.spec, self.log)
        accepted = sorted(ledger.accepted_decisions(self.log))
        if not accepted:
            return empty_silver(self.run.spark, spec)
        columns = [*map(identifier, columns_from_bronze(spec)), "_absent", "_clean"]
        rows = select_batches(self.staged, accepted).select(*columns)
        if spec.extraction.mode != "snapshot":
            return fold(Foldable(rows.where("_clean").drop("_clean")), spec)
        key = key_columns(spec)
        # A quarantined row is not absent; one whose key cannot be read may have any.
        unread = unread_windows(rows.where("NOT _clean"), key)
        deleting = tuple(start for start, _ in accepted if start is not None and start not in unread)
        return fold(Foldable(rows.where(F.col("_clean") | is_readable(key)), deleting), spec)


@dataclass
class GivenGold(GoldTarget):
    """A gold table, derived from given silver. ``frames``: silver by table."""

    frames: Mapping[str, DataFrame] = field(kw_only=True)

    def _stage(self) -> tuple[DataFrame, Broken]:
        for table, frame in self.frames.items():
            names = [c for c in frame.columns if c != "extraction_seq" and not c.startswith("_")]
            frame.select(*map(identifier, names)).createOrReplaceTempView(f"silver_{table}")
        rows = self.run.spark.sql(self.run.query.limited)
        checks = self.run.spec.checks
        missing = {c.id: never_published(c.reads.table) for c in checks if c.reads and c.reads.table not in self.frames}
        return stage_gold(self.run, (self.at, self.number), rows, self.frames, computed_once, missing)

    def published_rows(self, decision: Decision) -> DataFrame:
        """Return the table's rows after its decision: none if it is quarantined."""
        rows = self.shape.of(self.staged.where(F.col("_newest")))
        return rows if decision.accepted else rows.limit(0)
