"""A file from the landing folder to silver against the least script that puts its rows into Delta.

A is one run of the project's steps: extraction, gate, exchange, the decision on record. B reads the same CSV file, casts the
columns by the same expressions, keeps the newest row of each key and appends it to a Delta table with silver's properties, or
MERGEs it: no bronze, no checks, no drift, no record. It sorts the rows for that, and leaves Delta's own settings as they are.
The files have no quotes. Both in one warm session. Once into an empty table, once into a table that has a window already, of
which a tenth of the keys arrives again, changed.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from benchmarks.catch_up import ingest
from benchmarks.data import table, windows, write_month
from benchmarks.harness import Result, Side, run_pairs, timed
from benchmarks.lab import Lab, public_properties
from lakehouse_assets.contracts.silver import silver_columns
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.measures.typed import typed_columns
from lakehouse_assets.pipeline.silver_write import SILVER_PROPERTIES
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

ROWS = (1_000_000, 10_000_000)
FIRST_LIMIT, SECOND_LIMIT = 1.7, 1.5
REPEATED_SHARE = 0.1


@dataclass(frozen=True)
class Files:
    """The two files of a size, and where each side puts them."""

    lab: Lab
    settings: Settings
    spec: TableSpec
    rows: int

    @property
    def bare(self) -> str:
        """The table of B."""
        return f"{self.settings.root}-bare"

    def path(self, window: Window) -> Path:
        """A window's file."""
        return Path(self.settings.landing) / "months" / f"{window.start:%Y-%m}.csv"


def benchmark(lab: Lab) -> Iterator[Result]:
    """Both windows at both sizes."""
    for stated in ROWS:
        count = lab.sized(stated, 1000)
        files = Files(lab, lab.settings(f"end-to-end-{count}"), table("monthly", "months/{window:%Y-%m}.csv"), count)
        first, second = windows(2, "monthly")
        lab.say(f"end-to-end: writing files of {count:,} rows")
        write_month(lab.spark, files.path(first), first, count, 0)
        write_month(lab.spark, files.path(second), second, count, round(count * (1 - REPEATED_SHARE)))
        yield _paired(files, [], first, "first", FIRST_LIMIT)
        yield _paired(files, [first], second, "second", SECOND_LIMIT)
        lab.clear(str(Path(files.settings.root).parent))


def _paired(files: Files, before: list[Window], window: Window, nth: str, limit: float) -> Result:
    """This window by both sides; those before it are in both tables already."""
    lab, settings, spec = files.lab, files.settings, files.spec
    name, paths = f"end-to-end, {nth} window", [settings.root, files.bare]
    lab.clear(*paths)
    for each in before:
        ingest(lab.run(settings, spec), [each])
        write_bare(files, each)
    for path in paths if before else ():
        Path(path).rename(f"{path}-before")

    def prepare(path: str) -> Callable[[], None]:
        def put_back() -> None:
            lab.clear(path)
            if before:
                shutil.copytree(f"{path}-before", path)
                lab.clear()

        return put_back

    def run_ours(step: Callable[[str], None]) -> None:
        ingest(lab.run(settings, spec, step), [window])

    a = Side("run of one window", timed(run_ours, lab.cpu), prepare(settings.root))
    b = Side("bare script", timed(lambda _: write_bare(files, window), lab.cpu), prepare(files.bare))
    a_samples, b_samples = run_pairs(a, b, lab.pairs, lambda text: lab.say(f"{name}: {text}"))
    in_silver, in_quarantine, in_bare = _count_rows(files)
    # Quarantined rows are in B's table alone.
    if not in_silver <= in_bare <= in_silver + in_quarantine:
        raise AssertionError(f"silver has {in_silver} rows, the quarantine {in_quarantine}, the bare table {in_bare}")
    lab.clear(*(f"{path}-before" for path in paths))
    sizes = {"rows": files.rows, "columns": len(spec.columns), "checks": len(spec.checks), "sketches": 3, "silver": in_silver}
    return Result(name, a.label, tuple(a_samples), b.label, tuple(b_samples), limit, sizes, public_properties(settings))


def _count_rows(files: Files) -> tuple[int, int, int]:
    read = files.lab.spark.read.format("delta")
    in_silver = read.load(files.settings.path("silver", files.spec.name)).count()
    decisions = logs.decisions(files.settings, files.spec.name)
    return in_silver, sum(d.counts.rows_quarantined for d in decisions), read.load(files.bare).count()


def write_bare(files: Files, window: Window) -> None:
    """The script: read, cast, deduplicate, and append or MERGE."""
    spark, spec = files.lab.spark, files.spec
    rows = spark.read.option("header", True).option("nullValue", "NA").csv(str(files.path(window)))
    values = {column.name: F.expr(column.value) for column in typed_columns(spec, set(rows.columns))}
    values |= {"p_extracted_at": F.lit(window.start), "extraction_seq": F.lit(1)}
    values["_content_hash"] = F.md5(F.concat_ws("\x1f", *sorted(rows.columns)))
    typed = rows.select(*[values[name].alias(name) for name in silver_columns(spec)])
    newest = W.partitionBy(*spec.key).orderBy(F.col(str(spec.last_modified)).desc())
    newest_rows = typed.withColumn("_nth", F.row_number().over(newest)).where("_nth = 1").drop("_nth")
    if not DeltaTable.isDeltaTable(spark, files.bare):
        newest_rows.write.format("delta").options(**SILVER_PROPERTIES).save(files.bare)
        return
    same = " AND ".join(f"t.{name} = s.{name}" for name in spec.key)
    merge = DeltaTable.forPath(spark, files.bare).alias("t").merge(newest_rows.alias("s"), same)
    merge.whenMatchedUpdateAll(f"s.{spec.last_modified} > t.{spec.last_modified}").whenNotMatchedInsertAll().execute()
