"""A process of its own that publishes and kills itself, with SIGKILL, at a named step. Started by test_kill.

Its Spark is a JVM of its own, which is killed with it, or one that stays up: another one for such processes
(``jvm_for_children``), or the test's (``jvm_of``), in which it has a session of its own. To start Spark takes many times as
long as to publish.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.session import build_session, spark_properties
from lakehouse_assets_tests.laws.scene import DAYS, scene
from lakehouse_assets_tests.support import FOR_THREE_ROWS, SHORT_LIVED, runner, window

# What pyspark looks for to find a JVM that runs already.
PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


def at(home: Path) -> Settings:
    """The lake and the landing folder are under ``home``."""
    conf = home / "spark.conf"
    conf.write_text(f"spark.sql.shuffle.partitions 2\n{FOR_THREE_ROWS}{SHORT_LIVED}")
    return Settings(
        root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home, spark_master="local[1]", spark_conf=conf
    )


@contextmanager
def jvm_for_children(home: Path) -> Iterator[dict[str, str]]:
    """A second JVM beside the test's, for as long as the block lasts: the variables by which a child finds it."""
    conf = SparkConf(loadDefaults=False).setAll(spark_properties(at(home)).items())
    gateway = launch_gateway(conf.setMaster("local[1]").setAppName("children"))
    try:
        parameters = gateway.gateway_parameters
        yield {PORT: str(parameters.port), SECRET: parameters.auth_token}
    finally:
        gateway.proc.kill()
        gateway.proc.wait()


def jvm_of(spark: SparkSession) -> dict[str, str]:
    """The variables by which a child finds this session's JVM. Of a child that is killed between two queries none runs on."""
    parameters = spark.sparkContext._gateway.gateway_parameters
    return {PORT: str(parameters.port), SECRET: parameters.auth_token}


def shared_session() -> SparkSession:
    """On the JVM that stays: its one context, and a session that has nothing of those before."""
    gateway = launch_gateway()
    conf = SparkConf(_jvm=gateway.jvm)
    context = gateway.jvm.JavaSparkContext(gateway.jvm.org.apache.spark.SparkContext.getOrCreate(conf._jconf))
    return SparkSession(SparkContext(gateway=gateway, conf=conf, jsc=context)).newSession()


def session(settings: Settings) -> tuple[SparkSession, Callable[[], None]]:
    """Spark, and what ends its JVM with the process, where that is this process's own."""
    if PORT in os.environ:
        return shared_session(), lambda: None
    own = build_session(settings, "child")
    return own, lambda: os.kill(own.sparkContext._gateway.proc.pid, signal.SIGKILL)


def main() -> None:
    """``child.py HOME STEP``."""
    settings, step = at(Path(sys.argv[1])), sys.argv[2]
    spark, end_java = session(settings)

    def kill(reached: str) -> None:
        if reached == step:
            end_java()
            os.kill(os.getpid(), signal.SIGKILL)

    run = runner(spark, settings, scene(), kill)
    windows = [window(day) for day in DAYS]
    extract(run, windows)
    publish(run, windows)


if __name__ == "__main__":
    main()
