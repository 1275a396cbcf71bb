"""How far a stream is behind its source: what waits, and since when nothing was taken.

Belongs here: reading it, without Spark. Does not: reporting it (orchestration, cli).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.stream_report import StreamReport
from lakehouse_assets.errors import ConfigError, EnvironmentMissing, SourceError
from lakehouse_assets.reports.markdown import escape_controls
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import open_feed
from lakehouse_assets.sources.feed import Feed
from lakehouse_assets.storage.source_positions import read_positions


@dataclass(frozen=True)
class StreamLag:
    """``newest``: the last recorded window. ``since``: the time since its beginning, or since `extraction.start` before the
    first. ``waiting``: how much has arrived and is in no window, in ``unit``; None where the source does not say (``error``).
    ``arrived_at``: when the oldest of it arrived; ``oldest``: its age. None where nothing waits, or that is not known.
    """

    newest: Window | None
    since: timedelta
    waiting: int | None
    unit: str = "messages"
    error: str | None = None
    arrived_at: datetime | None = None
    oldest: timedelta | None = None

    def with_waiting(self, number: int, unit: str, arrived_at: datetime | None, now: datetime) -> "StreamLag":
        """Return the lag with what waits."""
        oldest = max(now - arrived_at, timedelta(0)) if arrived_at else None
        return replace(self, waiting=number, unit=unit, arrived_at=arrived_at, oldest=oldest)

    def describe(self) -> str:
        """Return one sentence."""
        return f"{self.describe_waiting()}; {self.describe_newest()}"

    def describe_waiting(self) -> str:
        """Return the part of it that only the source says."""
        if self.waiting is None:
            return f"what waits is unknown: {self.error}"
        oldest = f", the oldest for {_short(self.oldest)}" if self.oldest is not None else ""
        return f"{self.waiting:,} {self.unit} wait{oldest}"

    def describe_newest(self) -> str:
        """Return the part of it that no source is asked for."""
        return f"the newest window is {self.newest.key}, {_short(self.since)} ago" if self.newest else "no window was taken yet"


def read_lag(settings: Settings, spec: TableSpec, now: datetime, feed: Feed | None = None) -> StreamLag:
    """Return how far a stream is behind. ``feed``: one that is open."""
    recorded = read_positions(settings, spec.name)
    unasked = recorded_lag(spec, recorded, now)
    own = feed or open_feed(spec, settings)
    try:
        waiting = own.waiting(recorded, now)
    except (SourceError, EnvironmentMissing, ConfigError) as error:
        return replace(unasked, error=str(error))
    finally:
        if feed is None:
            own.close()
    return replace(unasked.with_waiting(waiting.number, waiting.unit, waiting.arrived_at, now), error=None)


def recorded_lag(spec: TableSpec, recorded: Mapping[datetime, str], now: datetime) -> StreamLag:
    """Return how far a stream is behind by its ``recorded`` positions alone. Asks no source."""
    newest = spec.extraction.window_at(max(recorded)) if recorded else None
    since = max(now - (newest.start if newest else spec.extraction.start), timedelta(0))
    return StreamLag(newest, since, None, error="its source was not asked")


def lag_row(table: str, lag: StreamLag, report: StreamReport | None, *, full: bool) -> dict[str, Any]:
    """Return a stream's row for the listing of windows that need a step. ``report``: what its service recorded. ``full``: with
    its numbers, for a program.
    """
    key, text = lag.newest.key if lag.newest else None, lag.describe()
    if report and report.error and report.fails_since:
        text = f"fails since {report.fails_since:%Y-%m-%d %H:%M} UTC: {escape_controls(report.error)}; {text}"
    if not full:
        return {"table": table, "windows": key or "", "count": 1, "is": "stream", "next": text}
    return {
        "table": table,
        "window": key,
        "p_extracted_at": lag.newest.start if lag.newest else None,
        "states": ["stream"],
        "next": "stream",
        "seconds_since_newest_window": lag.since.total_seconds(),
        "waiting": lag.waiting,
        "unit": lag.unit,
        "seconds_waiting": lag.oldest.total_seconds() if lag.oldest is not None else None,
        "error": report.error if report else None,
        "says": text,
    }


def _short(length: timedelta) -> str:
    seconds = int(length.total_seconds())
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60:,} min" if seconds < 7200 else f"{seconds // 3600:,} h"
