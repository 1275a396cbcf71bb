"""A command that ends by SIGTERM, with stand-ins for what Spark and Dagster raise then, and with a job of Spark's.

Belongs here: the line, the code, and the errors that stay what they are. Does not: a stream's end (e2e), others (test_cli).
"""

import os
import signal
import subprocess
import sys

import pytest

from lakehouse_assets import cli
from lakehouse_assets.cli import termination
from lakehouse_assets.errors import MaskedError, RefusedError, RunFailedError
from lakehouse_assets_tests.support import PROJECT_ROOT

WAITING = """
import sys, time
from lakehouse_assets import cli

@cli.app.command("wait")
def wait():
    try:
        print("waiting", flush=True)
        time.sleep(60)
    finally:
        print("cleaned up", flush=True)

def execute_elsewhere(_):
    try:
        wait()
    except KeyboardInterrupt:  # it cancels the worker's command, which ends with this code
        return 130

if sys.argv[1] == "elsewhere":
    cli.execute_elsewhere = execute_elsewhere
cli.main()
"""

# The end of a stream that has nothing to read: it rewrites gold.
REWRITING = """
import contextlib, importlib, sys, threading, time
from lakehouse_assets import cli
from lakehouse_assets.orchestration.streams import service

class Service:
    def __init__(self, *_, **__):
        self.stopping, self.failures = threading.Event(), {}

    def serve(self):
        pass

def rewrite(*_):
    print("waiting", flush=True)
    time.sleep(60)

stream = importlib.import_module("lakehouse_assets.cli.stream")
stream._streams, stream._rewrite_gold, service.StreamService = lambda _: [], rewrite, Service
stream.common.open_instance = lambda _: contextlib.nullcontext()
sys.argv = ["lakehouse", "stream", "--available-now"]
cli.main()
"""

SUMMING = """
import sys, threading, time
import dagster as dg
from lakehouse_assets import cli
from lakehouse_assets.cli.common import stop_own_spark
from lakehouse_assets.orchestration.jobs.operation_job import QUIET
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.session import build_session

def sum_for_hours():
    spark = build_session(Settings.from_environment())

    def announce():
        while not spark.sparkContext.statusTracker().getActiveJobsIds():
            time.sleep(0.1)
        print("summing", flush=True)

    threading.Thread(target=announce, daemon=True).start()
    spark.range(10**14).selectExpr("sum(hash(id))").collect()

@dg.job(executor_def=dg.in_process_executor)
def in_dagster():
    dg.op(sum_for_hours)()

@cli.app.command("sum")
def sum_in(runner: str):
    with stop_own_spark():
        if runner == "dagster":
            with dg.DagsterInstance.ephemeral() as instance:
                in_dagster.execute_in_process(instance=instance, run_config=QUIET)
        else:
            sum_for_hours()

cli.main()
"""


# What Java writes when it starts, before our configuration of its log holds.
JAVA_BEGINS = ("WARNING: Using incubator modules", "Setting default log level", "To adjust logging level")


class Interrupted(BaseException):
    """Dagster's interrupt: no Exception."""


def ending_with(monkeypatch, error: BaseException, number: int, command: str = "verdicts"):
    """Let the command get a signal, whose handler raises as Dagster's do, and end with this error."""

    def handle(*_):
        raise KeyboardInterrupt

    def app(**_):
        before = signal.signal(number, handle)
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt:
            raise error from None
        finally:
            signal.signal(number, before)

    monkeypatch.setattr(cli, "app", app)
    monkeypatch.setattr("sys.argv", ["lakehouse", command])
    cli.main()


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), Interrupted(), ConnectionError("py4j"), MaskedError("x"), RunFailedError("x"), SystemExit(130)],
)
def test_sigterm_is_one_line_whatever_it_interrupts(monkeypatch, capsys, error):
    with pytest.raises(SystemExit) as ended:
        ending_with(monkeypatch, error, signal.SIGTERM)
    assert ended.value.code == termination.EXIT_CODE == 143
    assert capsys.readouterr().err == "ended by SIGTERM\n"


@pytest.mark.parametrize(("error", "code"), [(RefusedError("no"), 5), (SystemExit(0), 0), (SystemExit(3), 3)])
def test_what_a_command_ends_with_by_itself_stays(monkeypatch, error, code):
    with pytest.raises(SystemExit) as ended:
        ending_with(monkeypatch, error, signal.SIGTERM)
    assert ended.value.code == code


def test_another_signal_is_no_sigterm(monkeypatch):
    with pytest.raises(SystemExit) as ended:
        ending_with(monkeypatch, SystemExit(130), signal.SIGINT)
    assert ended.value.code == 130
    with pytest.raises(KeyboardInterrupt):
        ending_with(monkeypatch, KeyboardInterrupt(), signal.SIGINT)
    with pytest.raises(SystemExit) as interrupted:
        ending_with(monkeypatch, Interrupted(), signal.SIGINT)
    assert interrupted.value.code == 130


def end_waiting(*command: str) -> tuple[int, str, str]:
    """Send SIGTERM to a process of this Python code once it waits. Returns its code and what it printed then."""
    process = subprocess.Popen(
        [sys.executable, "-c", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=PROJECT_ROOT
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.mark.parametrize("command", ["wait", "elsewhere"])
def test_sigterm_ends_a_process_that_waits_as_ctrl_c_does(command):
    assert end_waiting(WAITING, command) == (143, "cleaned up\n", "ended by SIGTERM\n")


def test_sigterm_ends_a_stream_that_rewrites_gold_with_one_line():
    assert end_waiting(REWRITING) == (143, "", "ended by SIGTERM\n")


@pytest.mark.parametrize(
    ("runner", "number"), [("dagster", signal.SIGTERM), ("dagster", signal.SIGINT), ("plain", signal.SIGTERM)]
)
def test_a_signal_within_a_job_of_spark_prints_no_traceback(runner, number, monkeypatch, tmp_path):
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", SUMMING, "sum", runner], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "summing\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    lines = [line for line in err.splitlines() if not line.startswith(JAVA_BEGINS)]
    if number == signal.SIGTERM:
        assert (process.returncode, out, lines) == (143, "", ["ended by SIGTERM"])
    else:
        assert (process.returncode, out, lines[1:]) == (130, "", []), err


def test_a_stream_that_failed_ends_with_its_error_also_after_sigterm(monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        ending_with(monkeypatch, RunFailedError("readings: the disk is full"), signal.SIGTERM, "stream")
    assert ended.value.code == RunFailedError.exit_code
    assert "the disk is full" in capsys.readouterr().err
