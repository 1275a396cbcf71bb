"""What windows take of a source of the present only: no moment between two takings is in neither, whoever comes when.

Belongs here: the ledger's arithmetic. Does not: a database (e2e/test_jdbc).
"""

import doctest
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakehouse_assets.sources import jdbc_intervals
from lakehouse_assets.sources.jdbc_intervals import assign_intervals, interval_from_text, interval_to_text
from lakehouse_assets_tests.sources.source_files import day

HOUR = timedelta(hours=1)


def test_the_example() -> None:
    assert doctest.testmod(jdbc_intervals).failed == 0


@given(st.lists(st.sets(st.integers(1, 9), min_size=1), min_size=1, max_size=6))
def test_each_window_reads_since_the_last_ingestion_with_an_overlap(runs) -> None:
    recorded: dict[datetime, str] = {}
    spans: list[tuple[datetime | None, datetime]] = []
    for days in runs:
        before = dict(recorded)
        intervals = assign_intervals([day(n) for n in days], recorded, HOUR)
        assert sorted(intervals) == [day(n) for n in sorted(days)]
        assert all(interval_from_text(before[w.start]) == span for w, span in intervals.items() if w.start in before), (
            "once and for all"
        )
        fresh = {w: span for w, span in intervals.items() if w.start not in before}
        spans += [span for _, span in sorted(fresh.items()) if span[0] != span[1]]
        recorded |= {w.start: interval_to_text(*span) for w, span in fresh.items()}
    assert spans[0][0] is None, "the first has everything"
    for (_, high), (low, _) in zip(spans, spans[1:], strict=False):
        assert low == high - HOUR
    assert spans[-1][1] == max(day(n).end for days in runs for n in days)
    assert spans[-1][1].tzinfo == UTC
