"""PostgreSQL through a light driver: a table's columns, and one grouped query for the fingerprints of all windows.

Belongs here: the connection (shown nowhere, errors included); names, bounds and values as SQL. Does not: rows (jdbc).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lakehouse_assets.errors import SourceError
from lakehouse_assets.sources.database import Database, Described
from lakehouse_assets.sources.jdbc_address import Address, parse_address
from lakehouse_assets.sources.jdbc_intervals import Spans

if TYPE_CHECKING:
    import psycopg

SECONDS = 10
# A dead network is noticed within half a minute.
ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}
# Settings that a value's text depends on, the same for each query.
SESSION = "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=iso_8601 -c default_transaction_read_only=on"
# Names of the JDBC driver's properties, and of the light driver's for the same.
SHARED = {"ApplicationName": "application_name"} | {n: n for n in ("sslmode", "sslrootcert", "sslcert", "sslkey")}
SPARK_TYPES = {
    "smallint": "smallint", "integer": "int", "bigint": "bigint", "real": "float", "double precision": "double",
    "boolean": "boolean", "date": "date", "timestamp with time zone": "timestamp",
    "timestamp without time zone": "timestamp_ntz", "bytea": "binary", "text": "string", "character varying": "string",
    "character": "string", "uuid": "string", "json": "string", "jsonb": "string",
}  # fmt: skip
# As `to_char` reads them.
FORMATS = {
    "timestamp with time zone": 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"',
    "timestamp without time zone": 'YYYY-MM-DD"T"HH24:MI:SS.US',
    "date": "YYYY-MM-DD",
}
COLUMNS = """
SELECT a.attname, coalesce(nullif(t.typbasetype, 0), t.oid)::regtype::text, t.typcategory::text,
       format_type(coalesce(nullif(t.typbasetype, 0), t.oid), greatest(a.atttypmod, t.typtypmod))
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


class Postgres(Database):
    """One table of a PostgreSQL database."""

    # 22 and 23 quote values.
    without_rows = ("08", "28", "3D", "3F", "42", "53", "54", "55", "57", "58")
    zoned_times, times = ("timestamp with time zone",), ("timestamp without time zone", "date")
    numbers = ("smallint", "integer", "bigint", "real", "double precision", "numeric")
    driver = "org.postgresql.Driver"

    def describe(self) -> list[Described]:
        """Return the table's columns in order; none if there is no such table."""
        with self._cursor() as cursor:
            columns = cursor.execute(COLUMNS, [self.relation]).fetchall()
        self._composite = {name for name, _, category, _ in columns if category in ("A", "C")}
        return [(name, kind, full) for name, kind, _, full in columns]

    def quote(self, name: str) -> str:
        """Return a name, quoted."""
        return exp.to_identifier(name, quoted=True).sql(dialect="postgres")

    def value(self, name: str, kind: str) -> str:
        """Return SQL of a column's value as text: Spark lacks types for many of PostgreSQL's, and rounds others."""
        column = self.quote(name)
        if kind in FORMATS:
            time = f"({column} AT TIME ZONE 'UTC')" if kind in self.zoned_times else column
            has_format = f"isfinite({column}) AND {time} >= '0001-01-01'"
            # Before Christ, to_char leaves out the era. Without its space, the text is no date of Spark either.
            text = f"replace({time}::text, ' BC', 'BC')"
            return f"CASE WHEN {has_format} THEN to_char({time}, '{FORMATS[kind]}') ELSE {text} END"
        if kind == "bytea":
            return f"replace(encode({column}, 'base64'), chr(10), '')"
        return f"to_json({column})::text" if name in self._composite else f"{column}::text"

    def spark_type(self, full: str) -> str | None:
        """Return Spark's name of a type that `format_type` writes; None for a number without a precision."""
        decimal = re.fullmatch(r"numeric\((\d+),(\d+)\)", full)
        if decimal and int(decimal[2]) <= int(decimal[1]) <= 38:
            return f"decimal({decimal[1]},{decimal[2]})"
        return SPARK_TYPES.get(re.sub(r"\(\d+\)", "", full))

    def fingerprint_cells(self) -> list[str]:
        """Return count, latest time and an order-independent hash."""
        hashed = f"{self.modified}::text" if self._source.fingerprint == "modified" else "lakehouse_t::text"
        return ["count(*)", f"max({self.modified})::text", f"sum(hashtextextended({hashed}, 0))::text"]

    def figure(self, name: str, column: str) -> str:
        """Return SQL of a control total."""
        return f"{super().figure(name, column)}::float8"

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises SourceError."""
        with self._cursor() as cursor:
            return cursor.execute(statement.encode()).fetchall()

    def oldest(self) -> datetime | None:
        """Return the first time in the table, UTC."""
        moment = self.modified if self.is_zoned else f"{self.modified}::timestamp AT TIME ZONE {_text(self._source.timezone)}"
        query = f"SELECT extract(epoch FROM min({moment})) FROM {self.relation} WHERE isfinite({self.modified})"
        [(epoch,)] = self.query(query)
        return None if epoch is None else datetime.fromtimestamp(float(epoch), UTC)

    def moment(self, bound: datetime) -> str:
        """Return SQL of a moment as `modified` has it."""
        return f"{_text(bound.isoformat(' '))}::{self._time_type}"

    def bucket(self, spans: Spans) -> str:
        """Return SQL of a row's key in `windows_by_bucket`."""
        kind = self._time_type
        bounds = ", ".join(_text(each.isoformat(" ")) for each in self.thresholds(spans))
        return f"width_bucket({self.modified}::{kind}, ARRAY[{bounds}]::{kind}[])"

    @property
    def _time_type(self) -> str:
        return "timestamptz" if self.is_zoned else "timestamp"

    @property
    def jdbc(self) -> tuple[str, dict[str, str]]:
        """The address, and the properties with user and password, for Spark."""
        self._address()  # refuses a password in the address
        return self.url, {"driver": self.driver, "fetchsize": "10000", **self.credentials}

    def secrets(self) -> list[str]:
        """Return the parts of the address that no message shows. Raises EnvironmentMissing for a malformed address."""
        address = self._address()
        return [address.host, address.name]

    def _address(self) -> Address:
        return parse_address(self.url, self.variable, "postgresql", 5432)

    @contextmanager
    def _cursor(self) -> Iterator["psycopg.Cursor"]:
        import psycopg  # noqa: PLC0415 (a tenth of a second, for those who read a database)

        address = self._address()
        schema = address.options.get("currentSchema")
        session = SESSION + (f" -c search_path={schema}" if schema else "")
        if self._timeout_seconds is not None:
            # Without a limit, a query waits for a lock as long as another session holds it.
            seconds = self._timeout_seconds
            session += f" -c statement_timeout={seconds * 1000} -c lock_timeout={seconds * 250}"
        parameters = {
            "host": address.host, "port": str(address.port or 5432), "dbname": address.name, "options": session,
            **{SHARED[name]: value for name, value in address.options.items() if name in SHARED},
            **ALIVE, **self.credentials, "connect_timeout": SECONDS, "autocommit": True,
        }  # fmt: skip
        try:
            with psycopg.connect(**parameters) as connection, connection.cursor() as cursor:
                yield cursor
        except psycopg.Error as error:
            # A connection that fails has no SQLSTATE, and has read nothing.
            unconnected = error.sqlstate is None and isinstance(error, psycopg.OperationalError)
            message = self.shown_message(str(error), error.sqlstate, quotes_rows=not unconnected)
            raise SourceError(f"{self._source.location}: {message}") from None


def _text(value: str) -> str:
    return exp.Literal.string(value).sql(dialect="postgres")
