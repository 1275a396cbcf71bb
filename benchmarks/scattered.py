"""Scattered gaps: taken as they are asked for, beside one run of the same windows alone; by the time of Spark's jobs.

A lake has 335 of 365 windows; every twelfth is late. A takes the ranges that the daemon and `lakehouse run` ask for, with all
that lies between the gaps, through extraction, gate and exchange. B takes the thirty and nothing else in one run.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.catch_up import HOURLY, ingest
from benchmarks.data import table, windows, write_csv
from benchmarks.harness import Result, Sample, Side, run_pairs
from benchmarks.lab import Lab, public_properties
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.healing import bridge_gaps
from lakehouse_assets.settings import Settings

WINDOWS, GAPS, APART, ROWS, LIMIT = 365, 30, 12, 1_825_000, 4.0


def benchmark(lab: Lab) -> Iterator[Result]:
    """Fewer rows a window where the scale is below 1; the windows stay as many."""
    count = lab.sized(ROWS, WINDOWS)
    settings = lab.settings("gap_requests")
    before = settings.model_copy(update={"root": lab.settings("before").root})
    landing = Path(settings.landing)
    lab.say("gap_requests: writing the files")
    write_csv(lab.spark, landing / "hourly", landing / "whole", count, WINDOWS)
    all_windows = windows(WINDOWS, "hourly")
    late = all_windows[APART - 1 :: APART][:GAPS]
    lab.say(f"gap_requests: a lake of the other {WINDOWS - len(late)}")
    _heal(lab, before, [window for window in all_windows if window not in late])

    def lake() -> None:
        lab.clear(settings.root)
        shutil.copytree(before.root, settings.root)
        lab.clear()

    ranges = bridge_gaps(late, all_windows)
    a = Side(f"{len(ranges)} run(s), as asked", _timed(lab, lambda: sum(_heal(lab, settings, some) for some in ranges)), lake)
    b = Side("one run of the same windows", _timed(lab, lambda: _heal(lab, settings, late)), lake)
    a_samples, b_samples = run_pairs(a, b, lab.pairs, lambda text: lab.say(f"gap_requests: {text}"))
    sizes = {"rows": count, "windows": WINDOWS, "gaps": len(late)}
    yield Result(
        "gap_requests", a.label, tuple(a_samples), b.label, tuple(b_samples), LIMIT, sizes, public_properties(settings)
    )
    lab.clear(str(settings.dagster_home), before.root)


def _heal(lab: Lab, settings: Settings, late: Sequence[Window]) -> float:
    """One run of these windows. Returns how long Spark's jobs took, each from when it was submitted to when it was done."""
    first = max(_jobs(lab), default=-1) + 1
    ingest(lab.run(settings, table("hourly", HOURLY)), late)
    jobs = {number: seconds for number, seconds in _jobs(lab).items() if number >= first}
    if set(jobs) != set(range(first, max(jobs) + 1)):
        raise RuntimeError("Spark has forgotten some of the run's jobs: give it more of spark.ui.retainedJobs by --conf")
    return sum(jobs.values())


def _jobs(lab: Lab) -> dict[int, float]:
    """Seconds of each job that Spark remembers, by its number."""
    context: Any = lab.spark.sparkContext._jsc
    context.sc().listenerBus().waitUntilEmpty()
    results = context.sc().statusStore().jobsList(None)
    jobs = [results.apply(index) for index in range(results.size())]
    return {j.jobId(): (j.completionTime().get().getTime() - j.submissionTime().get().getTime()) / 1000 for j in jobs}


def _timed(lab: Lab, work: Callable[[], float]) -> Callable[[], Sample]:
    """A run whose seconds are those of Spark's jobs. Step ``wall``: the clock's."""

    def run() -> Sample:
        used, began = lab.cpu(), time.perf_counter()
        jobs = work()
        return Sample(jobs, {"wall": time.perf_counter() - began}, lab.cpu() - used)

    return run
