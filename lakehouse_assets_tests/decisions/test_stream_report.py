"""What a stream's service records, and when that is late: by cases, without a source or an instance."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakehouse_assets.decisions.stream_report import StreamReport, is_overdue, next_report, report_from_text

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
ALLOWED = timedelta(minutes=10)


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def report(minutes: float = 1, **values) -> StreamReport:
    return StreamReport(ago(minutes), **values)


CASES = {
    "windows begin, and the oldest message is hours old": (report(waiting=9, waits_since=ago(180)), 0.1, True),
    "windows begin, and the oldest message is young": (report(waiting=9, waits_since=ago(9)), 0.1, False),
    "a silent topic, of which a service says that nothing waits": (
        report(waiting=0, nothing_waited_at=ago(1)), 600, False
    ),
    "the first message after a silence": (report(waiting=1, waits_since=ago(0.5)), 600, False),
    "a message that no window takes": (report(waiting=1, waits_since=ago(11)), 600, True),
    "no service was ever there": (None, 11, True),
    "no service was ever there, and it is early": (None, 9, False),
    "the service ended while nothing waited": (report(9, waiting=0, nothing_waited_at=ago(9)), 600, False),
    "the service ended long ago": (report(11, waiting=0, nothing_waited_at=ago(11)), 600, True),
    "a window is under way for long": (report(9, waiting=9, waits_since=ago(30)), 9, False),
    "a window is under way for too long": (report(11, waiting=9, waits_since=ago(30)), 11, True),
    "the source is away since a while": (report(waiting=None, nothing_waited_at=ago(9)), 600, False),
    "the source is away for too long": (report(waiting=None, nothing_waited_at=ago(11)), 600, True),
    "the clock was put back": (report(-600, waiting=0, nothing_waited_at=ago(-600)), 600, False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_when_a_stream_is_overdue(name):
    recorded, newest_minutes, expected = CASES[name]
    assert is_overdue(recorded, ago(newest_minutes), NOW, ALLOWED) is expected


WAITED = report(waiting=5, waits_since=ago(20))


@pytest.mark.parametrize(
    ("before", "waiting", "arrived_at", "newest_start", "expected"),
    [
        (None, 0, None, None, None),
        (None, 3, None, None, NOW),  # the source does not say
        (None, 3, ago(7), None, ago(7)),
        (None, 3, ago(-7), None, NOW),  # its clock is ahead
        (WAITED, 3, None, ago(30), ago(20)),
        (WAITED, 3, None, ago(0.5), ago(20)),  # windows come, and something waits nevertheless
        (WAITED, 3, ago(2), ago(0.5), ago(2)),  # a window took the oldest
        (WAITED, 3, ago(2), ago(30), ago(20)),  # no window: the oldest cannot be younger than it was
        (WAITED, 0, None, ago(0.5), None),
        (WAITED, None, None, ago(0.5), None),
    ],
)
def test_since_when_the_oldest_waits(before, waiting, arrived_at, newest_start, expected):
    following = next_report(before, waiting, "files", arrived_at, newest_start, NOW)
    assert (following.at, following.waiting, following.waits_since) == (NOW, waiting, expected)
    assert following.nothing_waited_at == (NOW if waiting == 0 else None)


def test_the_last_time_when_nothing_waited_is_remembered():
    before = report(5, waiting=0, nothing_waited_at=ago(5))
    assert next_report(before, 3, "files", None, None, NOW).nothing_waited_at == ago(5)
    assert next_report(before, None, "files", None, None, NOW).nothing_waited_at == ago(5)


def test_an_error_counts_once_it_has_lasted_and_until_it_is_over():
    failing = report().with_error("SourceError: away", ago(0.5))
    assert failing.lasting_error(NOW) is None, "a broker that starts again"
    other = next_report(failing.with_error("SourceError: lost", NOW), None, "files", None, None, NOW)
    assert (other.error, other.fails_since) == ("SourceError: lost", ago(0.5)), "one failure"
    assert other.lasting_error(NOW + timedelta(minutes=1)) == "SourceError: lost"
    over = other.with_error(None, NOW)
    assert (over.error, over.fails_since) == (None, None)
    assert over.with_error("SourceError: away", NOW).fails_since == NOW


def test_the_next_try_of_what_fails_is_due_later_each_time():
    failing = report().with_error("SourceError: away", NOW, failures=3)
    assert failing.next_try() == NOW + timedelta(seconds=4)
    assert failing.with_error("SourceError: away", NOW, failures=9).next_try() == NOW + timedelta(seconds=60)
    assert failing.with_error(None, NOW).next_try() is None
    earlier_release = report(error="SourceError: away", fails_since=ago(5))
    assert earlier_release.next_try() is None


def test_a_report_is_read_as_it_was_recorded():
    recorded = replace(WAITED, nothing_waited_at=ago(30)).with_error("DiskError: full", ago(2), failures=4)
    assert report_from_text(recorded.to_text()) == recorded
    assert report_from_text('{"at": "2024-05-01T12:00:00+00:00", "later": 1}') == StreamReport(NOW)
