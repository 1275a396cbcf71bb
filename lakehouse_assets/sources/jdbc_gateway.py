"""A small Java without Spark, in which a database's own driver answers a poll.

Belongs here: starting it once for a process; sessions, statements, rows as texts. Does not: SQL (mariadb, generic_database).

It takes 60 MB, starts in half a second, lives as long as this process, and listens on loopback only, with a token.
"""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.storage.java import require_java

OPTIONS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC")
SECONDS = 10


class Session:
    """An open connection, each statement in a transaction of its own."""

    def __init__(self, gateway: JavaGateway, connection: Any, timeout_seconds: int | None) -> None:
        self._gateway, self.connection, self._timeout_seconds = gateway, connection, timeout_seconds

    def execute(self, statement: str) -> None:
        """Run a statement whose rows nobody needs. Raises Py4JJavaError."""
        with self._statement() as prepared:
            prepared.execute(statement)

    def query(self, statement: str) -> list[tuple[str | None, ...]]:
        """Return the rows of a query as the driver writes them as text. Raises Py4JJavaError."""
        with self._statement() as prepared:
            rows = prepared.executeQuery(statement)
            width = range(1, rows.getMetaData().getColumnCount() + 1)
            texts = []
            while rows.next():
                texts.append(tuple(rows.getString(index) for index in width))
            return texts

    def columns(self, statement: str) -> list[tuple[str, int, str]]:
        """Return name, number in `java.sql.Types` and the database's own type of a query's columns. Raises Py4JJavaError."""
        with self._statement() as prepared:
            description = prepared.executeQuery(statement).getMetaData()
            indexes = range(1, description.getColumnCount() + 1)
            return [
                (description.getColumnName(i), description.getColumnType(i), description.getColumnTypeName(i)) for i in indexes
            ]

    @property
    def quote(self) -> str:
        """The sign that quotes names; empty if the database has none."""
        return str(self.connection.getMetaData().getIdentifierQuoteString()).strip()

    @contextmanager
    def _statement(self) -> Iterator[Any]:
        statement = self.connection.createStatement()
        try:
            if self._timeout_seconds is not None:
                statement.setQueryTimeout(self._timeout_seconds)
            yield statement
        finally:
            with suppress(Py4JError):
                statement.close()


class Gateway:
    """A Java with these jars of drivers."""

    _started: dict[tuple[Path, ...], "Gateway"] = {}
    _lock = threading.Lock()

    @classmethod
    def of(cls, jars: Sequence[Path]) -> "Gateway":
        """Return this process's Java for these jars, started if there is none. Raises EnvironmentMissing."""
        with cls._lock:
            gateway = cls._started.get(tuple(jars))
            if gateway is None or not gateway.is_alive:
                gateway = cls._started[tuple(jars)] = Gateway(jars)
            return gateway

    def __init__(self, jars: Sequence[Path]) -> None:
        require_java()
        [py4j_jar] = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
        home = os.environ.get("JAVA_HOME")  # the launcher's own variable, as in storage/java
        started: Any = launch_gateway(
            jarpath=str(py4j_jar),
            classpath=os.pathsep.join(map(str, jars)),
            javaopts=list(OPTIONS),
            die_on_exit=True,
            java_path=str(Path(home) / "bin" / "java") if home else "java",
            # A Ctrl-C is for Python, which ends the session in its own time.
            create_new_process_group=True,
            enable_auth=True,
            return_proc=True,
        )
        port, token, self.process = started
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        self._java: Any = JavaGateway(gateway_parameters=parameters)

    @property
    def is_alive(self) -> bool:
        """Whether Java still runs."""
        return self.process.poll() is None

    def driver_class(self, url: str) -> str:
        """Return the class of the driver that takes an address. Raises EnvironmentMissing if there is none."""
        try:
            return str(self._java.jvm.java.sql.DriverManager.getDriver(url).getClass().getName())
        except Py4JJavaError:
            raise EnvironmentMissing("no driver takes this address") from None

    @contextmanager
    def session(self, url: str, properties: Mapping[str, str], timeout_seconds: int | None) -> Iterator[Session]:
        """Open a connection for the block. Raises Py4JJavaError."""
        jvm: Any = self._java.jvm
        java_properties = jvm.java.util.Properties()
        for name, value in properties.items():
            java_properties.setProperty(name, value)
        jvm.java.sql.DriverManager.setLoginTimeout(SECONDS)
        connection = jvm.java.sql.DriverManager.getConnection(url, java_properties)
        try:
            if timeout_seconds is not None:
                # A dead network; a driver that cannot do this has its own limits.
                with suppress(Py4JError):
                    pool = jvm.java.util.concurrent.ForkJoinPool.commonPool()
                    connection.setNetworkTimeout(pool, (timeout_seconds + SECONDS) * 1000)
            yield Session(self._java, connection, timeout_seconds)
        finally:
            with suppress(Py4JError):
                connection.close()
