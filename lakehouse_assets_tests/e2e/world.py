"""A lake with Dagster on it: a landing folder, an instance and the definitions of some tables, in this process.

Belongs here: what the end-to-end tests share. Does not: any test.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from lakehouse_assets.decisions import ledger
from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.assets.project_tables import load_tables
from lakehouse_assets.orchestration.healing import foreground
from lakehouse_assets.orchestration.spark import SPARK
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

# Files of a test do not change while they are read twice.
assert foreground.SETTLING_SECONDS
foreground.SETTLING_SECONDS = 0.05


class World:
    """A lake, a landing folder, an instance and the definitions, with the test session as its Spark.

    ``tables``: names of the project's own, or tables of the test's. ``settings``: more of them.
    """

    def __init__(self, spark, home: Path, tables: Sequence[str | LakehouseTable], **settings: Any) -> None:
        self.spark = spark
        (home / "landing").mkdir(exist_ok=True)
        self.settings = Settings(
            root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home, spark_master="local[2]", **settings
        )
        self.instance = dg.DagsterInstance.local_temp(str(home))
        ours = {name for name in tables if isinstance(name, str)}
        self.tables = [table for table in tables if isinstance(table, LakehouseTable)]
        self.tables += [table for table in load_tables() if table.spec.name in ours]
        self.jobs: dict[str, int] = {}

        class TestSpark(dg.ConfigurableResource):
            @property
            def spark_session(self):
                return spark

        self.definitions = build_definitions(self.settings, self.tables, {SPARK: TestSpark()})

    def run(self):
        """As `lakehouse run`. ``jobs``: Spark jobs of each run of assets, by what the progress said of it."""
        marks: list[tuple[str, int]] = []
        run = foreground.ForegroundRun(self.definitions, self.instance, self.settings, self.tables)
        run.progress = lambda step: marks.append((step, self.count()))
        report = run.run()
        ends = [count for _, count in marks[1:]] + [self.count()]
        self.jobs = {step: end - count for (step, count), end in zip(marks, ends, strict=True)}
        return report

    def count(self) -> int:
        return self.spark._jsc.sc().dagScheduler().numTotalJobs()

    def current_decisions(self, table: str = "weather"):
        return ledger.current_decisions(logs.decisions(self.settings, table, evidence=True))

    def verdict(self, day: str, seq: int = 1) -> str:
        return self.current_decisions()[(datetime.fromisoformat(day).replace(tzinfo=UTC), seq)].verdict

    def tick(self, cursor=None):
        return dg.evaluate_automation_conditions(self.definitions, self.instance, cursor=cursor)


def keys(result) -> dict[str, set[str]]:
    """Requested partitions by asset; an unpartitioned asset has one, called ''."""
    requested: dict[str, set[str]] = {}
    for r in result.results:
        if r.true_subset.size:
            subset = r.true_subset
            parts = subset.expensively_compute_partition_keys() if subset.is_partitioned else {""}
            requested[r.key.to_user_string()] = set(parts)
    return requested
