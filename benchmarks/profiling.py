"""What drift's profiles cost: sketches, moments and relations of three columns, beside a plain scan of the table.

Ten million typed rows of one window in a Parquet file. `figures`: SciPy's two-sample test on the same columns in memory,
against a million rows, which is what the profiles spare.
"""

import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import functions as F
from scipy import stats

from benchmarks.data import FIRST, read_all, table, write_typed
from benchmarks.gate import PATHS
from benchmarks.harness import Result, Side, run_pairs, timed
from benchmarks.lab import Lab, public_properties
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.measures.drift_features import measure_features
from lakehouse_assets.measures.profile_files import find_stored_rows
from lakehouse_assets.pipeline.staging import write_once

ROWS, BASELINE, AT_MOST = 10_000_000, 1_000_000, 1.0


def benchmark(lab: Lab) -> Iterator[Result]:
    """The profiles as the gate asks for them, of a batch that is the only one."""
    count, settings, spec = lab.sized(ROWS, 1000), lab.settings("profiling"), table("monthly", PATHS)
    path, staged_path, drift = settings.path("typed"), settings.path("staged"), spec.drift
    assert drift is not None  # noqa: S101 (the table has three features)
    lab.say("profiling: writing the rows")
    write_typed(lab.spark, path, count, spec)
    frame = lab.spark.read.parquet(path)
    staged = write_once(lab.spark, frame.withColumn("_newest", F.lit(True)), staged_path)
    numbers = BatchNumbers(rows_in=count, newest=count)

    def profiles(_: Any) -> None:
        results, _too_many_strata = measure_features(staged, drift, (FIRST, 1), find_stored_rows(staged, numbers))
        assert sum(map(len, results.values())) == len(drift.features) + 1  # noqa: S101 (and their relations)

    def scan(_: Any) -> None:
        read_all(frame)

    a, b = (Side(label, timed(work, lab.cpu), lab.clear) for label, work in (("profiles", profiles), ("plain scan", scan)))
    a_samples, b_samples = run_pairs(a, b, lab.pairs, lambda text: lab.say(f"profiling: {text}"))
    names = [feature.name for feature in drift.features]
    columns = frame.select(*names).toPandas()  # a benchmark's own: it is the alternative that is timed
    began = time.perf_counter()
    for name in names:
        stats.ks_2samp(columns[name].dropna(), columns[name].dropna().iloc[: lab.sized(BASELINE, 100)], method="asymp")
    figures = {"seconds, SciPy in memory": round(time.perf_counter() - began, 2)}
    sizes = {"rows": count, "columns": len(names)}
    settings_told = public_properties(settings)
    yield Result("profiling", a.label, tuple(a_samples), b.label, tuple(b_samples), AT_MOST, sizes, settings_told, figures)
    lab.clear(settings.root)
