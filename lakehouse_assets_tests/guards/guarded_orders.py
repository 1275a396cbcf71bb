"""A Delta table as somebody else writes it, and guards of it. Belongs here: what tests of guards share. Does not: any test."""

import itertools
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.guards.guard_run import GuardRun
from lakehouse_assets.guards.run import JudgedVersions, judge_versions
from lakehouse_assets.settings import Settings

_runs = itertools.count(1)
SCHEMA = "id bigint, amount double, country string"


def orders_guard(path: Path | str, **changes: Any) -> GuardSpec:
    """A guard of orders: a key, a range, and at most four NULL countries."""
    attributes = {
        "name": "orders",
        "path": str(path),
        "start": 0,
        "key": ["id"],
        "columns": {"id": "bigint", "amount": "double", "country": "string"},
        "checks": [
            {"check": "in_range", "column": "amount", "min": 0, "max": 1000, "on_fail": "quarantine_batch"},
            {"check": "not_null", "column": "country", "severity": "warning"},
        ],
    }
    return GuardSpec.model_validate({**attributes, **changes})


class ForeignOrders:
    """The table of another program, written by plain Spark and Delta."""

    def __init__(self, spark: Any, path: Path) -> None:
        self.spark, self.path = spark, path
        self.sql = f"delta.{identifier(str(path))}"

    def frame(self, rows: Iterable[tuple]) -> Any:
        return self.spark.createDataFrame(list(rows), SCHEMA)

    def append(self, *rows: tuple, mode: str = "append", **options: str) -> None:
        self.frame(rows).coalesce(1).write.format("delta").options(**options).mode(mode).save(str(self.path))

    def run(self, sql: str) -> None:
        """Run a statement in which `T` stands for the table."""
        self.spark.sql(sql.replace("{T}", self.sql)).collect()

    def merge(self, *rows: tuple) -> None:
        self.frame(rows).createOrReplaceTempView("changes")
        self.run(
            "MERGE INTO {T} t USING changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )


def guard_run(spark: Any, settings: Settings, guard: GuardSpec, step: Callable[[str], None] = lambda _: None) -> GuardRun:
    """A run with a clock that ticks by itself and an id of its own."""
    number = next(_runs)
    at = datetime(2030, 1, 1, 0, 0, 0, number, tzinfo=UTC)
    return GuardRun(
        settings, guard, lambda: spark, f"guard-{number:04d}", lambda: at, step, guard.table or guard.path, guard=guard
    )


def judge(spark: Any, settings: Settings, guard: GuardSpec) -> JudgedVersions:
    """Judge what waits."""
    return judge_versions(guard_run(spark, settings, guard))


def verdicts(judged: JudgedVersions) -> list[tuple[int | None, str, int]]:
    """Version, verdict and rows of each decision."""
    return [(d.bronze_version, d.verdict, d.counts.rows_in) for d in judged.new]
