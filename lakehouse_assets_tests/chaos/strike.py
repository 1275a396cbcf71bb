"""One blow: a lake, a child that is killed at a point in its first attempts, an undisturbed attempt, and the comparison.

Belongs here: processes and copies. Does not: which points and how many (__main__, test_kill_operations).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.chaos.play import POINTS, begin, check_oracle, end
from lakehouse_assets_tests.support import copy_lake, lake_settings


def prepare_lake(spark: Any, home: Path, operation: str, seed: int) -> Settings:
    """Return a lake as it is before the operation: the same one for every operation but a run."""
    settings = lake_settings(home)
    begin(spark, settings, operation, seed)
    return settings


class Ground:
    """Where an operation of one seed is struck: the lake before it, and what the undisturbed operation makes of it.

    ``before``: that lake, where it is there already (`prepare_lake`).
    """

    def __init__(self, spark: Any, home: Path, operation: str, seed: int, before: Settings | None = None) -> None:
        self.spark, self.home, self.operation, self.seed, self.blows = spark, home, operation, seed, 0
        self.before = before or prepare_lake(spark, home / "before", operation, seed)
        clean = copy_lake(self.before, home / "clean")
        reached: list[str] = []
        self.clean = end(spark, clean, operation, reached.append)
        # A new step, or a new moment within one, is to be a kill point.
        points = {point for point in POINTS[operation] if not point.endswith("+")}
        assert set(reached) == points, f"{operation}: {sorted(set(reached) ^ points)} is no kill point, or never reached"
        if operation == "run":
            check_oracle(clean, seed)

    def strike(self, point: str, times: int, jvm: Mapping[str, str]) -> int:
        """Kill the operation at ``point`` in its first ``times`` attempts, then let it be. Returns how often it was reached.

        ``jvm``: the variables of a JVM that the children share; one that is killed in the middle of something has its own.
        Raises AssertionError where the end is another.
        """
        self.blows += 1
        here = copy_lake(self.before, self.home / f"blow{self.blows}")
        killed = 0
        for _ in range(times):
            process = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "lakehouse_assets_tests.chaos.child",
                    here.dagster_home,
                    self.operation,
                    point,
                    str(self.seed),
                ],
                env=os.environ | ({} if point.endswith("+") else jvm),
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert process.returncode in (0, -9), process.stderr[-2000:]
            killed += process.returncode == -9
        self.assert_same_end(here, f"{self.operation} {point} seed {self.seed} × {times}")
        shutil.rmtree(here.dagster_home)
        return killed

    def assert_same_end(self, here: Settings, what: str) -> None:
        """Run the operation undisturbed. Raises AssertionError unless the lake ends as it does from `before`."""
        actual = end(self.spark, here, self.operation)
        for table, expected in self.clean.items():
            assert actual[table] == expected, f"{what}: {table} differs"
        if self.operation == "run":
            check_oracle(here, self.seed)
