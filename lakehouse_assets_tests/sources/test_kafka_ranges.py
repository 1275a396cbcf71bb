"""Ranges of offsets: every message is in exactly one window, whatever arrives when, and what is on record never changes.

Belongs here: the chain as pure arithmetic. Does not: a broker (e2e/test_kafka_source).
"""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakehouse_assets.contracts.windows import Window, window_at
from lakehouse_assets.sources.kafka_ranges import Range, assign_ranges, group_contiguous, range_from_text, range_to_text
from lakehouse_assets_tests.sources.source_files import day

START = datetime(2024, 3, 1, tzinfo=UTC)
Log = dict[int, list[int]]


def read_ranges(log: Log, recorded: dict[datetime, Range], days: int, first: int = 1) -> dict[Window, Range]:
    """``log``: the hours since START of each partition's messages, in the order in which they arrived."""

    def at(moment: datetime) -> dict[int, int]:
        hours = (moment - START) / timedelta(hours=1)
        return {
            p: next(n for n, t in enumerate(times) if t >= hours) for p, times in log.items() if any(t >= hours for t in times)
        }

    windows = [window_at(START + timedelta(days=n), "daily") for n in range(first - 1, days)]
    return assign_ranges(windows, recorded, at, {p: len(times) for p, times in log.items()})


def test_a_window_begins_where_the_one_before_it_ended() -> None:
    log = {0: [1, 5, 30, 31, 80], 1: [2, 26, 3, 27, 79]}
    first = read_ranges(log, {}, 3)
    assert first == {day(1): {0: (0, 2), 1: (0, 1)}, day(2): {0: (2, 4), 1: (1, 4)}}, (
        "nothing on the 3rd; a late one is the 2nd's"
    )
    # On record, a window has what it has; what comes late is the next one's.
    recorded = {window.start: interval for window, interval in first.items()}
    log[0].append(10)
    assert read_ranges(log, recorded, 4) == first | {day(4): {0: (4, 6), 1: (4, 5)}}
    assert read_ranges(log, recorded, 3) == first, "the 3rd ends before the first message of the 4th"


@given(
    st.dictionaries(st.integers(0, 2), st.lists(st.integers(-30, 400), max_size=12), min_size=1),
    st.integers(1, 12),
)
def test_first_ranges_follow_the_message_times(log: Log, days: int) -> None:
    ranges = read_ranges(log, {}, days)
    ends = {p: len(times) for p, times in log.items()}
    low = {p: next((n for n, t in enumerate(times) if t >= 0), ends[p]) for p, times in log.items()}
    for number in range(1, days + 1):
        high = {p: max(low[p], next((n for n, t in enumerate(times) if t >= 24 * number), ends[p])) for p, times in log.items()}
        assert ranges.get(day(number)) == ({p: (low[p], high[p]) for p in sorted(log)} if high != low else None)
        low = high


def test_years_without_a_message_need_few_queries() -> None:
    questions = []
    windows = [window_at(START + timedelta(days=n), "daily") for n in range(3000)]

    def at(moment: datetime) -> dict[int, int]:
        questions.append(moment)
        return {0: 0} if moment <= windows[2990].start else {0: 7} if moment <= windows[2994].end else {}

    assert assign_ranges(windows, {}, at, {0: 9}) == {windows[2990]: {0: (0, 7)}, windows[2995]: {0: (7, 9)}}
    assert len(questions) < 40
    # Of a topic that has nothing more, nobody is asked at all.
    questions.clear()
    assert list(assign_ranges(windows, {windows[0].start: {0: (0, 9)}}, at, {0: 9})) == [windows[0]]
    assert questions == []


def test_a_new_partition_begins_at_its_beginning() -> None:
    recorded = {day(1).start: {0: (0, 2)}}
    assert read_ranges({0: [1, 2, 30], 1: [3, 30]}, recorded, 2)[day(2)] == {0: (2, 3), 1: (0, 2)}


def test_a_partition_that_has_nothing_of_this_time() -> None:
    assert read_ranges({0: [-5, 1], 1: [-9, -8]}, {}, 2) == {day(1): {0: (1, 2), 1: (2, 2)}}, (
        "what is older than the start is nobody's"
    )


def test_the_first_window_was_moved_back() -> None:
    log = {0: [1, 2, 25, 3, 49, 73]}
    later = read_ranges(log, {}, 4, first=3)
    assert later == {day(3): {0: (4, 5)}, day(4): {0: (5, 6)}}
    ranges = read_ranges(log, {window.start: interval for window, interval in later.items()}, 4)
    assert ranges == later | {day(1): {0: (0, 2)}, day(2): {0: (2, 4)}}


hours = st.lists(st.integers(0, 6 * 24 - 1), max_size=12)


@given(st.lists(st.tuples(hours, hours, st.sets(st.integers(1, 6))), min_size=1, max_size=5))
def test_each_message_is_in_one_window(steps) -> None:
    """Messages of any time arrive in any order; in between, any of the windows is read, and those before it go on record."""
    log: Log = {0: [], 1: []}
    recorded: dict[datetime, Range] = {}
    for ours, others, read in steps:
        log[0] += ours
        log[1] += others
        before = dict(recorded)
        if read:
            ranges = read_ranges(log, recorded, max(read))
            recorded |= {window.start: interval for window, interval in ranges.items()}
        assert before.items() <= recorded.items()
    ranges = read_ranges(log, recorded, 6)
    assert all(ranges[window_at(start, "daily")] == interval for start, interval in recorded.items())
    for partition, times in log.items():
        offsets = [n for interval in ranges.values() for n in range(*interval.get(partition, (0, 0)))]
        assert offsets == sorted(set(offsets)), "once, and in order"
        first = read_ranges(log, {}, 6, first=1) if not recorded else ranges
        begin = min((interval[partition][0] for interval in first.values() if partition in interval), default=0)
        missing = set(range(begin, len(times))) - set(offsets)
        # Only where the newest window is on record may messages wait: for the window after it.
        assert not missing or (recorded and min(missing) >= max(interval[partition][1] for interval in recorded.values()))
    groups = group_contiguous(list(ranges), ranges)
    assert sorted(window for group in groups for window in group) == list(ranges)
    assert all(range_from_text(range_to_text(interval)) == interval for interval in ranges.values())
