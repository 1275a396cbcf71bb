"""What was measured of each window of a baseline, in numbers of rows: a process keeps it, and reads only what is new.

Belongs here: counts by window, and the rows of some windows without distributions. Does not: the baseline's state
(baseline_state), or keeping a log's files (folded_log).

Whether the kept baseline is still right is decided by these counts of all its windows. To read them all for each window takes
seconds where there are 100,000.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lakehouse_assets.storage import delta
from lakehouse_assets.storage.baseline_rows import Row, Source, group_by_source, group_rows, row_key
from lakehouse_assets.storage.delta_dataset import read_rows
from lakehouse_assets.storage.folded_log import Rows, read_folded

# The columns that are read of every accepted window: sketches and counted values are a thousand times larger.
COUNTS = ("p_extracted_at", "decision_id", "decision_number", "feature", "stratum", "kind", "relations")
COUNTS += ("rows", "nulls", "nans", "infinities", "others", "distinct", "texts")
# By feature and stratum, rows and nulls: how many rows of the baseline.
Measured = Counter[tuple[Any, ...]]


class BaselineCounts:
    """The counts of every window, and rows that this process has just read. ``path``: of the baseline."""

    def __init__(self, path: str, table: str) -> None:
        self._path = path
        self.by_source, self._read = read_folded(path, table, COUNTS, _Fold, lambda fold: (dict(fold.counts), fold.take_rows()))

    def rows_of(self, sources: Collection[Source]) -> Mapping[Source, Sequence[Row]]:
        """Return the `COUNTS` of these windows."""
        if all(len(self._read.get(source, ())) == self.by_source.get(source, Counter()).total() for source in sources):
            return {source: self._read[source] for source in sources if source in self._read}
        return self._read_rows(sources)

    def _read_rows(self, sources: Collection[Source]) -> Mapping[Source, Sequence[Row]]:
        starts = [start for _, start in sources]
        filters: list[tuple[str, str, Any]] = [("p_extracted_at", ">=", min(starts)), ("p_extracted_at", "<=", max(starts))]
        if len(sources) < len(self.by_source) // 2:
            filters.append(("decision_id", "in", sorted({name for name, _ in sources})))
        dataset = delta.open_dataset(self._path, bounds=["p_extracted_at"])
        columns = [name for name in COUNTS if name in dataset.schema.names]
        rows = group_by_source(read_rows(dataset, columns, delta.as_expression(filters)))
        return {source: rows[source] for source in sources if source in rows}


class WholeRows:
    """The same of rows that are all read, with their distributions."""

    def __init__(self, rows: Mapping[Source, Sequence[Row]]) -> None:
        self.by_source = {source: count_measurements(own) for source, own in rows.items()}
        self._rows = rows

    def rows_of(self, _: Collection[Source]) -> Mapping[Source, Sequence[Row]]:
        """Return all of them."""
        return self._rows


class _Fold:
    """``counts``: of each window. A window's counts are never changed: there are others in their place."""

    def __init__(self, rows: Rows, files: Sequence[str]) -> None:
        self.counts: dict[Source, Measured] = {}
        self._unread: dict[Source, list[Row]] = {}
        self.add(rows, files)

    def __len__(self) -> int:
        return len(self.counts)

    def add(self, rows: Rows, _: Sequence[str]) -> bool:
        """Add rows that came later."""
        by_source = group_rows(rows)
        for source, own in by_source.items():
            self.counts[source] = self.counts.get(source, Counter()) + count_measurements(own)
            self._unread.setdefault(source, []).extend(own)
        return True

    def take_rows(self) -> Mapping[Source, Sequence[Row]]:
        """Return the rows that were added since this was asked last."""
        rows, self._unread = self._unread, {}
        return rows


def count_measurements(rows: Rows) -> Measured:
    """Return how many rows a window has of each feature and stratum, with their counts."""
    return Counter((*row_key(row), row["rows"], row["nulls"]) for row in rows)
