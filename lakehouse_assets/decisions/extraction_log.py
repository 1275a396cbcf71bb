"""A table's extractions in order, with what they add up to: by window, and by the columns that they had.

Belongs here: these sums, brought up to date by further extractions. Does not: reading them (storage/logs).
"""

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.decisions.growing_map import GrowingMap

# The columns of an extraction, and those that some of its rows lack.
Shape = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass
class _Sums:
    by_batch: GrowingMap[Batch, ExtractionRecord] = field(default_factory=GrowingMap)
    by_window: GrowingMap[datetime, tuple[ExtractionRecord, ...]] = field(default_factory=GrowingMap)
    by_shape: dict[Shape, list[ExtractionRecord]] = field(default_factory=dict)
    has_positions: bool = False

    def copy(self) -> "_Sums":
        by_shape = {shape: records.copy() for shape, records in self.by_shape.items()}
        return replace(self, by_batch=self.by_batch.copy(), by_window=self.by_window.copy(), by_shape=by_shape)

    def add(self, record: ExtractionRecord) -> None:
        before = self.by_window.get(record.p_extracted_at, ())
        self.by_window[record.p_extracted_at] = tuple(sorted((*before, record), key=lambda each: each.extraction_seq))
        self.by_batch[record.batch] = record
        self.by_shape.setdefault((record.columns, record.lacking), []).append(record)
        self.has_positions |= record.position is not None


class ExtractionLog(Sequence[ExtractionRecord]):
    """A table's extractions by window and number, each once. Nobody changes it: `followed_by` gives another one."""

    def __init__(self, records: Iterable[ExtractionRecord] = ()) -> None:
        self._records = sorted(records, key=lambda record: record.batch)
        self._sums = _Sums()
        for record in self._records:
            self._sums.add(record)

    def followed_by(self, records: Iterable[ExtractionRecord]) -> "ExtractionLog":
        """Return a log that also has these extractions, which this one lacks."""
        log = ExtractionLog()
        log._records, log._sums = self._records.copy(), self._sums.copy()
        for record in records:
            insort(log._records, record, key=lambda each: each.batch)
            log._sums.add(record)
        return log

    @property
    def by_batch(self) -> GrowingMap[Batch, ExtractionRecord]:
        """The extractions by batch: for reading."""
        return self._sums.by_batch

    @property
    def by_window(self) -> GrowingMap[datetime, tuple[ExtractionRecord, ...]]:
        """The extractions of each window, by number: for reading."""
        return self._sums.by_window

    @property
    def by_shape(self) -> dict[Shape, list[ExtractionRecord]]:
        """The extractions by their columns: for reading."""
        return self._sums.by_shape

    @property
    def has_positions(self) -> bool:
        """Whether an extraction has a position."""
        return self._sums.has_positions

    def of_windows(self, starts: Collection[datetime]) -> list[ExtractionRecord]:
        """Return the extractions of these windows, by window and number."""
        return [record for start in sorted(starts) for record in self._sums.by_window.get(start, ())]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ExtractionRecord]:
        return iter(self._records)

    def __getitem__(self, index: Any) -> Any:
        return self._records[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._records == [*other]

    __hash__ = None  # type: ignore[assignment]


def extraction_log_of(records: Iterable[ExtractionRecord]) -> ExtractionLog:
    """Return these extractions as a log; a log stays itself."""
    return records if isinstance(records, ExtractionLog) else ExtractionLog(records)


def records_of_shapes(
    records: Iterable[ExtractionRecord], is_wanted: Callable[[tuple[str, ...], tuple[str, ...]], bool]
) -> list[ExtractionRecord]:
    """Return the extractions whose columns, and columns that some rows lack, are wanted. Most of a table have the same ones."""
    by_shape = extraction_log_of(records).by_shape
    return [record for shape, some in by_shape.items() if is_wanted(*shape) for record in some]
