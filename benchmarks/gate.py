"""The gate against a plain write: what judging costs, where nothing is published yet.

A stages the rows with their reasons, counts them by rule, sketches three columns by window and decides
(`pipeline.gate.JUDGING`: all of the gate but the writes). B reads the same bronze rows, casts them to the same types by the
same expressions, and writes silver's columns as a Delta table, partitioned by window as bronze is: the least that any way
from bronze to a typed table must do. Once with all rows in one window, once with 30 windows in one run.
"""

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import functions as F

from benchmarks.data import records, table, windows, write_bronze
from benchmarks.harness import Result, Side, run_pairs, timed
from benchmarks.lab import Lab, public_properties
from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.silver import silver_columns
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Cadence
from lakehouse_assets.measures.typed import typed_columns
from lakehouse_assets.pipeline.gate import JUDGING, run_steps
from lakehouse_assets.pipeline.silver import SilverTarget
from lakehouse_assets.settings import Settings

ROWS = 10_000_000
PATHS = "readings/{window:%Y-%m-%d}.csv"
# Windows, their cadence, and the ratio that is not to be exceeded.
CASES: tuple[tuple[int, Cadence, float], ...] = ((1, "monthly", 1.3), (30, "daily", 2.0))


def benchmark(lab: Lab) -> Iterator[Result]:
    """One window, then thirty."""
    for many, cadence, limit in CASES:
        yield paired(lab, f"gate, {many} window{'s' if many > 1 else ''}", table(cadence, PATHS), many, limit)


def paired(lab: Lab, name: str, spec: TableSpec, many: int, limit: float) -> Result:
    """The gate over so many windows of this table beside the plain write."""
    count, cadence = lab.sized(ROWS, 1000), spec.extraction.cadence
    settings = lab.settings(name.replace(",", "").replace(" ", "-"))
    all_windows = windows(many, cadence)
    lab.say(f"{name}: writing bronze")
    write_bronze(lab.spark, settings, count, all_windows, cadence)
    extractions = records(all_windows, count, spec)
    plain = settings.path("plain")

    def gate(step: Callable[[str], None]) -> None:
        run_steps(SilverTarget(lab.run(settings, spec, step), records=extractions), JUDGING)

    def write(_: Any) -> None:
        write_plain(lab, settings, spec, plain)

    def prepare() -> None:
        lab.clear(settings.path("staging"), plain)

    a = Side("gate without the exchange", timed(gate, lab.cpu), prepare)
    b = Side("plain Delta write", timed(write, lab.cpu), prepare)
    a_samples, b_samples = run_pairs(a, b, lab.pairs, lambda text: lab.say(f"{name}: {text}"))
    sizes = {"rows": count, "windows": many, "columns": len(spec.columns), "checks": len(spec.checks), "sketches": 3}
    lab.clear(settings.root)
    return Result(name, a.label, tuple(a_samples), b.label, tuple(b_samples), limit, sizes, public_properties(settings))


def write_plain(lab: Lab, settings: Settings, spec: TableSpec, path: str) -> None:
    """Bronze to a typed Delta table, nothing else."""
    bronze = lab.spark.read.format("delta").load(settings.path("bronze", spec.name))
    values = {column.name: F.expr(column.value) for column in typed_columns(spec, set(bronze.columns))}
    cells = [(values[name] if name in values else F.col(identifier(name))).alias(name) for name in silver_columns(spec)]
    bronze.select(*cells).write.format("delta").partitionBy("p_extracted_at").save(path)
