"""A process that takes what waits in a topic, and kills itself, with SIGKILL, at a named step. Started by test_stream.

Its Spark is a session of the test's JVM, which stays up (laws/child).
"""

import os
import signal
import sys
from pathlib import Path
from uuid import uuid4

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.orchestration.streams.table_stream import TableStream
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.e2e.streamed import Clock
from lakehouse_assets_tests.laws.child import shared_session


def main() -> None:
    """``stream_child HOME BROKER SPEC STEP``. It ends by itself once nothing waits."""
    home, broker, text, step = sys.argv[1:]
    settings = Settings(
        root=f"{home}/lake", landing=f"{home}/landing", dagster_home=Path(home), spark_master="local[2]", kafka_bootstrap=broker
    )
    spec, spark, clock = TableSpec.model_validate_json(text), shared_session(), Clock()

    def kill(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    run, stream = Run(settings, spec, lambda: spark, str(uuid4()), step=kill), TableStream(spec, settings, {}, clock())
    stream.take_turn(lambda *_: run, clock())  # what a killed process left
    while stream.take_turn(lambda *_: run, clock()):
        pass


if __name__ == "__main__":
    main()
