"""A process that runs one operation and kills itself, with SIGKILL, at a named step. Started by strike.

``child.py HOME OPERATION POINT SEED``: with a + at its end, the point is some moments after the step.
"""

import os
import random
import signal
import sys
import threading
from pathlib import Path

from lakehouse_assets_tests.chaos.play import run_of, run_operation
from lakehouse_assets_tests.laws.child import at, session


def main() -> None:
    """See above."""
    settings, name, point, seed = at(Path(sys.argv[1])), sys.argv[2], sys.argv[3], int(sys.argv[4])
    spark, end_java = session(settings)

    def kill() -> None:
        end_java()
        os.kill(os.getpid(), signal.SIGKILL)

    def step(reached: str) -> None:
        if reached == point:
            kill()
        if f"{reached}+" == point:
            threading.Timer(random.Random(seed).uniform(0.02, 0.6), kill).start()

    run_operation(run_of(spark, settings, step), name)


if __name__ == "__main__":
    main()
