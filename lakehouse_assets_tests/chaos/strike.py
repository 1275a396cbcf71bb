"""One blow: a lake, a child that is killed at a point in its first attempts, an undisturbed attempt, and the comparison.

Belongs here: processes and copies. Does not: which points and how many (__main__, test_kill_acts).
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


def place(home: Path) -> Settings:
    """A lake and a landing folder under a new folder."""
    (home / "landing").mkdir(parents=True)
    return Settings(root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home, spark_master="local[2]")


def copied(settings: Settings, to: Path) -> Settings:
    """The same lake in another place; a copy keeps the files' times."""
    shutil.copytree(settings.dagster_home, to)
    return settings.model_copy(update={"root": str(to / "lake"), "landing": str(to / "landing"), "dagster_home": to})


def begun(spark: Any, home: Path, act: str, seed: int) -> Settings:
    """A lake as it is before the act: the same one before every act but a run."""
    settings = place(home)
    begin(spark, settings, act, seed)
    return settings


class Ground:
    """Where an act of one seed is struck: the lake before it, and what an undisturbed act makes of it.

    ``before``: that lake, where it is there already (`begun`).
    """

    def __init__(self, spark: Any, home: Path, act: str, seed: int, before: Settings | None = None) -> None:
        self.spark, self.home, self.act, self.seed, self.blows = spark, home, act, seed, 0
        self.before = before or begun(spark, home / "before", act, seed)
        clean = copied(self.before, home / "clean")
        reached: list[str] = []
        self.clean = end(spark, clean, act, reached.append)
        # A new step, or a new moment within one, is to be a kill point.
        points = {point for point in POINTS[act] if not point.endswith("+")}
        assert set(reached) == points, f"{act}: {sorted(set(reached) ^ points)} is no kill point, or never reached"
        if act == "run":
            check_oracle(clean, seed)

    def strike(self, point: str, times: int, jvm: Mapping[str, str]) -> int:
        """Kill the act at ``point`` in its first ``times`` attempts, then let it be. Returns how often it was reached.

        ``jvm``: the variables of a JVM that the children share; one that is killed in the middle of something has its own.
        Raises AssertionError where the end is another.
        """
        self.blows += 1
        here = copied(self.before, self.home / f"blow{self.blows}")
        killed = 0
        for _ in range(times):
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "lakehouse_assets_tests.chaos.child",
                    here.dagster_home,
                    self.act,
                    point,
                    str(self.seed),
                ],
                env=os.environ | ({} if point.endswith("+") else jvm),
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode in (0, -9), done.stderr[-2000:]
            killed += done.returncode == -9
        self.ends_as_ever(here, f"{self.act} {point} seed {self.seed} × {times}")
        shutil.rmtree(here.dagster_home)
        return killed

    def ends_as_ever(self, here: Settings, what: str) -> None:
        """Let the act be there, undisturbed. Raises AssertionError where it does not make of it what it makes of `before`."""
        found = end(self.spark, here, self.act)
        for table, expected in self.clean.items():
            assert found[table] == expected, f"{what}: {table} differs"
        if self.act == "run":
            check_oracle(here, self.seed)
