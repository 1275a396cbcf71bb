"""What it costs to compare a wide batch with its contract, beside writing it.

A compares 2,000 promised columns with 2,000 that arrived, one of another type, and plans what becomes of the contract: all that
the gate does of schemas for a batch, without Spark. B writes the batch's rows as a Delta table of these columns, with nothing
else: the least that any way into a table must do.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import functions as F

from benchmarks.harness import Result, Side, run_pairs, timed
from benchmarks.lab import Lab, public_properties
from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.schema.evolution import effective_table, plan
from lakehouse_assets.decisions.schema.gate import schema_outcomes

COLUMNS, ROWS, LIMIT = 2_000, 10_000, 0.05
KINDS = ("int", "bigint", "double", "string", "date", "decimal(12,2)", "struct<a: int, b: array<string>>")


def benchmark(lab: Lab) -> Iterator[Result]:
    """2,000 columns, one changed."""
    rows = lab.sized(ROWS, 10)
    kinds = {f"c{index}": KINDS[index % len(KINDS)] for index in range(COLUMNS)}
    spec = TableSpec.model_validate(
        {
            "name": "wide",
            "source": {"kind": "files", "path": "wide/{window:%Y-%m-%d}.parquet", "format": "parquet"},
            "extraction": {"cadence": "daily", "start": datetime(2024, 1, 1, tzinfo=UTC)},
            "key": ["c0"],
            "columns": kinds,
            "schema": {"new_columns": "evolve", "type_changes": "widen"},
        }
    )
    table = effective_table(spec, [])
    now = datetime(2024, 1, 2, tzinfo=UTC)
    record = ExtractionRecord("wide", now, 1, "print", rows, tuple(kinds), 0, "run", now, (), {**kinds, "c0": "bigint"})
    settings = lab.settings("schema")
    plain = settings.path("plain")
    # Each time a batch that was not seen before: what is kept of types' texts is kept in a run of the project as well.
    numbers = iter(range(1_000_000))

    def compare(_: Any) -> None:
        batch = replace(record, fingerprint=str(next(numbers)))
        planned = plan(table, batch)
        results = schema_outcomes(table, batch, planned, set(batch.columns))
        if [d.column for d in planned.comparison.differences] != ["c0"] or len(results) != 1:
            raise AssertionError("the comparison did not find the one change")

    def write(_: Any) -> None:
        cells = [F.expr(f"CAST(NULL AS {kind})" if "<" in kind else _value(kind)).alias(name) for name, kind in kinds.items()]
        lab.spark.range(rows).select(*cells).write.format("delta").save(plain)

    a = Side("compare and plan", timed(compare, lab.cpu))
    b = Side("plain Delta write", timed(write, lab.cpu), lambda: lab.clear(plain))
    a_samples, b_samples = run_pairs(a, b, lab.pairs, lambda text: lab.say(f"schema: {text}"))
    sizes = {"columns": COLUMNS, "changed": 1, "rows": rows}
    lab.clear(settings.root)
    yield Result(
        "schema, wide", a.label, tuple(a_samples), b.label, tuple(b_samples), LIMIT, sizes, public_properties(settings)
    )


def _value(kind: str) -> str:
    return "CAST(id AS STRING)" if kind == "string" else "DATE '2024-01-01'" if kind == "date" else f"CAST(id AS {kind})"
