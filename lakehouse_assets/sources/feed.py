"""The protocol of a source that is read as a stream: the position that the next window takes.

Belongs here: the protocol, and how much waits. Does not: any one kind, or recording a position (pipeline).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple, Protocol


class Waiting(NamedTuple):
    """How much has arrived and is in no window yet: a ``number`` of ``unit`` (messages, files, versions). ``arrived_at``: when
    the oldest of it arrived; None where nothing waits, or the source cannot say.
    """

    number: int
    unit: str
    arrived_at: datetime | None = None


def moment_of(seconds: float) -> datetime | None:
    """Return a source's time, in seconds since 1970; None for one that is beyond the year 9999 or before the first.

    >>> moment_of(1_714_521_600).isoformat(), moment_of(1_714_521_600_000_000)
    ('2024-05-01T00:00:00+00:00', None)
    """
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


class Feed(Protocol):
    """What a table's stream asks of its source between two windows. Needs no Spark. Its methods raise SourceError."""

    def next_position(self, recorded: Mapping[datetime, str], now: datetime) -> str | None:
        """Return what the next window takes, as text for the record: what has arrived since the newest recorded window, at most
        as much as `extraction.stream.max_rows` says. None while nothing has arrived. ``recorded``: all windows' positions.
        """
        ...

    def waiting(self, recorded: Mapping[datetime, str], now: datetime) -> Waiting:
        """Return how much has arrived since the newest recorded window."""
        ...

    def size(self, position: str) -> int:
        """Return how much a position has, in the unit of `waiting`."""
        ...

    def close(self) -> None:
        """Give back what is open. A feed that was closed can be used again."""
        ...
