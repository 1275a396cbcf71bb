"""What is to become of a window, by cases; and how windows that failed together are tried again, by simulation."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_assets.decisions.healing import TOGETHER, Facts, Healing, delay_after, due, healing, ranges
from lakehouse_assets.reports.healings import healing_rows, said
from lakehouse_assets_tests.support import window

NOW = datetime(2024, 1, 20, 12, tzinfo=UTC)
TAKEN = datetime(2024, 1, 6, 1, tzinfo=UTC)
FAILED = datetime(2024, 1, 20, 11, tzinfo=UTC)


def day(number: int, **facts) -> Facts:
    return Facts(window(number), **facts)


def done(number: int, **more) -> Facts:
    return day(number, **{"arrived": True, "fresh": True, "current": True, "taken": window(number).end, **more})


CASES = {
    "in and accepted": (done(5), (), "nothing", None),
    "has not arrived": (day(18), ("missing",), "source", None),
    "has arrived, not taken": (day(18, arrived=True), ("missing",), "daemon", None),
    "has arrived, and was overlooked": (
        day(18, arrived=True, reported=TAKEN), ("missing",), "daemon", TAKEN + timedelta(hours=6)
    ),
    "a run has it": (day(18, arrived=True, running=True), ("missing",), "running", None),
    "changed at the source": (done(5, fresh=False, current=False), ("stale",), "daemon", None),
    "taken and not judged": (done(5, current=False), ("unfinished",), "daemon", None),
    "failed once": (day(18, arrived=True, failed=(FAILED,)), ("missing", "failing"), "retry", FAILED + timedelta(minutes=10)),
    "failed twice": (
        day(18, arrived=True, failed=(TAKEN, FAILED)), ("missing", "failing"), "retry", FAILED + timedelta(minutes=30)
    ),
    "failed, and is tried": (
        day(18, arrived=True, failed=(FAILED,), running=True), ("missing", "failing"), "running", None
    ),
    "failed for the last time": (day(18, arrived=True, failed=(FAILED,) * 3), ("missing", "failing"), "stopped", None),
    "changed, then failed for the last time": (
        done(5, fresh=False, current=False, failed=(FAILED,) * 3), ("stale", "failing"), "stopped", None
    ),
    "is in after failures": (done(5, failed=(FAILED,) * 3), (), "nothing", None),
    "held": (done(5, held=4), ("quarantined",), "person", None),
    "held for having no rows": (done(5, held=0), ("quarantined",), "person", None),
    "held, and changed since": (done(5, held=4, fresh=False, current=False), ("stale", "quarantined"), "daemon", None),
    "gone from the source": (done(5, arrived=False, fresh=False, current=False), (), "nothing", None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_comes_next(case):
    facts, states, next_, at = CASES[case]
    (found,) = healing([facts], NOW, retries=2)
    assert (found.states, found.next, found.at) == (states, next_, at)
    assert found.todo == (facts.arrived and not facts.current)
    rows = healing_rows({"readings": [found]}, full=True)
    assert [row["next"] for row in rows] == ([next_] if next_ != "nothing" else [])
    assert said(found, "readings")


def test_late_is_what_was_overtaken_or_took_longer_than_a_window_lasts():
    began = window(4).end + timedelta(hours=1)
    facts = [
        done(1, taken=began),  # history, taken with the table's first run
        done(2, taken=began + timedelta(days=5)),  # after a later one
        done(3, taken=began),
        done(4, taken=window(4).end + timedelta(hours=23)),  # in time
        done(5, taken=window(5).end + timedelta(days=2)),  # two days after it ended
        day(6),  # not here yet, and the next one was taken
        done(7, taken=window(7).end),
        day(19),  # over for half a day
    ]
    found = healing(facts, NOW, retries=5)
    assert [h.window.start.day for h in found if "late" in h.states] == [2, 5, 6]
    assert [(h.window.start.day, h.next) for h in found if h.open] == [(6, "source"), (19, "source")]


def test_a_window_older_than_the_lookback_waits_for_a_command():
    found = healing([day(n, arrived=True) for n in (3, 1, 2)], NOW, retries=5, lookback=2)
    assert [(h.window.start.day, h.next) for h in found] == [(1, "lookback"), (2, "daemon"), (3, "daemon")]


def test_the_delay_grows_and_ends_at_a_day():
    delays = [delay_after(n) for n in range(1, 12)]
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (timedelta(minutes=10), timedelta(days=1))


def test_what_is_said_of_unbroken_windows_is_said_once_and_of_held_ones_each():
    facts = [*(day(n, arrived=True, failed=(FAILED,)) for n in (1, 2, 3)), done(4), day(5), done(6, held=1), done(7, held=2)]
    rows = healing_rows({"readings": healing(facts, NOW, retries=2)}, full=False)
    assert [(row["windows"], row["count"], row["is"]) for row in rows] == [
        ("2024-01-01..2024-01-03", 3, "missing, late, failing"),
        ("2024-01-05", 1, "missing, late"),
        ("2024-01-06", 1, "quarantined"),
        ("2024-01-07", 1, "quarantined"),
    ]
    assert "try 1 of 3 failed; next try 2024-01-20 11:10 UTC" in rows[0]["next"]
    assert "lakehouse quarantine release|discard readings --window 2024-01-06" in rows[2]["next"]


@given(st.sets(st.integers(1, 28), min_size=1), st.sets(st.integers(1, 28), max_size=3), st.integers(len(TOGETHER), 8))
def test_windows_that_cannot_be_taken_stop_and_hold_up_no_other(arrived, poisoned, retries):
    """Every window but the poisoned ones is in when trying ends, though they began in one run."""
    failures: dict[int, list[datetime]] = {n: [] for n in arrived}
    taken: set[int] = set()
    now, first, runs = NOW, True, 0
    while True:
        found = healing(
            [done(n) if n in taken else day(n, arrived=True, failed=tuple(failures[n])) for n in arrived], now, retries
        )
        asked = ranges(h for h in found if h.todo) if first else due(found, now)
        first = False
        for group in asked:
            runs += 1
            days = [w.start.day for w in group]
            if set(days) & poisoned:
                for n in days:
                    failures[n].append(now)
            else:
                taken |= set(days)
        left = [h.at for h in found if h.next == "retry" and h.at]
        if not asked and not left:
            break
        now = max(now, min(left, default=now)) if not asked else now + timedelta(minutes=1)
    assert taken == arrived - poisoned
    assert all(len(failures[n]) == retries + 1 for n in arrived & poisoned)
    assert {h.window.start.day for h in found if h.next == "stopped"} == arrived & poisoned
    assert now - NOW < timedelta(days=8)


def test_ranges_are_whole_until_they_fail():
    def failed(tries: int) -> list[Healing]:
        return [Healing(window(n), ("missing",), "retry", NOW, tries) for n in range(1, 21)]

    assert [len(r) for r in ranges(failed(0))] == [20]
    assert [len(r) for r in ranges(failed(2))] == [16, 4]
    assert [len(r) for r in ranges(failed(4))] == [1] * 20
