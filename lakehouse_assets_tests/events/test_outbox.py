"""The event, and the order in which events are sent: pure, with a sender that fails on request. No Kafka, no JVM.

Belongs here: what an event holds, shortening, what is due, what counts as sent. Does not: Kafka (e2e/test_kafka), the instance.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from lakehouse_assets.contracts.decision import Reason
from lakehouse_assets.contracts.event import event_of
from lakehouse_assets.events.outbox import SHOWN, TEXT, Answer, Cursor, advance_cursor, deliver, find_due, shorten
from lakehouse_assets_tests.logbook import DECIDED, FAILED, decided, outcome
from lakehouse_assets_tests.support import PROJECT_ROOT

SCHEMA = json.loads((PROJECT_ROOT / "docs" / "decision-event.schema.json").read_text())


def applied_decision(number: int, table: str = "readings", **changes):
    return decided(number, table, **{"applied_at": DECIDED, "silver_version": number, **changes})


def read_event(decision) -> dict:
    """The event as a reader gets it, held to the published schema."""
    event = json.loads(event_of(decision).model_dump_json(), parse_constant=pytest.fail)
    jsonschema.validate(event, SCHEMA, format_checker=jsonschema.FormatChecker())
    return event


@pytest.mark.parametrize(
    ("ruleset", "end"),
    [
        ({"columns": {}}, None),
        ({"columns": {}, "cadence": None}, None),
        ({"columns": {}, "cadence": "daily", "windows": {"cadence": "daily"}}, "2024-01-03T00:00:00Z"),
    ],
)
def test_a_guards_decision_has_an_event(ruleset, end):
    """Its rules have no extraction. A version is a moment; a window by a column of time has a length."""
    event = read_event(applied_decision(2, ruleset=json.dumps(ruleset)))
    assert (event["window_start"], event["window_end"]) == ("2024-01-02T00:00:00Z", end)


def test_an_event_contains_the_decision_and_every_check():
    event = read_event(
        applied_decision(2, waived=("drift",), by="ann", because="the barometer is right", inputs={"sensors": 4})
    )
    assert event["event_id"] == applied_decision(2).decision_id
    assert (event["event_type"], event["layer"], event["verdict"]) == (
        "decision.applied", "silver", "published_with_warnings",
    )  # fmt: skip
    assert (event["window_start"], event["window_end"]) == ("2024-01-02T00:00:00Z", "2024-01-03T00:00:00Z")
    assert event["counts"]["rows_in"] == 3
    assert [(c["check"], c["status"]) for c in event["checks"]] == [("not_empty", "passed"), ("value_in_range", "failed")]
    assert (event["waived"], event["by"], event["inputs"]) == (["drift"], "ann", {"sensors": 4})
    assert event["shortened"] == []


def test_a_window_s_end_is_that_of_the_cadence_it_was_judged_by():
    monthly = applied_decision(
        1, p_extracted_at=datetime(2024, 2, 1, tzinfo=UTC), ruleset='{"extraction": {"cadence": "monthly"}}'
    )
    assert read_event(monthly)["window_end"] == "2024-03-01T00:00:00Z"
    streamed = applied_decision(
        1,
        p_extracted_at=datetime(2024, 2, 1, 13, 0, 5, 123_000, tzinfo=UTC),
        ruleset='{"extraction": {"cadence": "hourly", "stream": {"trigger": "5s"}}}',
    )
    assert read_event(streamed)["window_end"] == "2024-02-01T13:00:05.124000Z"


def test_gold_has_no_window():
    event = read_event(applied_decision(1, "gold_days"))
    assert (event["layer"], event["window_start"], event["window_end"]) == ("gold", None, None)


def test_a_superseded_batch_is_an_event_of_its_own():
    old, new = applied_decision(1), applied_decision(2, extraction_seq=2)
    event = read_event(replace(old, number=2, superseded_by=new.decision_id, checks=()))
    assert (event["event_type"], event["superseded_by"], event["checks"]) == ("batch.superseded", new.decision_id, [])
    assert len({event["event_id"], old.decision_id, new.decision_id}) == 3


def test_unapplied_decisions_send_no_event():
    with pytest.raises(ValueError, match="not applied"):
        event_of(decided(1))


def test_figures_that_json_has_not_are_texts():
    odd = outcome("mean", observed={"value": float("nan"), "bounds": [float("-inf"), float("inf"), 1.5]})
    (check,) = read_event(applied_decision(1, checks=(odd,)))["checks"]
    assert check["observed"] == {"value": "NaN", "bounds": ["-Infinity", "Infinity", 1.5]}


def test_the_schema_refuses_invalid_events():
    event = read_event(applied_decision(1))
    for wrong in (
        {**event, "verdict": "fine"},
        {**event, "schema_version": 2},
        {k: v for k, v in event.items() if k != "table"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


def test_an_event_cannot_change():
    with pytest.raises(ValidationError, match="frozen"):
        event_of(applied_decision(1)).verdict = "published"  # pyright: ignore


def test_a_large_event_is_shortened_step_by_step_and_marked():
    long = "x" * 5000
    checks = [outcome(f"passes_{n}", observed={"figures": [1.5] * 100}, message=long) for n in range(100)]
    checks += [{**FAILED, "check": f"fails_{n}", "message": long} for n in range(100)]
    reasons = [Reason(f"fails_{n}", "critical", "failed", "rows", 1, long) for n in range(100)]
    inputs = {f"silver_{n}": n for n in range(500)}
    event = event_of(applied_decision(1, checks=tuple(checks), reasons=tuple(reasons), because=long, by=long, inputs=inputs))
    forms = list(shorten(event))
    sizes = [len(form.model_dump_json()) for form in forms]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 1_500_000
    assert sizes[-1] < 30_000, "whatever it holds, the last form is small"
    assert [form.shortened for form in forms] == [
        (), ("observed",), ("observed", "messages"), ("observed", "messages", "passed checks"),
        ("observed", "messages", "passed checks", "checks"),
    ]  # fmt: skip
    assert not any(check.observed for check in forms[1].checks)
    assert len(forms[1].checks) == 200
    assert max(len(check.message) for check in forms[2].checks) == TEXT == len(forms[2].because or "")
    assert {check.status for check in forms[3].checks} == {"failed"}
    assert len(forms[4].checks) == len(forms[4].reasons) == SHOWN
    for form in forms:
        jsonschema.validate(json.loads(form.model_dump_json()), SCHEMA)
        assert (form.event_id, form.counts, form.verdict) == (event.event_id, event.counts, event.verdict)


class Fickle:
    """A broker that takes, refuses, or takes and does not say so; ``limit``: bytes that it takes at most."""

    def __init__(self, moods: Iterator[str], limit: int = 10**9) -> None:
        self.moods, self.limit = moods, limit
        self.log: list[tuple[str, str]] = []
        self.values: list[bytes] = []

    def send(self, messages, seconds):
        answers = {}
        for table, message in messages.items():
            mood = next(self.moods, "takes")
            if len(message.value) > self.limit:
                answers[table] = Answer(too_large=True, error="too large")
                continue
            if mood != "refuses":
                self.log.append((table, message.event_id))
                self.values.append(message.value)
            answers[table] = Answer(accepted=True) if mood == "takes" else Answer(error="no answer")
        return answers


def first_ones(log: list[tuple[str, str]], table: str) -> list[str]:
    """What a reader has that passes over ids that it knows."""
    return list(dict.fromkeys(event for name, event in log if name == table))


MOODS = st.lists(st.sampled_from(["takes", "takes", "refuses", "silent"]), max_size=30)


@settings(max_examples=200, deadline=None)
@given(MOODS, st.integers(1, 7), st.lists(st.integers(1, 6), min_size=1, max_size=3), st.lists(st.booleans(), max_size=40))
def test_whatever_fails_a_reader_gets_all_in_order_once_it_knows_repetitions(moods, at_most, lengths, lost):
    logs = {f"t{n}": [applied_decision(k, f"t{n}") for k in range(1, length + 1)] for n, length in enumerate(lengths)}
    broker, marks = Fickle(iter(moods)), iter(lost)
    cursors = {table: Cursor() for table in logs}
    for _ in range(200):
        waiting = {table: due for table in logs if (due := find_due(logs[table], cursors[table]))}
        if not waiting:
            break
        before = len(broker.log)
        delivered = deliver(waiting, broker, at_most=at_most, seconds=60)
        assert sum(map(len, delivered.accepted.values())) <= at_most
        for table, accepted in delivered.accepted.items():
            assert accepted == waiting[table][: len(accepted)], "an unbroken beginning"
            sent = [event for name, event in broker.log[before:] if name == table]
            assert sent[: len(accepted)] == [d.decision_id for d in accepted]
        if not next(marks, False):  # else: killed before the mark
            cursors = {t: advance_cursor(logs[t], delivered.accepted.get(t, []), cursors[t]) for t in logs}
    assert not {t: d for t in logs if (d := find_due(logs[t], cursors[t]))}, "nothing waits in the end"
    for table, decisions in logs.items():
        assert first_ones(broker.log, table) == [d.decision_id for d in decisions]


def test_a_refused_table_delays_no_other():
    waiting = {
        "a": [applied_decision(1, "a"), applied_decision(2, "a")],
        "b": [applied_decision(1, "b"), applied_decision(2, "b")],
    }
    delivery = deliver(waiting, Fickle(iter(["refuses"])), at_most=100, seconds=60)
    assert {table: len(accepted) for table, accepted in delivery.accepted.items()} == {"a": 0, "b": 2}
    assert delivery.errors == {"a": "no answer"}


def test_an_event_that_is_too_large_goes_shorter_and_blocks_nothing():
    large = applied_decision(1, checks=tuple(outcome(f"c{n}", observed={"x": "y" * 500}) for n in range(20)))
    broker = Fickle(iter(()), limit=6000)
    delivery = deliver({"readings": [large, applied_decision(2)]}, broker, at_most=100, seconds=60)
    assert [d.number for d in delivery.accepted["readings"]] == [1, 2]
    assert [json.loads(value)["shortened"] for value in broker.values] == [["observed"], []]
    never = deliver({"readings": [large]}, Fickle(iter(()), limit=10), at_most=100, seconds=60)
    assert "even without its checks" in never.errors["readings"]


@pytest.mark.parametrize(("ruleset", "error"), [("{", "JSONDecodeError"), ("[]", "AttributeError")])
def test_a_decision_that_cannot_be_serialized_is_named_and_delays_no_other(ruleset, error):
    broken = applied_decision(1, "a", ruleset=ruleset)
    delivery = deliver({"a": [broken], "b": [applied_decision(1, "b")]}, Fickle(iter(())), at_most=100, seconds=60)
    assert delivery.errors == {"a": f"decision 1 cannot be serialized: {error}"}
    assert len(delivery.accepted["b"]) == 1


def test_time_is_bounded():
    clock = iter([0.0, 1.0, 1.0, 11.0, 12.0, 13.0])
    waiting = {"readings": [applied_decision(1), applied_decision(2)]}
    delivery = deliver(waiting, Fickle(iter(())), at_most=100, seconds=10, clock=lambda: next(clock))
    assert len(delivery.accepted["readings"]) == 1


def test_a_skipped_decision_is_due_after_it_is_applied():
    decisions = [applied_decision(1), decided(2), applied_decision(3)]
    waiting = find_due(decisions, Cursor())
    assert [d.number for d in waiting] == [1, 3]
    cursor = advance_cursor(decisions, waiting, Cursor())
    assert cursor == Cursor(3, decisions[2].decision_id, (2,), "run-3")
    assert find_due(decisions, cursor) == []
    late = [decisions[0], applied_decision(2), decisions[2]]
    assert [d.number for d in find_due(late, cursor)] == [2]
    assert advance_cursor(late, find_due(late, cursor), cursor) == Cursor(3, decisions[2].decision_id, (), "run-3")


def test_decisions_that_were_made_again_after_a_loss_are_sent():
    """They have the numbers, and so the ids, of those that were sent; one of them is another."""
    before = [applied_decision(number) for number in (1, 2, 3)]
    cursor = advance_cursor(before, before, Cursor())
    again = [replace(decision, run_id="after the loss") for decision in before]
    again[1] = replace(again[1], verdict="quarantined")
    assert [d.decision_id for d in again] == [d.decision_id for d in before]
    assert find_due(again, cursor) == again
    # A cursor of an earlier release has no run: it counts as it did.
    assert find_due(again, replace(cursor, run_id="")) == []


def test_a_decision_and_its_supersession_are_marked_together():
    old, new = applied_decision(1), applied_decision(2, extraction_seq=2)
    decisions = [old, new, replace(old, number=2, superseded_by=new.decision_id, checks=())]
    assert advance_cursor(decisions, decisions[:2], Cursor()) == Cursor(1, old.decision_id, (), "run-1")
    assert find_due(decisions, advance_cursor(decisions, decisions, Cursor())) == []


def test_another_log_is_sent_from_its_beginning():
    cursor = advance_cursor([applied_decision(1), applied_decision(2)], [applied_decision(1), applied_decision(2)], Cursor())
    other = [applied_decision(1, ruleset_hash="another"), applied_decision(2, ruleset_hash="another")]
    assert find_due(other, cursor) == other
    assert advance_cursor(other, other[:1], cursor) == Cursor(1, other[0].decision_id, (), "run-1")
