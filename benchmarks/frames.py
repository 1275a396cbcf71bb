"""A frame through `Gate.check`, beside the gate of the lake over the same rows.

A checks typed rows of Parquet: staging with reasons, counts, sketches of three columns, the decision, by a table's own rules.
B is `gate, 1 window`: the same rows as bronze, cast, judged by the same steps (`pipeline.gate.JUDGING`), without the exchange.
"""

from collections.abc import Callable, Iterator

from benchmarks.data import records, table, windows, write_bronze, write_typed
from benchmarks.gate import PATHS, ROWS
from benchmarks.harness import Result, Side, run_pairs, timed
from benchmarks.lab import Lab, public_properties
from lakehouse_assets import Gate
from lakehouse_assets.contracts.frame_rules import rules_of_table
from lakehouse_assets.pipeline.gate import JUDGING, run_steps
from lakehouse_assets.pipeline.silver import SilverTarget

AT_MOST_THE_GATE = 1.05
NAME = "frame"


def benchmark(lab: Lab) -> Iterator[Result]:
    """One frame of one window."""
    count, spec, settings = lab.sized(ROWS, 1000), table("monthly", PATHS), lab.settings(NAME)
    months, path = windows(1, "monthly"), settings.path("typed")
    lab.say(f"{NAME}: writing the rows, typed and as bronze")
    write_typed(lab.spark, path, count, spec)
    write_bronze(lab.spark, settings, count, months, "monthly")
    extractions, gate = records(months, count, spec), Gate(rules_of_table(spec)[0])
    results: dict[str, int] = {}

    def check(_: Callable[[str], None]) -> None:
        frame = lab.spark.read.parquet(path).drop("p_extracted_at", "extraction_seq")
        with gate.check(frame, months[0].start, staging=settings.root) as result:
            results["frame"] = result.counts.rows_in

    def judge(step: Callable[[str], None]) -> None:
        target = SilverTarget(lab.run(settings, spec, step), records=extractions)
        run_steps(target, JUDGING)
        results["lake"] = target.own[0].counts.rows_in

    def prepare() -> None:
        lab.clear(settings.path("staging"))

    a, b = Side("Gate.check", timed(check, lab.cpu), prepare), Side("gate of the lake", timed(judge, lab.cpu), prepare)
    a_samples, b_samples = run_pairs(a, b, lab.pairs, lambda text: lab.say(f"{NAME}: {text}"))
    if results["frame"] != results["lake"]:
        raise AssertionError(f"not the same rows: {results}")
    sizes = {"rows": count, "columns": len(spec.columns), "checks": len(spec.checks), "sketches": 3}
    lab.clear(settings.root)
    properties = public_properties(settings)
    yield Result(NAME, a.label, tuple(a_samples), b.label, tuple(b_samples), AT_MOST_THE_GATE, sizes, properties)
