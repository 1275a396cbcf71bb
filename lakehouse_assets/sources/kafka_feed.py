"""A topic as a stream: the range of offsets that the next window takes, and how many messages wait.

Belongs here: from the last recorded range to the next one. Does not: reading messages (kafka), recording (storage).
"""

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime

from lakehouse_assets.contracts.extraction import StreamSpec
from lakehouse_assets.contracts.kafka_source import KafkaSource
from lakehouse_assets.errors import SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.feed import Waiting
from lakehouse_assets.sources.kafka_client import Topic, share_topic
from lakehouse_assets.sources.kafka_lost import refuse_unread_gaps
from lakehouse_assets.sources.kafka_ranges import Offsets, Range, next_range, range_from_text, range_to_text


class KafkaFeed:
    """One topic. ``start``: where a table without a window begins. The connection stays open between two calls."""

    def __init__(self, source: KafkaSource, stream: StreamSpec, start: datetime, settings: Settings) -> None:
        self._source, self._stream, self._start, self._settings = source, stream, start, settings
        self._opened: ExitStack | None = None
        self._topic: Topic | None = None
        # When a window last had all messages, and the offsets after them.
        self._all_taken: tuple[datetime, Offsets] | None = None
        # Since when the oldest message waited, as it was last known.
        self._waits_since: datetime | None = None

    def next_position(self, recorded: Mapping[datetime, str], now: datetime) -> str | None:
        """As `Feed`."""
        last, first, end = self._bounds(recorded)
        offsets = next_range(last, self._begin(last, end), end, self._stream.max_rows)
        if offsets is not None and self._stream.lost_messages == "stop":
            refuse_unread_gaps(self._source.location, {p: (low, end[p]) for p, (low, _) in offsets.items()}, first)
        if offsets is None or all(high == end[p] for p, (_, high) in offsets.items()):
            self._all_taken = now, end
        return None if offsets is None else range_to_text(offsets)

    def waiting(self, recorded: Mapping[datetime, str], now: datetime) -> Waiting:
        """As `Feed`. A message arrived at its time, but not before a window that had all messages of then. While a partition
        does not answer, the oldest message is no younger than it was.
        """
        last, first, end = self._bounds(recorded)
        offsets = next_range(last, self._begin(last, end), end, sum(end.values()))
        if offsets is None:
            self._waits_since = None
            return Waiting(0, "messages")
        begin = {p: max(low, first[p]) for p, (low, high) in offsets.items() if low < high}
        arrived_at, is_complete = self._topic.oldest_time(begin) if self._topic else (None, False)
        if not is_complete and self._waits_since:
            arrived_at = min(arrived_at or self._waits_since, self._waits_since)
        if self._all_taken and arrived_at:
            moment, ends = self._all_taken
            if all(offsets[p][0] >= high for p, high in ends.items() if p in offsets):
                arrived_at = max(arrived_at, moment)
        self._waits_since = arrived_at
        return Waiting(_count(offsets), "messages", arrived_at)

    def size(self, position: str) -> int:
        """As `Feed`."""
        return _count(range_from_text(position))

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._opened is not None:
            self._opened.close()
        self._opened = self._topic = None

    def _bounds(self, recorded: Mapping[datetime, str]) -> tuple[Range, Offsets, Offsets]:
        """Return the last recorded range, and the first and end offset of each partition that the topic has by now."""
        last = range_from_text(recorded[max(recorded)]) if recorded else {}
        try:
            if self._topic is None:
                self._opened = ExitStack()
                self._topic = self._opened.enter_context(share_topic(self._settings, self._source.topic))
            self._topic.find_partitions()
            return last, *self._topic.bounds()
        except SourceError:
            self.close()
            raise

    def _begin(self, recorded: Mapping[int, tuple[int, int]], end: Offsets) -> Offsets:
        """Return where each partition begins. A partition that the topic got later begins at its first message."""
        for partition, (_, high) in recorded.items():
            if end.get(partition, 0) < high:
                raise SourceError(
                    f"{self._source.location}: partition {partition} ends at offset {end.get(partition, 0)}, and was read up to"
                    f" {high}: it was deleted and created again, or truncated. Declare a new table to read it from now on"
                )
        if recorded or self._topic is None:
            return dict.fromkeys(end, 0)
        times = self._topic.offsets_at(self._start)
        return {partition: times.get(partition, high) for partition, high in end.items()}


def _count(offsets: Range) -> int:
    return sum(high - low for low, high in offsets.values())
