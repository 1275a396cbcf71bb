"""A process that stands for a machine: it has a host's name, a JVM and leases of its own, and runs one operation after another.

Belongs here: the process, and how a test speaks to it. Does not: what must hold afterwards.

It reads an operation a line. At a named step it stops itself and its Java by SIGSTOP, as a machine that sleeps.

Its Java is a process beside it, since to start Spark takes many times as long as a run: Java outlives a machine that is killed
between two queries. A machine that is killed within a query takes its Java with it.
"""

import faulthandler
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

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from lakehouse_assets.object_store import is_url
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.java import JAVA_OPTIONS, class_archive_option
from lakehouse_assets.storage.leases import guards, process_identity
from lakehouse_assets.storage.session import spark_properties
from lakehouse_assets_tests.chaos import play
from lakehouse_assets_tests.laws.child import PORT, SECRET, at, shared_session
from lakehouse_assets_tests.support import BOTH_COMPILERS

# On a store a run takes longer.
LEASE_SECONDS, LEASE_SECONDS_ON_A_STORE = 2.0, 5.0
DEADLINE = 240
LONG_LIVED = f"{BOTH_COMPILERS} -Duser.timezone=UTC{class_archive_option()}"
JAVA_PID = "LAKEHOUSE_TESTS_JAVA_PID"
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
        self.variables = {**os.environ, **(variables or {})}
        self._settings = leased_settings(home / host, root)
        self._java = self._start_java()
        self._stopped_at = ""
        self.process = self._start()

    def _start_java(self) -> Any:
        inherited = dict(os.environ)
        with self.log.open("a") as errors:
            os.environ.update(self.variables)  # no other way to pass them to Java
            try:
                properties = {**spark_properties(self._settings), JAVA_OPTIONS: LONG_LIVED}
                conf = SparkConf(loadDefaults=False).setAll(properties.items()).setMaster("local[1]").setAppName(self.host)
                return launch_gateway(conf, popen_kwargs={"stdout": errors, "stderr": errors, "start_new_session": True})
            finally:
                os.environ.clear()
                os.environ.update(inherited)

    def _start(self) -> "subprocess.Popen[str]":
        parameters = self._java.gateway_parameters
        gateway = {PORT: str(parameters.port), SECRET: parameters.auth_token, JAVA_PID: str(self._java.proc.pid)}
        with self.log.open("a") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "lakehouse_assets_tests.chaos.machine", self.host],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                env={**self.variables, **gateway},
            )

    def send(self, operation: str, settings: Settings, *, stop_at: str = "", seed: int = 1) -> None:
        """Let it begin an operation. ``stop_at``: the step at which it stops itself."""
        assert self.process.stdin is not None
        lake = {"home": str(settings.dagster_home), "root": settings.root}
        self.process.stdin.write(json.dumps({"operation": operation, "stop_at": stop_at, "seed": seed, **lake}) + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Wait for its next message: ``stopped`` with the step, or ``ended``. Raises AssertionError if it died, or gave no
        answer in time: its log then has what each of its threads did.
        """
        assert self.process.stdout is not None
        timers = [threading.Timer(DEADLINE, self._dump), threading.Timer(DEADLINE + 5, self.kill)]
        for timer in timers:
            timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            for timer in timers:
                timer.cancel()
        assert line, f"{self.host} gave no answer: {self.log.read_text()[-6000:]}"
        message = json.loads(line)
        self._stopped_at = message.get("stopped", "")
        if self._stopped_at:
            self._await_stop()
        return message

    def run(self, operation: str, settings: Settings, *, seed: int = 1) -> None:
        """Run an operation to its end. Raises AssertionError if it fails."""
        self.send(operation, settings, seed=seed)
        message = self.receive()
        assert message["ended"] == "well", f"{self.host}, {operation}: {message}"

    def resume(self) -> None:
        """Wake a stopped machine up, its Java first."""
        self._stopped_at = ""
        os.kill(self._java.proc.pid, signal.SIGCONT)
        os.killpg(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, together with its Java."""
        self._kill_python()
        self._java.proc.kill()
        self._java.proc.wait()

    def restart(self) -> None:
        """Kill it, and start it again as another process of the same host. Java stays if it has nothing to do."""
        if self._stopped_at and not self._stopped_at.endswith("+"):
            self._kill_python()
            os.kill(self._java.proc.pid, signal.SIGCONT)
        else:
            self.kill()
            self._java = self._start_java()
        self._stopped_at = ""
        self.process = self._start()

    def _kill_python(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _dump(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGUSR1)

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
    os.kill(int(os.environ[JAVA_PID]), signal.SIGSTOP)
    os.killpg(0, signal.SIGSTOP)


def _run_one(spark: Any, request: dict[str, Any]) -> dict[str, list[Any]]:
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
            return {}
        return play.acknowledgement(play.run_operation(play.run_of(spark, settings, step), name))
    finally:
        later.cancel()


def main() -> None:
    """``machine.py HOST``, and a request a line."""
    faulthandler.register(signal.SIGUSR1)
    host = sys.argv[1]
    process_identity.host_name = lambda: host
    os.dup2(os.dup(1), _ANSWERS, inheritable=False)
    os.dup2(2, 1)  # Java prints there
    spark = shared_session()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            acknowledged = _run_one(spark, request)
        except Exception as error:
            print(f"{request}: {error!r}", file=sys.stderr, flush=True)
            _say(ended=type(error).__name__, code=getattr(error, "exit_code", 1), text=str(error)[:500])
        else:
            _say(ended="well", **acknowledged)


if __name__ == "__main__":
    main()
