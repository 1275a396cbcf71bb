"""A source in a database: which table, and which column has the time of a row's change.

Belongs here: the shape of `source: {kind: jdbc}` (pure). Does not: connecting or reading (sources), or passwords (settings).
"""

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from lakehouse_assets.contracts.source import Zone
from lakehouse_assets.contracts.source_kind import SourceKind, refuse_snapshots
from lakehouse_assets.contracts.windows import Cadence

AGGREGATE = re.compile(r"""count\(\*\)|(count|sum|avg|min|max)\(([^"()*\x00]{1,63})\)""")


class JdbcSource(SourceKind):
    """Rows of a table or view in PostgreSQL, MariaDB or MySQL, or, by standard SQL, in any database with a JDBC driver. A
    window's rows are those whose `modified` is in it. With `history: none`, a window has the whole table as it was when it was
    read. Bronze has every value as text: arrays and composites as JSON, binary as base64, times in ISO 8601 (with `Z`, unless
    it has no zone).
    """

    kind: Literal["jdbc"]
    """What the source is."""
    connection: str
    """The name of a database in the environment: `WAREHOUSE` is `LAKEHOUSE_JDBC_WAREHOUSE_URL`
    (`jdbc:postgresql://host:5432/database`, `jdbc:mariadb://…`, `jdbc:mysql://…`, or any other), and where needed
    `LAKEHOUSE_JDBC_WAREHOUSE_USER` and `_PASSWORD`, and for any other `_JARS`, the path of the driver's jar."""
    table: str
    """`table` or `schema.table`, as the database spells it."""
    modified: str | None = None
    """The column with the time of a row's last change: `timestamptz`, `timestamp` or `date`; in MariaDB `timestamp`,
    `datetime` or `date`; elsewhere a time without a zone, or a date. Have an index on it. A row without a value is in no
    window. Needed, unless `history` is `none`."""
    history: Literal["window", "watermark", "none"] = "window"
    """`window`: a row keeps its time, and a window can be read again. `watermark`: rows are updated in place, so the past is
    gone. Then a window ingests all rows modified since the last ingested ones, once. Bronze is the only copy. A missed window
    stays empty, and the next one covers it. `upsert` mode only. `none`: the table has its present rows only. Then a window has
    the whole table, once. Bronze is the only copy. The newest window is read; an older one that was missed stays missing.
    `snapshot` mode only, and without `modified`."""
    overlap_minutes: int | None = Field(default=None, ge=0, le=5_256_000)
    """Required with `watermark`, refused without it: how many minutes before the last ingested rows are read again. So rows
    are read that were stamped before and committed after. Longer than the longest transaction.
    """
    partitions: int = Field(default=1, ge=1, le=64)
    """How many queries read a range of windows at once. Each reads a part of its time."""
    fingerprint: Literal["modified", "content"] = "modified"
    """How a change at the source is detected, in one query over all windows. `modified`: by the number of rows and their times
    (the index is enough; by standard SQL only number, first and last time). `content`: by every value, for rows that change
    without a new time. This reads the whole table at each poll. PostgreSQL, MariaDB and MySQL only."""
    nulls: tuple[str, ...] = ()
    """Texts that mean "no value". Bronze keeps them; silver has NULL."""
    timezone: Zone = "UTC"
    """IANA zone of times that name none, `modified` included."""
    control: dict[str, str] | None = Field(default=None, min_length=1, max_length=100)
    """The totals that the database computes for each window, for `control_total`: `figure: aggregate`, each `count(*)`, or
    `count`, `sum`, `avg`, `min` or `max` of one column: `{rows: count(*), amount: sum(amount)}`. Not with `watermark`, whose
    rows move on."""

    @field_validator("connection")
    @classmethod
    def _named(cls, value: str) -> str:
        if not re.fullmatch("[A-Z][A-Z0-9_]*", value):
            raise ValueError(
                f"{value!r} is not the NAME in LAKEHOUSE_JDBC_<NAME>_URL: capitals, such as WAREHOUSE, and never an address"
            )
        return value

    @field_validator("table")
    @classmethod
    def _of_a_schema(cls, value: str) -> str:
        if not 1 <= len(value.split(".")) <= 2 or "" in value.split(".") or re.search(r'["\x00]', value):
            raise ValueError(f"{value!r} is not `table` or `schema.table`, without quotes")
        return value

    @field_validator("control")
    @classmethod
    def _aggregates(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        for figure, text in (value or {}).items():
            if not AGGREGATE.fullmatch(text):
                raise ValueError(
                    f"{figure}: {text!r} is neither `count(*)` nor `count`, `sum`, `avg`, `min` or `max` of one column"
                )
        return value

    @property
    def totals(self) -> dict[str, tuple[str, str]]:
        """The aggregate of each figure of `control`, and its column (`*` for all)."""
        matches = {figure: AGGREGATE.fullmatch(text) for figure, text in (self.control or {}).items()}
        return {figure: (match[1] or "count", match[2] or "*") for figure, match in matches.items() if match}

    @model_validator(mode="after")
    def _overlaps(self) -> "JdbcSource":
        watermark = self.history == "watermark"
        if watermark and self.overlap_minutes is None:
            raise ValueError("overlap_minutes: needed with history: watermark; longer than the source's longest transaction")
        if not watermark and self.overlap_minutes is not None:
            raise ValueError("overlap_minutes: applies only with history: watermark")
        if watermark and self.control is not None:
            raise ValueError("control: with history: watermark rows move on to other windows before they can be counted")
        return self

    @model_validator(mode="after")
    def _snapshots(self) -> "JdbcSource":
        if self.history != "none":
            if self.modified is None:
                raise ValueError("modified: needed, since it tells a row's window; or history: none, for whole snapshots")
            return self
        if self.modified is not None or self.partitions > 1:
            raise ValueError("modified, partitions: with history: none one query reads the whole table; remove them")
        if self.fingerprint != "modified":
            raise ValueError("fingerprint: with history: none a window is read once, and never compared; remove it")
        if self.control is not None:
            raise ValueError("control: with history: none the totals would be of another moment than the rows")
        return self

    def refuse_extraction(self, cadence: Cadence, mode: str, delete_when: str | None) -> None:
        """Raise ValueError if rows by their time cannot be read in this mode."""
        refuse_snapshots(self.history, mode, "jdbc")
        if mode == "append" and self.history == "watermark":
            raise ValueError("extraction.mode: with history: watermark rows of the overlap come twice; use upsert")

    @property
    def medium(self) -> str:
        """The kind of storage, in one word."""
        return "database"

    @property
    def location(self) -> str:
        """Where the data is, without any address."""
        return f"{self.connection}: {self.table}"

    @property
    def records_positions(self) -> bool:
        """Whether rows move on to other windows."""
        return self.history == "watermark"

    @property
    def keeps_history(self) -> bool:
        """Whether a row stays in its window."""
        return self.history == "window"
