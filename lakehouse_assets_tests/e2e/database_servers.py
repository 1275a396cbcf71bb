"""Databases on loopback beside PostgreSQL that a test starts and always stops: MariaDB, and H2 for generic SQL.

Belongs here: starting, waiting until ready, stopping, statements. Does not: what is done with them, or other servers (servers).
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pydantic import SecretStr

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.settings import Connection
from lakehouse_assets.sources.jdbc_gateway import Gateway, Session
from lakehouse_assets.storage.jars import JARS, JARS_FOR_JDBC
from lakehouse_assets_tests.e2e.servers import fetched_jars, free_port, process, wait_for

H2 = "com.h2database:h2:2.4.240"
JARS_OF_H2 = JARS / "h2"


class TestDatabase:
    """A database with a user and a password. ``log``: the server's own, with every statement if it writes them."""

    __test__ = False
    user, password = "lakekeeper", "pass-that-nobody-may-see"

    def __init__(self, url: str, port: int, log: Path, jars: tuple[Path, ...], *, names_jars: bool) -> None:
        self.url, self.port, self.log, self._names_jars = url, port, log, names_jars
        self.jars = jars

    def connection(self, password: str | None = None, url: str | None = None) -> Connection:
        """As the settings have it."""
        secret = SecretStr(password or self.password)
        jars = self.jars if self._names_jars else ()
        return Connection(url=SecretStr(url or self.url), user=SecretStr(self.user), password=secret, jars=jars)

    def session(self) -> AbstractContextManager[Session]:
        """A session of a user's own, without any setting of the lakehouse."""
        credentials = {"user": self.user, "password": self.password}
        return Gateway.of(self.jars).session(self.url, credentials, None)

    def run(self, *statements: str) -> None:
        """Each in a transaction of its own."""
        with self.session() as session:
            for statement in statements:
                session.execute(statement)

    def query(self, statement: str) -> list[tuple[str | None, ...]]:
        """Return the rows, as texts."""
        with self.session() as session:
            return session.query(statement)

    def statements(self) -> list[str]:
        """What has reached the server, one a line."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [" ".join(line.partition("Query\t")[2].split()) for line in lines if "Query\t" in line]


@contextmanager
def mariadb_server() -> Iterator[TestDatabase]:
    """A MariaDB server with a user and a database `shop`. Skips the test where server or driver are not installed."""
    install, server = shutil.which("mariadb-install-db"), shutil.which("mariadbd") or "/usr/sbin/mariadbd"
    if install is None or not Path(server).is_file():
        pytest.skip("MariaDB is not installed (Debian: apt-get install mariadb-server)")
    jars = tuple(JARS_FOR_JDBC.glob("*mariadb-java-client-*.jar"))
    if not jars:
        pytest.skip("MariaDB's driver could not be fetched")
    with TemporaryDirectory(prefix="mariadb") as folder:
        home, port = Path(folder), free_port()
        become: list[str] = []
        if os.geteuid() == 0:
            become = ["setpriv", "--reuid=mysql", "--regid=mysql", "--init-groups"]
            shutil.chown(home, "mysql")
        data, user = f"--datadir={home / 'data'}", TestDatabase
        setup = [install, "--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-test-db"]
        answer = subprocess.run([*become, *setup], capture_output=True, text=True, cwd=home, check=False)
        if answer.returncode:
            raise RuntimeError(f"mariadb-install-db: {answer.stdout[-1000:]}{answer.stderr[-1000:]}")
        (home / "users.sql").write_text(
            f"CREATE DATABASE shop CHARACTER SET utf8mb4;\nCREATE USER {user.user}@'%' IDENTIFIED BY '{user.password}';\n"
            f"GRANT ALL ON *.* TO {user.user}@'%';\n"
        )
        (home / "general.log").touch()
        if become:
            shutil.chown(home / "general.log", "mysql")
        options = [
            *("--no-defaults", data, f"--port={port}", "--bind-address=127.0.0.1", f"--socket={home / 's'}"),
            *(f"--init-file={home / 'users.sql'}", "--general-log", f"--general-log-file={home / 'general.log'}"),
            *("--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=16M"),
            *("--default-time-zone=+05:30", "--character-set-server=latin1"),  # neither may matter
        ]
        database = TestDatabase(f"jdbc:mariadb://127.0.0.1:{port}/shop", port, home / "general.log", jars, names_jars=False)
        with process([*become, server, *options], home / "server.log") as started:
            wait_for(lambda: _answers(database), [started], home / "server.log")
            yield database


@contextmanager
def h2_server() -> Iterator[TestDatabase]:
    """An H2 server, whose driver is not among those that the environment has. Skips the test where it cannot be fetched."""
    try:
        jars = tuple(fetched_jars(H2, JARS_OF_H2).glob("*h2-*.jar"))
    except RuntimeError as error:
        pytest.skip(str(error))
    with TemporaryDirectory(prefix="h2") as folder:
        home, port = Path(folder), free_port()
        java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else "java"
        command = [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", str(jars[0]), "org.h2.tools.Server"]
        command += ["-tcp", "-tcpPort", str(port), "-ifNotExists", "-baseDir", str(home)]
        database = TestDatabase(f"jdbc:h2:tcp://127.0.0.1:{port}/shop", port, home / "server.log", jars, names_jars=True)
        with process(command, database.log) as started:
            wait_for(lambda: _answers(database), [started], database.log)
            yield database


def _answers(database: TestDatabase) -> bool:
    try:
        return bool(database.query("SELECT 1"))
    except (EnvironmentMissing, OSError):
        raise
    except Exception:
        return False
