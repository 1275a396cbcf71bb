"""PostgreSQL asked by a light driver: a table's columns, and one grouped query for the fingerprints of all windows.

Belongs here: the connection (never shown, not in an error either), and names, bounds and values as SQL. Does not: rows (jdbc).
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from zoneinfo import ZoneInfo

import psycopg
from sqlglot import exp

from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.settings import JDBC_PREFIX, Settings

SECONDS = 10
# A network that swallows everything is noticed within half a minute.
ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}
# What a value's text hangs on, the same for each question.
SESSION = "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=iso_8601 -c default_transaction_read_only=on"
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


@dataclass(frozen=True)
class Span:
    """What is taken for a window: rows modified in ``[low, high)``, UTC; ``low`` None: all before ``high``."""

    window: Window
    low: datetime | None
    high: datetime


class Postgres:
    """One table of a database. An error is a SourceError or EnvironmentMissing: it names the connection, and nothing of it."""

    def __init__(self, source: JdbcSource, settings: Settings, seconds: int | None = None) -> None:
        """Nothing is connected, and no variable looked for, yet. ``seconds``: what an answer may take at most."""
        self._source, self._settings, self._seconds = source, settings, seconds

    @cached_property
    def columns(self) -> dict[str, str]:
        """The table's columns, each with the SQL of its value as text."""
        return {name: _as_text(name, kind, category) for name, kind, category, _ in self._described}

    @cached_property
    def types(self) -> dict[str, str]:
        """Spark's types of the columns, where it has one for PostgreSQL's; the others' come as text, of no type."""
        found = {name: _spark_type(full) for name, _, _, full in self._described}
        return {name: kind for name, kind in found.items() if kind}

    @cached_property
    def kinds(self) -> dict[str, str]:
        """PostgreSQL's types of the columns."""
        return {name: kind for name, kind, *_ in self._described}

    @cached_property
    def _described(self) -> list[tuple[str, str, str, str]]:
        with self._cursor() as cursor:
            found = cursor.execute(COLUMNS, [self.relation]).fetchall()
        if not found:
            raise SourceError(f"{self._source.place}: there is no such table, or the user may not see it")
        if self._source.modified not in [name for name, *_ in found]:
            names = ", ".join(name for name, *_ in found)
            raise SourceError(
                f"{self._source.place}: source.modified: there is no column {self._source.modified!r}; it has {names}"
            )
        return found

    @cached_property
    def _zoned(self) -> bool:
        kind = next(kind for name, kind, *_ in self._described if name == self._source.modified)
        if kind not in ("timestamp with time zone", "timestamp without time zone", "date"):
            raise SourceError(f"{self._source.place}: source.modified: {self._source.modified} is {kind}, and no time")
        return kind == "timestamp with time zone"

    @property
    def relation(self) -> str:
        """The table's name, quoted."""
        return ".".join(name_in_sql(part) for part in self._source.table.split("."))

    @property
    def modified(self) -> str:
        """The column of the times, quoted."""
        return name_in_sql(self._source.modified)

    def prints(self, spans: Sequence[Span]) -> dict[Window, tuple[Any, ...]]:
        """Of each window that has rows: their number, latest time and hash, whatever their order. One query."""
        hashed = f"{self.modified}::text" if self._source.fingerprint == "modified" else "lakehouse_t::text"
        cells = ["count(*)", f"max({self.modified})::text", f"sum(hashtextextended({hashed}, 0))::text"]
        return self.grouped(cells, spans)

    def grouped(self, cells: Sequence[str], spans: Sequence[Span]) -> dict[Window, tuple[Any, ...]]:
        """Aggregates of the rows of each span that has some, in one query over the table, there called `lakehouse_t`."""
        places = self.places(spans)
        if not places:
            return {}
        within = " OR ".join(self.condition(low, high) for low, high in stretches(spans))
        query = (
            f"SELECT {', '.join([self.bucket(spans), *cells])} FROM {self.relation} AS lakehouse_t WHERE {within} GROUP BY 1"
        )
        with self._cursor() as cursor:
            found = cursor.execute(query.encode()).fetchall()
        return {places[place]: tuple(rest) for place, *rest in found if place in places}

    def oldest(self) -> datetime | None:
        """The first time in the table, UTC."""
        moment = self.modified if self._zoned else f"{self.modified}::timestamp AT TIME ZONE {_text(self._source.timezone)}"
        query = f"SELECT extract(epoch FROM min({moment})) FROM {self.relation} WHERE isfinite({self.modified})"
        with self._cursor() as cursor:
            [(found,)] = cursor.execute(query.encode()).fetchall()
        return None if found is None else datetime.fromtimestamp(float(found), UTC)

    def condition(self, low: datetime | None, high: datetime) -> str:
        """A condition on the column itself, so that an index answers it. Times are UTC."""
        kind = "timestamptz" if self._zoned else "timestamp"
        upper = f"{self.modified} < {_text(self._bound(high).isoformat(' '))}::{kind}"
        if low is None:
            return f"({upper})"
        return f"({self.modified} >= {_text(self._bound(low).isoformat(' '))}::{kind} AND {upper})"

    def bucket(self, spans: Sequence[Span]) -> str:
        """SQL of a number that `places` has the window of."""
        kind = "timestamptz" if self._zoned else "timestamp"
        bounds = ", ".join(_text(each.isoformat(" ")) for each in self._thresholds(spans))
        return f"width_bucket({self.modified}::{kind}, ARRAY[{bounds}]::{kind}[])"

    def places(self, spans: Sequence[Span]) -> dict[int, Window]:
        """The windows by their buckets; where spans overlap, the newer one's. A span of no time has none."""
        thresholds = self._thresholds(spans)
        found: dict[int, Window] = {}
        for window, (low, high) in sorted(self._bounds(spans).items()):
            first = 0 if low is None else bisect_right(thresholds, low)
            found |= dict.fromkeys(range(first, bisect_left(thresholds, high) + 1), window)
        return found

    def _thresholds(self, spans: Sequence[Span]) -> list[datetime]:
        return sorted({bound for bounds in self._bounds(spans).values() for bound in bounds if bound is not None})

    def _bounds(self, spans: Sequence[Span]) -> dict[Window, tuple[datetime | None, datetime]]:
        """As the column has them; without spans of no time (an hour that its clocks skip is one)."""
        bounds = {span.window: (self._bound(span.low) if span.low else None, self._bound(span.high)) for span in spans}
        return {window: (low, high) for window, (low, high) in bounds.items() if low is None or low < high}

    def _bound(self, moment: datetime) -> datetime:
        """As the column has it: a time without a zone is one on the clocks of the source."""
        return moment if self._zoned else moment.astimezone(ZoneInfo(self._source.timezone)).replace(tzinfo=None)

    @property
    def jdbc(self) -> tuple[str, dict[str, str]]:
        """The address, and the properties with user and password, as Spark is told them."""
        connection = self._settings.connection(self._source.connection)
        self._address()  # refuses a password in the address
        given = {"user": connection.user, "password": connection.password}
        secret = {name: value.get_secret_value() for name, value in given.items() if value}
        return connection.url.get_secret_value(), {"driver": "org.postgresql.Driver", "fetchsize": "10000", **secret}

    def _address(self) -> dict[str, str]:
        variable = f"{JDBC_PREFIX}{self._source.connection}_URL"
        url = self._settings.connection(self._source.connection).url.get_secret_value()
        wrong = EnvironmentMissing(f"{variable} is not written as jdbc:postgresql://host:5432/database, of one host")
        try:
            parts = urlsplit(url.removeprefix("jdbc:"))
            port = parts.port or 5432
        except ValueError:
            raise wrong from None  # its own words have the address
        given = dict(parse_qsl(parts.query))
        if not url.startswith("jdbc:postgresql://") or not parts.hostname or len(parts.path) < 2:
            raise wrong
        if parts.username or parts.password or given.keys() & {"user", "password"}:
            stem = variable.removesuffix("_URL")
            raise EnvironmentMissing(f"{variable} holds a user or a password; put them into {stem}_USER and {stem}_PASSWORD")
        schema = f" -c search_path={given['currentSchema']}" if "currentSchema" in given else ""
        own = {"host": parts.hostname, "port": str(port), "dbname": unquote(parts.path[1:])}
        return own | {SHARED[n]: v for n, v in given.items() if n in SHARED} | {"options": SESSION + schema}

    @contextmanager
    def _cursor(self) -> Iterator[psycopg.Cursor]:
        connection, address = self._settings.connection(self._source.connection), self._address()
        user = connection.user.get_secret_value() if connection.user else None
        password = connection.password.get_secret_value() if connection.password else None
        if self._seconds is not None:
            # Whoever waits for a lock would wait for as long as another holds it.
            address["options"] += f" -c statement_timeout={self._seconds * 1000} -c lock_timeout={self._seconds * 250}"
        told = {**address, **ALIVE, "user": user, "password": password, "connect_timeout": SECONDS, "autocommit": True}
        try:
            with psycopg.connect(**told) as made, made.cursor() as cursor:
                yield cursor
        except psycopg.Error as error:
            raise SourceError(f"{self._source.place}: {self.told(str(error))}") from None

    def told(self, text: str) -> str:
        """The first line of what went wrong, without address, user and password."""
        connection = self._settings.connection(self._source.connection)
        hidden = [secret.get_secret_value() for secret in (connection.url, connection.user, connection.password) if secret]
        address = self._address()
        hidden += [address["host"], address["dbname"]]
        line = (text.strip().splitlines() or ["it failed without a word"])[0]
        for value in sorted(hidden, key=len, reverse=True):
            line = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "…", line)
        return line[:500]


def stretches(spans: Sequence[Span]) -> list[tuple[datetime | None, datetime]]:
    """The times of these spans as unbroken stretches, oldest first; a span of no time adds none."""
    found: list[tuple[datetime | None, datetime]] = []
    whole = [(span.low, span.high) for span in spans if span.low is None or span.low < span.high]
    for low, high in sorted(whole, key=lambda bounds: (bounds[0] is not None, bounds)):
        if found and low is not None and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def name_in_sql(name: str) -> str:
    """A column's name, quoted."""
    return exp.to_identifier(name, quoted=True).sql(dialect="postgres")


def _text(value: str) -> str:
    return exp.Literal.string(value).sql(dialect="postgres")


def _spark_type(full: str) -> str | None:
    """Spark's name of a type as PostgreSQL's `format_type` tells it; of a number without a precision there is none."""
    found = re.fullmatch(r"numeric\((\d+),(\d+)\)", full)
    if found and int(found[2]) <= int(found[1]) <= 38:
        return f"decimal({found[1]},{found[2]})"
    return SPARK_TYPES.get(re.sub(r"\(\d+\)", "", full))


def _as_text(name: str, kind: str, category: str) -> str:
    """A column's value as text, written by the database: Spark has no type for many of PostgreSQL's, and rounds others."""
    column = name_in_sql(name)
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
