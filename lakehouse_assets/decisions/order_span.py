"""From where to where the rows of a batch lie in the total order: which earlier batches may have a row that is newer.

Belongs here: a span, its text, and which spans meet. Does not: measuring one (measures/order_span), or what follows for a
MERGE (merge_plan).
"""

import hashlib
import json
from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions.growing_map import GrowingMap

if TYPE_CHECKING:  # it loads all kinds of checks, which whoever reads a log does not need
    from lakehouse_assets.contracts.table_contract import TableContract

# The types of `last_modified` that have a span, by what their numbers are.
NUMBERS = {
    "tinyint": "integer", "smallint": "integer", "int": "integer", "bigint": "integer", "date": "days",
    "timestamp": "microseconds",
}  # fmt: skip
EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class OrderSpan:
    """``least``, ``greatest``: the first number in the total order, of a batch's clean rows. ``least`` is None if a row has
    none, and so is older than all others; ``greatest`` is None if no row has one.
    """

    least: int | None
    greatest: int | None

    def may_have_newer(self, other: "OrderSpan") -> bool:
        """Whether a row of this batch may be newer than a row of the other."""
        return other.least is None or (self.greatest is not None and self.greatest >= other.least)


@dataclass(frozen=True)
class Definition:
    """Hashes of what the numbers of a span are. ``lacking``: of a batch in which a row has no number. A wider type may read
    such a row, so that its type belongs to it; a number that was read stays the same.
    """

    complete: str
    lacking: str

    def of(self, span: OrderSpan) -> str:
        """The hash that belongs to this span."""
        return self.lacking if span.least is None else self.complete


def definition_of(spec: "TableContract") -> Definition | None:
    """Return what the numbers of a span are; None for a table whose batches have no span on record: without `last_modified`,
    or where it is of another type, or personal.
    """
    name = spec.last_modified
    if name is None or name in spec.pii_columns or spec.columns[name].type not in NUMBERS:
        return None
    numbers = NUMBERS[spec.columns[name].type]
    column = spec.columns[name]
    parts = [numbers, name, column.model_dump(exclude={"type", "unit", "description", "pii"})]
    parts += [spec.settings_of_values]
    lacking = _hash([*parts, column.type])
    return Definition(lacking if column.expr else _hash(parts), lacking)  # of an expression, a wider type may be another number


def _hash(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]


def span_as_text(definition: Definition, span: OrderSpan) -> str:
    """Return what `Decision.order_span` stores: the definition, and the two numbers or NULL.

    >>> span_as_text(Definition("1f2e3d4c", "5a6b7c8d"), OrderSpan(None, 7))
    '5a6b7c8d NULL 7'
    """
    numbers = ("NULL" if number is None else str(number) for number in (span.least, span.greatest))
    return " ".join([definition.of(span), *numbers])


def span_of(decision: Decision, definition: Definition | None) -> OrderSpan | None:
    """Return the span of a batch that this definition measured; None if it is not known."""
    if definition is None or decision.order_span is None:
        return None
    measured_by, span = _read_span(decision.order_span)
    return span if measured_by == definition.of(span) else None


@lru_cache(maxsize=1024)
def _read_span(text: str) -> tuple[str, OrderSpan]:
    measured_by, *numbers = text.split(" ")
    least, greatest = (None if number == "NULL" else int(number) for number in numbers)
    return measured_by, OrderSpan(least, greatest)


class _Reader:
    """Reads spans by the rules of a table; without `last_modified` its window is all that orders a batch."""

    def __init__(self, spec: "TableContract") -> None:
        self.definition, self.by_window = definition_of(spec), spec.last_modified is None

    def span(self, decision: Decision) -> OrderSpan | None:
        if self.by_window and decision.p_extracted_at is not None:
            start = (decision.p_extracted_at - EPOCH) // timedelta(microseconds=1)
            return OrderSpan(start, start)
        return span_of(decision, self.definition)

    def oldest(self, own: Iterable[Decision]) -> OrderSpan | None:
        """Return where these batches begin as a span; None if they publish no row."""
        starts = [each.least if (each := self.span(d)) else None for d in own if d.counts.rows_published]
        numbers = [number for number in starts if number is not None]
        return OrderSpan(min(numbers) if len(numbers) == len(starts) else None, None) if starts else None


def with_newer_rows(own: Iterable[Decision], others: Iterable[Decision], spec: "TableContract") -> list[Decision]:
    """Return those of the ``others`` that may have a row which is newer than one of ``own``. Without a span, one may."""
    reader = _Reader(spec)
    if (oldest := reader.oldest(own)) is None:
        return []
    published = [decision for decision in others if decision.counts.rows_published]
    return [d for d in published if (each := reader.span(d)) is None or each.may_have_newer(oldest)]


class RecordedSpans:
    """The batches with published rows, sorted by where they end in the total order: most end before a new one begins. They are
    grouped by what has measured them, and whether a row has no number.
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[str, bool], list[tuple[float, Batch]]] = {}
        self._batches: list[Batch] = []
        self._groups: GrowingMap[Batch, tuple[tuple[str, bool], float]] = GrowingMap()

    def copy(self) -> "RecordedSpans":
        """Return the same, to be changed."""
        other = RecordedSpans()
        other._ends = {kind: ends.copy() for kind, ends in self._ends.items()}
        other._batches, other._groups = self._batches.copy(), self._groups.copy()
        return other

    def put(self, decision: Decision) -> None:
        """Set a batch's current decision. Only an accepted batch with published rows has a span here."""
        batch, counts = decision.batch, decision.counts
        group = _group_of(decision) if decision.accepted and counts.rows_published else None
        before = self._groups.get(batch)
        if before == group:
            return
        if before is not None:
            ends = self._ends[before[0]]
            del ends[bisect_left(ends, (before[1], batch))]
            del self._batches[bisect_left(self._batches, batch)]
            del self._groups[batch]
        if group is not None:
            insort(self._ends.setdefault(group[0], []), (group[1], batch))
            insort(self._batches, batch)
            self._groups[batch] = group

    def with_newer_rows(self, own: Iterable[Decision], spec: "TableContract") -> list[Batch]:
        """Return the batches that may have a row which is newer than one of ``own``, as the function of this name."""
        reader = _Reader(spec)
        if (oldest := reader.oldest(own)) is None:
            return []
        if reader.by_window and (not self._batches or self._batches[0][0] is not None):
            since = None if oldest.least is None else EPOCH + timedelta(microseconds=oldest.least)
            return self._batches[0 if since is None else bisect_left(self._batches, (since,)) :]
        newer: list[Batch] = []
        for (measured_by, lacks), ends in self._ends.items():
            current = reader.definition and (reader.definition.lacking if lacks else reader.definition.complete)
            first = 0 if oldest.least is None or measured_by != current else bisect_left(ends, (oldest.least,))
            newer += [batch for _, batch in ends[first:]]
        return newer


def _group_of(decision: Decision) -> tuple[tuple[str, bool], float]:
    if decision.order_span is None:
        return ("", False), 0
    measured_by, span = _read_span(decision.order_span)
    return (measured_by, span.least is None), float("-inf") if span.greatest is None else span.greatest
