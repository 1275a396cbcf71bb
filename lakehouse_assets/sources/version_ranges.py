"""The versions of each window of a Delta table: a chain of ranges, each beginning where the one before it ended.

Belongs here: ranges from the record and from commits' times (pure). Does not: reading a log, or rows.
"""

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import NamedTuple

from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.storage.foreign_commit import ForeignCommit


class VersionRange(NamedTuple):
    """Versions ``[low, high)``. ``digest``: of the last one's commit. ``is_whole``: the window has the whole table,
    as of the last.
    """

    low: int
    high: int
    digest: str
    is_whole: bool


def assign_versions(
    windows: Sequence[Window], recorded: Mapping[datetime, VersionRange], unread: Sequence[ForeignCommit]
) -> dict[Window, VersionRange]:
    """Return the range of each window in which a version changed rows. A recorded range never changes. The first window of all
    has the whole table; if the log no longer has the commits that filled it, it is the window of the oldest commit there.

    ``windows``: all of the table's up to one of them, oldest first. ``unread``: the commits after the recorded ones. A commit
    that is stamped before an earlier one counts at that one's time.
    """
    ranges = {window: recorded[window.start] for window in windows if window.start in recorded}
    last = max(recorded, default=None)
    low = recorded[last].high if last is not None else 0
    is_whole = last is None
    times = list(accumulate((commit.at for commit in unread), max))
    # What commits that were cleaned up did is not known: they may have filled the table.
    begin, has_changes = 0, is_whole and bool(unread) and unread[0].version > 0
    for window in windows:
        if last is not None and window.start <= last:
            continue
        end = bisect_left(times, window.end)
        has_changes = has_changes or any(commit.kind != "none" for commit in unread[begin:end])
        begin = max(begin, end)
        if has_changes and end > 0:
            commit = unread[end - 1]
            ranges[window] = VersionRange(low, commit.version + 1, commit.digest, is_whole)
            low, is_whole, has_changes = commit.version + 1, False, False
    return dict(sorted(ranges.items()))


def range_to_text(versions: VersionRange) -> str:
    """Return a range as text for the record."""
    return json.dumps(versions._asdict())


def range_from_text(text: str) -> VersionRange:
    """Return a range from the record's text."""
    return VersionRange(**json.loads(text))
