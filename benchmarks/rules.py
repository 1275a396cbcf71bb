"""Twelve rules and three profiles over typed rows: ours beside the same written by hand, and beside other tools.

All read one Parquet file: 10 million rows, nine columns; eleven rules of single rows, one uniqueness of two columns that are
no key. Ours (`measures.batch_numbers`, `measures.profile`) measures the rules and, which nobody else does, three sketches. By
hand: one aggregation with a `count_if` for each rule, one `groupBy` for the uniqueness. All find the same failing rows, or
the benchmark fails. `gate_benchmark` is the same rules at the gate; `many_benchmark` is a hundred rules beside
the same by hand, and beside ten.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from pydantic import TypeAdapter
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.data import COLUMNS, FIRST, RULES, table, write_typed, write_wide
from benchmarks.gate import PATHS, paired
from benchmarks.harness import Result, Sample, Side, run_rounds, timed
from benchmarks.lab import Lab, public_properties
from benchmarks.peers.environments import PEERS, Peer
from benchmarks.peers.peer_client import PeerRequest, describe_differences
from lakehouse_assets.checks.base import Check, CheckContext
from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.check_context import check_context
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.measures.batch_numbers import MeasurePlan, measure_batches
from lakehouse_assets.measures.drift_features import measure_features
from lakehouse_assets.measures.profile_files import StoredRows
from lakehouse_assets.measures.stage import declared_rules
from lakehouse_assets.pipeline.staging import flag_rows
from lakehouse_assets.storage.session import spark_properties

ROWS = 10_000_000
AT_MOST_BY_HAND = 1.2
# At the gate: what the gate's own benchmark allows for one window.
AT_MOST_PLAIN_WRITE = 1.3
WIDE_ROWS, EACH, AT_MOST_TEN_RULES = 2_000_000, 10, 3.0
UNIQUE = "unique_sensor_read_at"


def benchmark(lab: Lab) -> Iterator[Result]:
    """Ours, by hand, and every peer whose environment is there, by turns."""
    count = lab.sized(ROWS, 1000)
    settings = lab.settings("rules")
    # To report, as the other tools do: a rule that holds rows would have the uniqueness look at the others alone.
    spec = table("monthly", PATHS, [{**rule, "severity": "warning"} for rule in RULES])
    path = settings.path("typed")
    lab.say("rules: writing the rows")
    write_typed(lab.spark, path, count, spec)
    results: dict[str, dict[str, int]] = {}
    inputs = [{"id": check.id, **rule} for check, rule in zip(spec.checks, RULES, strict=True)]
    job = {"path": path, "columns": list(COLUMNS), "rules": inputs, "spark": _for_peers(settings)}
    context = check_context(spec)

    def ours(step: Callable[[str], None]) -> None:
        frame = lab.spark.read.parquet(path)
        (numbers,) = measure_rules(frame, spec.checks, context).values()
        step("rules")
        assert spec.drift is not None  # noqa: S101 (the table has three features)
        stored = StoredRows(frame.inputFiles(), numbers.rows_in, numbers.newest)
        measure_features(flag_rows(frame, spec.checks, context), spec.drift, (FIRST, 1), stored)
        step("sketches")
        results["ours"] = {**numbers.failed_rows, UNIQUE: numbers.metrics[UNIQUE]["duplicates"]}

    def hand(step: Callable[[str], None]) -> None:
        results["by hand"] = by_hand(lab.spark.read.parquet(path), step)

    def measure_peer(client: PeerRequest) -> Sample:
        sample, results[client.peer.title] = client.measure()
        return sample

    a, b = (Side(label, timed(work, lab.cpu), lab.clear) for label, work in (("12 rules, 3 sketches", ours), ("by hand", hand)))
    with ExitStack() as open_peers:
        there = [peer for peer in PEERS.values() if peer.ready]
        clients = [open_peers.enter_context(PeerRequest(peer, job, lab.folder / f"{peer.name}.log")) for peer in there]
        sides = [a, b, *[Side(one.peer.title, partial(measure_peer, one), lab.clear) for one in clients]]
        a_samples, *others = run_rounds(sides, lab.pairs, lambda text: lab.say(f"rules: {text}"))
    agree(results, [check.id for check in spec.checks])
    sizes = {"rows": count, "columns": len(COLUMNS), "rules": len(RULES)}
    versions = public_properties(settings)
    yield Result("rules, by hand", a.label, tuple(a_samples), b.label, tuple(others[0]), AT_MOST_BY_HAND, sizes, versions)
    by_peer = dict(zip(there, others[1:], strict=True))
    for peer in PEERS.values():
        name, samples = f"rules, {peer.title}", by_peer.get(peer)
        if samples is None:
            yield _left_out(name, a.label, peer)
        else:
            yield Result(name, a.label, tuple(a_samples), peer.title, tuple(samples), peer.at_most, sizes, versions)
    lab.clear(settings.root)


def measure_rules(frame: DataFrame, rules: Sequence[Check], context: CheckContext) -> dict[Batch, BatchNumbers]:
    """Measure typed rows as the gate does after its staging."""
    plan = MeasurePlan(rules, context, [rule.id for rule in declared_rules(rules, context)], personal=False)
    return measure_batches(flag_rows(frame, rules, context), plan)


def by_hand(frame: DataFrame, step: Callable[[str], None] = lambda _: None) -> dict[str, int]:
    """What someone would write who has only these rules in mind: failing rows of each, and of the uniqueness the values."""
    conditions = {
        "not_null_sensor": "sensor IS NULL",
        "not_null_read_at": "read_at IS NULL",
        "not_null_cost": "cost IS NULL",
        "in_range_temperature": "temperature < -40 OR temperature > 60",
        "in_range_pressure": "pressure < 90 OR pressure > 110",
        "in_range_humidity": "humidity < 0 OR humidity > 100",
        "in_range_battery": "battery < 0 OR battery > 100",
        "in_range_cost": "cost < 0 OR cost > 10000",
        "in_set_status": "status NOT IN ('ok', 'late', 'check')",
        "length_sensor": "length(sensor) <> 6",
        "matches_sensor": "NOT sensor RLIKE '^s[0-9]{5}$'",
    }
    counted = frame.agg(*[F.count_if(F.expr(sql)).alias(name) for name, sql in conditions.items()]).collect()[0].asDict()
    step("rules")
    repeated = frame.groupBy("sensor", "read_at").count().where("count > 1")
    row = repeated.agg(F.count(F.lit(1)).alias("values"), F.coalesce(F.sum("count"), F.lit(0)).alias("rows")).collect()[0]
    step("uniqueness")
    return {**counted, UNIQUE: row["values"], f"rows of {UNIQUE}": row["rows"]}


def agree(results: Mapping[str, Mapping[str, int]], rules: Sequence[str]) -> None:
    """Raise where two sides found other failing rows. Of a uniqueness ours tells the values, the other tools the rows that
    share one; what is written by hand tells both.
    """
    rows = f"rows of {UNIQUE}"
    values = {side: results[side] for side in ("ours", "by hand")}
    others = {side: {**counts, rows: counts.get(rows, counts[UNIQUE])} for side, counts in results.items() if side != "ours"}
    lines = [
        describe_differences(values, rules),
        describe_differences(others, [*[rule for rule in rules if rule != UNIQUE], rows]),
    ]
    if any(lines):
        raise ValueError("the failing rows differ:\n" + "\n".join(line for line in lines if line))


def gate_benchmark(lab: Lab) -> Iterator[Result]:
    """The same twelve rules at the gate, with reasons, one window, beside a plain Delta write (as `benchmarks.gate`)."""
    yield paired(lab, "rules, at the gate", table("monthly", PATHS, RULES), 1, AT_MOST_PLAIN_WRITE)


def many_benchmark(lab: Lab) -> Iterator[Result]:
    """A hundred rules on thirty columns beside the same conditions by hand, and beside ten rules on the same columns."""
    count, settings = lab.sized(WIDE_ROWS, 1000), lab.settings("rules-many")
    path = settings.path("wide")
    lab.say("rules, many: writing the rows")
    write_wide(lab.spark, path, count, EACH)
    context = check_context(table("monthly", PATHS))

    failing: dict[str, int] = {}

    def side(rules: list[Check]) -> Side:
        def measure(_: Any) -> None:
            (numbers,) = measure_rules(lab.spark.read.parquet(path), rules, context).values()
            failing[f"{len(rules)} rules"] = sum(numbers.failed_rows.values())

        return Side(f"{len(rules)} rules", timed(measure, lab.cpu), lab.clear)

    def count_by_hand(_: Any) -> None:
        counts = [F.count_if(F.expr(condition)) for condition in many_conditions(EACH)]
        failing["by hand"] = sum(lab.spark.read.parquet(path).agg(*counts).collect()[0])

    rules = many_rules(EACH)
    # Of each ten one, and each time another, so that the few are of every kind too.
    a, b, hand = side(rules), side(rules[::11]), Side("by hand", timed(count_by_hand, lab.cpu), lab.clear)
    a_samples, b_samples, by_hands = run_rounds([a, b, hand], lab.pairs, lambda text: lab.say(f"rules, many: {text}"))
    if failing[a.label] != failing[hand.label]:
        raise ValueError(f"the failing rows differ: {failing}")
    sizes, versions = {"rows": count, "columns": 3 * EACH}, public_properties(settings)
    both = ((hand, by_hands, "rules, many by hand", AT_MOST_BY_HAND), (b, b_samples, "rules, many", AT_MOST_TEN_RULES))
    for other, samples, name, limit in both:
        yield Result(name, a.label, tuple(a_samples), other.label, tuple(samples), limit, sizes, versions)
    lab.clear(settings.root)


def many_rules(each: int) -> list[Check]:
    """Ten rules for each three columns, one of each kind (`data.write_wide`)."""
    inputs = []
    for i in range(each):
        n, x, t = f"n{i}", f"x{i}", f"t{i}"
        inputs += [
            *({"check": "not_null", "column": column} for column in (n, x, t)),
            {"check": "in_range", "column": n, "min": 0, "max": 998},
            {"check": "in_range", "column": x, "min": -3, "max": 3},
            {"check": "in_range", "column": n, "min": 5, "name": f"at_least_{n}"},
            {"check": "length", "column": t, "min": 4, "max": 4},
            {"check": "matches", "column": t, "pattern": "^t[0-9]{3}$"},
            {"check": "in_set", "column": t, "values": [f"t{number:03d}" for number in range(990)]},
            {"check": "expression", "name": f"adds_{i}", "expr": f"{n} + {x} < 1000"},
        ]
    return [TypeAdapter(AnyCheck).validate_python({**rule, "severity": "warning"}) for rule in inputs]


def many_conditions(each: int) -> list[str]:
    """What rows that fail the rules of `many_rules` have, as someone would write it, in the same order."""
    texts = ", ".join(f"'t{number:03d}'" for number in range(990))
    return [
        condition
        for n, x, t in ((f"n{i}", f"x{i}", f"t{i}") for i in range(each))
        for condition in (
            *(f"{column} IS NULL" for column in (n, x, t)),
            f"{n} < 0 OR {n} > 998",
            f"{x} < -3 OR {x} > 3",
            f"{n} < 5",
            f"length({t}) <> 4",
            f"NOT {t} RLIKE '^t[0-9]{{3}}$'",
            f"{t} NOT IN ({texts})",
            f"NOT ({n} + {x} < 1000)",
        )
    ]


def _for_peers(settings: Any) -> dict[str, str]:
    """The session's properties without Delta and this environment's places."""
    ours = spark_properties(settings)
    excluded = ("spark.jars", "spark.jars.packages", "spark.sql.extensions", "spark.sql.warehouse.dir", "spark.pyspark.python")
    shared = {
        k: v for k, v in ours.items() if k not in excluded and not k.startswith(("spark.sql.catalog", "spark.databricks"))
    }
    return {"spark.master": settings.spark_master, **shared}


def _left_out(name: str, a: str, peer: Peer) -> Result:
    return Result(name, a, (), peer.title, note=f"left out: python -m benchmarks.peers setup {peer.name}")
