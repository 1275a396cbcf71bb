"""`lakehouse run --offsets`: which windows have some messages of a topic.

Belongs here: an interval of offsets as text, and the windows that recorded them. Does not: judging them (operations).
"""

import re
from typing import TYPE_CHECKING

from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.settings import Settings

if TYPE_CHECKING:
    from lakehouse_assets.contracts.table import TableSpec

OFFSETS = re.compile(r"([0-9]{1,9})@([0-9]{1,18})(?:\.\.([0-9]{1,18}))?")


def windows_of_offsets(text: str, settings: Settings, spec: "TableSpec") -> str:
    """Return the first and the last window, as ``A..B``, that have messages of these offsets: ``PARTITION@FIRST..LAST``, both
    included, or one offset. Raises RefusedError for another form, a table that reads no topic, messages that no window has, or
    windows between which there are others.
    """
    from lakehouse_assets.contracts.kafka_source import KafkaSource
    from lakehouse_assets.sources.kafka_ranges import find_starts, range_from_text
    from lakehouse_assets.storage.source_positions import read_positions

    if not isinstance(spec.source, KafkaSource):
        raise RefusedError(f"--offsets: {spec.name} reads no topic; name its windows by --window")
    match = OFFSETS.fullmatch(text)
    partition, first, last = ((int(number) if number else None) for number in match.groups()) if match else (None, None, None)
    if partition is None or first is None:
        raise RefusedError(f"--offsets {text}: give PARTITION@FIRST..LAST, as 0@1200..1800")
    last = first if last is None else last
    if first > last:
        raise RefusedError(f"--offsets {text}: the first offset is after the last")
    ranges = {start: range_from_text(position) for start, position in read_positions(settings, spec.name).items()}
    starts = find_starts(ranges, partition, first, last)
    if not starts:
        raise RefusedError(f"--offsets {text}: no window of {spec.name} has these messages")
    keys = [spec.extraction.window_at(start).key for start in starts]
    if others := sum(starts[0] < start < starts[-1] for start in ranges) - len(starts[1:-1]):
        # A partition that was slow, or that has the same offsets twice.
        text = f"--offsets {text}: these messages are in {first_of(keys, 5)}, with {others} more window(s) between"
        raise RefusedError(f"{text}; name those to judge by --window")
    return f"{keys[0]}..{keys[-1]}"
