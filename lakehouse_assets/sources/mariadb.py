"""MariaDB and MySQL, by MariaDB's driver: a table's columns, and one grouped query for the fingerprints of all windows.

Belongs here: names, bounds and values as SQL. Does not: the driver's sessions (driver_database), or rows (jdbc).
"""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.sources.base import FETCH_JARS
from lakehouse_assets.sources.database import Described
from lakehouse_assets.sources.driver_database import DriverDatabase
from lakehouse_assets.sources.jdbc_address import Address, parse_address
from lakehouse_assets.sources.jdbc_intervals import Spans
from lakehouse_assets.storage.jars import JARS_FOR_JDBC

SCHEMES = ("mariadb", "mysql")
EPOCH = "1970-01-01 00:00:00"
# What a value's text and a name's quotes depend on, the same for each query. Spark quotes names by the standard's sign.
SESSION = "time_zone='+00:00',sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES',net_write_timeout=3600"
TEXTS = ("varchar", "tinytext", "text", "mediumtext", "longtext", "json")
# As `CHAR` the driver would call these, and Spark pads such values.
SHORT_TEXTS = ("char", "enum", "set")
BINARIES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
SHAPES = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
    "geomcollection",
)  # fmt: skip
INTEGERS = {"tinyint": "smallint", "smallint": "int", "mediumint": "int", "int": "bigint", "bigint": "decimal(20,0)"}
SIGNED = {"tinyint": "tinyint", "smallint": "smallint", "mediumint": "int", "int": "int", "bigint": "bigint"}
SPARK_TYPES = {
    "float": "float", "double": "double", "year": "smallint", "date": "date", "datetime": "timestamp_ntz",
    "timestamp": "timestamp", "uuid": "string", **dict.fromkeys((*TEXTS, *SHORT_TEXTS), "string"),
    **dict.fromkeys(BINARIES, "binary"),
}  # fmt: skip


class MariaDb(DriverDatabase):
    """One table of a MariaDB or MySQL database."""

    without_rows = ("08", "28", "3D", "42")
    zoned_times, times = ("timestamp",), ("datetime", "date")
    numbers = (*INTEGERS, "decimal", "float", "double")
    driver = "org.mariadb.jdbc.Driver"

    def jars(self) -> list[Path]:
        """Return the driver's jars. Raises EnvironmentMissing, with the way out, if one is not there."""
        jars = super().jars() or sorted(JARS_FOR_JDBC.glob("*mariadb-java-client-*.jar"))
        if not jars:
            raise EnvironmentMissing(f"MariaDB's driver is missing: `{FETCH_JARS}` fetches it, in this same environment")
        return jars

    def describe(self) -> list[Described]:
        """Return the table's columns in order."""
        rows = self.query(f"SHOW COLUMNS FROM {self.relation}")
        return [(name, re.match("[a-z0-9]*", full.lower())[0], full.lower()) for name, full, *_ in rows]  # type: ignore[index]

    def quote(self, name: str) -> str:
        """Return a name, quoted."""
        return '"' + name.replace('"', '""') + '"'

    def value(self, name: str, kind: str) -> str:
        """Return SQL of a column's value as text; of binary, the bytes."""
        column = self.quote(name)
        if kind in (*TEXTS, *BINARIES):
            return column
        if kind in SHORT_TEXTS:
            return f"CONCAT({column}, '')"
        if kind in ("float", "double"):
            # As text, the database rounds a FLOAT to six digits.
            return f"CAST({column} + 0e0 AS CHAR)"
        if kind == "bit":
            return f"CAST({column} + 0 AS CHAR)"
        if kind in ("datetime", "timestamp"):
            zone = "Z" if kind == "timestamp" else ""
            return f"DATE_FORMAT({column}, '%Y-%m-%dT%H:%i:%s.%f{zone}')"
        return f"ST_AsText({column})" if kind in SHAPES else f"CAST({column} AS CHAR)"

    def spark_type(self, full: str) -> str | None:
        """Return Spark's name of a column's type; None for what is read as its text: flags, times of day, shapes."""
        decimal = re.match(r"decimal\((\d+),(\d+)\)", full)
        if decimal:
            return f"decimal({decimal[1]},{decimal[2]})" if int(decimal[1]) <= 38 else None
        kind = re.match("[a-z0-9]*", full)[0]  # type: ignore[index]
        if full.startswith("tinyint(1)"):
            return None  # by convention a boolean
        if kind in INTEGERS:
            return (INTEGERS if "unsigned" in full else SIGNED)[kind]
        return SPARK_TYPES.get(kind)

    def fingerprint_cells(self) -> list[str]:
        """Return count, latest time and an order-independent hash: of the times, or of every value."""
        hashed = f"CAST({self.modified} AS CHAR)"
        if self._source.fingerprint == "content":
            hashed = f"CONCAT({', '.join(f'IFNULL(MD5({value}), 0)' for value in self.columns.values())})"
        digits = f"CAST(CONV(LEFT(MD5({hashed}), 15), 16, 10) AS UNSIGNED)"
        return ["COUNT(*)", f"MAX({self.modified})", f"SUM({digits})"]

    def oldest(self) -> datetime | None:
        """Return the first time in the table, UTC."""
        # A zero date is no time.
        [(text,)] = self.query(
            f"SELECT DATE_FORMAT(MIN({self.modified}), '%Y-%m-%dT%H:%i:%s.%f') FROM {self.relation}"
            f" WHERE {self.modified} >= '1000-01-01'"
        )
        return None if text is None else self.as_utc(datetime.fromisoformat(text))

    def moment(self, bound: datetime) -> str:
        """Return SQL of a moment as `modified` has it."""
        return f"TIMESTAMP'{bound.replace(tzinfo=None).isoformat(' ', 'microseconds')}'"

    def bucket(self, spans: Spans) -> str:
        """Return SQL of a row's key in `windows_by_bucket`. A zero date is before all others."""
        thresholds = self.thresholds(spans)
        if not thresholds:
            return "0"
        epoch = datetime.fromisoformat(EPOCH)
        micros = [str(int((each.replace(tzinfo=None) - epoch).total_seconds()) * 1_000_000) for each in thresholds]
        elapsed = f"TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'{EPOCH}', {self.modified})"
        return f"GREATEST(0, INTERVAL({elapsed}, {', '.join(micros)}))"

    @property
    def jdbc(self) -> tuple[str, dict[str, str]]:
        """The address, and the properties with user and password, for Spark."""
        self._address()
        return self.driver_url, {"driver": self.driver, "fetchsize": "10000", **self.properties()}

    def properties(self) -> Mapping[str, str]:
        """Return the properties of each session, with user and password."""
        seconds = self._timeout_seconds
        limit = "" if seconds is None else f",lock_wait_timeout={max(1, seconds // 4)}"
        return {**self.credentials, "sessionVariables": SESSION + limit, "connectTimeout": "10000", "tinyInt1isBit": "false"}

    @property
    def driver_url(self) -> str:
        """The address as MariaDB's driver takes it."""
        return re.sub("^jdbc:mysql:", "jdbc:mariadb:", self.url)

    def secrets(self) -> list[str]:
        """Return the parts of the address that no message shows. Raises EnvironmentMissing for a malformed address."""
        address = self._address()
        return [address.host, address.name]

    def _address(self) -> Address:
        scheme = self.url.partition(":")[2].partition(":")[0]
        address = parse_address(self.url, self.variable, scheme, 3306)
        if refused := sorted(address.options.keys() & {"sessionVariables", "initSql"}):
            raise EnvironmentMissing(f"{self.variable} has the option {refused[0]}, which the lakehouse sets itself")
        return address
