"""A process of its own that judges a guard's versions and kills itself, with SIGKILL, at a named step."""

import os
import signal
import sys
from pathlib import Path

from lakehouse_assets.guards.run import judge_versions
from lakehouse_assets_tests.guards.foreign_table import guard_run, orders_guard
from lakehouse_assets_tests.laws.child import at, session


def main() -> None:
    """``child.py HOME STEP``: the lake is `HOME/lake`, the table `HOME/theirs`."""
    home, step = Path(sys.argv[1]), sys.argv[2]
    spark, end_java = session(at(home))

    def kill(reached: str) -> None:
        if reached == step:
            end_java()
            os.kill(os.getpid(), signal.SIGKILL)

    judge_versions(guard_run(spark, at(home), orders_guard(home / "theirs"), kill))


if __name__ == "__main__":
    main()
