"""A database that its own JDBC driver polls, in a small Java without Spark.

Belongs here: jars, sessions and errors of a driver, alike for each such database. Does not: SQL (mariadb, generic_database).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from lakehouse_assets.errors import EnvironmentMissing, SourceError, java_causes
from lakehouse_assets.sources.database import Database
from lakehouse_assets.sources.jdbc_gateway import Gateway, Session


class DriverDatabase(Database):
    """One table of a database that its JDBC driver polls."""

    def jars(self) -> list[Path]:
        """Return the driver's jars. Raises EnvironmentMissing, with the way out, if one is not there."""
        variable = f"{self.variable.removesuffix('_URL')}_JARS"
        jars = list(self._settings.connection(self._source.connection).jars)
        if missing := [str(jar) for jar in jars if not jar.is_file()]:
            raise EnvironmentMissing(f"{variable} names {', '.join(missing)}, which is not a file")
        return jars

    def without_driver(self) -> EnvironmentMissing:
        """Return the error for jars in which no driver takes the address."""
        scheme, jars = ":".join(self.url.split(":")[:2]), f"{self.variable.removesuffix('_URL')}_JARS"
        return EnvironmentMissing(f"{jars} names no driver of {scheme}: set it to the path of the driver's jar")

    def properties(self) -> Mapping[str, str]:
        """Return the properties of each session, with user and password."""
        return self.credentials

    @property
    def driver_url(self) -> str:
        """The address as the driver takes it."""
        return self.url

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query, as texts. Raises SourceError."""
        with self.session() as session:
            return session.query(statement)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open a session for the block. Raises SourceError, also for what the database answers in it; EnvironmentMissing."""
        self.secrets()  # refuses a malformed address
        gateway = Gateway.of(self.jars())
        try:
            with gateway.session(self.driver_url, dict(self.properties()), self._timeout_seconds) as session:
                yield session
        except Py4JJavaError as error:
            if "No suitable driver" in str(error):
                raise self.without_driver() from None
            raise SourceError(f"{self._source.location}: {self._driver_message(error)}") from None
        except Py4JError:
            raise SourceError(f"{self._source.location}: the driver's Java ended; the next poll starts it again") from None

    def _driver_message(self, error: Py4JJavaError) -> str:
        message, state, is_network = driver_error(error)
        return self.shown_message(message, state, quotes_rows=not is_network)


def driver_error(error: Exception) -> tuple[str, str | None, bool]:
    """Return message and SQLSTATE of the innermost exception that has one, and whether the network failed.

    Without a message, it is the exception's class.
    """
    message, state, is_network = "", None, False
    for cause in java_causes(error):
        name = str(cause.getClass().getName())
        is_network = is_network or name.startswith("java.net.")
        message = str(cause.getMessage() or name)
        if _is_database_error(cause):
            state = cause.getSQLState() or state
    return message or str(error), state, is_network


def _is_database_error(cause: Any) -> bool:
    """Whether a Java exception is a `java.sql.SQLException`, or a kind of it."""
    kind = cause.getClass()
    while kind is not None and kind.getName() != "java.sql.SQLException":
        kind = kind.getSuperclass()
    return kind is not None
