"""Servers on loopback that a test starts and always stops: a Spark cluster, an S3 server, Azure's, PostgreSQL, a Kafka broker.

Belongs here: starting, waiting until ready, stopping. Does not: what is done with them.
"""

import base64
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import Request, urlopen
from uuid import uuid4

import psycopg
import pyspark
import pytest
from pydantic import SecretStr

from lakehouse_assets.settings import Connection
from lakehouse_assets.storage.jars import JARS
from lakehouse_assets_tests.support import PROJECT_ROOT

KAFKA = "org.apache.kafka:kafka_2.13:4.1.2"
JARS_OF_KAFKA = JARS / "kafka"
AZURITE = "azurite@3.35.0"
FOLDER_OF_AZURITE = JARS.parent / "azurite"
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


def free_port() -> int:
    """A port that nobody listens on just now, below those of clients: one of them could take it before the server does."""
    for _ in range(1000):
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")


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


def wait_for(ready: Callable[[], bool], servers: Sequence[subprocess.Popen], log: Path, seconds: float = 240) -> None:
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


def left_running(home: Path, seconds: float = 120) -> list[str]:
    """Commands of processes that still work in a folder below this one: executors end by themselves, a moment later."""
    end = time.monotonic() + seconds
    while True:
        processes = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if (process / "cwd").resolve().is_relative_to(home):
                    processes.append((process / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        if not processes or time.monotonic() > end:
            return processes
        time.sleep(0.5)


def fetch_jars_of_s3() -> None:
    """Spark's jars for S3, once, into the environment of the tests. Skips the test where that fails."""
    variables = {**os.environ, "LAKEHOUSE_ROOT": "s3a://lake/lake"}
    command = [sys.executable, "-m", "lakehouse_assets.storage.session"]
    fetched = subprocess.run(command, env=variables, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    if fetched.returncode:
        pytest.skip(f"Spark's jars for S3 could not be fetched: {fetched.stderr[-500:]}")


@contextmanager
def s3_server(home: Path, bucket: str) -> Iterator[str]:
    """The address of an S3 server that keeps its objects in memory, with an empty bucket."""
    address = f"http://127.0.0.1:{free_port()}"
    log = home / "s3.log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", address.rpartition(":")[2]]
    with process(command, log) as server:

        def make_bucket() -> bool:
            with urlopen(Request(f"{address}/{bucket}", method="PUT"), timeout=5) as answer:
                return answer.status == 200

        wait_for(make_bucket, [server], log)
        yield address


def azurite_program() -> Path:
    """Azure's emulator, fetched once by npm into the environment. Raises RuntimeError where that fails."""
    folder = FOLDER_OF_AZURITE
    if not folder.is_dir():
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError("npm is not installed (Debian: apt-get install npm)")
        part = folder.with_suffix(f".{os.getpid()}.part")
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(part), AZURITE]
        fetched = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if fetched.returncode:
            shutil.rmtree(part, ignore_errors=True)
            raise RuntimeError(f"{AZURITE} could not be fetched: {fetched.stderr[-500:]}")
        part.rename(folder)
    return folder / "node_modules" / ".bin" / "azurite-blob"


@contextmanager
def azure_server(home: Path, account: str, key: str) -> Iterator[str]:
    """The address of Azure's emulator for an account, with its objects in memory. It has blobs, and no folders of its own."""
    program = azurite_program()
    port, log = free_port(), home / "azure.log"
    command = [str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"]
    command += ["--disableTelemetry", "--skipApiVersionCheck", "--silent"]
    with process(command, log, {"AZURITE_ACCOUNTS": f"{account}:{key}"}) as server:

        def answers() -> bool:
            with socket.create_connection(("127.0.0.1", port), 1):
                return True

        wait_for(answers, [server], log)
        yield f"http://127.0.0.1:{port}/{account}"


class Database:
    """A PostgreSQL server. ``log``: its own, with every statement that reached it."""

    user, password, name = "lakekeeper", "pass-that-nobody-may-see", "postgres"

    def __init__(self, port: int, log: Path) -> None:
        self.port, self.log = port, log

    @property
    def url(self) -> str:
        """As a variable of the environment has it."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{self.name}"

    def connection(self, password: str | None = None) -> Connection:
        """As the settings have it."""
        secret = SecretStr(password or self.password)
        return Connection(url=SecretStr(self.url), user=SecretStr(self.user), password=secret)

    def run(self, *statements: str) -> list[tuple]:
        """Each in a transaction of its own; the rows of the last one."""
        where = {"host": "127.0.0.1", "port": self.port, "dbname": self.name, "user": self.user, "password": self.password}
        with psycopg.connect(**where, autocommit=True, options="-c TimeZone=UTC") as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def statements(self) -> list[str]:
        """What has reached the server, one a line."""
        return [
            " ".join(text.split()) for text in self.log.read_text().split("LOG:  ") if text.startswith(("statement", "execute"))
        ]


def postgres_programs() -> Path | None:
    """The folder of `initdb` and `postgres`: Debian keeps them off the PATH."""
    folders = [Path(at).parent for at in [shutil.which("postgres")] if at]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@contextmanager
def postgres_server() -> Iterator[Database]:
    """A server with a password, that logs each statement. Skips the test where PostgreSQL is not installed."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    # Its user must reach the folder; and it refuses to be root.
    with TemporaryDirectory(prefix="pg") as folder:
        home, port = Path(folder), free_port()
        (home / "password").write_text(Database.password)
        (home / "log").touch()
        become: list[str] = []
        if os.geteuid() == 0:
            become = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
            for path in (home, home / "password", home / "log"):
                shutil.chown(path, "postgres")
        data = str(home / "data")
        init = [str(programs / "initdb"), "-N", "-A", "scram-sha-256", "-U", Database.user, "--pwfile", str(home / "password")]
        setup = subprocess.run(
            [*become, *init, "-D", data, "-E", "UTF8", "--locale", "C"], capture_output=True, text=True, cwd=home, check=False
        )
        if setup.returncode:
            raise RuntimeError(f"initdb: {setup.stderr}")
        conf = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "log_statement": "all",
            "log_line_prefix": "",
        }
        command = [*become, str(programs / "postgres"), "-D", data, "-p", str(port)]
        command += [word for name, value in conf.items() for word in ("-c", f"{name}={value}")]
        database = Database(port, home / "log")
        with process(command, database.log) as server:

            def answers() -> bool:
                try:
                    return bool(database.run("SELECT 1"))
                except psycopg.Error:
                    return False

            wait_for(answers, [server], database.log)
            yield database


FETCH = """
import shutil, sys
from pathlib import Path
import pyspark
from pyspark.sql import SparkSession
package, folder = sys.argv[1], Path(sys.argv[2])
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = builder.config("spark.jars.packages", package).getOrCreate()
found = [Path(jar.split("file:")[-1]) for jar in session.sparkContext.getConf().get("spark.jars", "").split(",") if jar]
session.stop()
part = folder.with_suffix(".part")
shutil.rmtree(part, ignore_errors=True)
part.mkdir(parents=True)
# Ivy leaves out what Spark has already.
for jar in [*found, *(Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar")]:
    shutil.copy(jar, part)
part.rename(folder)
"""


def kafka_jars() -> Path:
    """The folder of Kafka's jars, fetched once. Raises RuntimeError where that fails."""
    return fetched_jars(KAFKA, JARS_OF_KAFKA)


def fetched_jars(package: str, folder: Path) -> Path:
    """The folder, with a package's jars, fetched once by Spark's Ivy. Raises RuntimeError where that fails."""
    if not folder.is_dir():
        command = [sys.executable, "-c", FETCH, package, str(folder)]
        process = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if process.returncode:
            raise RuntimeError(f"{package} could not be fetched: {process.stderr[-500:]}")
    return folder


class Broker:
    """One Kafka broker that is its own controller. Stopped and started again, it has what it had, at the same address."""

    def __init__(self, home: Path, listeners: str = "", advertised_listeners: str = "", **more: object) -> None:
        """The listener PROXIED may be added to its own. ``more``: properties of the broker, with `_` for each dot."""
        self.home, self.port = home, free_port()
        self.address = f"127.0.0.1:{self.port}"
        controller = f"127.0.0.1:{free_port()}"
        own = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(filter(None, (f"PLAINTEXT://{self.address}", f"CONTROLLER://{controller}", listeners))),
            "advertised.listeners": ",".join(filter(None, (f"PLAINTEXT://{self.address}", advertised_listeners))),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT",
            "log.dirs": home / "kafka",
            "num.partitions": 3,
            "group.initial.rebalance.delay.ms": 0,
            # Messages of the tests are years old: retention would delete them, within half a minute or never, as it happens.
            "log.retention.ms": -1,
            # Its own topics, too, have one broker only.
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
        }
        own |= {name.replace("_", "."): value for name, value in more.items()}
        self.conf, self.log = home / "kafka.properties", home / "kafka.log"
        self.conf.write_text("".join(f"{name}={value}\n" for name, value in own.items()))
        self._java = [
            *(str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else "java",),
            *("-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", str(kafka_jars() / "*")),
        ]
        cluster = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        # As one word: one identifier in 64 begins with a dash, which would be read as an option of its own.
        command = [*self._java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(self.conf)]
        process = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if process.returncode:
            raise RuntimeError(f"Kafka could not make its folder: {process.stdout}{process.stderr}")

    @contextmanager
    def up(self, started: list[subprocess.Popen] | None = None) -> Iterator["Broker"]:
        """The broker for as long as the block lasts. ``seen``: takes its process."""
        with process([*self._java, "kafka.Kafka", str(self.conf)], self.log) as server:

            def answers() -> bool:
                with socket.create_connection(("127.0.0.1", self.port), 1):
                    return True

            wait_for(answers, [server], self.log)
            if started is not None:
                started.append(server)
            yield self
