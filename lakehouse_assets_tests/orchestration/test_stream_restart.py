"""The service of streams becomes a new process: its Java has died, or its code has changed. No Spark.

Belongs here: the service's loop with a stand-in for Spark. Does not: what it does between two windows (test_streams), or a Java
that is killed (e2e/test_stream_stop).
"""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lakehouse_assets.cli import common
from lakehouse_assets.cli.stream import joined_error
from lakehouse_assets.errors import RunFailedError
from lakehouse_assets.orchestration.assets.written_table import WrittenTable
from lakehouse_assets.orchestration.streams import service as stream_service
from lakehouse_assets.orchestration.streams.service import StreamService
from lakehouse_assets.orchestration.streams.table_stream import TableStream
from lakehouse_assets_tests.orchestration.test_shared_partitions import START, streamed
from lakehouse_assets_tests.support import PROJECT_ROOT, lake_settings


class RestartError(Exception):
    """The service would be a new process now."""


class Java:
    """A stand-in for a session, all of whose calls fail once `dead` is set."""

    dead = False

    @property
    def sparkContext(self) -> Any:
        return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=self.call)))

    def call(self) -> bool:
        if self.dead:
            raise ConnectionRefusedError("no Java")
        return False


@contextmanager
def session_of_one_run(base: Java) -> Iterator[Java]:
    base.call()
    try:
        yield base
    finally:
        base.call()


class World:
    """A service of two streams. ``turn``: what happens in a turn; ``turns``: whose they were."""

    def __init__(self, home: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = lake_settings(home).model_copy(update={"project": home})
        tables = [streamed(), streamed().model_copy(update={"name": "others"})]
        self.service = StreamService(settings, instance, lambda: [WrittenTable(t, home) for t in tables], lambda _: True)
        self.java, self.turns, self.reports = Java(), [], []
        self.turn: Callable[[], None] = self.service.stopping.set
        monkeypatch.setattr(TableStream, "take_turn", lambda stream, *_: self.take_turn(stream))
        monkeypatch.setattr(stream_service, "report_windows", lambda *arguments: self.reports.append(arguments[2].spec.name))
        monkeypatch.setattr(stream_service, "build_session", lambda _: self.java)
        monkeypatch.setattr(stream_service, "session_of_one_run", session_of_one_run)
        monkeypatch.setattr(stream_service, "_become_new_process", self.restart)

    def take_turn(self, stream: TableStream) -> dict[Any, Any]:
        self.turns.append(stream.spec.name)
        try:
            self.turn()
        except Exception:
            stream.failures += 1
            raise
        return {}

    def restart(self) -> None:
        raise RestartError

    def kill_java(self) -> None:
        self.java.dead = True
        raise ConnectionResetError("Java is gone")


@pytest.fixture
def world(tmp_path, monkeypatch) -> Iterator[World]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield World(tmp_path, instance, monkeypatch)


def test_a_java_that_dies_in_a_turn_is_replaced_at_once(world, caplog):
    world.turn = world.kill_java
    with caplog.at_level(logging.WARNING, "lakehouse.stream"), pytest.raises(RestartError):
        world.service.serve()
    assert world.turns == ["readings"], "no other table is tried without a Java"
    assert "Java has ended: the service starts again with a new one" in caplog.text


def test_a_java_that_dies_once_the_service_ends_is_not_replaced(world):
    def die() -> None:
        world.service.stopping.set()
        world.kill_java()

    world.turn = die
    world.service.serve()
    assert world.turns == ["readings"]


def test_what_is_taken_once_ends_well_ordered_without_a_java(world, monkeypatch):
    """What is published is reported, and the error names each table of which something waits."""
    monkeypatch.setattr(TableStream, "limit_to_waiting", lambda *_: None)
    world.service.available_now, world.turn = True, world.kill_java
    world.service.serve()
    assert world.turns == ["readings"]
    assert world.service.stopping.is_set(), "gold is left for the next start"
    assert {*world.reports} == {"readings", "others"}
    assert str(joined_error(world.service.failures)).splitlines() == [
        "others: Java has ended, and what waited is not all taken",
        "readings: Java is gone",
    ]


@pytest.mark.parametrize("is_asked_to_stop", [False, True])
def test_a_java_that_dies_once_all_is_taken_leaves_gold_with_an_error(world, monkeypatch, is_asked_to_stop):
    """Whoever asks the command to stop gives gold up."""
    monkeypatch.setattr(TableStream, "limit_to_waiting", lambda stream, *_: setattr(stream, "left", 0))

    def end() -> None:
        for stream in world.service.streams.values():
            stream.is_complete = True
        world.java.dead = True
        if is_asked_to_stop:
            world.service.stopping.set()

    world.service.available_now, world.turn = True, end
    with nullcontext() if is_asked_to_stop else pytest.raises(RunFailedError, match="gold of it is not rewritten"):
        world.service.serve()
    assert {*world.reports} == {"readings", "others"}


def test_the_error_of_the_command_is_not_that_of_a_session_without_a_java(monkeypatch):
    def ask() -> None:
        raise ConnectionRefusedError("no Java")

    monkeypatch.setattr(SparkSession, "getActiveSession", ask)
    with pytest.raises(RunFailedError, match="readings: Java is gone"), common.stop_own_spark():
        raise RunFailedError("readings: Java is gone")


class Processes:
    """One process of the service after the other, in which a window of `readings` kills each Java. The time goes on with each
    look at the clock. ``windows``: of the other table, in the present process.
    """

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.now, self.windows, self.deaths = world, START, 0, 0
        monkeypatch.undo()
        monkeypatch.setattr(TableStream, "_finish", lambda stream, _: self.finish(stream))
        monkeypatch.setattr(TableStream, "_take", lambda stream, *_: self.take(stream))
        monkeypatch.setattr(stream_service, "report_windows", lambda *_: None)
        monkeypatch.setattr(stream_service, "LOOK_SECONDS", 0)
        monkeypatch.setattr(stream_service, "build_session", lambda _: world.java)
        monkeypatch.setattr(stream_service, "session_of_one_run", session_of_one_run)
        monkeypatch.setattr(stream_service, "_become_new_process", world.restart)
        monkeypatch.setattr(TableStream, "limit_to_waiting", lambda stream, _: setattr(stream, "left", 5))

    def start(self, *, available_now: bool = False) -> StreamService:
        """Run a process until its Java dies."""
        old = self.world.service
        self.world.java.dead, self.windows = False, 0
        service = StreamService(old.settings, old.instance, old.load, old.is_served, available_now, clock=self.clock)
        with pytest.raises(RestartError) if not available_now else nullcontext():
            service.serve()
        return service

    def clock(self) -> datetime:
        self.now += timedelta(milliseconds=100)
        return self.now

    def finish(self, stream: TableStream) -> dict[Any, Any]:
        if stream.spec.name == "readings":
            self.deaths += 1
            self.world.kill_java()
        stream.is_complete = True
        return {}

    def take(self, stream: TableStream) -> dict[Any, Any]:
        self.windows += 1
        if stream.left is not None:
            stream.left -= 1
        stream.due_at = self.now + timedelta(seconds=1)
        return {}


@pytest.mark.parametrize("seconds", [0, 10, 300])
def test_a_window_that_kills_each_java_leaves_time_for_the_other_tables(world, monkeypatch, seconds):
    """``seconds``: how long a start takes."""
    processes, windows = Processes(world, monkeypatch), []
    for _ in range(9):
        processes.now += timedelta(seconds=seconds)
        processes.start()
        windows.append(processes.windows)
    assert processes.deaths == 9
    assert min(windows[1:]) >= 1
    assert seconds or windows[-1] > 20, "the delay grows, as within a process"


def test_what_is_taken_once_takes_all_of_the_others_before_a_window_that_killed_java(world, monkeypatch):
    processes = Processes(world, monkeypatch)
    processes.start(available_now=True)
    processes.now += timedelta(days=1)
    service = processes.start(available_now=True)
    assert processes.windows == 5
    assert [*service.failures] == ["readings"]


def test_an_error_of_the_session_while_java_answers_ends_the_service(world, monkeypatch):
    @contextmanager
    def failing(base: Java) -> Iterator[Java]:
        yield base
        raise ValueError("not Java's")

    monkeypatch.setattr(stream_service, "session_of_one_run", failing)
    with pytest.raises(ValueError, match="not Java's"):
        world.service.serve()


@pytest.fixture
def soon(monkeypatch) -> None:
    """Rounds of turns end after the first ones."""
    monkeypatch.setattr(StreamService, "_is_done", lambda service: False)
    monkeypatch.setattr(
        StreamService, "_take_turns", lambda service, session, _: service._take_turn(service._active()[0], None)
    )


def change_extension(world: World) -> None:
    folder = world.service.settings.project / "lakehouse"
    folder.mkdir(exist_ok=True)
    (folder / "checks.py").write_text("# another\n")


def test_changed_code_is_loaded_by_a_new_process_once_all_is_reported(world, soon):
    world.turn = lambda: change_extension(world)
    with pytest.raises(RestartError):
        world.service.serve()
    assert world.turns == ["readings"]
    assert world.reports == ["readings", "others"] * 2, "after the round, and before the new process"


def test_a_service_that_is_asked_to_end_meanwhile_does_not_start_again(world, soon, monkeypatch):
    def close(service: StreamService) -> None:
        service.stopping.set()

    world.turn = lambda: change_extension(world)
    monkeypatch.setattr(StreamService, "_close", close)
    world.service.serve()
    assert world.turns == ["readings"]


COMMAND = """
import os, subprocess, sys
from pyspark import SparkContext
from lakehouse_assets.orchestration.streams import service

print(os.getpid(), *sys.argv[1:], flush=True)
if "started" not in os.environ:
    os.environ["started"] = "once"
    java = subprocess.Popen(["sleep", "100"])
    SparkContext._gateway = type("Gateway", (), {"proc": java})
    service._become_new_process()
"""


def test_the_new_process_is_the_same_command_without_the_old_java(tmp_path):
    script = tmp_path / "command.py"
    script.write_text(COMMAND)
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
    command = [sys.executable, "-W", "ignore", str(script), "stream", "the readings"]
    # The stand-in for Java has the same output: while it lives, there is no end.
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    first, second = result.stdout.splitlines()
    assert first == second
    assert first.endswith(" stream the readings")
