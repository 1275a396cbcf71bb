"""`lakehouse stream` of one table on two hosts that share a lake under leases: one sleeps past its lease with a window under
way, or dies with it, and the other takes over.

Belongs here: two processes of the command, on a real broker. Does not: one host (test_stream_service), runs (test_two_homes).
"""

import itertools
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.e2e import streamed
from lakehouse_assets_tests.e2e.hosts import OTHER_NAME
from lakehouse_assets_tests.e2e.servers import Broker
from lakehouse_assets_tests.e2e.streamed import reading, send
from lakehouse_assets_tests.e2e.test_stream_service import LAKEHOUSE, Project
from lakehouse_assets_tests.support import PROJECT_ROOT

HOLDER = re.compile(r'"host": "(host-\w)')
SECONDS = 300


class StreamingHost:
    """A host with a `DAGSTER_HOME` of its own, and the command's process on it."""

    def __init__(self, folder: Path, name: str, project: Project) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        home, startup = folder / name / "home", folder / name / "startup"
        startup.mkdir(parents=True)
        home.mkdir()
        (startup / "sitecustomize.py").write_text(OTHER_NAME.format(name=name))
        shutil.copy(project.folder / "dagster.yaml", home)
        paths = os.pathsep.join([str(startup), str(PROJECT_ROOT)])
        self.environment = {**project.environment, "DAGSTER_HOME": str(home), "PYTHONPATH": paths}
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [LAKEHOUSE, "stream"],
                env=self.environment,
                cwd=project.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        """To the command and its Java."""
        os.killpg(self.process.pid, number)

    def end(self) -> None:
        """Tell it to end, which it must do well."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(SECONDS) == 0, self.log.read_text()


class Topic:
    """Messages to a topic, and what silver must be by now. No key changes while it is under way: each message is a new key."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.name = broker, streamed.make_topic(broker)
        self.sent: list[streamed.Reading] = []
        self._sensors = itertools.count()

    def send(self, count: int = 20) -> None:
        new = [reading(next(self._sensors), 1.5) for _ in range(count)]
        send(self.broker, self.name, new)
        self.sent += new


def holder_of(settings: Settings) -> str:
    """The host that holds the table's lease now; empty if nobody does."""
    files = sorted(Path(settings.path("_leases", "readings")).glob("*.json"))
    try:
        match = HOLDER.search(files[-1].read_text()) if files else None
    except FileNotFoundError:
        return ""
    return match[1] if match else ""


def wait_until(is_so: Callable[[], object], *hosts: StreamingHost) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end, "\n".join(host.log.read_text()[-3000:] for host in hosts)
        time.sleep(0.02)


@pytest.mark.exhaustive(seconds=300)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("wakes_up", [True, False], ids=["one sleeps", "one dies"])
def test_a_host_takes_over_the_stream_of_another(broker: Broker, tmp_path: Path, monkeypatch, wakes_up: bool) -> None:
    for name, value in {"ROOT": str(tmp_path / "lake"), "LOCK": "lease", "LEASE_SECONDS": "5"}.items():
        monkeypatch.setenv(f"LAKEHOUSE_{name}", value)
    topic = Topic(broker)
    project = Project(tmp_path, broker, topic.name)
    hosts = []

    def start(name: str) -> StreamingHost:
        hosts.append(StreamingHost(tmp_path, name, project))
        return hosts[-1]

    def is_whole() -> bool:
        return project.silver() == streamed.oracle(topic.sent)

    try:
        topic.send()
        first = start("host-a")
        wait_until(is_whole, first)
        second = start("host-b")
        topic.send()
        wait_until(is_whole, *hosts)

        # The first one has a window under way.
        before = len(streamed.positions(project.settings))
        wait_until(lambda: holder_of(project.settings) == "", *hosts)
        second.signal(signal.SIGSTOP)
        topic.send()
        wait_until(lambda: len(streamed.positions(project.settings)) > before, *hosts)
        first.signal(signal.SIGSTOP if wakes_up else signal.SIGKILL)
        assert holder_of(project.settings) == "host-a"
        assert not is_whole()
        second.signal(signal.SIGCONT)
        wait_until(is_whole, *hosts)
        topic.send()
        wait_until(is_whole, *hosts)
        assert second.process.poll() is None

        if wakes_up:
            first.signal(signal.SIGCONT)
            wait_until(lambda: "taken over" in first.log.read_text(), *hosts)
            topic.send()
            wait_until(is_whole, *hosts)
            second.end()
            topic.send()
            wait_until(is_whole, *hosts)
            first.end()
        else:
            second.end()
    finally:
        for host in hosts:
            if host.process.poll() is None:
                host.signal(signal.SIGKILL)
                host.process.wait()
    assert streamed.bronze_offsets(project.settings) == streamed.all_offsets(topic.sent)
    counts = streamed.counted(project.settings)
    assert counts == {
        "rows_in": len(topic.sent),
        "rows_published": len(topic.sent),
        "rows_superseded": 0,
        "rows_quarantined": 0,
    }
