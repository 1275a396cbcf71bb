"""A table's `extraction:`: its calendar of windows, and the meaning of a window for a key.

Belongs here: its shape and its validation. Does not: the calendar's arithmetic (windows), folding (pipeline).
"""

from datetime import date, datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from lakehouse_assets.checks.parameters import Duration, duration
from lakehouse_assets.checks.sql.text import columns_of, parse_expression
from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.windows import Cadence, Window, as_utc, calendar, parse_key, window_at

Moment = Annotated[
    datetime, BeforeValidator(lambda v: as_utc(v) if isinstance(v, date | datetime) else v), AfterValidator(as_utc)
]


class ExtractionSpec(StrictModel):
    """A window exists once it has ended. Its key is `2024-05-01`, of an hourly table `2024-05-01-13:00` (UTC)."""

    cadence: Cadence
    """How long a window is."""
    start: Moment
    """Start of the first window, UTC: on the hour; a midnight, except for hourly; the first of a month for monthly. Weekly
    windows begin on its weekday."""
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
    newest windows have not arrived by then. Without it there is no such check: some sources are silent for days."""
    delete_when: str | None = None
    """`upsert` only: a SQL condition over the columns. A row for which it is true deletes its key, until a newer row brings it
    back. A window in which it cannot be evaluated is quarantined (check `delete_when`)."""

    @field_validator("delete_when")
    @classmethod
    def _parsed(cls, value: str | None) -> str | None:
        if value is not None:
            parse_expression(value, "delete_when")
        return value

    @model_validator(mode="after")
    def _ordered(self) -> "ExtractionSpec":
        if self.end is not None and self.end <= self.start:
            raise ValueError(f"end: {self.end:%Y-%m-%d} is not after start {self.start:%Y-%m-%d}")
        if self.start.minute or self.start.second or self.start.microsecond:
            raise ValueError("start: a window starts on the full hour")
        if self.cadence != "hourly" and self.start.hour:
            raise ValueError(f"start: the windows of a {self.cadence} table start at midnight (UTC)")
        if self.cadence == "monthly" and self.start.day != 1:
            raise ValueError("start: the windows of a monthly table start on the first of a month")
        if self.delete_when and self.mode != "upsert":
            raise ValueError(f"delete_when: does not apply in {self.mode} mode; use mode: upsert")
        return self

    def windows(self, now: datetime) -> list[Window]:
        """Every window that has ended by ``now`` (UTC), oldest first."""
        return list(calendar(self.start, min(self.end or now, now), self.cadence))

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
        return window_at(self.start, self.cadence)

    def window(self, key: str) -> Window:
        """The window of a partition key. Raises ValueError for another form of key."""
        return parse_key(key, self.cadence)
