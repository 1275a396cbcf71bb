"""Whose question is asked next, with questions that are over when the test says so. No JVM.

Belongs here: turns, and answers that are fetched once. Does not: a process that answers (e2e/test_table_source).
"""

import pytest

from lakehouse_assets.sources.base import AnswerPending
from lakehouse_assets.sources.poll_queue import FORGOTTEN_SECONDS, PollQueue


class Question:
    def __init__(self, name: str, began: float) -> None:
        self.name, self.began, self.over = name, began, False

    def is_over(self) -> bool:
        return self.over


class Tables:
    """Polls of tables by name, at a time that the test sets."""

    def __init__(self) -> None:
        self.now, self.questions = 0.0, dict[str, Question]()
        self.queue = PollQueue(lambda: self.now)

    def ask(self, name: str) -> Question:
        self.questions[name] = Question(name, self.now)
        return self.questions[name]

    def poll(self, name: str) -> str:
        """The answer, or what the table waits for."""
        try:
            return f"answer of {self.queue.next_answer(name, lambda: self.ask(name)).name}"
        except AnswerPending as reason:
            return str(reason)


def test_a_question_is_asked_once_and_answered_once():
    tables = Tables()
    assert tables.poll("a") == "Spark is asked"
    tables.now = 31.4
    assert tables.poll("a") == "Spark has been asked for 31 s"
    first = tables.questions["a"]
    first.over = True
    assert (tables.poll("a"), tables.poll("a")) == ("answer of a", "Spark is asked")
    assert tables.questions["a"] is not first


def test_one_spark_at_a_time_and_each_table_has_its_turn():
    tables, answers = Tables(), []
    for _ in range(12):
        tables.now += 30
        for name in ("a", "b", "c"):
            running = [question for question in tables.questions.values() if not question.over]
            assert len(running) <= 1
            if (answer := tables.poll(name)).startswith("answer"):
                answers.append(answer[-1])
        for question in tables.questions.values():
            question.over = True
    counts = [answers.count(name) for name in "abc"]
    assert min(counts) >= 3 and max(counts) - min(counts) <= 1


def test_a_table_that_is_gone_holds_up_no_other():
    tables = Tables()
    tables.poll("a")
    waits = "it waits for its turn: Spark answers for another table"
    assert (tables.poll("gone"), tables.poll("b")) == (waits, waits)
    tables.questions["a"].over = True
    assert tables.poll("b") == waits, "the other was first"
    tables.now = FORGOTTEN_SECONDS + 1
    assert tables.poll("b") == "Spark is asked"


def test_a_question_that_cannot_be_asked_raises_and_takes_no_turn():
    tables = Tables()

    def no_java() -> Question:
        raise OSError("no Java")

    with pytest.raises(OSError, match="no Java"):
        tables.queue.next_answer("a", no_java)
    assert tables.poll("b") == "Spark is asked"
