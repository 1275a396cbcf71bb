"""A process that stands for a machine: it has a host's name, a JVM and leases of its own, and runs one operation after another.

Belongs here: the process, and how a test speaks to it. Does not: what must hold afterwards.

It reads an operation a line and keeps its JVM: to start Spark takes longer than a run. At a named step it stops itself and its
Java by SIGSTOP, as a machine that sleeps.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lakehouse_assets.object_store import is_url
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.leases import guards, process_identity
from lakehouse_assets.storage.session import build_session
from lakehouse_assets_tests.chaos import play
from lakehouse_assets_tests.laws.child import at

# On a store a run takes many times as long.
LEASE_SECONDS, LEASE_SECONDS_ON_A_STORE = 2.0, 10.0
DEADLINE = 600
_ANSWERS = 100  # the file of this number is the standard output, for answers alone


def leased_settings(home: Path, root: str | None = None) -> Settings:
    """Return the settings of a lake under leases, in a folder or at another root. Each machine has its own, which are equal."""
    home.mkdir(parents=True, exist_ok=True)
    root = root or str(home / "lake")
    seconds = LEASE_SECONDS_ON_A_STORE if is_url(root) else LEASE_SECONDS
    return at(home).model_copy(update={"lock": "lease", "lease_seconds": seconds, "root": root})


class Machine:
    """A running one. ``root``: a lake on the store for which its Spark gets the jars; none for lakes on a disk.
    ``variables``: of its environment, besides this process's.
    """

    def __init__(self, host: str, home: Path, root: str | None = None, variables: Mapping[str, str] | None = None) -> None:
        self.host, self.log = host, home / f"{host}.log"
        self.command = [
            sys.executable,
            "-m",
            "lakehouse_assets_tests.chaos.machine",
            host,
            str(home / host),
            *([root] if root else []),
        ]
        self.variables = {**os.environ, **(variables or {})}
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        with self.log.open("a") as errors:
            return subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                env=self.variables,
            )

    def send(self, operation: str, settings: Settings, *, stop_at: str = "", seed: int = 1) -> None:
        """Let it begin an operation. ``stop_at``: the step at which it stops itself."""
        assert self.process.stdin is not None
        lake = {"home": str(settings.dagster_home), "root": settings.root}
        self.process.stdin.write(json.dumps({"operation": operation, "stop_at": stop_at, "seed": seed, **lake}) + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Wait for its next message: ``stopped`` with the step, or ``ended``. Raises AssertionError if it died."""
        assert self.process.stdout is not None
        timer = threading.Timer(DEADLINE, self.kill)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        assert line, f"{self.host} gave no answer: {self.log.read_text()[-3000:]}"
        message = json.loads(line)
        if "stopped" in message:
            self._await_stop()
        return message

    def run(self, operation: str, settings: Settings, *, seed: int = 1) -> None:
        """Run an operation to its end. Raises AssertionError if it fails."""
        self.send(operation, settings, seed=seed)
        message = self.receive()
        assert message == {"ended": "well"}, f"{self.host}, {operation}: {message}"

    def resume(self) -> None:
        """Wake a stopped machine up, its Java first."""
        os.killpg(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, together with its Java."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        """Kill it, and start it again as another process of the same host."""
        self.kill()
        self.process = self._start()

    def _await_stop(self) -> None:
        end = time.monotonic() + 20
        while Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < end, f"{self.host} did not stop"
            time.sleep(0.01)


@contextmanager
def machines(
    home: Path, *hosts: str, root: str | None = None, variables: Mapping[str, str] | None = None
) -> Iterator[list[Machine]]:
    """Yield running machines of these names, which end with the block."""
    home.mkdir(parents=True, exist_ok=True)
    running = [Machine(host, home, root, variables) for host in hosts]
    try:
        yield running
    finally:
        for machine in running:
            machine.kill()


def _say(**message: Any) -> None:
    os.write(_ANSWERS, json.dumps(message).encode() + b"\n")


def _stop(step: str) -> None:
    _say(stopped=step)
    os.killpg(0, signal.SIGSTOP)


def _run_one(spark: Any, request: dict[str, Any]) -> None:
    home, root, seed = Path(request["home"]), request["root"], request["seed"]
    settings, operation, point = leased_settings(home, root), request["operation"], request["stop_at"]
    guards.announce_guards(settings)
    later = threading.Timer(random.Random(seed).uniform(0.02, 0.6), _stop, [point])
    reached: set[str] = set()  # it stops once

    def step(name: str) -> None:
        if name == point and name not in reached:
            _stop(name)
        if f"{name}+" == point and name not in reached:
            later.start()
        reached.add(name)

    name, _, of = operation.partition(" ")
    try:
        if name == "begin":
            play.begin(spark, settings, of, seed)
        else:
            play.run_operation(play.run_of(spark, settings, step), name)
    finally:
        later.cancel()


def main() -> None:
    """``machine.py HOST HOME [ROOT]``, and a request a line."""
    host, home, root = sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None
    process_identity.host_name = lambda: host
    os.dup2(os.dup(1), _ANSWERS, inheritable=False)
    os.dup2(2, 1)  # Java prints there
    spark = build_session(leased_settings(home, root), host)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            _run_one(spark, request)
        except Exception as error:
            print(f"{request}: {error!r}", file=sys.stderr, flush=True)
            _say(ended=type(error).__name__, code=getattr(error, "exit_code", 1), text=str(error)[:500])
        else:
            _say(ended="well")


if __name__ == "__main__":
    main()
