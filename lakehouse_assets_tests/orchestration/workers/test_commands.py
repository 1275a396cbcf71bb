"""A command that another process executes: its terminal, its code, its interruption. No Spark, no Dagster."""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

from lakehouse_assets.cli import main
from lakehouse_assets.cli.kept_definitions import WITHIN, definitions_of, tables_of
from lakehouse_assets.cli.on_worker import call_within, execute_elsewhere
from lakehouse_assets.errors import ConfigError, RunFailedError
from lakehouse_assets.orchestration.workers import pool as pools
from lakehouse_assets.orchestration.workers.commands import execute_command, execute_on_worker
from lakehouse_assets.orchestration.workers.configured import configured_pool, tick_seconds
from lakehouse_assets.orchestration.workers.folder import GivenRun, WorkerLimits
from lakehouse_assets.orchestration.workers.pool import WorkerPool
from lakehouse_assets.orchestration.workers.python_state import python_as_it_was
from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.support import PROJECT_ROOT

# A worker that only executes commands, of which `sleep` waits to be cancelled and `die` ends the process.
WORKER = """
import os, sys, time
from pathlib import Path
from lakehouse_assets.orchestration.workers.commands import execute_command
from lakehouse_assets.orchestration.workers.folder import WorkerFolder

folder = WorkerFolder(Path(sys.argv[1]))

def call(arguments):
    print("to out", *arguments, os.getcwd(), flush=True)
    print("to err", file=sys.stderr, flush=True)
    if arguments[0] == "die":
        os._exit(1)
    while arguments[0] == "sleep" and not folder.is_cancelled(folder.given_run().run_id):
        time.sleep(0.02)
    return int(arguments[1])

while True:
    run = folder.given_run()
    if run is not None:
        execute_command(run, call)
        folder.finish_run()
        print("to the log", flush=True)
    time.sleep(0.02)
"""
CLIENT = """
import os, sys
from pathlib import Path
from lakehouse_assets.orchestration.workers import pool as pools
from lakehouse_assets.orchestration.workers.commands import execute_on_worker
pools.MODULE = "worker"
pool = pools.WorkerPool(Path(sys.argv[1]), 1)
sys.exit(execute_on_worker(pool, sys.argv[2:], Path.cwd(), dict(os.environ)))
"""


@pytest.fixture
def pool(tmp_path, monkeypatch):
    (tmp_path / "worker.py").write_text(WORKER)
    monkeypatch.setattr(pools, "MODULE", "worker")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{PROJECT_ROOT}")
    monkeypatch.chdir(tmp_path)
    workers = WorkerPool(tmp_path / "workers", 1, WorkerLimits())
    start(workers)
    yield workers
    for worker in workers.workers():
        worker.kill()


def start(pool: WorkerPool) -> None:
    """Start a worker that counts as warm."""
    worker = pool.start()
    assert worker is not None
    worker.write_process(warm=True)


def client(pool: WorkerPool, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-c", CLIENT, str(pool.path), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_command_has_its_clients_terminal_and_gives_its_code_back(pool, tmp_path):
    for code in ("0", "7"):
        process = client(pool, "run", code)
        assert process.communicate(timeout=60) == (f"to out run {code} {tmp_path}\n", "to err\n")
        assert process.returncode == int(code)
    (worker,) = pool.workers()
    assert worker.log.read_text().splitlines()[-1] == "to the log"


def test_ctrl_c_interrupts_the_command_and_not_its_client(pool):
    process = client(pool, "sleep", "130")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("to out sleep")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    process.communicate()


def test_a_worker_that_dies_is_an_error_and_not_done_again(pool):
    with pytest.raises(RunFailedError, match="run it again"):
        execute_on_worker(pool, ["die"], Path.cwd(), dict(os.environ))


def test_a_command_waits_a_moment_for_a_worker_that_is_about_to_be_free(pool):
    (worker,) = pool.workers()
    worker.give(GivenRun("a", "instance", time.time()))
    threading.Timer(0.3, worker.finish_run).start()
    assert execute_on_worker(pool, ["run", "3"], Path.cwd(), dict(os.environ)) == 3


def test_without_a_worker_that_is_free_nothing_is_done(pool):
    process = client(pool, "sleep", "0")
    assert process.stdout is not None
    process.stdout.readline()
    assert execute_on_worker(pool, ["run", "3"], Path.cwd(), dict(os.environ)) is None
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    process.communicate()


def test_a_worker_that_dies_before_it_calls_has_done_nothing(pool):
    (worker,) = pool.workers()
    os.kill(worker.process()["pid"], signal.SIGSTOP)

    def kill():
        while worker.given_run() is None:
            time.sleep(0.02)
        worker.kill()

    threading.Thread(target=kill).start()
    assert execute_on_worker(pool, ["run", "3"], Path.cwd(), dict(os.environ)) is None


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "verdicts",
        "run --help",
        "worker status",
        "init run",
        "quarantine list",
        "schema migrate x",
        "baseline seed x --from y",
    ],
)
def test_other_commands_are_executed_by_the_process_that_has_them(pool, tmp_path, monkeypatch, arguments):
    arguments = arguments.split()
    configure(tmp_path, monkeypatch, pool)
    assert execute_elsewhere(arguments) is None
    assert execute_elsewhere(["rebuild", "4"]) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        "run 3 --table x",
        "quarantine release x --window y --because z",
        "schema migrate x --apply",
        "verify --table x --mend",
        "heal status",
    ],
)
def test_commands_on_the_instance_are_executed_by_a_worker(pool, tmp_path, monkeypatch, arguments, capfd):
    (tmp_path / "worker.py").write_text(WORKER.replace("int(arguments[1])", "4"))
    configure(tmp_path, monkeypatch, pool)
    assert execute_elsewhere(arguments.split()) == 4
    assert f"to out {arguments}" in capfd.readouterr().out
    end_all(pool)
    assert execute_elsewhere(arguments.split()) is None
    assert [worker for worker in pool.workers() if worker.is_alive()] == [], "none is started for it"


def test_a_command_within_a_worker_goes_to_no_other(pool, tmp_path, monkeypatch):
    configure(tmp_path, monkeypatch, pool)
    monkeypatch.setenv(WITHIN, "1")
    assert execute_elsewhere(["run"]) is None
    monkeypatch.delenv(WITHIN)
    (tmp_path / "pyproject.toml").unlink()
    assert execute_elsewhere(["run"]) is None  # it reports that there is no project
    (worker,) = pool.workers()
    assert "to the log" not in worker.log.read_text()


def end_all(pool: WorkerPool) -> None:
    for worker in pool.workers():
        worker.kill()
        while worker.is_alive():
            time.sleep(0.02)


def configure(folder: Path, monkeypatch: pytest.MonkeyPatch, pool: WorkerPool) -> None:
    """A project whose instance has this pool, with a warm worker of its environment."""
    for name in [name for name in os.environ if name.startswith(("LAKEHOUSE_", "DAGSTER_"))]:
        monkeypatch.delenv(name)
    (folder / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "tables"\n')
    launcher = {"module": "m", "class": "WorkerLauncher", "config": {"base_dir": str(pool.path)}}
    (folder / "dagster.yaml").write_text(yaml.safe_dump({"run_launcher": launcher}))
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    end_all(pool)
    start(pool)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--help"], 0, "Usage"),
        (["nonsense"], 2, "No such command"),
        (["rebuild", "x"], 5, "no table"),
        (["rebuild", "--nope"], 2, "Usage: lakehouse rebuild "),
    ],
)
def test_a_command_in_a_workers_process_gives_its_code(capfd, monkeypatch, tmp_path, arguments, code, text):
    (tmp_path / "tables").mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "tables"\n')
    monkeypatch.setenv("LAKEHOUSE_PROJECT", str(tmp_path))
    before = (sys.argv, dict(os.environ))
    assert call_within(main, arguments) == code
    assert (sys.argv, dict(os.environ)) == before
    assert text in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("code", "stays"),
    [*((code, True) for code in (0, 2, 5, 6, 8, 9)), *((code, False) for code in (1, 3, 4, 7, 130))],
)
def test_a_refusal_or_a_finding_costs_no_worker(code, stays, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the address of a socket is short
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind("command")
        server.listen(1)

        def give_terminal():
            with server.accept()[0] as connection:
                socket.send_fds(connection, [b"!"], [1, 2])
                connection.recv(4)

        client = threading.Thread(target=give_terminal)
        client.start()
        assert execute_command(GivenRun("a", "", 0.0, ("run",), "command"), lambda _: code) is stays
        client.join()


def test_definitions_are_kept_in_a_worker_until_a_file_changes(tmp_path, monkeypatch):
    (tmp_path / "tables" / "shop").mkdir(parents=True)
    settings = Settings(root="/", landing="/", dagster_home=tmp_path, project=tmp_path, tables=tmp_path / "tables")
    monkeypatch.chdir(tmp_path)
    first = definitions_of(settings)
    assert definitions_of(settings) is not first
    monkeypatch.setenv(WITHIN, "1")
    within = definitions_of(settings)
    assert definitions_of(settings.model_copy()) is within
    assert definitions_of(settings.model_copy(update={"spark_master": "local[1]"})) is not within
    again = definitions_of(settings)
    (tmp_path / "tables" / "shop" / "notes.txt").touch()
    assert definitions_of(settings) is not again


def test_tables_are_kept_with_the_definitions(tmp_path, monkeypatch):
    (tmp_path / "tables").mkdir()
    settings = Settings(root="/", landing="/", dagster_home=tmp_path, project=tmp_path, tables=tmp_path / "tables")
    assert tables_of(settings) is not tables_of(settings)
    monkeypatch.setenv(WITHIN, "1")
    within = tables_of(settings)
    assert within.tables == ()
    definitions_of(settings)
    assert tables_of(settings) is within
    (tmp_path / "tables" / "defs.yaml").write_text("type: lakehouse_assets.LakehouseTable\n")
    with pytest.raises(ConfigError):
        tables_of(settings)
    (tmp_path / "tables" / "defs.yaml").unlink()
    assert tables_of(settings).tables == ()


def test_what_a_command_changes_in_python_is_given_back(tmp_path, monkeypatch):
    monkeypatch.setenv("LEFT", "before")
    logger, folder = logging.getLogger("dagster"), Path.cwd()
    before = (dict(os.environ), logger.level)
    with python_as_it_was():
        os.environ["LEFT"], os.environ["NEW"] = "after", "1"
        del os.environ["PATH"]
        os.chdir(tmp_path)
        logger.setLevel(logging.CRITICAL)
    assert (dict(os.environ), logger.level) == before
    assert Path.cwd() == folder


def test_only_a_plain_configuration_is_read_without_dagster(tmp_path):
    settings = Settings(root="/", landing="/", dagster_home=tmp_path, project=tmp_path)
    assert configured_pool(settings) is None
    assert tick_seconds(settings) == 30
    for text in ("", "[", "a", "run_launcher: 3", "run_launcher: {class: DefaultRunLauncher}"):
        (tmp_path / "dagster.yaml").write_text(text)
        assert configured_pool(settings) is None
    launcher = {"run_launcher": {"module": "m", "class": "WorkerLauncher"}, "concurrency": {"runs": {"max_concurrent_runs": 3}}}
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(launcher))
    assert configured_pool(settings) == WorkerPool(tmp_path / "data/dagster/workers", 3)
    assert tick_seconds(settings) == 10
    of_cluster = settings.model_copy(update={"spark_master": "spark://10.0.0.9:7077"})
    assert configured_pool(of_cluster) is None
    launcher["run_launcher"]["config"] = {"base_dir": "/w", "slots": 1, "max_runs": 5}
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(launcher))
    assert configured_pool(settings) == WorkerPool(Path("/w"), 1, WorkerLimits(max_runs=5))
    launcher["run_launcher"]["config"]["on_cluster"] = True
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(launcher))
    assert configured_pool(of_cluster) == WorkerPool(Path("/w"), 1, WorkerLimits(max_runs=5))
    launcher["run_launcher"]["config"]["base_dir"] = {"env": "WORKERS"}
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(launcher))
    assert configured_pool(settings) is None
