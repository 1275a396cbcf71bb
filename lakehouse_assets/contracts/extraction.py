"""A table's `extraction:`: its calendar of windows, and the meaning of a window for a key.

Belongs here: its shape and its validation. Does not: the calendar's arithmetic (windows), folding (pipeline).
"""

from datetime import date, datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from lakehouse_assets.checks.parameters import Duration, duration, require_java
from lakehouse_assets.checks.sql.text import columns_of, parse_expression
from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.windows import (
    MINUTES,
    PARTITIONS,
    Cadence,
    Window,
    WindowCadence,
    as_utc,
    closed_windows,
    parse_key,
    partition_of,
    window_at,
    window_start,
)

# What short windows share in Dagster.
NOUNS = {"hourly": "an hour", "daily": "a day"}
Moment = Annotated[
    datetime, BeforeValidator(lambda v: as_utc(v) if isinstance(v, date | datetime) else v), AfterValidator(as_utc)
]


class StreamSpec(StrictModel):
    """A table that `lakehouse stream` fills: whatever has arrived since the last window becomes the next one."""

    trigger: Duration = "5s"
    """The least time between the beginnings of two windows, from 5s on. A window that takes longer is followed at once."""
    max_rows: int = Field(default=100_000, ge=1, le=100_000_000)
    """No window has more messages, or more files (the rows of a file stay together). Of a Delta table, versions stay together.
    A window has the next version also if that has more rows than this, and the first window has the whole table.
    """
    lost_messages: Literal["stop", "continue"] = "stop"
    """What happens when a topic has deleted messages that were never read. `stop`: the table's stream tries again and reads
    nothing, until this is changed. `continue`: the stream goes on behind the gap, and a row of the next window, which is
    quarantined, names the lost offsets."""

    @field_validator("trigger")
    @classmethod
    def _long_enough(cls, value: str) -> str:
        if duration(value) < timedelta(seconds=5):
            raise ValueError(f"{value!r} is less than 5s")
        return value


class ExtractionSpec(StrictModel):
    """A window exists once it has ended. Its key is `2024-05-01`, of an hourly table `2024-05-01-13:00` (UTC)."""

    cadence: Cadence
    """How long a window is. Windows shorter than an hour share a partition in Dagster: the hour of `1min` and `5min`, the day
    of `15min`. Of a stream: `hourly` or `daily`, the partition of its windows."""
    start: Moment
    """Start of the first window, UTC: on the hour; a midnight, except for hourly and shorter; the first of a month for monthly.
    Weekly windows begin on its weekday."""
    stream: StreamSpec | None = Field(default=None, exclude_if=lambda stream: stream is None)
    """Windows follow the arrival of data instead of the calendar. `lakehouse stream` makes them of messages, of files that
    keep arriving, or of a Delta table's changes. A window is named by its own millisecond, `2024-05-01-13:00:05.123`.
    """
    end: Moment | None = None
    """No window ends after it."""
    mode: Literal["append", "upsert", "snapshot"] = "upsert"
    """`append`: each row is its own key, and repeated rows stay. `upsert`: the newest row of a key wins. `snapshot`: a window
    has every living key, so a key that the newest accepted window lacks is deleted."""
    lookback: int | None = Field(default=None, ge=1, le=10_000_000)
    """The daemon heals only this many newest windows. Without it, all."""
    retries: int = Field(default=5, ge=0, le=1000)
    """How often a failed window is retried: after 10 minutes, then three times as long each time, at most a day. Then the
    daemon leaves it alone, until its source changes or somebody runs it."""
    overdue_after: Duration | None = None
    """How long after its end a window is due at the source: `90m`, `6h`, `2d`. The check `no_window_overdue` fails while the
    newest windows have not arrived by then. Without it there is no such check: some sources are silent for days. Of a stream:
    how long something may wait at the source; its check is there in any case, for its errors."""
    delete_when: str | None = None
    """`upsert` only: a SQL condition over the columns. A row for which it is true deletes its key, until a newer row brings it
    back. A window in which it cannot be evaluated is quarantined (check `delete_when`)."""

    @field_validator("delete_when")
    @classmethod
    def _parsed(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            require_java(parse_expression(value, "delete_when"), info)
        return value

    @model_validator(mode="after")
    def _ordered(self) -> "ExtractionSpec":
        if self.end is not None and self.end <= self.start:
            raise ValueError(f"end: {self.end:%Y-%m-%d} is not after start {self.start:%Y-%m-%d}")
        if self.start.minute or self.start.second or self.start.microsecond:
            raise ValueError("start: a window starts on the full hour")
        if self.cadence not in (*MINUTES, "hourly") and self.start.hour:
            raise ValueError(f"start: the windows of a {self.cadence} table start at midnight (UTC)")
        if self.cadence == "monthly" and self.start.day != 1:
            raise ValueError("start: the windows of a monthly table start on the first of a month")
        if PARTITIONS.get(self.cadence) == "daily" and self.start.hour:
            raise ValueError(f"start: {self.cadence} windows share the partition of a day; start at midnight (UTC)")
        shared = PARTITIONS.get(self.cadence)
        if shared and self.end and window_start(as_utc(self.end), shared) != self.end:
            raise ValueError(f"end: {self.cadence} windows share the partition of {NOUNS[shared]}; end with one")
        if self.stream and self.cadence not in ("hourly", "daily"):
            raise ValueError("cadence: a stream's windows share the partition of an hour or a day; use hourly or daily")
        if self.stream and self.mode == "snapshot":
            raise ValueError("mode: a window of a stream has only what arrived; use upsert or append")
        if self.stream and self.end is not None:
            raise ValueError("end: does not apply to a stream; stop it instead")
        if self.delete_when and self.mode != "upsert":
            raise ValueError(f"delete_when: does not apply in {self.mode} mode; use mode: upsert")
        return self

    @property
    def window_cadence(self) -> WindowCadence:
        """What a window's length and key follow from: `cadence`, or `moment` for a stream."""
        return "moment" if self.stream else self.cadence

    @property
    def partition_cadence(self) -> Cadence:
        """How long a partition in Dagster is."""
        return PARTITIONS.get(self.cadence, self.cadence)

    @property
    def shares_partitions(self) -> bool:
        """Whether several windows share a partition in Dagster."""
        return self.window_cadence != self.partition_cadence

    def windows(self, now: datetime) -> list[Window]:
        """Every window of the calendar that has ended by ``now`` (UTC), oldest first. None of a stream: those are recorded."""
        return [] if self.stream else closed_windows(self.start, min(self.end or now, now), self.cadence)

    def window_at(self, start: datetime) -> Window:
        """The window that starts then."""
        return window_at(start, self.window_cadence)

    def partition(self, window: Window) -> Window:
        """The partition in Dagster that a window lies in."""
        if self.stream:
            return window_at(window_start(window.start, self.cadence), self.cadence)
        return partition_of(window.start, self.cadence)

    def partition_window(self, key: str) -> Window:
        """The bounds of a partition in Dagster. Raises ValueError for another form of key."""
        return parse_key(key, self.partition_cadence)

    @property
    def allowed_delay(self) -> timedelta | None:
        """`overdue_after` as a length of time."""
        return None if self.overdue_after is None else duration(self.overdue_after)

    @property
    def deletion_columns(self) -> list[str]:
        """The columns of `delete_when`, sorted."""
        return sorted(columns_of(parse_expression(self.delete_when, "delete_when"))) if self.delete_when else []

    @property
    def first(self) -> Window:
        """The oldest window."""
        return window_at(self.start, self.window_cadence)

    def window(self, key: str) -> Window:
        """The window of a key. Raises ValueError for another form of key."""
        return parse_key(key, self.window_cadence)
