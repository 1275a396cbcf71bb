"""What the service of streams last recorded of a stream: what waits, since when, and its last error; and whether that is late.

Belongs here: the next record, its text, and the judgement of it (pure). Does not: asking a source (queries), or where a record
is kept (orchestration/streams).
"""

import json
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

from lakehouse_assets.decisions.retry_policy import stream_retry_delay

# A report is made once a minute, between two windows: a service without a newer one is stopped, or busy with a long window.
RUNNING_FOR = timedelta(minutes=3)
# An error that is over sooner, as of a broker that starts again, fails no check and raises no alert.
PATIENCE = timedelta(minutes=1)
TIMES = ("at", "waits_since", "nothing_waited_at", "fails_since", "failed_at")


@dataclass(frozen=True)
class StreamReport:
    """``at``: when the source was asked. ``waiting``: how much had arrived and was in no window, in ``unit``; None: unknown.
    ``waits_since``: since when the oldest of it waits. ``nothing_waited_at``: the last time when nothing waited. ``error``: the
    last error, until a try succeeds; ``fails_since``: since when there is one. ``failures``: tries since the last that
    succeeded; ``failed_at``: when the last one failed.
    """

    at: datetime
    waiting: int | None = None
    unit: str = "messages"
    waits_since: datetime | None = None
    nothing_waited_at: datetime | None = None
    error: str | None = None
    fails_since: datetime | None = None
    failures: int = 0
    failed_at: datetime | None = None

    def with_error(self, error: str | None, now: datetime, failures: int = 0) -> "StreamReport":
        """Return the report with another error, or without one. Errors that follow each other are one failure."""
        if error is None:
            return replace(self, error=None, fails_since=None, failures=0, failed_at=None)
        return replace(self, error=error, fails_since=self.fails_since or now, failures=failures, failed_at=now)

    def next_try(self) -> datetime | None:
        """Return when a stream that fails is tried again; None if it does not fail."""
        return self.failed_at + stream_retry_delay(max(self.failures, 1)) if self.error and self.failed_at else None

    def lasting_error(self, now: datetime) -> str | None:
        """Return the error if it has lasted for `PATIENCE`."""
        return self.error if self.fails_since and now - self.fails_since >= PATIENCE else None

    def is_of_running_service(self, now: datetime) -> bool:
        """Whether a service made it just now."""
        return abs(now - self.at) <= RUNNING_FOR

    def to_text(self) -> str:
        """Return the report as text for the record."""
        return json.dumps({k: v.isoformat() if isinstance(v, datetime) else v for k, v in asdict(self).items()})


def report_from_text(text: str) -> StreamReport:
    """Return the report of a recorded text. Fields of another version are left out."""
    recorded = json.loads(text)
    values: dict[str, Any] = {each.name: recorded[each.name] for each in fields(StreamReport) if each.name in recorded}
    values |= {name: datetime.fromisoformat(values[name]) for name in TIMES if values.get(name)}
    return StreamReport(**values)


def next_report(
    before: StreamReport | None,
    waiting: int | None,
    unit: str,
    arrived_at: datetime | None,
    newest_start: datetime | None,
    now: datetime,
) -> StreamReport:
    """Return the report that follows ``before``. Its error stays. ``arrived_at``: when the oldest of what waits arrived, by its
    source; None where that does not say: since the first report of an unbroken series in which something waits.
    ``newest_start``: of the newest window.
    """
    before = before or StreamReport(now)
    report = replace(before, at=now, waiting=waiting, unit=unit, waits_since=None)
    if not waiting:
        return report if waiting is None else replace(report, nothing_waited_at=now)
    is_same = newest_start is None or newest_start <= before.at  # no window began since
    candidates = [min(arrived_at, now)] if arrived_at else []
    if before.waits_since and (is_same or not candidates):
        candidates.append(before.waits_since)
    return replace(report, waits_since=min(candidates, default=now))


def waits_since(report: StreamReport | None, newest_start: datetime, now: datetime) -> datetime | None:
    """Return since when something waits, or may wait; None if nothing does. Where no running service knows it: since the newest
    window began, or since a service last reported that nothing waited. ``newest_start``: before the first window, the start of
    the first one.
    """
    if report is not None and report.is_of_running_service(now) and report.waiting is not None:
        return report.waits_since
    nothing_waited_at = report.nothing_waited_at if report else None
    return max(newest_start, nothing_waited_at or newest_start)


def is_overdue(report: StreamReport | None, newest_start: datetime, now: datetime, allowed: timedelta) -> bool:
    """Whether something has waited, or may have waited, for longer than ``allowed``."""
    since = waits_since(report, newest_start, now)
    return since is not None and now - since > allowed
