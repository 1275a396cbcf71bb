"""Polls of a guarded table whose newest version a catalog names: when it is asked, and how long an answer counts. No JVM.

Belongs here: questions with answers made by hand. Does not: a real catalog (e2e/test_guard_iceberg_catalog).
"""

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.errors import SourceError
from lakehouse_assets.guards import catalog_poll
from lakehouse_assets.guards.catalog_poll import forget_answer, located_for_poll
from lakehouse_assets.guards.observed_table import GuardState
from lakehouse_assets.sources.base import AnswerPending
from lakehouse_assets.sources.poll_queue import PollQueue
from lakehouse_assets_tests.guards.guarded_orders import orders_guard

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ORDERS = orders_guard("", table="ice.db.orders", format="iceberg")


class Question:
    """A question that is over once `ready` is set."""

    began, ready = 0.0, False

    def __init__(self, answer) -> None:
        self.text = answer

    def clock(self) -> float:
        return self.began

    def is_over(self) -> bool:
        return self.ready

    def answer(self):
        if isinstance(self.text, Exception):
            raise self.text
        return {"metadata_file": self.text}


@pytest.fixture
def questions(monkeypatch):
    """Those that were asked, in a process without Java; `answers` has what the next ones will be answered."""
    listed: list[Question] = []
    answers: list = []
    monkeypatch.setattr(catalog_poll.SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(catalog_poll, "_ANSWERS", {})
    monkeypatch.setattr(catalog_poll, "QUEUE", PollQueue())

    def ask(module, question, *_):
        assert question == {"guard": {"name": "orders", "table": "ice.db.orders", "format": "iceberg"}}
        listed.append(Question(answers.pop(0)))
        return listed[-1]

    monkeypatch.setattr(catalog_poll, "ask_process", ask)
    return listed, answers


def poll(settings, minutes: float, *records):
    state = GuardState([], {record.batch: record for record in records})
    return located_for_poll(ORDERS, settings, state, NOW + timedelta(minutes=minutes)).path


def judged(minutes: float) -> ExtractionRecord:
    at = NOW + timedelta(minutes=minutes)
    return ExtractionRecord("orders", at, 1, "", 1, (), 1, "r", at)


def test_one_poll_asks_and_a_later_one_has_the_answer_which_counts_for_its_minutes(questions, settings):
    listed, answers = questions
    answers += ["file:/w/m1.metadata.json", "s3://w/m2.metadata.json", "/w/m3.metadata.json"]
    for minutes in (0, 1):
        with pytest.raises(AnswerPending):
            poll(settings, minutes)
    listed[0].ready = True
    assert poll(settings, 2) == "/w/m1.metadata.json"
    assert poll(settings, 17) == "/w/m1.metadata.json" and len(listed) == 1
    with pytest.raises(AnswerPending):
        poll(settings, 18)
    listed[1].ready = True
    assert poll(settings, 19) == "s3://w/m2.metadata.json"
    # A run since then has asked the catalog itself, and judged what it named: an older answer would rewind the table.
    with pytest.raises(AnswerPending):
        poll(settings, 20, judged(19.5))
    listed[2].ready = True
    assert poll(settings, 21, judged(19.5)) == "/w/m3.metadata.json" and len(listed) == 3


def test_an_error_counts_as_long_and_a_file_that_cannot_be_read_does_not(questions, settings):
    listed, answers = questions
    answers += [SourceError("orders: table: ice.db.orders: the catalog cannot be asked: refused"), "/w/m1.metadata.json"]
    with pytest.raises(AnswerPending):
        poll(settings, 0)
    listed[0].ready = True
    for minutes in (1, 14):
        with pytest.raises(SourceError, match="the catalog cannot be asked: refused"):
            poll(settings, minutes)
    forget_answer(ORDERS, settings)
    with pytest.raises(AnswerPending):
        poll(settings, 14)
    listed[1].ready = True
    assert poll(settings, 15) == "/w/m1.metadata.json"
