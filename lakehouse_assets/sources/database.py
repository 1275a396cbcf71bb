"""A table in a database: its columns, and one grouped query for the numbers of all windows. The base of each kind of database.

Belongs here: names, bounds and messages, which are alike in all. Does not: one database's SQL and driver, or rows (jdbc).
"""

import re
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, time
from functools import cached_property
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.personal import MASKED
from lakehouse_assets.errors import SourceError
from lakehouse_assets.settings import JDBC_PREFIX, Settings
from lakehouse_assets.sources.clock_times import clock_time
from lakehouse_assets.sources.jdbc_intervals import Spans, merge_spans

# Name, kind, and the whole type with its length or precision.
Described = tuple[str, str, str]


class Database(ABC):
    """One table of a database. Errors are SourceError or EnvironmentMissing; they name the connection, but no address.
    ``personal``: the table has personal columns, whose values no error quotes.
    """

    # Classes of SQLSTATE whose messages name users, tables, columns and limits, and quote no row.
    without_rows: ClassVar[tuple[str, ...]]
    # Kinds of columns, as `kinds` has them: times with a zone, times without one, and numbers.
    zoned_times: ClassVar[tuple[str, ...]]
    times: ClassVar[tuple[str, ...]]
    numbers: ClassVar[tuple[str, ...]]
    driver: ClassVar[str]
    """The class of the JDBC driver."""
    writes_text = True
    """Whether the database writes each value as text; otherwise Spark does."""

    def __init__(
        self, source: JdbcSource, settings: Settings, timeout_seconds: int | None = None, *, personal: bool = False
    ) -> None:
        """Connect to nothing, and read no variable, yet. ``timeout_seconds``: the longest time that one query may take."""
        self._source, self._settings, self._timeout_seconds = source, settings, timeout_seconds
        self._personal = personal

    @property
    def columns(self) -> dict[str, str]:
        """The table's columns, each with the SQL of its value."""
        return {name: self.value(name, kind) for name, kind, _ in self._checked_description}

    @property
    def types(self) -> dict[str, str]:
        """Spark's types of the columns; a column without one arrives as text and is left out."""
        types = {name: self.spark_type(full) for name, _, full in self._checked_description}
        return {name: kind for name, kind in types.items() if kind}

    @property
    def kinds(self) -> dict[str, str]:
        """The database's types of the columns."""
        return {name: kind for name, kind, _ in self._checked_description}

    @cached_property
    def _checked_description(self) -> list[Described]:
        columns = self.describe()
        if not columns:
            raise SourceError(f"{self._source.location}: there is no such table, or the user may not see it")
        names = [name for name, *_ in columns]
        if self._source.modified is not None and self._source.modified not in names:
            text = f"source.modified: there is no column {self._source.modified!r}; it has {', '.join(names)}"
            raise SourceError(f"{self._source.location}: {text}")
        return columns

    @cached_property
    def is_zoned(self) -> bool:
        """Whether `modified` has a zone. Raises SourceError if it is no time."""
        kind = self.kinds[self._source.modified or ""]
        if kind not in (*self.zoned_times, *self.times):
            raise SourceError(f"{self._source.location}: source.modified: {self._source.modified} is {kind}, and no time")
        return kind in self.zoned_times

    @property
    def is_date(self) -> bool:
        """Whether `modified` has no time of day."""
        return self.kinds[self._source.modified or ""].lower() == "date"

    @property
    def relation(self) -> str:
        """The table's name, quoted."""
        return ".".join(self.quote(part) for part in self._source.table.split("."))

    @property
    def modified(self) -> str:
        """The column of modification times, quoted."""
        return self.quote(self._source.modified or "")

    @abstractmethod
    def describe(self) -> list[Described]:
        """Return the table's columns in order; none if there is no such table."""

    @abstractmethod
    def quote(self, name: str) -> str:
        """Return a name, quoted."""

    @abstractmethod
    def value(self, name: str, kind: str) -> str:
        """Return SQL of a column's value: as text, where the database writes text."""

    @abstractmethod
    def spark_type(self, full: str) -> str | None:
        """Return Spark's name of a type; None if its values are only text."""

    @abstractmethod
    def moment(self, bound: datetime) -> str:
        """Return SQL of a moment as `modified` has it."""

    @abstractmethod
    def bucket(self, spans: Spans) -> str:
        """Return SQL of a row's key in `windows_by_bucket`."""

    @abstractmethod
    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises SourceError."""

    @abstractmethod
    def oldest(self) -> datetime | None:
        """Return the first time in the table, UTC."""

    @abstractmethod
    def fingerprint_cells(self) -> list[str]:
        """Return aggregates that change with the rows of a window, over the table `lakehouse_t`."""

    def figure(self, name: str, column: str) -> str:
        """Return SQL of a control total."""
        return f"{name}({column if column == '*' else self.quote(column)})"

    def fingerprint_parts(self, spans: Spans) -> dict[Window, tuple[Any, ...]]:
        """Return the numbers of each window that has rows, from one query."""
        return self.aggregate_by_window(self.fingerprint_cells(), spans)

    def aggregate_by_window(self, cells: Sequence[str], spans: Spans) -> dict[Window, tuple[Any, ...]]:
        """Return aggregates of each span's rows by one query over the table, called `lakehouse_t` in it."""
        windows = self.windows_by_bucket(spans)
        if not windows:
            return {}
        within = " OR ".join(self.condition(low, high) for low, high in merge_spans(self.bounds(spans)))
        bucket = self.bucket(spans)
        selected = ", ".join([bucket, *cells])
        grouped = self.group_key(bucket)
        rows = self.query(f"SELECT {selected} FROM {self.relation} lakehouse_t WHERE {within} GROUP BY {grouped}")
        by_bucket = {int(bucket): tuple(rest) for bucket, *rest in rows}
        return {windows[bucket]: rest for bucket, rest in by_bucket.items() if bucket in windows}

    def group_key(self, bucket: str) -> str:
        """Return what a query groups by, for the expression of its first column."""
        return "1"

    def control_totals(self, spans: Spans) -> dict[Window, ControlTotals]:
        """Return the totals of `source.control` for each window. Raises SourceError, also for an unfit column."""
        totals = self._source.totals
        if not totals:
            return {}
        for figure, (name, column) in totals.items():
            kind, where = self.kinds.get(column), f"{self._source.location}: source.control.{figure}"
            if column != "*" and kind is None:
                raise SourceError(f"{where}: there is no column {column!r}")
            if name != "count" and kind not in self.numbers:
                raise SourceError(f"{where}: {column} is {kind}, and no number")
        by_window = self.aggregate_by_window([self.figure(*total) for total in totals.values()], spans)
        without_rows = tuple(0.0 if name == "count" else None for name, _ in totals.values())
        figures = {window: by_window.get(window, without_rows) for window in spans}
        return {
            window: ControlTotals({n: None if v is None else float(v) for n, v in zip(totals, values, strict=True)})
            for window, values in figures.items()
        }

    def condition(self, low: datetime | None, high: datetime) -> str:
        """Return a condition on the column itself, so that an index answers it. Times are as `bounds` has them."""
        bounds = {sign: self.moment(each) for sign, each in ((">=", low), ("<", high)) if each}
        return f"({' AND '.join(f'{self.modified} {sign} {bound}' for sign, bound in bounds.items())})"

    def windows_by_bucket(self, spans: Spans) -> dict[int, Window]:
        """Return the windows by bucket; where spans overlap, the newer one. An empty span has no bucket."""
        thresholds = self.thresholds(spans)
        windows: dict[int, Window] = {}
        for window, (low, high) in sorted(self.bounds(spans).items()):
            bucket = 0 if low is None else bisect_right(thresholds, low)
            windows |= dict.fromkeys(range(bucket, bisect_left(thresholds, high) + 1), window)
        return windows

    def thresholds(self, spans: Spans) -> list[datetime]:
        """Return the bounds that divide the buckets, in order."""
        return sorted({bound for bounds in self.bounds(spans).values() for bound in bounds if bound is not None})

    def bounds(self, spans: Spans) -> Spans:
        """Return the bounds as the column has them, without empty spans. An hour that its clocks skip is one, and an hour that
        they repeat is one, too, the first time. With `watermark`, dates are read from their midnight on: a row may be stamped
        with a date that was read before.
        """
        bounds = {window: (self.bound(low) if low else None, self.bound(high)) for window, (low, high) in spans.items()}
        filled = {window: (low, high) for window, (low, high) in bounds.items() if low is None or low < high}
        if self._source.history != "watermark" or not self.is_date:
            return filled
        return {window: (low and datetime.combine(low, time.min), high) for window, (low, high) in filled.items()}

    def bound(self, moment: datetime) -> datetime:
        """Return a moment as the column has it: a time without a zone is on the source's clocks, by `clock_time`."""
        return moment if self.is_zoned else clock_time(moment, ZoneInfo(self._source.timezone))

    def as_utc(self, moment: datetime) -> datetime:
        """Return a time of `modified`, which the database writes without a zone, in UTC."""
        zone = UTC if self.is_zoned else ZoneInfo(self._source.timezone)
        return moment.replace(tzinfo=zone).astimezone(UTC)

    @property
    @abstractmethod
    def jdbc(self) -> tuple[str, dict[str, str]]:
        """The address, and the properties with user and password, for Spark."""

    @abstractmethod
    def secrets(self) -> list[str]:
        """Return the parts of the address that no message shows. Raises EnvironmentMissing for a malformed address."""

    @property
    def url(self) -> str:
        """The whole address."""
        return self._settings.connection(self._source.connection).url.get_secret_value()

    @property
    def variable(self) -> str:
        """The name of the address's variable."""
        return f"{JDBC_PREFIX}{self._source.connection}_URL"

    @property
    def credentials(self) -> dict[str, str]:
        """User and password, as far as they are configured."""
        connection = self._settings.connection(self._source.connection)
        secrets = {"user": connection.user, "password": connection.password}
        return {name: value.get_secret_value() for name, value in secrets.items() if value}

    def shown_message(self, text: str, sqlstate: str | None, *, quotes_rows: bool = True) -> str:
        """Return an error's first line without address, user and password; of a table with personal columns only its SQLSTATE
        if the line may quote a row: it does not where the state's class says so, or ``quotes_rows`` is false.
        """
        if self._personal and quotes_rows and (sqlstate or "")[:2] not in self.without_rows:
            return f"the database stops with SQLSTATE {sqlstate or 'unknown'} {MASKED}"
        secrets = [self.url, *self.credentials.values(), *self.secrets()]
        line = (text.strip().splitlines() or ["no message"])[0]
        for value in sorted(secrets, key=len, reverse=True):
            line = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "…", line)
        return line[:500]
