"""Where a topic's partitions begin and end: asked of all of them at once, and an error of one is an error. No broker.

Belongs here: requests and answers of the light client. Does not: transactions and retention (e2e/test_kafka_bounds).
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError

from lakehouse_assets.errors import SourceError
from lakehouse_assets.sources import kafka_client
from lakehouse_assets.sources.kafka_client import Topic

MOMENT = datetime(2024, 5, 1, tzinfo=UTC)


class Client:
    """A consumer of a topic whose partition n has the offsets from n to 10 * n. ``errors``: by partition."""

    def __init__(self, partitions: int, offsets: dict[int, int] | None = None, **errors: int) -> None:
        self.partitions, self.offsets, self.errors = partitions, offsets or {}, errors
        self.requests: list[int] = []

    def list_topics(self, name: str, timeout: float) -> Any:
        topic = SimpleNamespace(error=None, partitions=dict.fromkeys(range(self.partitions)))
        return SimpleNamespace(topics={name: topic})

    def offsets_for_times(self, topics: Sequence[Any], timeout: float) -> list[Any]:
        self.requests.append(len(topics))
        return [self.answer(each.partition, each.offset) for each in topics]

    def answer(self, partition: int, time: int) -> Any:
        if (code := self.errors.get(f"p{partition}")) is not None:
            return SimpleNamespace(partition=partition, offset=-1, error=KafkaError(code))
        offset = {OFFSET_BEGINNING: partition, OFFSET_END: 10 * partition}.get(time, -1)
        return SimpleNamespace(partition=partition, offset=self.offsets.get(partition, offset), error=None)


def topic_of(client: Client) -> Topic:
    return Topic(client, "readings")  # type: ignore[arg-type]


def test_two_requests_ask_for_the_bounds_of_all_partitions():
    client = Client(500)
    low, high = topic_of(client).bounds()
    assert client.requests == [500, 500]
    assert (low[499], high[499], len(low), len(high)) == (499, 4990, 500, 500)


QUESTIONS: list[Callable[[Topic], object]] = [Topic.bounds, lambda topic: topic.offsets_at(MOMENT)]


@pytest.mark.parametrize("ask", QUESTIONS)
def test_a_partition_whose_leader_fails_is_an_error(ask):
    client = Client(3, p1=KafkaError.LEADER_NOT_AVAILABLE)
    with pytest.raises(SourceError, match=r"topic readings: .*[Ll]eader not available"):
        ask(topic_of(client))


def test_a_partition_without_an_answer_has_no_bounds():
    with pytest.raises(SourceError, match="topic readings: partition 2: it does not answer"):
        topic_of(Client(3, {2: OFFSET_END})).bounds()


def test_a_partition_without_a_message_of_a_time_is_left_out():
    assert topic_of(Client(3, {0: 4, 2: 7})).offsets_at(MOMENT) == {0: 4, 2: 7}


MILLISECONDS = int(MOMENT.timestamp() * 1000)


class Messages(Client):
    """A consumer that has the first of each partition's messages: its time in milliseconds, or an error's code."""

    def __init__(self, partitions: int, answers: dict[int, tuple[int, int] | int]) -> None:
        super().__init__(partitions)
        self.messages = [self.message(partition, answer) for partition, answer in answers.items()]
        self.assign = self.pause = self.resume = lambda _: None
        self.unassign = lambda: None

    def message(self, partition: int, answer: tuple[int, int] | int) -> Any:
        error = KafkaError(answer) if isinstance(answer, int) else None
        return SimpleNamespace(partition=lambda: partition, error=lambda: error, timestamp=lambda: answer)

    def poll(self, seconds: float) -> Any:
        return self.messages.pop(0) if self.messages else None


def at(milliseconds: int) -> tuple[int, int]:
    return TIMESTAMP_CREATE_TIME, milliseconds


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({0: at(MILLISECONDS + 9), 1: at(MILLISECONDS)}, (MOMENT, True)),
        ({0: at(MILLISECONDS * 1000), 1: at(MILLISECONDS)}, (MOMENT, True)),  # a producer that writes microseconds
        ({0: at(MILLISECONDS * 10**6), 1: (TIMESTAMP_NOT_AVAILABLE, 0)}, (None, True)),
        ({0: at(-(2**63)), 1: at(MILLISECONDS)}, (MOMENT, True)),
        ({0: KafkaError._PARTITION_EOF, 1: at(MILLISECONDS)}, (MOMENT, True)),  # aborted transactions alone
        ({0: KafkaError.LEADER_NOT_AVAILABLE, 1: at(MILLISECONDS)}, (MOMENT, False)),
        ({1: at(MILLISECONDS)}, (MOMENT, False)),
        ({}, (None, False)),
    ],
)
def test_the_oldest_time_of_the_partitions_that_answer(monkeypatch, answers, expected):
    monkeypatch.setattr(kafka_client, "OLDEST_SECONDS", 0.05)
    assert topic_of(Messages(2, answers)).oldest_time({0: 3, 1: 4}) == expected
