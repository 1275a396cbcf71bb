"""A catch-up of many windows against the same rows as one window: what a window costs, where nothing else differs.

Both sides bring CSV files from the landing folder into an empty lake, through extraction, gate and exchange, in one run of the
project's steps. A has a file and a window for each of 720 hours, B the same lines as one file and one monthly window.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.data import table, windows, write_csv
from benchmarks.harness import Result, Side, run_pairs, timed
from benchmarks.lab import Lab, public_properties
from lakehouse_assets.contracts.windows import Cadence, Window
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.pipeline.run import Run

ROWS, HOURS, LIMIT = 2_000_000, 720, 1.5
HOURLY = "hourly/{window:%Y-%m-%dT%H}.csv"


def benchmark(lab: Lab) -> Iterator[Result]:
    """Fewer hours, of as many rows each, where the scale is below 1."""
    hours = min(HOURS, lab.sized(HOURS, 2))
    count = lab.sized(ROWS, hours)
    landing = Path(lab.settings("catch-up").landing)
    lab.say("catch-up: writing the files")
    write_csv(lab.spark, landing / "hourly", landing / "whole", count, hours)
    a = _side(lab, f"{hours} windows in one run", "hourly", HOURLY, hours)
    b = _side(lab, "the same rows as one window", "monthly", "whole/{window:%Y-%m}.csv", 1)
    a_samples, b_samples = run_pairs(a, b, lab.pairs, lambda text: lab.say(f"catch-up: {text}"))
    sizes = {"rows": count, "windows": hours, "files": hours}
    settings = public_properties(lab.settings("catch-up"))
    yield Result("catch-up", a.label, tuple(a_samples), b.label, tuple(b_samples), LIMIT, sizes, settings)
    lab.clear(str(landing.parent))


def _side(lab: Lab, label: str, cadence: Cadence, path: str, count: int) -> Side:
    settings, spec, all_windows = lab.settings("catch-up"), table(cadence, path), windows(count, cadence)

    def catch_up(step: Callable[[str], None]) -> None:
        ingest(lab.run(settings, spec, step), all_windows)

    return Side(label, timed(catch_up, lab.cpu), lambda: lab.clear(settings.root))


def ingest(run: Run, all_windows: Sequence[Window]) -> None:
    """These windows from the landing folder to silver, in one run of the project's steps."""
    extract(run, all_windows)
    if not publish(run, all_windows).current:
        raise RuntimeError(f"{run.spec.name}: nothing was decided")
