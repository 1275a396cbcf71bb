"""Fixtures that every room may use: one Spark session per test process, places of a test's own."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import hypothesis
import pytest
from filelock import FileLock
from pydantic import SecretStr

from lakehouse_assets.settings import Connection, Settings
from lakehouse_assets.storage.jars import JARS, JARS_FOR_AVRO, JARS_FOR_JDBC, JARS_FOR_KAFKA
from lakehouse_assets.storage.java import JAVA_OPTIONS
from lakehouse_assets.storage.log_store import JAR
from lakehouse_assets.storage.session import build_session, spark_properties
from lakehouse_assets_tests.e2e.database_servers import H2, JARS_OF_H2
from lakehouse_assets_tests.e2e.servers import fetched_jars
from lakehouse_assets_tests.slices import SLICE_SECONDS, draw
from lakehouse_assets_tests.support import BOTH_COMPILERS, FAST_COMPILER, FOR_THREE_ROWS, PROJECT_ROOT, as_for_users

# A shell lets what it starts in the background ignore Ctrl-C. The processes of the tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def fetch_jars_of_sources() -> None:
    """The drivers and Kafka's jars, once into the environment. Where that fails, tests that need them are skipped."""
    with FileLock(JARS.parent / "tests.lock"):
        with suppress(RuntimeError):
            fetched_jars(H2, JARS_OF_H2)
        if [len(list(folder.glob("*.jar"))) for folder in (JARS_FOR_JDBC, JARS_FOR_KAFKA, JARS_FOR_AVRO)] == [2, 4, 1]:
            return
        named = {"LAKEHOUSE_JDBC_TESTS_URL": "jdbc:postgresql://none/none", "LAKEHOUSE_KAFKA_BOOTSTRAP": "none:1"}
        named["LAKEHOUSE_JDBC_OTHERS_URL"] = "jdbc:mariadb://none/none"
        command = [sys.executable, "-m", "lakehouse_assets.storage.session"]
        subprocess.run(command, env={**os.environ, **named}, cwd=PROJECT_ROOT, capture_output=True, check=False)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Real Spark with Delta. Small shuffles, since the tables are tiny. Java's thorough compiler pays in a process that runs
    half a suite (one of xdist's), and costs more than it gives where a few tests run. Each of a thousand tests has tables of
    its own: Delta would keep the last hour's in memory.
    """
    fetch_jars_of_sources()
    compilers = BOTH_COMPILERS if "PYTEST_XDIST_WORKER" in os.environ else FAST_COMPILER
    home = tmp_path_factory.mktemp("spark")
    conf = home / "spark.conf"
    h2 = {"H2": Connection(url=SecretStr("jdbc:h2:none"), jars=tuple(JARS_OF_H2.glob("*h2-*.jar")))}
    settings = Settings(root=str(home), landing=str(home), dagster_home=home, spark_master="local[2]", jdbc=h2)
    conf.write_text(
        f"spark.sql.shuffle.partitions 2\nspark.sql.warehouse.dir {home}/warehouse\nspark.local.dir {home}/local\n"
        "spark.sql.sources.parallelPartitionDiscovery.parallelism 2\n"
        "spark.databricks.delta.delta.log.cacheSize 50\nspark.driver.memory 1536m\nspark.sql.ui.explainMode simple\n"
        f"spark.default.parallelism 2\n{JAVA_OPTIONS} {spark_properties(settings)[JAVA_OPTIONS]} {compilers}\n"
        f"{FOR_THREE_ROWS}\n"
        f"spark.jars {JAR}\n"  # tests of leases turn it on in this session
    )
    settings = settings.model_copy(update={"spark_conf": conf})
    session = build_session(settings, "tests")
    with pytest.MonkeyPatch.context() as patch:
        # A command that is run in this process finds the session as it is: with the properties of users, which it would get, it
        # shuffles into four times as many parts from then on.
        for module in ("lakehouse_assets.storage.session", "lakehouse_assets.orchestration.spark"):
            patch.setattr(f"{module}.build_session", lambda *_: session)
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

# Files that take longest, longest first; nearly all tests of the first six are exhaustive.
LONGEST = (
    *("e2e/test_weather.py", "laws/test_kill_operations.py", "e2e/test_personal_token.py", "e2e/test_flights.py"),
    *("e2e/test_readme.py", "e2e/test_own_project.py", "browser/test_ui.py", "laws/test_laws.py", "pipeline/test_gold.py"),
    *("pipeline/test_schema.py", "frames/test_publish.py", "operations/test_dry_run.py", "pipeline/test_gate_checks.py"),
    *("pipeline/test_evidence.py", "e2e/test_kafka_source.py", "pipeline/test_bad_input.py"),
    *("orchestration/assets/test_window_steps.py", "laws/test_redeliveries.py", "decisions/drift/test_judge.py"),
    *("orchestration/healing/test_gap_runs.py", "pipeline/test_foreign_commits.py", "test_cli.py"),
    *("operations/test_baseline.py", "test_cli_checks.py", "pipeline/test_reference_tables.py", "measures/test_profile.py"),
    *("pipeline/test_declarations.py", "laws/test_kill.py", "guards/test_publish.py", "decisions/drift/test_extremes.py"),
    *("test_docs.py", "frames/test_page.py", "spec/test_check_kinds.py", "spec/test_casts.py", "e2e/test_jdbc.py"),
    *("e2e/test_kafka.py", "laws/test_paths.py", "laws/test_histories.py", "laws/test_operations.py"),
)


def pytest_addoption(parser):
    parser.addoption("--slice", metavar="SEED", help="of the exhaustive tests, those alone that this seed draws")
    parser.addoption("--stories", metavar="NUMBER", type=int, default=10, help="random stories on a disk, and as many on S3")
    parser.addoption("--commits", metavar="NUMBER", type=int, default=400, help="commits of four writers to one log")
    parser.addoption("--first-story", metavar="SEED", type=int, default=1, help="the seed of the first of them")


def pytest_generate_tests(metafunc):
    """Each random story is a test of its own."""
    if "story_seed" in metafunc.fixturenames:
        first, count = metafunc.config.getoption("--first-story"), metafunc.config.getoption("--stories")
        metafunc.parametrize("story_seed", range(first, first + count))


def pytest_report_header(config):
    seed = config.getoption("--slice")
    return f"slice of the exhaustive tests, drawn by {seed}: `make test-slice SEED={seed}` draws it again" if seed else None


def pytest_collection_modifyitems(config, items):
    """Long files first, then the others on Spark, then what is pure, so that no process is left with a long one at the end; of
    a slice, what its seed draws.
    """
    files = {item: item.path.relative_to(config.rootpath / "lakehouse_assets_tests").as_posix() for item in items}
    on_spark = {files[item] for item in items if "spark" in item.fixturenames}
    ranks = {file: index for index, file in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(files[item], len(LONGEST) + (files[item] not in on_spark)))
    marks = {item: mark for item in items if (mark := item.get_closest_marker("exhaustive"))}
    # A file that tells one story is drawn as a whole: its tests build on each other.
    units = {item: files[item] if mark.kwargs.get("story") else item.nodeid for item, mark in marks.items()}
    seconds = {units[item]: mark.kwargs["seconds"] for item, mark in marks.items()}
    if never := [name for name, most in seconds.items() if most > SLICE_SECONDS]:
        raise pytest.UsageError(f"no seed would draw {never}: make several tests of it")
    if seed := config.getoption("--slice"):
        drawn = draw(seconds, seed)
        config.hook.pytest_deselected(items=[item for item in items if units.get(item) not in drawn])
        items[:] = [item for item in items if units.get(item) in drawn]


SKIPS_FAIL: pytest.StashKey[bool] = pytest.StashKey()


class ReportAtOnce:
    """Under CI a failure is printed when it happens too: a run that is ended from outside has no summary."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal:
            what = f"{report.nodeid} ({report.when}, {report.duration:.0f} s)"
            terminal.write_line(f"\nFAILED {what}\n{report.longreprtext[-2000:]}")


def pytest_configure(config):
    """Under CI nothing may be skipped: what a machine lacks there is a mistake of the machine's. The process that prints the
    summary prints failures at once too; those that run the tests (xdist's) print nothing.
    """
    if os.environ.get("CI") != "true":
        return
    config.stash[SKIPS_FAIL] = True
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(ReportAtOnce(config))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Turn a skip into a failure under CI."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail") and item.config.stash.get(SKIPS_FAIL, False):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr}"
