"""Since when the messages of a topic wait, with a topic that answers from lists.

Belongs here: the age of what waits. Does not: ranges (test_kafka_ranges), a broker (e2e/test_stream).
"""

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from lakehouse_assets.sources.kafka_feed import KafkaFeed
from lakehouse_assets_tests.e2e import streamed

NOW = streamed.START


def feed_of(end: dict[int, int], times: dict[int, dict[int, datetime]], max_rows: int = 100) -> Any:
    """``times``: of the messages, by partition and offset."""
    spec = streamed.table("readings", {"max_rows": max_rows})
    feed: Any = KafkaFeed(spec.source, spec.extraction.stream, spec.extraction.start, None)  # type: ignore[arg-type]
    feed._topic = SimpleNamespace(
        find_partitions=lambda: None,
        bounds=lambda: (dict.fromkeys(end, 0), dict(end)),
        offsets_at=lambda _: dict.fromkeys(end, 0),
        oldest_time=lambda begin: oldest_time(begin, times),
    )
    return feed


def oldest_time(begin: dict[int, int], times: dict[int, dict[int, datetime]]) -> tuple[datetime | None, bool]:
    """A partition without times does not answer."""
    answers = [times[p][offset] for p, offset in begin.items() if p in times]
    return min(answers, default=None), len(answers) == len(begin)


def test_the_oldest_unread_message_of_all_partitions_counts():
    ages = {0: {0: 9, 1: 5}, 1: {0: 7, 1: 6}}
    times = {p: {offset: NOW - timedelta(hours=hours) for offset, hours in of.items()} for p, of in ages.items()}
    feed = feed_of({0: 2, 1: 2}, times, max_rows=2)
    assert feed.waiting({}, NOW) == (4, "messages", NOW - timedelta(hours=9))
    recorded = {NOW: feed.next_position({}, NOW)}
    assert feed.waiting(recorded, NOW) == (2, "messages", NOW - timedelta(hours=6))
    recorded[NOW + timedelta(seconds=1)] = feed.next_position(recorded, NOW)
    assert feed.waiting(recorded, NOW) == (0, "messages", None)


def test_a_message_with_an_old_time_waits_since_all_before_it_were_taken():
    """A producer that copies the times of another topic."""
    end = {0: 1}
    feed = feed_of(end, {0: dict.fromkeys(range(9), NOW - timedelta(days=300))})
    recorded = {NOW: feed.next_position({}, NOW)}
    end[0] = 3
    assert feed.waiting(recorded, NOW + timedelta(minutes=5)) == (2, "messages", NOW)


def test_a_partition_that_does_not_answer_makes_the_oldest_message_no_younger():
    old, young = ({0: NOW - timedelta(hours=hours)} for hours in (9, 1))
    times = {0: old, 1: young}
    feed = feed_of({0: 1, 1: 1}, times)
    assert feed.waiting({}, NOW).arrived_at == old[0]
    del times[0]
    assert feed.waiting({}, NOW).arrived_at == old[0]
    del times[1]
    assert feed.waiting({}, NOW).arrived_at == old[0]
    times |= {0: young, 1: young}
    assert feed.waiting({}, NOW).arrived_at == young[0]
