"""Fixtures that every room may use: one Spark session per test process, places of a test's own."""

import os
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest
from filelock import FileLock

from lakehouse_assets.settings import PROJECT_ROOT, Settings
from lakehouse_assets.storage.session import (
    JARS,
    JARS_FOR_JDBC,
    JARS_FOR_KAFKA,
    JAVA_OPTIONS,
    build_session,
    spark_properties,
)
from lakehouse_assets_tests.support import FAST_COMPILER, FOR_THREE_ROWS, as_for_users


def fetch_jars_of_sources() -> None:
    """The jars of PostgreSQL and Kafka, once into the environment. Where that fails, tests that need them are skipped."""
    with FileLock(JARS.parent / "tests.lock"):
        if JARS_FOR_JDBC.is_dir() and len(list(JARS_FOR_KAFKA.glob("*.jar"))) == 4:
            return
        named = {"LAKEHOUSE_JDBC_TESTS_URL": "jdbc:postgresql://none/none", "LAKEHOUSE_KAFKA_BOOTSTRAP": "none:1"}
        command = [sys.executable, "-m", "lakehouse_assets.storage.session"]
        subprocess.run(command, env={**os.environ, **named}, cwd=PROJECT_ROOT, capture_output=True, check=False)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Real Spark with Delta. Small shuffles, since the tables are tiny; and Java's fast compiler alone, since the thorough one
    takes more time than anything else in Java, for code that runs a few times. A process runs a thousand tests, each with
    tables of its own: Delta would keep the last hour's in memory.
    """
    fetch_jars_of_sources()
    home = tmp_path_factory.mktemp("spark")
    conf = home / "spark.conf"
    settings = Settings(root=str(home), landing=str(home), dagster_home=home, spark_master="local[2]")
    conf.write_text(
        f"spark.sql.shuffle.partitions 2\nspark.sql.warehouse.dir {home}/warehouse\nspark.local.dir {home}/local\n"
        "spark.sql.sources.parallelPartitionDiscovery.parallelism 2\n"
        "spark.databricks.delta.delta.log.cacheSize 50\nspark.driver.memory 1536m\n"
        f"spark.default.parallelism 2\n{JAVA_OPTIONS} {spark_properties(settings)[JAVA_OPTIONS]} {FAST_COMPILER}\n"
        f"{FOR_THREE_ROWS}"
    )
    settings = settings.model_copy(update={"spark_conf": conf})
    session = build_session(settings, "tests")
    yield session
    session.stop()


@pytest.fixture
def compiled(spark):
    """For tests of what depends on how Spark runs a query; elsewhere the tests' own session takes the shortest way."""
    with as_for_users(spark):
        yield


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A lake and a landing folder of the test's own."""
    (tmp_path / "landing").mkdir()
    return Settings(
        root=str(tmp_path / "lake"), landing=str(tmp_path / "landing"), dagster_home=tmp_path, spark_master="local[2]"
    )


# How long a case takes is the machine's affair.
hypothesis.settings.register_profile("cases", deadline=None)
hypothesis.settings.load_profile("cases")

LONG = ("e2e", "browser", "laws", "layers")


def pytest_collection_modifyitems(items):
    """Long files first, so that no process is left with one at the end."""
    rooms = {item: item.path.parent.name for item in items}
    items.sort(key=lambda item: LONG.index(rooms[item]) if rooms[item] in LONG else len(LONG))


SKIPS_FAIL: pytest.StashKey[bool] = pytest.StashKey()


class ToldAtOnce:
    """Under CI a failure is told when it happens too: a run that is ended from outside comes to no summary."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and told:
            told.write_line(f"\nFAILED {report.nodeid} ({report.when}, {report.duration:.0f} s)\n{report.longreprtext[-2000:]}")


def pytest_configure(config):
    """Under CI nothing may be skipped: what a machine lacks there is a mistake of the machine's. And the process that has the
    summary, which hears of each test, tells failures; those that run the tests (xdist's) do not write.
    """
    if os.environ.get("CI") != "true":
        return
    config.stash[SKIPS_FAIL] = True
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(ToldAtOnce(config))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Turn a skip into a failure under CI."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail") and item.config.stash.get(SKIPS_FAIL, False):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr}"
