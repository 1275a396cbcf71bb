"""The offsets of each window of a topic: a chain of ranges, each beginning where the one before it ended.

Belongs here: ranges from the record and from offsets by time (pure). Does not: asking brokers, or reading messages.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from lakehouse_assets.contracts.windows import Window

Offsets = Mapping[int, int]
Range = dict[int, tuple[int, int]]


def assign_ranges(
    windows: Sequence[Window], recorded: Mapping[datetime, Range], offsets_at: Callable[[datetime], Offsets], end: Offsets
) -> dict[Window, Range]:
    """Return the range ``[from, to)`` per partition of each window with messages; recorded ranges never change. Late messages
    go to the next window with a range.

    ``windows``: all of the table's up to one of them, oldest first. ``offsets_at``: the first offset at a time or later, per
    partition. ``end``: the offset after the last message.
    """
    ranges = {window: recorded[window.start] for window in windows if window.start in recorded}
    first, last = (min(recorded), max(recorded)) if recorded else (None, None)
    earlier = [window for window in windows if first and window.start < first]
    if first and earlier:  # `extraction.start` was moved back
        limit = {partition: low for partition, (low, _) in recorded[first].items()}
        ranges |= _chain(
            earlier, _begin(offsets_at(earlier[0].start), limit), offsets_at, limit, take_rest=earlier[-1].end == first
        )
    later = [window for window in windows if last is None or window.start > last]
    if later:
        begin = {p: high for p, (_, high) in recorded[last].items()} if last else _begin(offsets_at(later[0].start), end)
        ranges |= _chain(later, begin, offsets_at, end)
    return dict(sorted(ranges.items()))


def _begin(times: Offsets, end: Offsets) -> Offsets:
    """Return where each partition begins; one whose messages are all older begins at its end."""
    return {partition: times.get(partition, high) for partition, high in end.items()}


def _chain(
    windows: Sequence[Window],
    begin: Offsets,
    offsets_at: Callable[[datetime], Offsets],
    limit: Offsets,
    take_rest: bool = False,
) -> dict[Window, Range]:
    """``take_rest``: the last window takes all remaining offsets. A new partition begins at offset 0."""
    ranges: dict[Window, Range] = {}
    low = {partition: begin.get(partition, 0) for partition in limit}
    if all(low[p] >= limit[p] for p in limit):
        return ranges  # no offsets remain, so that no request is needed
    for window, end in zip(windows, _ends(windows, offsets_at, limit, take_rest), strict=True):
        high = {p: max(low[p], end[p]) for p in limit}
        if high != low:
            ranges[window] = {p: (low[p], high[p]) for p in sorted(limit)}
        low = high
    return ranges


def _ends(
    windows: Sequence[Window], offsets_at: Callable[[datetime], Offsets], limit: Offsets, take_rest: bool
) -> list[Offsets]:
    """Return where each window ends, by its time. Between two windows with the same end no request is needed: years before a
    topic's retention cost two requests.
    """

    def end_of(index: int) -> Offsets:
        times = limit if take_rest and index == len(windows) - 1 else offsets_at(windows[index].end)
        return {p: min(times.get(p, high), high) for p, high in limit.items()}

    ends_by_index = {index: end_of(index) for index in {0, len(windows) - 1}}
    pending = [(0, len(windows) - 1)]
    while pending:
        first, last = pending.pop()
        if ends_by_index[first] == ends_by_index[last]:
            ends_by_index |= dict.fromkeys(range(first, last), ends_by_index[first])
        elif last - first > 1:
            middle = (first + last) // 2
            ends_by_index[middle] = end_of(middle)
            pending += [(first, middle), (middle, last)]
    return [ends_by_index[index] for index in range(len(windows))]


def next_range(last: Mapping[int, tuple[int, int]], begin: Offsets, end: Offsets, most: int) -> Range | None:
    """Return the range that follows ``last`` in a stream, with at most ``most`` offsets; None where no message waits.

    ``begin``: where each partition begins that ``last`` does not have. Each partition gets its share of the bound, by how many
    messages wait in it, so that all of them are equally late.

    >>> next_range({0: (0, 10)}, {1: 0}, {0: 40, 1: 10}, 20)
    {0: (10, 25), 1: (0, 5)}
    """
    low = {p: last[p][1] if p in last else begin[p] for p in sorted(end)}
    waiting = {p: max(end[p] - low[p], 0) for p in low}
    total = sum(waiting.values())
    if not total:
        return None
    shares = {p: count if total <= most else count * most // total for p, count in waiting.items()}
    rest = min(total, most) - sum(shares.values())
    for partition, count in waiting.items():
        if rest and shares[partition] < count:
            shares[partition], rest = shares[partition] + 1, rest - 1
    return {p: (low[p], low[p] + shares[p]) for p in low}


def find_starts(recorded: Mapping[datetime, Range], partition: int, first: int, last: int) -> list[datetime]:
    """Return the starts of the windows, oldest first, that have messages of a partition from offset ``first`` to ``last``, both
    included.

    >>> one, two = datetime(2024, 5, 1), datetime(2024, 5, 2)
    >>> find_starts({two: {0: (10, 20)}, one: {0: (0, 10), 1: (0, 5)}}, 0, 9, 10) == [one, two]
    True
    >>> find_starts({one: {0: (0, 10), 1: (5, 5)}}, 1, 0, 9)
    []
    """
    bounds = {start: ranges[partition] for start, ranges in recorded.items() if partition in ranges}
    return sorted(start for start, (low, high) in bounds.items() if max(low, first) < min(high, last + 1))


def group_contiguous(windows: Sequence[Window], of: Mapping[Window, Range]) -> list[list[Window]]:
    """Return groups of windows whose messages follow each other without a gap, so that one read covers each group."""
    groups: list[list[Window]] = []
    for window in sorted(windows):
        before = {p: high for p, (_, high) in of[groups[-1][-1]].items()} if groups else None
        if before is not None and all(before.get(p, 0) == low for p, (low, _) in of[window].items()):
            groups[-1].append(window)
        else:
            groups.append([window])
    return groups


def range_to_text(offsets: Range) -> str:
    """Return a range as text for the record."""
    return json.dumps({str(partition): list(bounds) for partition, bounds in sorted(offsets.items())})


def range_from_text(text: str) -> Range:
    """Return a range from the record's text."""
    return {int(partition): (low, high) for partition, (low, high) in json.loads(text).items()}
