"""Messages that a topic's retention deleted before they were read: refused, or a row that names them.

Belongs here: gaps of ranges, their error and their rows. Does not: asking brokers (kafka_client), or messages (kafka).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from pyspark.sql import SparkSession

from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import SourceError
from lakehouse_assets.sources import base
from lakehouse_assets.sources.base import Extraction
from lakehouse_assets.sources.kafka_ranges import Offsets, Range

STREAM_WAY_OUT = "set extraction.stream.lost_messages: continue"


class Gap(NamedTuple):
    """Offsets of one partition of a window, from ``first`` to ``last``, that the topic does not have any more."""

    window: Window
    partition: int
    first: int
    last: int


def find_gaps(ranges: Mapping[Window, Range], first: Offsets) -> list[Gap]:
    """Return what these ranges lack. ``first``: each partition's first offset that still exists."""
    return [
        Gap(window, partition, begin, min(first.get(partition, end), end) - 1)
        for window, offsets in ranges.items()
        for partition, (begin, end) in offsets.items()
        if begin < end and first.get(partition, end) > begin
    ]


def gaps_error(location: str, gaps: Sequence[Gap]) -> SourceError:
    """Return the error that names the gaps, and the way out."""
    parts = [f"partition {gap.partition}, offsets {gap.first} to {gap.last} (window {gap.window.key})" for gap in gaps]
    stream = gaps[0].window.end - gaps[0].window.start < timedelta(seconds=1)
    way_out = STREAM_WAY_OUT if stream else "set extraction.start after that window"
    return _lost_error(location, parts, way_out)


def refuse_unread_gaps(location: str, offsets: Range, first: Offsets) -> None:
    """Raise SourceError if a stream's next window would lack messages. ``offsets``: all that wait."""
    lost = {p: (low, first[p] - 1) for p, (low, high) in offsets.items() if low < high and first.get(p, 0) > low}
    if lost:
        parts = [f"partition {partition}, offsets {low} to {last}" for partition, (low, last) in lost.items()]
        raise _lost_error(location, parts, STREAM_WAY_OUT)


def _lost_error(location: str, parts: Sequence[str], way_out: str) -> SourceError:
    return SourceError(
        f"{location}: messages were deleted by its retention before they were read: {'; '.join(parts)}."
        f" They are lost to this table; to go on without them, {way_out}"
    )


def without_gaps(ranges: Mapping[Window, Range], gaps: Sequence[Gap]) -> dict[Window, Range]:
    """Return what of these ranges still exists: retention deletes the oldest messages first."""
    present = {window: dict(offsets) for window, offsets in ranges.items()}
    for gap in gaps:
        present[gap.window][gap.partition] = (gap.last + 1, ranges[gap.window][gap.partition][1])
    return present


def with_gap_rows(spark: SparkSession, extraction: Extraction, topic: str, gaps: Sequence[Gap]) -> Extraction:
    """Return the extraction with a row for each gap, which is quarantined as unreadable and names the offsets."""
    if not gaps:
        return extraction
    texts = [
        f"messages of partition {gap.partition}, offsets {gap.first} to {gap.last}, were deleted before they were read"
        for gap in gaps
    ]
    rows = [
        (gap.window.start, f"{topic}/{gap.partition}@{gap.first}", list(extraction.columns[gap.window]), text)
        for gap, text in zip(gaps, texts, strict=True)
    ]
    problems: dict[Window, list[str]] = {}
    for gap, text in zip(gaps, texts, strict=True):
        problems.setdefault(gap.window, []).append(text)
    frame = extraction.frame.unionByName(base.small_frame(spark, base.OWN, rows), allowMissingColumns=True)
    return replace(extraction, frame=frame, problems={**extraction.problems, **problems})
