"""Any database with a JDBC driver, by SQL that they all have.

Belongs here: names, bounds and numbers as standard SQL with JDBC's escapes. Does not: one database's own SQL, or rows (jdbc).

Standard SQL lacks some functions, so there is no hash in fingerprints, and no value as text (Spark reads by its own types).
The windows of a poll take one query for each hundred of them.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.sources.database import Described
from lakehouse_assets.sources.driver_database import DriverDatabase
from lakehouse_assets.sources.jdbc_address import SECRET_OPTION, secret_in_address
from lakehouse_assets.sources.jdbc_gateway import Gateway
from lakehouse_assets.sources.jdbc_intervals import Spans

# Of java.sql.Types. Oracle's DATE is a TIMESTAMP by its driver.
JDBC_TYPES = {
    -6: "TINYINT", 5: "SMALLINT", 4: "INTEGER", -5: "BIGINT", 2: "NUMERIC", 3: "DECIMAL", 6: "FLOAT", 7: "REAL", 8: "DOUBLE",
    91: "DATE", 93: "TIMESTAMP", 2014: "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
WINDOWS_PER_QUERY = 100


class GenericDatabase(DriverDatabase):
    """One table of a database of any kind."""

    without_rows = ("08", "28")
    zoned_times, times = (), ("TIMESTAMP", "DATE")
    numbers = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "NUMERIC", "DECIMAL", "FLOAT", "REAL", "DOUBLE")
    writes_text = False
    _quote: str | None = None

    @property
    def driver(self) -> str:  # type: ignore[override]
        """The class of the JDBC driver. Raises EnvironmentMissing, with the way out, if no driver takes the address."""
        try:
            return Gateway.of(self.jars()).driver_class(self.url)
        except EnvironmentMissing:
            raise self.without_driver() from None

    def jars(self) -> list[Path]:
        """Return the driver's jars. Raises EnvironmentMissing, with the way out, if one is not there."""
        if jars := super().jars():
            return jars
        raise self.without_driver()

    def describe(self) -> list[Described]:
        """Return the table's columns in order."""
        with self.session() as session:
            self._quote = session.quote
            columns = session.columns(f"SELECT * FROM {self.relation} WHERE 1 = 0")
        described = [(name, JDBC_TYPES.get(number, own), own) for name, number, own in columns]
        if (self._source.modified, "TIMESTAMP WITH TIME ZONE") in [(name, kind) for name, kind, _ in described]:
            raise SourceError(
                f"{self._source.location}: source.modified: {self._source.modified} is TIMESTAMP WITH TIME ZONE, which"
                " databases compare in different ways; read a view with a TIMESTAMP in UTC"
            )
        return described

    def quote(self, name: str) -> str:
        """Return a name, quoted by the database's own sign."""
        if self._quote is None:
            with self.session() as session:
                self._quote = session.quote
        sign = self._quote
        if not sign and not re.fullmatch(r"\w+", name):
            raise SourceError(f"{self._source.location}: the database quotes no names, and {name!r} needs it; read a view")
        return f"{sign}{name.replace(sign, sign * 2)}{sign}" if sign else name

    def value(self, name: str, kind: str) -> str:
        """Return SQL of a column's value."""
        return self.quote(name)

    def spark_type(self, full: str) -> str | None:
        """Return nothing: Spark reports the types when it reads."""
        return None

    def fingerprint_cells(self) -> list[str]:
        """Return count, first and latest time."""
        if self._source.fingerprint == "content":
            raise SourceError(
                f"{self._source.location}: source.fingerprint: content needs a hash, which standard SQL lacks; read a view"
                " whose time changes with the rows, or write a source kind"
            )
        return ["COUNT(*)", f"MIN({self.modified})", f"MAX({self.modified})"]

    def aggregate_by_window(self, cells: Sequence[str], spans: Spans) -> dict[Window, tuple[Any, ...]]:
        """Return aggregates of each span's rows, by one query for each hundred windows."""
        numbers: dict[Window, tuple[Any, ...]] = {}
        windows = sorted(spans)
        for first in range(0, len(windows), WINDOWS_PER_QUERY):
            some = {window: spans[window] for window in windows[first : first + WINDOWS_PER_QUERY]}
            numbers |= super().aggregate_by_window(cells, some)
        return numbers

    def group_key(self, bucket: str) -> str:
        """Return the expression: the number of a column is no standard."""
        return bucket

    def oldest(self) -> datetime | None:
        """Return the first time in the table, UTC."""
        [(text,)] = self.query(f"SELECT MIN({self.modified}) FROM {self.relation}")
        try:
            return None if text is None else self.as_utc(datetime.fromisoformat(text))
        except ValueError:
            return None  # the driver writes times in its own way: the rows are read by one query

    def moment(self, bound: datetime) -> str:
        """Return JDBC's escape of a moment: each driver writes it as its database has it."""
        return f"{{ts '{bound.isoformat(' ')}'}}"

    def bucket(self, spans: Spans) -> str:
        """Return SQL of a row's key in `windows_by_bucket`."""
        moments = [self.moment(each) for each in self.thresholds(spans)]
        cases = " ".join(f"WHEN {self.modified} < {moment} THEN {index}" for index, moment in enumerate(moments))
        return f"CASE {cases} ELSE {len(moments)} END"

    @property
    def jdbc(self) -> tuple[str, dict[str, str]]:
        """The address, and the properties with user and password, for Spark."""
        self.secrets()
        return self.url, {"driver": self.driver, "fetchsize": "10000", "preferTimestampNTZ": "true", **self.credentials}

    def secrets(self) -> list[str]:
        """Return the parts of the address that no message shows. Raises EnvironmentMissing for a malformed address."""
        parts = re.split(r"[^\w.-]+", self.url)
        names = re.findall(r"[?;&,]\s*([\w.]+)\s*=", self.url)
        if any(SECRET_OPTION.fullmatch(name) for name in names) or re.search(r"[:/][^/@]+[:/][^/@]+@", self.url):
            raise secret_in_address(self.variable)
        # Hosts and names are anywhere in it. Short words are in every message.
        return [part for part in parts[2:] if len(part) > 3]
