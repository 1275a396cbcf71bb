"""Servers on loopback that a test starts and always stops: a Spark standalone cluster, an S3 server.

Belongs here: starting, waiting until ready, stopping. Does not: what is done with them.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pyspark

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def process(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen]:
    """A process that ends with the block, asked first and then killed."""
    with log.open("wb") as file:
        started = subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, **(env or {})})
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def wait_for(ready: Callable[[], bool], servers: Sequence[subprocess.Popen], log: Path, seconds: float = 60) -> None:
    """Until ``ready``. Raises RuntimeError with the log's end if a server ends before, or too much time passes."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if ready():
                return
        except (URLError, OSError, ValueError):
            pass
        if any(server.poll() is not None for server in servers):
            break
        time.sleep(0.2)
    raise RuntimeError(f"a server did not start; {log} ends with\n{log.read_text(errors='replace')[-2000:]}")


@dataclass(frozen=True)
class Cluster:
    """``master``: its URL. ``work``: the folders in which each worker keeps what its executors wrote."""

    master: str
    work: tuple[Path, ...]


@contextmanager
def spark_cluster(home: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master and workers of one core each, from the installed pyspark's own classes."""
    port, page = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    env = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    package = "org.apache.spark.deploy"

    def alive() -> int:
        with urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            return json.load(answer)["aliveworkers"]

    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> subprocess.Popen:
            command = [str(SPARK_CLASS), *arguments, "--host", "127.0.0.1"]
            return stack.enter_context(process(command, home / f"{name}.log", env))

        lead = start("master", f"{package}.master.Master", "--port", str(port), "--webui-port", str(page))
        wait_for(lambda: alive() == 0, [lead], home / "master.log")
        folders = tuple(home / f"worker{number}" for number in range(workers))
        started = [lead]
        for folder in folders:
            folder.mkdir()
            size = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder)]
            started.append(start(folder.name, f"{package}.worker.Worker", master, *size))
        wait_for(lambda: alive() == workers, started, home / f"{folders[-1].name}.log")
        yield Cluster(master, folders)


def left_running(home: Path, seconds: float = 20) -> list[str]:
    """Commands of processes that still work in a folder below this one: executors end by themselves, a moment later."""
    end = time.monotonic() + seconds
    while True:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if (process / "cwd").resolve().is_relative_to(home):
                    found.append((process / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.5)


@contextmanager
def s3_server(home: Path, bucket: str) -> Iterator[str]:
    """The address of an S3 server that keeps its objects in memory, with an empty bucket."""
    address = f"http://127.0.0.1:{free_port()}"
    log = home / "s3.log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", address.rpartition(":")[2]]
    with process(command, log) as server:

        def made() -> bool:
            with urlopen(Request(f"{address}/{bucket}", method="PUT"), timeout=5) as answer:
                return answer.status == 200

        wait_for(made, [server], log)
        yield address
