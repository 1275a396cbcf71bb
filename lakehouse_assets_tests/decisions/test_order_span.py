"""Which batches may have a newer row than others: spans of the total order, their text, and what has none.

Belongs here: a span by itself. Does not: what a MERGE does with it (laws/test_histories).
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_assets.contracts.decision import Counts
from lakehouse_assets.decisions import ledger, order_span
from lakehouse_assets.decisions.decision_log import DecisionLog
from lakehouse_assets.decisions.order_span import OrderSpan, RecordedSpans, definition_of, span_of, with_newer_rows
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import readings

PUBLISHED = Counts(3, 3, 0, 0, 0)
numbers = st.lists(st.none() | st.integers(-3, 3), min_size=1, max_size=4)


def span(values: list[int | None]) -> OrderSpan:
    integers = [value for value in values if value is not None]
    return OrderSpan(None if None in values else min(integers), max(integers, default=None))


@given(numbers, numbers)
def test_a_batch_may_have_a_newer_row_where_one_is_not_older_than_all(own, others):
    """NULL is older than any number. Rows of one number may be either, as later columns of the order say."""
    ranks = [[-9 if value is None else value for value in values] for values in (own, others)]
    expected = max(ranks[1]) >= min(ranks[0])
    assert span(others).may_have_newer(span(own)) == (expected or None in own)


def test_a_span_is_read_by_the_contract_that_it_was_measured_by():
    spec = readings()
    decision = logbook.decided(1, order_span=logbook.recorded_span(spec, OrderSpan(5, None)))
    assert span_of(decision, definition_of(spec)) == OrderSpan(5, None)
    column = spec.columns["updated"]
    renamed = {**spec.columns, "updated": column.model_copy(update={"source_name": "changed_at"})}
    assert span_of(decision, definition_of(spec.model_copy(update={"columns": renamed}))) is None, "these are other values"
    described = {**spec.columns, "updated": column.model_copy(update={"description": "when"})}
    assert span_of(decision, definition_of(spec.model_copy(update={"columns": described}))) == OrderSpan(5, None)
    assert span_of(logbook.decided(1), definition_of(spec)) is None, "an earlier version measured none"


def test_a_wider_type_may_read_what_another_could_not():
    """A row without a number may be the newest of all by then, and an expression may have another value."""
    narrow, wide, expression = (
        readings(columns={**readings().columns, "updated": column})
        for column in ({"type": "int"}, {"type": "bigint"}, {"type": "int", "expr": "value % 1000"})
    )
    wide_expression = readings(columns={**readings().columns, "updated": {"type": "bigint", "expr": "value % 1000"}})

    def reads(then, now, span: OrderSpan) -> bool:
        decision = logbook.decided(1, order_span=logbook.recorded_span(then, span))
        return span_of(decision, definition_of(now)) == span

    complete, lacking = OrderSpan(1, 5), OrderSpan(None, 5)
    assert reads(narrow, wide, complete)
    assert reads(narrow, narrow, lacking)
    assert not reads(narrow, wide, lacking)
    assert reads(expression, expression, complete)
    assert not reads(expression, wide_expression, complete)


@pytest.mark.parametrize("kind", ["double", "string", "timestamp_ntz", "decimal(9,2)"])
def test_a_type_without_numbers_has_no_span(kind):
    spec = readings()
    columns = {**spec.columns, "updated": spec.columns["updated"].model_copy(update={"type": kind})}
    assert definition_of(spec.model_copy(update={"columns": columns})) is None


def test_a_personal_column_has_no_span():
    spec = readings()
    columns = {**spec.columns, "updated": spec.columns["updated"].model_copy(update={"pii": True})}
    assert definition_of(spec.model_copy(update={"columns": columns})) is None


def test_without_last_modified_windows_are_the_order():
    spec = readings(last_modified=None)
    first, second = (logbook.decided(number, counts=PUBLISHED) for number in (1, 2))
    assert definition_of(spec) is None
    assert with_newer_rows([second], [first], spec) == []
    assert with_newer_rows([first], [second], spec) == [second]


def test_what_is_not_known_may_be_newer_and_what_has_no_row_is_not():
    spec = readings()
    early, late = (
        logbook.decided(number, counts=PUBLISHED, order_span=logbook.recorded_span(spec, OrderSpan(at, at)))
        for number, at in ((1, 10), (2, 20))
    )
    unknown, empty = logbook.decided(3, counts=PUBLISHED), logbook.decided(4, counts=Counts(3, 0, 0, 3, 0))
    assert with_newer_rows([late], [early, unknown, empty], spec) == [unknown]
    assert with_newer_rows([unknown], [early, late], spec) == [early, late]
    assert with_newer_rows([empty], [early, late, unknown], spec) == []


BATCHES = st.tuples(st.integers(1, 8), st.sampled_from(["today", "before", "unknown", "removed", "empty"]), numbers)


@given(st.lists(BATCHES, max_size=12), numbers, st.booleans())
def test_recorded_spans_find_what_a_look_at_each_batch_does(history, own, by_window):
    spec = readings(last_modified=None) if by_window else readings()
    earlier = readings(columns={**readings().columns, "updated": {"type": "bigint", "expr": "value % 1000"}})
    spans, accepted = RecordedSpans(), dict[object, object]()
    for day, kind, values in history:
        text = None if kind == "unknown" else logbook.recorded_span(earlier if kind == "before" else readings(), span(values))
        verdict = "quarantined" if kind == "removed" else "published"
        decision = logbook.decided(day, verdict=verdict, order_span=text, counts=Counts() if kind == "empty" else PUBLISHED)
        spans = spans.copy()
        spans.put(decision)
        accepted.pop(decision.batch, None)
        accepted |= {} if kind == "removed" else {decision.batch: decision}
    new = logbook.decided(5, order_span=logbook.recorded_span(readings(), span(own)), counts=PUBLISHED)
    newer = {each.batch for each in with_newer_rows([new], accepted.values(), spec)}
    assert {*spans.with_newer_rows([new], spec)} == newer


def test_a_long_history_in_order_is_not_looked_at(monkeypatch):
    """One more window of many: its rows are newer than all, and only the last ones are compared."""
    log = DecisionLog(
        logbook.decided(n, order_span=logbook.recorded_span(readings(), OrderSpan(n, n)), counts=PUBLISHED)
        for n in range(1, 200)
    )
    new = logbook.decided(200, order_span=logbook.recorded_span(readings(), OrderSpan(198, 200)), counts=PUBLISHED)
    live, calls = ledger.live_decisions(log), []
    read = order_span.span_of
    monkeypatch.setattr(order_span, "span_of", lambda *args: calls.append(args) or read(*args))
    assert [start.day for start, _ in live.with_newer_rows([new], readings())] == [16, 17]
    assert len(calls) <= 2
