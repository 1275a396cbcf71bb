"""Reading the logs needs no JVM, and a process that did so ends in order."""

import subprocess
import sys

from lakehouse_assets_tests.support import heal, land

READ = """
import sys
from pathlib import Path
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
place = sys.argv[1]
settings = Settings(root=place, landing=place, dagster_home=Path(place))
from pyspark import SparkContext
print(len(logs.decisions(settings, "readings")), SparkContext._gateway is not None)
"""


def test_a_process_that_read_the_log_ends_in_order(spark, settings):
    """It aborted three times of four while the library's own file system served the scan."""
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z"])
    heal(spark, settings, [1])
    for _ in range(5):
        child = subprocess.run([sys.executable, "-c", READ, settings.root], capture_output=True, text=True, check=False)
        assert (child.returncode, child.stdout.split()) == (0, ["1", "False"]), child.stderr
