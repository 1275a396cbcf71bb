"""The contract of a source kind: fingerprints, exactly the requested windows, all values as strings, corrupt records kept.

Belongs here: what holds of every source. Does not: what one source has; its author gives windows and ways to change them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.sources.base import Extraction, Source
from lakehouse_assets.testing.promise import require

Open = Callable[[Mapping[datetime, str]], Source]
FIRST = {"p_extracted_at": "timestamp", "_source_file": "string", "_columns": "array<string>", "_corrupt_record": "string"}


def verify_source(
    spark: SparkSession,
    open_source: Open,
    arrived: Sequence[Window],
    absent: Window,
    change: Callable[[Window], None] | None = None,
    corrupt: Callable[[Window], None] | None = None,
) -> None:
    """Verify a source. ``open_source``: opens it, with the recorded positions by the windows' starts. ``arrived``: at least two
    windows with good rows. ``absent``: a window that has not arrived. ``change``: changes the data of a window; where positions
    are recorded, it sends more. ``corrupt``: adds a record to a window that cannot be read.
    """
    require(len(arrived) >= 2, "verify_source needs two windows that have arrived")
    windows = sorted(arrived)
    source = _verify_fingerprints(open_source, windows, absent)
    first = source.read(spark, windows[:1])
    _verify_frame(first, windows[:1])
    all_windows = source.read(spark, windows)
    _verify_frame(all_windows, windows)
    alone = [source.read(spark, [window]) for window in windows]
    rows = _rows(all_windows)
    require(rows == sum(map(_rows, alone), Counter()), "windows that are read together have the rows of each alone")
    require(_rows(_recorded(open_source, windows).read(spark, windows)) == rows, "a second read gives the same rows")
    require(not _corrupt_rows(all_windows), "a good record has no _corrupt_record")
    if change is not None:
        _verify_change(spark, open_source, windows, change)
    if corrupt is not None:
        good = _rows(_recorded(open_source, windows).read(spark, windows[1:2]))
        corrupt(windows[1])
        damaged = _recorded(open_source, windows).read(spark, windows[1:2])
        _verify_frame(damaged, windows[1:2])
        require(bool(_corrupt_rows(damaged)), "a record that cannot be read is a row with its text in _corrupt_record")
        require(not good - _rows(damaged), "the good records beside it are read")


def _verify_change(spark: SparkSession, open_source: Open, windows: Sequence[Window], change: Callable[[Window], None]) -> None:
    """Change the first window. A source whose positions are recorded keeps what it read; any other shows that it changed."""
    recorded, has_positions = _recorded(open_source, windows), bool(open_source({}).positions(windows))
    prints, rows = recorded.fingerprints(windows), _rows(recorded.read(spark, windows))
    change(windows[0])
    if has_positions:
        require(recorded.fingerprints(windows) == prints, "a window whose position is recorded keeps its fingerprint")
        require(_rows(recorded.read(spark, windows)) == rows, "and its rows, whatever has arrived since")
        return
    now = _recorded(open_source, windows).fingerprints(windows)
    require(now.get(windows[0]) != prints[windows[0]], "a window that changed has another fingerprint")
    others = {window: now.get(window) for window in windows[1:]}
    require(others == {window: prints[window] for window in windows[1:]}, "the other windows keep theirs")


def _recorded(open_source: Open, windows: Sequence[Window]) -> Source:
    """Return the source, opened with the positions that it wants recorded before a read."""
    positions = open_source({}).positions(windows)
    return open_source({window.start: text for window, text in positions.items()})


def _verify_fingerprints(open_source: Open, windows: Sequence[Window], absent: Window) -> Source:
    source = _recorded(open_source, windows)
    prints = source.fingerprints([*windows, absent])
    require(set(prints) == set(windows), "fingerprints has the windows that have arrived, and no others")
    require(all(isinstance(text, str) and text for text in prints.values()), "a fingerprint is a text that is not empty")
    require(source.fingerprints([*windows, absent]) == prints, "fingerprints are the same when asked again")
    require(_recorded(open_source, windows).fingerprints([*windows, absent]) == prints, "and when the source is opened again")
    require(source.fingerprints(windows[:1]) == {windows[0]: prints[windows[0]]}, "fingerprints has the requested windows only")
    require(source.fingerprints([]) == {}, "no window is asked for, and none is returned")
    return source


def _verify_frame(extraction: Extraction, windows: Sequence[Window]) -> None:
    types = dict(extraction.frame.dtypes)
    require(dict(list(types.items())[:4]) == FIRST, f"the frame begins with {', '.join(FIRST)}, of these types: {FIRST}")
    others = {name: kind for name, kind in types.items() if name not in FIRST}
    require(set(others.values()) <= {"string"}, f"the source's columns are strings: {others}")
    require(set(extraction.columns) == set(windows), "`columns` has exactly the requested windows")
    frame = extraction.frame
    starts = {row[0].astimezone(UTC) for row in frame.select("p_extracted_at").distinct().collect()}
    require(starts <= {window.start for window in windows}, "the frame has rows of exactly the requested windows")
    for row in frame.select("_columns", "_corrupt_record", *[f"`{name.replace('`', '``')}`" for name in others]).collect():
        values = dict(zip(others, row[2:], strict=True))
        if row[1] is not None:
            require(not any(value is not None for value in values.values()), "a corrupt record has NULL in all columns")
        unlisted = [name for name, value in values.items() if value is not None and name not in row[0]]
        require(not unlisted, f"`_columns` lists the row's columns; it lacks {unlisted}")


def _rows(extraction: Extraction) -> Counter:
    return Counter(str(row.asDict()) for row in extraction.frame.collect())


def _corrupt_rows(extraction: Extraction) -> list:
    return extraction.frame.where("_corrupt_record IS NOT NULL").collect()
