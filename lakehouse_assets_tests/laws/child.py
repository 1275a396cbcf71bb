"""A process of its own that publishes and kills itself, with SIGKILL, at a named step. Started by test_kill."""

import os
import signal
import sys
from pathlib import Path

from lakehouse_assets.layers.bronze import extract
from lakehouse_assets.layers.silver import publish
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.session import build_session
from lakehouse_assets_tests.laws.scene import DAYS, scene
from lakehouse_assets_tests.support import SHORT_LIVED, runner, window


def main() -> None:
    """``child.py PLACE STEP``: the lake and the landing folder are under PLACE."""
    place, at = Path(sys.argv[1]), sys.argv[2]
    conf = place / "spark.conf"
    conf.write_text(f"spark.sql.shuffle.partitions 2\n{SHORT_LIVED}")
    settings = Settings(
        root=str(place / "lake"), landing=str(place / "landing"), dagster_home=place, spark_master="local[1]", spark_conf=conf
    )

    def kill(step: str) -> None:
        if step == at:
            os.kill(os.getpid(), signal.SIGKILL)

    run = runner(build_session(settings, "child"), settings, scene(), kill)
    windows = [window(day) for day in DAYS]
    extract(run, windows)
    publish(run, windows)


if __name__ == "__main__":
    main()
