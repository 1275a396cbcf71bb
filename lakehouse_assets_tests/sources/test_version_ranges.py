"""Which versions of a Delta table each window has, by the commits that its log still has.

Belongs here: the ranges (pure). Does not: a real log (test_delta, storage/test_foreign_delta).
"""

from datetime import timedelta

import pytest

from lakehouse_assets.sources.version_ranges import VersionRange, assign_versions
from lakehouse_assets.storage.foreign_commit import ForeignCommit
from lakehouse_assets_tests.sources.source_files import day

DAYS = [day(number) for number in range(1, 7)]


def commit(version: int, number: int, kind) -> ForeignCommit:
    """A commit at the noon of a day."""
    return ForeignCommit(version, day(number).start + timedelta(hours=12), "unknown", None, kind, f"d{version}")


@pytest.mark.parametrize(
    ("unread", "expected"),
    [
        ([(0, 1, "append"), (1, 3, "append")], {1: (0, 1, True), 3: (1, 2, False)}),
        ([(0, 1, "none"), (1, 3, "append"), (2, 4, "none")], {3: (0, 2, True)}),
        ([(0, 1, "none")], {}),
        ([], {}),
        # Cleaned up: what is left changed no rows, and the table has some.
        ([(7, 2, "none")], {2: (0, 8, True)}),
        ([(7, 2, "none"), (8, 2, "none"), (9, 4, "none"), (10, 5, "append")], {2: (0, 9, True), 5: (9, 11, False)}),
        ([(7, 3, "append"), (8, 4, "none")], {3: (0, 8, True)}),
        ([(7, 9, "none")], {}),
    ],
)
def test_the_first_window_has_the_whole_table(unread, expected) -> None:
    ranges = assign_versions(DAYS, {}, [commit(*each) for each in unread])
    assert {window.start.day: (low, high, is_whole) for window, (low, high, _, is_whole) in ranges.items()} == expected


def test_after_a_recorded_window_commits_without_rows_make_none() -> None:
    recorded = {day(2).start: VersionRange(0, 7, "d6", True)}
    ranges = assign_versions(DAYS, recorded, [commit(7, 3, "none"), commit(8, 4, "append"), commit(9, 5, "none")])
    assert ranges == {day(2): recorded[day(2).start], day(4): VersionRange(7, 9, "d8", False)}
