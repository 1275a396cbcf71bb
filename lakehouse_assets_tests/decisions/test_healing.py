"""The status of a window, by cases; and the retries of windows that failed together, by simulation."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.decisions.healing import WindowFacts, WindowStatus, due_ranges, plan_ranges, window_statuses
from lakehouse_assets.decisions.retry_policy import retry_delay, stream_retry_delay
from lakehouse_assets.reports.healing_status import describe_next_step, status_rows
from lakehouse_assets_tests.support import window

NOW = datetime(2024, 1, 20, 12, tzinfo=UTC)
REPORTED = datetime(2024, 1, 6, 1, tzinfo=UTC)
FAILED = datetime(2024, 1, 20, 11, tzinfo=UTC)
STALE = {"is_fresh": False, "is_current": False}


def day(number: int, **facts) -> WindowFacts:
    return WindowFacts(window(number), **facts)


def complete_day(number: int, **more) -> WindowFacts:
    return day(
        number, **{"has_arrived": True, "is_fresh": True, "is_current": True, "first_extracted_at": window(number).end, **more}
    )


CASES = {
    "in and accepted": (complete_day(5), (), "nothing", None),
    "has not arrived": (day(18), ("missing",), "source", None),
    "has arrived, not taken": (day(18, has_arrived=True), ("missing",), "daemon", None),
    "has arrived, and was overlooked": (
        day(18, has_arrived=True, reported_at=REPORTED), ("missing",), "daemon", REPORTED + timedelta(hours=6)
    ),
    "a run has it": (day(18, has_arrived=True, is_running=True), ("missing",), "running", None),
    "changed at the source": (complete_day(5, **STALE), ("stale",), "daemon", None),
    "taken and not judged": (complete_day(5, is_current=False), ("unfinished",), "daemon", None),
    "failed once": (
        day(18, has_arrived=True, failed_at=(FAILED,)), ("missing", "failing"), "retry", FAILED + timedelta(minutes=10)
    ),
    "failed twice": (
        day(18, has_arrived=True, failed_at=(REPORTED, FAILED)), ("missing", "failing"), "retry", FAILED + timedelta(minutes=30)
    ),
    "failed, and is tried": (
        day(18, has_arrived=True, failed_at=(FAILED,), is_running=True), ("missing", "failing"), "running", None
    ),
    "failed for the last time": (
        day(18, has_arrived=True, failed_at=(FAILED,) * 3, has_failed_alone=True), ("missing", "failing"), "stopped", None
    ),
    "failed so often beside others only": (
        day(18, has_arrived=True, failed_at=(FAILED,) * 3), ("missing", "failing"), "retry", FAILED + timedelta(minutes=90)
    ),
    "changed, then failed for the last time": (
        complete_day(5, **STALE, failed_at=(FAILED,) * 3, has_failed_alone=True), ("stale", "failing"), "stopped", None
    ),
    "is in after failures": (complete_day(5, failed_at=(FAILED,) * 3), (), "nothing", None),
    "held": (complete_day(5, rows_quarantined=4), ("quarantined",), "person", None),
    "held for having no rows": (complete_day(5, rows_quarantined=0), ("quarantined",), "person", None),
    "held, and changed since": (complete_day(5, rows_quarantined=4, **STALE), ("stale", "quarantined"), "daemon", None),
    "gone from the source": (complete_day(5, has_arrived=False, **STALE), (), "nothing", None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_state_has_its_next_step(case):
    facts, states, next_, at = CASES[case]
    (status,) = window_statuses([facts], NOW, retries=2)
    assert (status.states, status.next_step, status.due_at) == (states, next_, at)
    assert status.is_pending == (facts.has_arrived and not facts.is_current)
    rows = status_rows({"readings": [status]}, full=True)
    assert [row["next"] for row in rows] == ([next_] if next_ != "nothing" else [])
    assert describe_next_step(status, "readings")


def test_a_window_of_a_stream_is_finished_by_the_stream_and_no_new_file_replaces_it():
    start = datetime(2024, 5, 1, 13, 0, 5, 123_000, tzinfo=UTC)
    cases = (("daemon", "ingested by `lakehouse stream`"), ("person", "--window 2024-05-01-13:00:05.123 --because"))
    for next_step, text in cases:
        of_stream = WindowStatus(window_at(start, "moment"), ("missing",), next_step)
        of_calendar = WindowStatus(window_at(start.replace(hour=0, minute=0, second=0, microsecond=0), "daily"), (), next_step)
        assert text in describe_next_step(of_stream, "readings")
        assert "new file" not in describe_next_step(of_stream, "readings")
        assert ("daemon" if next_step == "daemon" else "or a new file") in describe_next_step(of_calendar, "readings")


def test_overtaken_or_slow_windows_are_late():
    began = window(4).end + timedelta(hours=1)
    facts = [
        complete_day(1, first_extracted_at=began),  # history, taken with the table's first run
        complete_day(2, first_extracted_at=began + timedelta(days=5)),  # after a later one
        complete_day(3, first_extracted_at=began),
        complete_day(4, first_extracted_at=window(4).end + timedelta(hours=23)),  # in time
        complete_day(5, first_extracted_at=window(5).end + timedelta(days=2)),  # two days after it ended
        day(6),  # not here yet, and the next one was taken
        complete_day(7, first_extracted_at=window(7).end),
        day(19),  # over for half a day
    ]
    statuses = window_statuses(facts, NOW, retries=5)
    assert [h.window.start.day for h in statuses if "late" in h.states] == [2, 5, 6]
    assert [(h.window.start.day, h.next_step) for h in statuses if h.is_open] == [(6, "source"), (19, "source")]


def test_a_window_older_than_the_lookback_waits_for_a_command():
    statuses = window_statuses([day(n, has_arrived=True) for n in (3, 1, 2)], NOW, retries=5, lookback=2)
    assert [(h.window.start.day, h.next_step) for h in statuses] == [(1, "lookback"), (2, "daemon"), (3, "daemon")]


def test_the_delay_grows_and_ends_at_a_day():
    delays = [retry_delay(n) for n in range(1, 12)]
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (timedelta(minutes=10), timedelta(days=1))


def test_a_stream_is_tried_each_minute_in_the_end_however_often_it_failed():
    assert [stream_retry_delay(n).seconds for n in (1, 2, 3, 6, 7, 48, 10_000)] == [1, 2, 4, 32, 60, 60, 60]


def test_contiguous_windows_share_a_row_and_quarantined_ones_have_their_own():
    facts = [
        *(day(n, has_arrived=True, failed_at=(FAILED,)) for n in (1, 2, 3)),
        complete_day(4),
        day(5),
        complete_day(6, rows_quarantined=1),
        complete_day(7, rows_quarantined=2),
    ]
    rows = status_rows({"readings": window_statuses(facts, NOW, retries=2)}, full=False)
    assert [(row["windows"], row["count"], row["is"]) for row in rows] == [
        ("2024-01-01..2024-01-03", 3, "missing, late, failing"),
        ("2024-01-05", 1, "missing, late"),
        ("2024-01-06", 1, "quarantined"),
        ("2024-01-07", 1, "quarantined"),
    ]
    assert "try 1 of 3 failed; next try 2024-01-20 11:10 UTC" in rows[0]["next"]
    assert "`lakehouse quarantine release readings --window 2024-01-06 --because WHY`, or `discard`" in rows[2]["next"]


@given(st.sets(st.integers(1, 28), min_size=1), st.sets(st.integers(1, 28), max_size=3), st.integers(0, 8))
def test_windows_that_cannot_be_ingested_stop_and_delay_no_other(arrived, poisoned, retries):
    """Every window but the poisoned ones is in when trying ends, though they began in one run."""
    failures: dict[int, list[datetime]] = {n: [] for n in arrived}
    ingested_days: set[int] = set()
    alone: set[int] = set()
    now, first, runs = NOW, True, 0
    while True:
        statuses = window_statuses(
            [
                complete_day(n)
                if n in ingested_days
                else day(n, has_arrived=True, failed_at=tuple(failures[n]), has_failed_alone=n in alone)
                for n in arrived
            ],
            now,
            retries,
        )
        ranges = plan_ranges(h for h in statuses if h.is_pending) if first else due_ranges(statuses, now)
        first = False
        for group in ranges:
            runs += 1
            days = [w.start.day for w in group]
            if set(days) & poisoned:
                alone |= set(days) if len(days) == 1 else set()
                for n in days:
                    failures[n].append(now)
            else:
                ingested_days |= set(days)
        left = [h.due_at for h in statuses if h.next_step == "retry" and h.due_at]
        if not ranges and not left:
            break
        now = max(now, min(left, default=now)) if not ranges else now + timedelta(minutes=1)
    assert ingested_days == arrived - poisoned
    assert all(retries + 1 <= len(failures[n]) <= max(retries + 1, 2) for n in arrived & poisoned)
    assert {h.window.start.day for h in statuses if h.next_step == "stopped"} == arrived & poisoned
    assert now - NOW < timedelta(days=8)


def test_ranges_stay_together_until_they_fail():
    def failed(tries: int, most: int = 6) -> list[WindowStatus]:
        return [WindowStatus(window(n), ("missing",), "retry", NOW, tries, most) for n in range(1, 21)]

    assert [len(r) for r in plan_ranges(failed(0))] == [20]
    assert [len(r) for r in plan_ranges(failed(1))] == [5] * 4
    assert [len(r) for r in plan_ranges(failed(3))] == [4] * 5
    assert [len(r) for r in plan_ranges(failed(4))] == [1] * 20
    # The last try is of each alone, however few tries there are.
    assert [[len(r) for r in plan_ranges(failed(tries, 4))] for tries in (2, 3)] == [[5] * 4, [1] * 20]
    assert [len(r) for r in plan_ranges(failed(1, 2))] == [1] * 20
