"""What a table says of its source in a database: which table, and which column tells when a row was modified.

Belongs here: the shape of `source: {kind: jdbc}` (pure). Does not: connecting or reading (sources), or passwords (settings).
"""

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from lakehouse_assets.checks.closed import Closed
from lakehouse_assets.contracts.source import Zone
from lakehouse_assets.contracts.windows import Cadence


class JdbcSource(Closed):
    """Rows of a PostgreSQL table or view. A window's rows are those whose `modified` lies in it. The database writes every
    value as text: arrays and composites as JSON, `bytea` as base64, times in ISO 8601 (with `Z`, unless it has no zone).
    """

    kind: Literal["jdbc"]
    """What the source is."""
    connection: str
    """The name of a database in the environment: `WAREHOUSE` is `LAKEHOUSE_JDBC_WAREHOUSE_URL`
    (`jdbc:postgresql://host:5432/database`), and where needed `LAKEHOUSE_JDBC_WAREHOUSE_USER` and `_PASSWORD`."""
    table: str
    """`table` or `schema.table`, as the database spells it."""
    modified: str
    """Its column that says when a row was last modified: `timestamptz`, `timestamp` or `date`. Have an index on it. A row
    without a value belongs to no window."""
    history: Literal["window", "watermark"] = "window"
    """`window`: a row stays findable by its time, and a window can be read again. `watermark`: rows are updated in place, so
    that the past is gone. Then a window takes all that was modified since what was last taken, once; bronze is the only copy; a
    window that was missed stays empty, and the next one covers it. `upsert` mode only."""
    overlap_minutes: int | None = Field(default=None, ge=0)
    """Needed with `watermark`, refused without: what is taken again before what was last taken, for rows that were stamped
    before and committed after. Longer than the longest transaction."""
    partitions: int = Field(default=1, ge=1, le=64)
    """How many queries read a range of windows at once, each a stretch of its time."""
    fingerprint: Literal["modified", "content"] = "modified"
    """How a change at the source is noticed, in one query over all windows. `modified`: by the number of rows and their times
    (the index is enough). `content`: by every value, for rows that are changed without a new time; reads the whole table at
    each look."""
    nulls: tuple[str, ...] = ()
    """Texts that mean "no value". Bronze keeps them; silver has NULL."""
    timezone: Zone = "UTC"
    """IANA zone of times that name none, `modified` included."""

    @field_validator("connection")
    @classmethod
    def _named(cls, value: str) -> str:
        if not re.fullmatch("[A-Z][A-Z0-9_]*", value):
            raise ValueError(
                f"{value!r} is the name of a variable's middle, in capitals: WAREHOUSE; an address does not go here"
            )
        return value

    @field_validator("table")
    @classmethod
    def _of_a_schema(cls, value: str) -> str:
        if not 1 <= len(value.split(".")) <= 2 or "" in value.split(".") or re.search(r'["\x00]', value):
            raise ValueError(f"{value!r} is not `table` or `schema.table`, without quotes")
        return value

    @model_validator(mode="after")
    def _overlaps(self) -> "JdbcSource":
        if self.history == "watermark" and self.overlap_minutes is None:
            raise ValueError("overlap_minutes: needed with history: watermark; longer than the source's longest transaction")
        if self.history == "window" and self.overlap_minutes is not None:
            raise ValueError("overlap_minutes: has a meaning with history: watermark only")
        return self

    def check_cadence(self, cadence: Cadence) -> None:
        """Any cadence will do."""

    def check_mode(self, mode: str, delete_when: str | None) -> None:
        """Raise ValueError if rows by their time cannot be what the mode says."""
        if mode == "snapshot":
            raise ValueError(
                "extraction.mode: a window of a jdbc source has only the rows modified in it; use upsert or append"
            )
        if mode == "append" and self.history == "watermark":
            raise ValueError("extraction.mode: with history: watermark rows of the overlap come twice; use upsert")

    @property
    def medium(self) -> str:
        """What the source is made of, in one word."""
        return "postgresql"

    @property
    def place(self) -> str:
        """Where the data is, without any address."""
        return f"{self.connection}: {self.table}"
