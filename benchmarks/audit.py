"""An audit beside the least that would do the same: the draw beside a plain scan, the whole beside scan and uniqueness by hand.

Ten million typed rows in a Delta table, the rules that the table has. `figures` of the first result holds what needs no clock:
how often the 95 % intervals hold (by simulation), and how often an answer is wrong or open near a threshold (by summing
outcomes).
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from pyspark.sql import functions as F
from scipy.stats import binom

from benchmarks.data import CHECKS, COLUMNS, read_all, table, write_typed
from benchmarks.gate import PATHS
from benchmarks.harness import Result, Sample, Side, run_pairs, timed
from benchmarks.lab import Lab, public_properties
from benchmarks.memory import PeakMemory
from lakehouse_assets.audit.run import AuditRun, DeclaredTable, audit_table
from lakehouse_assets.audit.sample import count_groups, draw_sample
from lakehouse_assets.contracts.audit import AuditRule, AuditRules
from lakehouse_assets.decisions.audit.share import group_weights, inclusion_probability, uniform_share, weighted_share
from lakehouse_assets.settings import Settings

ROWS = 10_000_000
AT_MOST_SCAN, AT_MOST_BY_HAND = 1.3, 2.0
WIDE_COLUMNS, WIDE_ROWS = 2_000, 20_000
MEMORY_ROWS = (1_000_000, 50_000_000)


def benchmark(lab: Lab) -> Iterator[Result]:
    """The draw, the whole audit, a wide table."""
    count = lab.sized(ROWS, 1000)
    settings = lab.settings("audit")
    path = settings.path("silver", "readings")
    lab.say("audit: writing the rows")
    _write(lab, settings, path, count)
    frame = lab.spark.read.format("delta").load(path)

    def sample(_: Any) -> None:
        rows = frame.select(*COLUMNS)
        groups = count_groups(rows, "status", count, weighted=True)
        drawn = draw_sample(rows, [F.col("reading_id")], 1000, 7, count, column="status", groups=groups)
        drawn.release()

    def scan(_: Any) -> None:
        read_all(frame)

    def audit(_: Any) -> None:
        report = audit_table(_run(lab, settings, _rules()), "silver/readings")
        assert report.error_message is None, report.error_message  # noqa: S101 (a benchmark of an exception says nothing)

    def by_hand(step: Callable[[str], None]) -> None:
        scan(step)
        step("scan")
        repeated = frame.groupBy("reading_id").agg(F.count(F.lit(1)).alias("n")).where("n > 1")
        assert repeated.count() == 0  # noqa: S101
        step("uniqueness")

    sizes, versions = {"rows": count, "columns": len(COLUMNS), "sampled": 1000}, public_properties(settings)
    pairs = [
        ("audit, the draw", "sample and raw distribution", sample, "plain scan of the columns", scan, AT_MOST_SCAN),
        ("audit, whole", "audit with one uniqueness", audit, "scan and uniqueness by hand", by_hand, AT_MOST_BY_HAND),
    ]
    for n, (name, ours, a, other, b, limit) in enumerate(pairs):
        one, two = (Side(label, timed(work, lab.cpu), lab.clear) for label, work in ((ours, a), (other, b)))
        a_samples, b_samples = run_pairs(one, two, lab.pairs, lambda text, name=name: lab.say(f"{name}: {text}"))
        figures = {} if n else {**near_a_threshold(), **coverage()}
        yield Result(name, ours, tuple(a_samples), other, tuple(b_samples), limit, sizes, versions, figures)
    yield _wide(lab, settings)
    lab.clear(settings.root)


def _write(lab: Lab, settings: Settings, path: str, count: int) -> None:
    typed = settings.path("typed")
    write_typed(lab.spark, typed, count, table("monthly", PATHS))
    lab.spark.read.parquet(typed).write.format("delta").save(path)
    lab.clear(typed)


def _rules() -> AuditRules:
    rules = [AuditRule.model_validate({"name": "key_unique", "key": True, "check": {"check": "unique"}})]
    for n, check in enumerate(c for c in CHECKS if "column" in c):
        values = {name: value for name, value in check.items() if name != "column"} | {"threshold": 0.98}
        rules.append(AuditRule.model_validate({"name": f"rule_{n}", "columns": [check["column"]], "check": values}))
    return AuditRules(tuple(rules))


def _run(lab: Lab, settings: Settings, rules: AuditRules) -> AuditRun:
    declared = {"silver/readings": DeclaredTable(("reading_id",)), "silver/wide": DeclaredTable(("id",))}
    return AuditRun(settings, rules, lambda: lab.spark, "bench", declared, seed=7)


def _wide(lab: Lab, settings: Settings) -> Result:
    """A table of two thousand columns, a rule for each, in one audit."""
    columns, rows = lab.sized(WIDE_COLUMNS, 20), lab.sized(WIDE_ROWS, 200)
    cells = [F.pmod(F.xxhash64(F.lit(n), F.col("id")), F.lit(1000)).cast("int").alias(f"n{n}") for n in range(columns)]
    lab.spark.range(0, rows, 1, 2).select("id", *cells).write.format("delta").save(settings.path("silver", "wide"))
    rule = {"name": "range", "columns": ["n*"], "check": {"check": "in_range", "min": 0, "max": 999, "threshold": 0.95}}
    rules = AuditRules((AuditRule.model_validate(rule),))
    positions: list[int] = []

    def audit(_: Any) -> None:
        record = audit_table(_run(lab, settings, rules), "silver/wide")
        assert record.verdict == "passed", record.error_message  # noqa: S101
        positions.append(len(record.results))

    sample = timed(audit, lab.cpu)()
    sizes = {"rows": rows, "columns": columns, "rules": positions[-1]}
    return Result("audit, wide", "one audit", (sample,), sizes=sizes, settings=public_properties(settings))


def memory_benchmark(lab: Lab) -> Iterator[Result]:
    """The same audit of one million rows and of fifty, in one JVM of a given heap (`--memory 1g`): what it holds at most."""
    settings, peaks = lab.settings("audit-memory"), {}
    samples: list[Sample] = []
    for stated in MEMORY_ROWS:
        count, path = lab.sized(stated, 1000), settings.path("silver", "readings")
        lab.clear(path)
        lab.say(f"audit, memory: {count:,} rows")
        _write(lab, settings, path, count)
        with PeakMemory(os.getpid()) as peak:
            audits: list[Any] = []
            samples.append(
                timed(lambda _, audits=audits: audits.append(audit_table(_run(lab, settings, _rules()), "silver/readings")))()
            )
        assert audits[0].error_message is None, audits[0].error_message  # noqa: S101 (a benchmark of an exception says nothing)
        assert audits[0].total_raw_records == count  # noqa: S101
        peaks[f"megabytes, {count:,} rows"] = peak.megabytes
        peaks[f"seconds, {count:,} rows"] = round(samples[-1].seconds, 1)
    yield Result(
        "audit, memory",
        "Python and JVM",
        tuple(samples[-1:]),
        sizes={"rows": lab.sized(MEMORY_ROWS[-1], 1000)},
        settings=public_properties(settings),
        figures=peaks,
        note=f"heap {lab.memory}",
    )
    lab.clear(settings.root)


def near_a_threshold(rows: int = 1000) -> dict[str, float]:
    """The worst over thresholds: an answer that is wrong at one point off, and one that is open at five."""
    wrong = open_ = 0.0
    for threshold in (0.35, 0.5, 0.9, 0.95, 0.98):
        answers = np.array([uniform_share(rows, failed, 10**9).answer(threshold) for failed in range(rows + 1)])
        for points, is_bad in ((0.01, "wrong"), (0.05, "inconclusive")):
            for share in (threshold - points, threshold + points):
                if share > 1:
                    continue
                likely = binom.pmf(rows - np.arange(rows + 1), rows, share)
                if is_bad == "wrong":
                    wrong = max(wrong, float(likely[answers == ("pass" if share < threshold else "fail")].sum()))
                else:
                    open_ = max(open_, float(likely[answers == "inconclusive"].sum()))
    return {"wrong, one point off": round(wrong, 5), "open, five points off": round(open_, 4)}


def coverage(draws: int = 2000) -> dict[str, float]:
    """How many of so many simulated intervals hold the true share: uniform and weighted."""
    dice, sizes = np.random.default_rng(4), (9000, 900, 100)
    weights = np.repeat(group_weights(sizes), sizes)
    covered = {"uniform": 0, "weighted": 0}
    for _ in range(draws):
        failed = dice.random(sum(sizes)) < np.repeat((0.02, 0.1, 0.3), sizes)
        true = 1 - failed.mean()
        plain = uniform_share(300, int(failed[dice.choice(len(failed), 300, replace=False)].sum()), len(failed))
        covered["uniform"] += plain.low <= true <= plain.high
        order = -np.log(dice.random(len(failed))) / weights
        least = np.argpartition(order, 300)[:301]
        cut = order[least].max()
        drawn = least[order[least] < cut]
        share = weighted_share(failed[drawn].tolist(), [inclusion_probability(w, cut) for w in weights[drawn]], len(failed))
        covered["weighted"] += share.low <= true <= share.high
    return {f"coverage, {name}": float(count) / draws for name, count in covered.items()}
