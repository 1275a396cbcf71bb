"""PostgreSQL through a light driver: a table's columns, and one grouped query for the fingerprints of all windows.

Belongs here: the connection (shown nowhere, errors included); names, bounds and values as SQL. Does not: rows (jdbc).
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit
from zoneinfo import ZoneInfo

from sqlglot import exp

from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.personal import MASKED
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.settings import JDBC_PREFIX, Settings

if TYPE_CHECKING:
    import psycopg

SECONDS = 10
# A dead network is noticed within half a minute.
ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}
# Settings that a value's text depends on, the same for each query.
SESSION = "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=iso_8601 -c default_transaction_read_only=on"
# Classes of SQLSTATE whose messages name users, tables, columns and limits, and quote no row. 22 and 23 quote values.
WITHOUT_ROWS = ("08", "28", "3D", "3F", "42", "53", "54", "55", "57", "58")
# Names of the JDBC driver's properties, and of the light driver's for the same.
SHARED = {"ApplicationName": "application_name"} | {n: n for n in ("sslmode", "sslrootcert", "sslcert", "sslkey")}
SPARK_TYPES = {
    "smallint": "smallint", "integer": "int", "bigint": "bigint", "real": "float", "double precision": "double",
    "boolean": "boolean", "date": "date", "timestamp with time zone": "timestamp",
    "timestamp without time zone": "timestamp_ntz", "bytea": "binary", "text": "string", "character varying": "string",
    "character": "string", "uuid": "string", "json": "string", "jsonb": "string",
}  # fmt: skip
COLUMNS = """
SELECT a.attname, coalesce(nullif(t.typbasetype, 0), t.oid)::regtype::text, t.typcategory::text,
       format_type(coalesce(nullif(t.typbasetype, 0), t.oid), greatest(a.atttypmod, t.typtypmod))
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


# From and until when, UTC; None: since ever.
Interval = tuple[datetime | None, datetime]
# When the rows of each window were modified.
Spans = Mapping[Window, Interval]


class Postgres:
    """One table of a database. Errors are SourceError or EnvironmentMissing; they name the connection, but no address.
    ``personal``: the table has personal columns, whose values no error quotes.
    """

    def __init__(
        self, source: JdbcSource, settings: Settings, timeout_seconds: int | None = None, *, personal: bool = False
    ) -> None:
        """Connect to nothing, and read no variable, yet. ``timeout_seconds``: the longest time that one query may take."""
        self._source, self._settings, self._timeout_seconds = source, settings, timeout_seconds
        self._personal = personal

    @cached_property
    def columns(self) -> dict[str, str]:
        """The table's columns, each with the SQL of its value as text."""
        return {name: _as_text(name, kind, category) for name, kind, category, _ in self._description}

    @cached_property
    def types(self) -> dict[str, str]:
        """Spark's types of the columns; a column without one arrives as text and is left out."""
        types = {name: _spark_type(full) for name, _, _, full in self._description}
        return {name: kind for name, kind in types.items() if kind}

    @cached_property
    def kinds(self) -> dict[str, str]:
        """PostgreSQL's types of the columns."""
        return {name: kind for name, kind, *_ in self._description}

    @cached_property
    def _description(self) -> list[tuple[str, str, str, str]]:
        with self._cursor() as cursor:
            columns = cursor.execute(COLUMNS, [self.relation]).fetchall()
        if not columns:
            raise SourceError(f"{self._source.location}: there is no such table, or the user may not see it")
        names = [name for name, *_ in columns]
        if self._source.modified not in names:
            text = f"source.modified: there is no column {self._source.modified!r}; it has {', '.join(names)}"
            raise SourceError(f"{self._source.location}: {text}")
        return columns

    @cached_property
    def _zoned(self) -> bool:
        kind = self.kinds[self._source.modified]
        if kind not in ("timestamp with time zone", "timestamp without time zone", "date"):
            raise SourceError(f"{self._source.location}: source.modified: {self._source.modified} is {kind}, and no time")
        return kind == "timestamp with time zone"

    @property
    def relation(self) -> str:
        """The table's name, quoted."""
        return ".".join(quote_name(part) for part in self._source.table.split("."))

    @property
    def modified(self) -> str:
        """The column of modification times, quoted."""
        return quote_name(self._source.modified)

    def fingerprint_parts(self, spans: Spans) -> dict[Window, tuple[Any, ...]]:
        """Return count, latest time and an order-independent hash of the rows of each window that has some. One query."""
        hashed = f"{self.modified}::text" if self._source.fingerprint == "modified" else "lakehouse_t::text"
        cells = ["count(*)", f"max({self.modified})::text", f"sum(hashtextextended({hashed}, 0))::text"]
        return self.aggregate_by_window(cells, spans)

    def aggregate_by_window(self, cells: Sequence[str], spans: Spans) -> dict[Window, tuple[Any, ...]]:
        """Return aggregates of each span's rows by one query over the table, called `lakehouse_t` in it."""
        windows = self.windows_by_bucket(spans)
        if not windows:
            return {}
        within = " OR ".join(self.condition(low, high) for low, high in merge_spans(spans))
        selected = ", ".join([self.bucket(spans), *cells])
        query = f"SELECT {selected} FROM {self.relation} AS lakehouse_t WHERE {within} GROUP BY 1"
        with self._cursor() as cursor:
            rows = cursor.execute(query.encode()).fetchall()
        return {windows[bucket]: tuple(rest) for bucket, *rest in rows if bucket in windows}

    def oldest(self) -> datetime | None:
        """The first time in the table, UTC."""
        moment = self.modified if self._zoned else f"{self.modified}::timestamp AT TIME ZONE {_text(self._source.timezone)}"
        query = f"SELECT extract(epoch FROM min({moment})) FROM {self.relation} WHERE isfinite({self.modified})"
        with self._cursor() as cursor:
            [(epoch,)] = cursor.execute(query.encode()).fetchall()
        return None if epoch is None else datetime.fromtimestamp(float(epoch), UTC)

    def condition(self, low: datetime | None, high: datetime) -> str:
        """A condition on the column itself, so that an index answers it. Times are UTC."""
        kind = "timestamptz" if self._zoned else "timestamp"
        bounds = {sign: _text(self._bound(each).isoformat(" ")) for sign, each in ((">=", low), ("<", high)) if each}
        return f"({' AND '.join(f'{self.modified} {sign} {bound}::{kind}' for sign, bound in bounds.items())})"

    def bucket(self, spans: Spans) -> str:
        """SQL of a row's key in `windows_by_bucket`."""
        kind = "timestamptz" if self._zoned else "timestamp"
        bounds = ", ".join(_text(each.isoformat(" ")) for each in self._thresholds(spans))
        return f"width_bucket({self.modified}::{kind}, ARRAY[{bounds}]::{kind}[])"

    def windows_by_bucket(self, spans: Spans) -> dict[int, Window]:
        """Return the windows by bucket; where spans overlap, the newer one. An empty span has no bucket."""
        thresholds = self._thresholds(spans)
        windows: dict[int, Window] = {}
        for window, (low, high) in sorted(self._bounds(spans).items()):
            bucket = 0 if low is None else bisect_right(thresholds, low)
            windows |= dict.fromkeys(range(bucket, bisect_left(thresholds, high) + 1), window)
        return windows

    def _thresholds(self, spans: Spans) -> list[datetime]:
        return sorted({bound for bounds in self._bounds(spans).values() for bound in bounds if bound is not None})

    def _bounds(self, spans: Spans) -> Spans:
        """Return the bounds as the column has them, without empty spans (an hour that its clocks skip is one)."""
        bounds = {window: (self._bound(low) if low else None, self._bound(high)) for window, (low, high) in spans.items()}
        return {window: (low, high) for window, (low, high) in bounds.items() if low is None or low < high}

    def _bound(self, moment: datetime) -> datetime:
        """Return a moment as the column has it: a time without a zone is on the source's clocks."""
        return moment if self._zoned else moment.astimezone(ZoneInfo(self._source.timezone)).replace(tzinfo=None)

    @property
    def jdbc(self) -> tuple[str, dict[str, str]]:
        """The address, and the properties with user and password, for Spark."""
        self._address()  # refuses a password in the address
        return self._url, {"driver": "org.postgresql.Driver", "fetchsize": "10000", **self._credentials}

    @property
    def _url(self) -> str:
        return self._settings.connection(self._source.connection).url.get_secret_value()

    @property
    def _credentials(self) -> dict[str, str]:
        connection = self._settings.connection(self._source.connection)
        secrets = {"user": connection.user, "password": connection.password}
        return {name: value.get_secret_value() for name, value in secrets.items() if value}

    def _address(self) -> dict[str, str]:
        variable = f"{JDBC_PREFIX}{self._source.connection}_URL"
        url = self._url
        malformed = EnvironmentMissing(f"{variable} is not written as jdbc:postgresql://host:5432/database, of one host")
        try:
            parts = urlsplit(url.removeprefix("jdbc:"))
            port = parts.port or 5432
        except ValueError:
            raise malformed from None  # its own message has the address
        options = dict(parse_qsl(parts.query))
        if not url.startswith("jdbc:postgresql://") or not parts.hostname or len(parts.path) < 2:
            raise malformed
        if parts.username or parts.password or options.keys() & {"user", "password"}:
            stem = variable.removesuffix("_URL")
            raise EnvironmentMissing(f"{variable} holds a user or a password; put them into {stem}_USER and {stem}_PASSWORD")
        schema = f" -c search_path={options['currentSchema']}" if "currentSchema" in options else ""
        address = {"host": parts.hostname, "port": str(port), "dbname": unquote(parts.path[1:])}
        return address | {SHARED[n]: v for n, v in options.items() if n in SHARED} | {"options": SESSION + schema}

    @contextmanager
    def _cursor(self) -> Iterator["psycopg.Cursor"]:
        import psycopg  # noqa: PLC0415 (a tenth of a second, for those who read a database)

        address = self._address()
        if self._timeout_seconds is not None:
            # Without a limit, a query waits for a lock as long as another session holds it.
            seconds = self._timeout_seconds
            address["options"] += f" -c statement_timeout={seconds * 1000} -c lock_timeout={seconds * 250}"
        parameters = {**address, **ALIVE, **self._credentials, "connect_timeout": SECONDS, "autocommit": True}
        try:
            with psycopg.connect(**parameters) as session, session.cursor() as cursor:
                yield cursor
        except psycopg.Error as error:
            # A connection that fails has no SQLSTATE, and has read nothing.
            unconnected = error.sqlstate is None and isinstance(error, psycopg.OperationalError)
            message = self.shown_message(str(error), error.sqlstate, quotes_rows=not unconnected)
            raise SourceError(f"{self._source.location}: {message}") from None

    def shown_message(self, text: str, sqlstate: str | None, *, quotes_rows: bool = True) -> str:
        """Return an error's first line without address, user and password; of a table with personal columns only its SQLSTATE
        if the line may quote a row: it does not where the state's class says so, or ``quotes_rows`` is false.
        """
        if self._personal and quotes_rows and (sqlstate or "")[:2] not in WITHOUT_ROWS:
            return f"the database stops with SQLSTATE {sqlstate or 'unknown'} {MASKED}"
        address = self._address()
        secrets = [self._url, *self._credentials.values(), address["host"], address["dbname"]]
        line = (text.strip().splitlines() or ["no message"])[0]
        for value in sorted(secrets, key=len, reverse=True):
            line = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "…", line)
        return line[:500]


def merge_spans(spans: Spans) -> list[Interval]:
    """Return the spans' times as contiguous intervals, oldest first; an empty span adds none."""
    merged: list[Interval] = []
    filled = [(low, high) for low, high in spans.values() if low is None or low < high]
    for low, high in sorted(filled, key=lambda pair: (pair[0] is not None, pair)):
        if merged and low is not None and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def quote_name(name: str) -> str:
    """Return a column's name, quoted."""
    return exp.to_identifier(name, quoted=True).sql(dialect="postgres")


def _text(value: str) -> str:
    return exp.Literal.string(value).sql(dialect="postgres")


def _spark_type(full: str) -> str | None:
    """Return Spark's name of a type that `format_type` writes; None for a number without a precision."""
    decimal = re.fullmatch(r"numeric\((\d+),(\d+)\)", full)
    if decimal and int(decimal[2]) <= int(decimal[1]) <= 38:
        return f"decimal({decimal[1]},{decimal[2]})"
    return SPARK_TYPES.get(re.sub(r"\(\d+\)", "", full))


def _as_text(name: str, kind: str, category: str) -> str:
    """Return SQL of a column's value as text: Spark lacks types for many of PostgreSQL's, and rounds others."""
    column = quote_name(name)
    formats: Mapping[str, str] = {
        "timestamp with time zone": f"to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')",
        "timestamp without time zone": f"to_char({column}, 'YYYY-MM-DD\"T\"HH24:MI:SS.US')",
        "date": f"to_char({column}, 'YYYY-MM-DD')",
    }
    if kind in formats:
        return f"CASE WHEN isfinite({column}) THEN {formats[kind]} ELSE {column}::text END"
    if kind == "bytea":
        return f"replace(encode({column}, 'base64'), chr(10), '')"
    return f"to_json({column})::text" if category in ("A", "C") else f"{column}::text"
