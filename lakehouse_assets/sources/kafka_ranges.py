"""Which offsets of a topic are a window's: a chain of ranges in which each begins where the one before it ended.

Belongs here: ranges out of those on record and of what the brokers say of times (pure). Does not: asking them, or reading.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from lakehouse_assets.contracts.windows import Window

Offsets = Mapping[int, int]
Range = dict[int, tuple[int, int]]


def ranges(
    windows: Sequence[Window], recorded: Mapping[datetime, Range], at: Callable[[datetime], Offsets], end: Offsets
) -> dict[Window, Range]:
    """The range ``[from, to)`` per partition of each window that has messages, or is on record; the record always holds.

    ``windows``: all of the table's up to one of them, oldest first. ``at``: the first offset of a time or later, per partition.
    ``end``: the offset after the last one. A window without messages has no range: what arrives late is the next one's.
    """
    found = {window: recorded[window.start] for window in windows if window.start in recorded}
    first, last = (min(recorded), max(recorded)) if recorded else (None, None)
    earlier = [window for window in windows if first and window.start < first]
    if first and earlier:  # `extraction.start` was moved back
        limit = {partition: low for partition, (low, _) in recorded[first].items()}
        found |= _chain(earlier, _begin(at(earlier[0].start), limit), at, limit, whole=earlier[-1].end == first)
    later = [window for window in windows if last is None or window.start > last]
    if later:
        begin = {p: high for p, (_, high) in recorded[last].items()} if last else _begin(at(later[0].start), end)
        found |= _chain(later, begin, at, end)
    return dict(sorted(found.items()))


def _begin(times: Offsets, end: Offsets) -> Offsets:
    """A partition whose messages are all older has none of this time."""
    return {partition: times.get(partition, high) for partition, high in end.items()}


def _chain(
    windows: Sequence[Window], begin: Offsets, at: Callable[[datetime], Offsets], limit: Offsets, whole: bool = False
) -> dict[Window, Range]:
    """``whole``: the last window takes what is left. A partition that is new since then begins at its beginning."""
    found: dict[Window, Range] = {}
    low = {partition: begin.get(partition, 0) for partition in limit}
    if all(low[p] >= limit[p] for p in limit):
        return found  # nothing is left to share out, and nobody has to be asked
    for window, end in zip(windows, _ends(windows, at, limit, whole), strict=True):
        high = {p: max(low[p], end[p]) for p in limit}
        if high != low:
            found[window] = {p: (low[p], high[p]) for p in sorted(limit)}
        low = high
    return found


def _ends(windows: Sequence[Window], at: Callable[[datetime], Offsets], limit: Offsets, whole: bool) -> list[Offsets]:
    """Where each window ends, by its time. Between two windows that end at the same place, all do, and nobody is asked: of a
    topic that keeps a week, years before it are two questions.
    """

    def asked(place: int) -> Offsets:
        times = limit if whole and place == len(windows) - 1 else at(windows[place].end)
        return {p: min(times.get(p, high), high) for p, high in limit.items()}

    known = {place: asked(place) for place in {0, len(windows) - 1}}
    between = [(0, len(windows) - 1)]
    while between:
        first, last = between.pop()
        if known[first] == known[last]:
            known |= dict.fromkeys(range(first, last), known[first])
        elif last - first > 1:
            middle = (first + last) // 2
            known[middle] = asked(middle)
            between += [(first, middle), (middle, last)]
    return [known[place] for place in range(len(windows))]


def unbroken(windows: Sequence[Window], of: Mapping[Window, Range]) -> list[list[Window]]:
    """Windows whose messages follow each other without a gap, so that one read has them."""
    groups: list[list[Window]] = []
    for window in sorted(windows):
        before = {p: high for p, (_, high) in of[groups[-1][-1]].items()} if groups else None
        if before is not None and all(before.get(p, 0) == low for p, (low, _) in of[window].items()):
            groups[-1].append(window)
        else:
            groups.append([window])
    return groups


def as_text(taken: Range) -> str:
    """A range as the record keeps it."""
    return json.dumps({str(partition): list(bounds) for partition, bounds in sorted(taken.items())})


def from_text(text: str) -> Range:
    """A range from the record."""
    return {int(partition): (low, high) for partition, (low, high) in json.loads(text).items()}
