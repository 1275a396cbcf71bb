"""The demo, timed: `scripts/demo.py`, the year of weather from nothing to gold with its late days, in one process.

Paired with nothing: seconds, and the most memory that the command and its JVM held at once. Run once.
"""

import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks import PROJECT_ROOT
from benchmarks.harness import Result, Sample
from benchmarks.lab import Lab, own_instance, public_properties
from benchmarks.memory import PeakMemory
from lakehouse_assets.settings import Settings


def benchmark(lab: Lab) -> Iterator[Result]:
    """The size is that of the example, whatever the scale."""
    home = lab.folder / "demo"
    env = own_instance(home)
    lab.say("demo")
    lab.clear()
    with (lab.folder / "demo.log").open("w+") as log:
        began = time.perf_counter()
        command = [sys.executable, str(PROJECT_ROOT / "scripts" / "demo.py")]
        process = subprocess.Popen(command, env=env, cwd=PROJECT_ROOT, stdout=log, stderr=subprocess.STDOUT)
        with PeakMemory(process.pid) as peak:
            code = process.wait()
        seconds = time.perf_counter() - began
        if code:
            log.seek(0)
            raise RuntimeError(f"the demo ended with {code}: {log.read()[-2000:]}")
    settings = Settings(root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home)
    sizes = {"windows": len(list((home / "landing" / "weather").glob("*.csv")))}
    figures = {"peak_memory_mb": peak.megabytes}
    yield Result(
        "demo", "scripts/demo.py", (Sample(seconds),), sizes=sizes, settings=public_properties(settings), figures=figures
    )
    lab.clear(str(home))
