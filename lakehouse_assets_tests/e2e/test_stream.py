"""A stream of messages on a real broker: each message once in silver, whatever dies, stops, is lost or changes meanwhile.

Belongs here: windows of a topic through the gate, one after the other. Does not: the service's process (test_stream_service),
ranges as arithmetic (sources/test_kafka_ranges).
"""

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import calendar, window_start
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.retry_policy import FIRST_STREAM_DELAY
from lakehouse_assets.errors import SourceError
from lakehouse_assets.operations.release import discard, release
from lakehouse_assets.orchestration.jobs.operation_job import find_window
from lakehouse_assets.orchestration.streams.table_stream import POLL, TableStream
from lakehouse_assets.pipeline.stream import unfinished_windows
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import open_feed
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.source_positions import read_positions
from lakehouse_assets_tests.chaos.play import POINTS
from lakehouse_assets_tests.e2e import streamed
from lakehouse_assets_tests.e2e.streamed import Clock, reading, send, table, take
from lakehouse_assets_tests.laws.child import jvm_of
from lakehouse_assets_tests.support import heal_windows, lake_settings, rows_of, runner


@pytest.fixture
def topic(broker) -> str:
    return streamed.make_topic(broker)


def some(count: int, seed: int = 1) -> list[streamed.Reading]:
    """Readings of 20 sensors, one in ten a tombstone."""
    rng = random.Random(seed)
    return [reading(rng.randrange(20), None if rng.random() < 0.1 else round(rng.gauss(10, 2), 3)) for _ in range(count)]


def test_each_window_has_what_arrived_since_the_last(spark, broker, topic, on):
    spec, sent = table(topic), []
    assert take(spark, on, spec) is None
    keys = []
    for turn in range(3):
        new = some(30, seed=turn)
        send(broker, topic, new)
        sent += new
        stream_window = take(spark, on, spec)
        keys.append(stream_window.window.key)
        [decision] = stream_window.published.new
        assert (decision.counts.rows_in, decision.p_extracted_at) == (30, stream_window.window.start)
        assert streamed.silver(on) == streamed.oracle(sent)
    assert take(spark, on, spec) is None
    # The clock of the runs stands still within a millisecond: each window has the next one.
    assert keys == ["2024-06-01-00:00:00.000", "2024-06-01-00:00:00.001", "2024-06-01-00:00:00.002"]
    assert streamed.bronze_offsets(on) == streamed.all_offsets(sent)
    ranges = streamed.positions(on)
    assert all(later[p][0] == earlier[p][1] for earlier, later in itertools.pairwise(ranges) for p in earlier)


def test_a_window_is_bounded_and_the_partitions_are_equally_late(spark, broker, topic, on):
    spec = table(topic, {"max_rows": 40})
    send(broker, topic, [reading(0, n) for n in range(90)] + [reading(1, n) for n in range(30)])
    sizes = []
    while (stream_window := take(spark, on, spec)) is not None:
        sizes.append(stream_window.published.new[0].counts.rows_in)
    assert sizes == [40, 40, 40]
    assert streamed.positions(on)[0] == {"0": [0, 30], "1": [0, 10]}
    assert streamed.silver(on) == {0: 89.0, 1: 29.0}


# Of a stream alone, and of any run.
STEPS = ("positions_recorded", *(point for point in POINTS["run"] if not point.endswith("+")))


@pytest.mark.parametrize("third", [pytest.param(n, marks=pytest.mark.exhaustive(seconds=150)) for n in range(3)])
def test_killed_at_each_step_twice_each_message_is_in_silver_once(spark, broker, topic, on, third):
    """A process is killed by SIGKILL, and the one that completes its window is killed at the same step. Then one lives."""
    spec, sent = table(topic), []
    for number, step in enumerate(STEPS[third::3]):
        for attempt in range(2):
            new = some(20, seed=2 * number + attempt)
            send(broker, topic, new)
            sent += new
            command = [on.dagster_home, on.kafka_bootstrap, spec.model_dump_json(by_alias=True, exclude_unset=True), step]
            child = subprocess.run(
                [sys.executable, "-m", "lakehouse_assets_tests.e2e.stream_child", *map(str, command)],
                env=os.environ | jvm_of(spark), capture_output=True, text=True, timeout=200, check=False,
            )  # fmt: skip
            assert child.returncode == -signal.SIGKILL, (step, child.stderr[-2000:])
            assert len(unfinished_windows(on, spec)) == (0 if step in ("results_done", "mark_applied_done") else 1)
        drain(spark, on, spec)
        assert streamed.silver(on) == streamed.oracle(sent), step
    assert streamed.bronze_offsets(on) == streamed.all_offsets(sent)
    counts = streamed.counted(on)
    assert counts["rows_in"] == len(sent) == counts["rows_published"] + counts["rows_superseded"]


def drain(spark, settings, spec) -> list:
    """All that waits, as a stream's turns take it: first what is on record."""
    stream = TableStream(spec, settings, {}, Clock()())
    run = runner(spark, settings, spec)
    while not stream.is_complete:
        stream.take_turn(lambda *_: run, stream.due_at)
    stream.feed.close()
    stream_window = []
    while (one := take(spark, settings, spec)) is not None:
        stream_window.append(one)
    return stream_window


def test_an_error_is_tried_again_later_and_what_is_on_record_first(spark, broker, topic, on):
    spec, clock = table(topic), Clock()
    stream = TableStream(spec, on, {}, clock.now)
    send(broker, topic, [reading(2, 1.5)])

    def fail(step: str) -> None:
        if step == "positions_recorded":
            raise OSError("the disk is away")

    good, bad = runner(spark, on, spec), runner(spark, on, spec, fail)
    assert stream.take_turn(lambda *_: good, clock.now) == {}
    with pytest.raises(OSError, match="away"):
        stream.take_turn(lambda *_: bad, clock.now)
    assert (stream.failures, stream.is_complete, stream.due_at) == (1, False, bad.clock() + FIRST_STREAM_DELAY)
    send(broker, topic, [reading(4, 2.5)])
    [window] = stream.take_turn(lambda *_: good, stream.due_at)
    assert (stream.failures, stream.windows) == (0, 1)
    assert streamed.silver(on) == {2: 1.5}
    [after] = stream.take_turn(lambda *_: good, clock.now)
    assert after > window
    assert stream.due_at == clock.now + POLL * 10  # the trigger, 5s
    assert streamed.silver(on) == {2: 1.5, 4: 2.5}
    assert stream.take_turn(lambda *_: good, clock.now) == {}
    assert stream.due_at == clock.now + POLL
    stream.feed.close()


@pytest.mark.parametrize("more", [[], [reading(3, 3.5)]], ids=["nothing_new", "something_new"])
def test_a_window_that_another_process_left_is_finished_while_this_one_serves(spark, broker, topic, on, more):
    """Two services of one table: one dies with a window on record, and the other has begun long before."""
    spec, now = table(topic), streamed.START
    good = runner(spark, on, spec)
    stream = TableStream(spec, on, {}, now)
    assert stream.take_turn(lambda *_: good, now) == {}

    def die(step: str) -> None:
        if step == "positions_recorded":
            raise OSError("killed")

    send(broker, topic, [reading(2, 1.5)])
    with pytest.raises(OSError, match="killed"):
        take(spark, on, spec, die)
    send(broker, topic, more)
    for _ in range(3):
        stream.take_turn(lambda *_: good, now)
    assert streamed.silver(on) == streamed.oracle([reading(2, 1.5), *more])
    assert unfinished_windows(on, spec) == []
    stream.feed.close()


def test_a_window_left_between_a_look_and_the_lock_is_finished(spark, broker, topic, on, monkeypatch):
    """The other process records the first messages and dies, after this one has looked and before it has the lock."""
    spec, now = table(topic), streamed.START
    good = runner(spark, on, spec)
    stream = TableStream(spec, on, {}, now)
    stream.take_turn(lambda *_: good, now)
    send(broker, topic, [reading(2, 1.5)])
    ask, first = stream.feed.next_position, iter([True])

    def die(step: str) -> None:
        if step == "positions_recorded":
            raise OSError("killed")

    def look(recorded: Any, at: datetime) -> str | None:
        position = ask(recorded, at)
        if next(first, False):
            with pytest.raises(OSError, match="killed"):
                take(spark, on, spec, die)
            send(broker, topic, [reading(4, 2.5)])
        return position

    monkeypatch.setattr(stream.feed, "next_position", look)
    for _ in range(3):
        stream.take_turn(lambda *_: good, now)
    assert streamed.silver(on) == {2: 1.5, 4: 2.5}
    assert unfinished_windows(on, spec) == []
    stream.feed.close()


def test_messages_that_come_after_the_first_look_are_taken(spark, broker, topic, on):
    """The stream is there before its topic has anything; then one partition has a message, and later the other."""
    spec, sent = table(topic), []
    stream, run = TableStream(spec, on, {}, streamed.START), runner(spark, on, spec)
    assert stream.take_turn(lambda *_: run, streamed.START) == {}
    assert stream.take_turn(lambda *_: run, streamed.START) == {}
    for sensor in (0, 1):
        send(broker, topic, [reading(sensor, 5)])
        sent.append(reading(sensor, 5))
        assert stream.feed.waiting(read_positions(on, "readings"), streamed.START).number == 1
        assert len(stream.take_turn(lambda *_: run, streamed.START)) == 1
    assert streamed.silver(on) == streamed.oracle(sent)
    assert streamed.bronze_offsets(on) == streamed.all_offsets(sent)
    stream.feed.close()


def test_how_long_messages_wait_is_asked_of_the_broker(broker, topic, on):
    feed = open_feed(table(topic), on)
    assert feed.waiting({}, streamed.START) == (0, "messages", None)
    began = datetime.now(UTC) - timedelta(seconds=1)
    send(broker, topic, some(500))
    later = datetime.now(UTC)
    send(broker, topic, some(500))
    for _ in range(3):  # also of a partition that was paused before
        waiting = feed.waiting({}, streamed.START)
        assert waiting.number == 1000 and waiting.arrived_at
        assert began <= waiting.arrived_at <= later
    feed.close()


def test_a_topic_with_more_partitions_is_read_from_their_first_message(spark, broker, topic, on):
    spec = table(topic)
    send(broker, topic, [reading(0, 1), reading(1, 2)])
    feed = open_feed(spec, on)
    assert feed.waiting({}, runner(spark, on, spec).clock()).number == 2
    take(spark, on, spec)
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
    send(broker, topic, [reading(2, 3), reading(5, 4)], partitions=3)
    deadline = time.monotonic() + 30
    while feed.waiting(read_positions(on, "readings"), streamed.START).number < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    feed.close()
    take(spark, on, spec)
    assert streamed.silver(on) == {0: 1.0, 1: 2.0, 2: 3.0, 5: 4.0}
    assert streamed.positions(on)[-1]["2"] == [0, 2]


def delete_before(broker, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    for deletion in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        deletion.result()


def test_retention_that_overtakes_the_reader_stops_the_stream_or_is_on_record(spark, broker, topic, on):
    stopping, going_on = table(topic), table(topic, {"lost_messages": "continue"})
    send(broker, topic, [reading(2 * n, n) for n in range(4)])
    take(spark, on, stopping)
    send(broker, topic, [reading(2 * n, 10 + n) for n in range(5)])
    delete_before(broker, topic, 7)
    with pytest.raises(SourceError, match=r"partition 0, offsets 4 to 6.*extraction\.stream\.lost_messages: continue"):
        take(spark, on, stopping)
    assert len(streamed.positions(on)) == 1
    [decision] = take(spark, on, going_on).published.new
    assert (decision.counts.rows_in, decision.counts.rows_published, decision.counts.rows_quarantined) == (3, 2, 1)
    assert streamed.silver(on) == {0: 0.0, 2: 1.0, 4: 2.0, 6: 13.0, 8: 14.0}
    texts = [row["_corrupt_record"] for row in rows_of(on.path("bronze", "readings"), ["_corrupt_record"])]
    assert [t for t in texts if t] == ["messages of partition 0, offsets 4 to 6, were deleted before they were read"]


def test_retention_between_the_record_and_the_read_is_the_same(spark, broker, topic, on):
    send(broker, topic, [reading(2 * n, n) for n in range(4)])

    def delete(step: str) -> None:
        if step == "positions_recorded":
            delete_before(broker, topic, 3)

    with pytest.raises(SourceError, match="offsets 0 to 2 "):
        take(spark, on, table(topic), delete)
    spec = table(topic, {"lost_messages": "continue"})
    assert len(unfinished_windows(on, spec)) == 1
    assert drain(spark, on, spec) == []
    assert streamed.silver(on) == {6: 3.0}


def test_another_topic_or_the_same_name_again_is_refused(spark, broker, topic, on):
    send(broker, topic, [reading(0, 1)])
    take(spark, on, table(topic))
    other = streamed.make_topic(broker)
    send(broker, other, [reading(0, n) for n in range(9)])
    stream = TableStream(table(other), on, {}, streamed.START)
    with pytest.raises(SourceError, match="a topic of another name"):
        stream.take_turn(lambda *_: runner(spark, on, table(other)), streamed.START)
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.delete_topics([topic])[topic].result()
    while topic in admin.list_topics(timeout=10).topics:
        time.sleep(0.2)
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result()
    streamed.wait_for_topic(broker, topic)
    with pytest.raises(SourceError, match="it was deleted and created again"):
        take(spark, on, table(topic))


def count_messages(broker, topic: str) -> int:
    """The messages that the first partition has by now."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "test", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    count = 0
    while (message := consumer.poll(30)) is not None and not message.error():
        count += 1
    consumer.close()
    return count


def test_a_compacted_topic_lacks_messages_and_loses_none(spark, broker, on):
    """Offsets that compaction removed are no gap: the newest message of each key is there."""
    topic = streamed.make_topic(
        broker, 1, **{"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    )
    spec = table(topic)
    send(broker, topic, [reading(2, 7)], partitions=1)  # kept: what is removed is between two messages
    for value in range(3):
        send(broker, topic, [reading(0, value), reading(1, value)], partitions=1)
        time.sleep(0.2)
    deadline = time.monotonic() + 60
    while count_messages(broker, topic) == 7:
        assert time.monotonic() < deadline, "the broker does not compact"
        time.sleep(0.2)
    [decision] = take(spark, on, spec).published.new
    assert decision.counts.rows_in == count_messages(broker, topic) < 7
    assert streamed.positions(on) == [{"0": [0, 7]}]
    assert streamed.silver(on) == {0: 2.0, 1: 2.0, 2: 7.0}


def test_rows_out_of_range_are_quarantined_and_later_corrections_win_by_key(spark, broker, topic, on):
    spec = table(topic, checks=[{"check": "in_range", "column": "value", "min": -50, "max": 50}])
    send(broker, topic, [reading(0, 1), reading(1, 99), reading(2, 3)])
    take(spark, on, spec)
    assert streamed.silver(on) == {0: 1.0, 2: 3.0}
    send(broker, topic, [reading(1, 9), reading(2, None)])
    take(spark, on, spec)
    assert streamed.silver(on) == {0: 1.0, 1: 9.0}
    assert streamed.counted(on) == {"rows_in": 5, "rows_published": 4, "rows_superseded": 0, "rows_quarantined": 1}


def test_a_quarantined_window_is_released_alone_and_another_discarded(spark, broker, topic, on):
    """By their keys, as the commands name them: with milliseconds."""
    within = {"check": "in_range", "column": "value", "min": -50, "max": 50, "on_fail": "quarantine_batch"}
    spec, keys = table(topic, checks=[within]), []
    sent = [
        [reading(0, 1), reading(1, 2)],
        [reading(0, 99), reading(2, 3)],
        [reading(1, 77), reading(3, 4)],
        [reading(1, 9), reading(2, 8)],
    ]
    for readings in sent:
        send(broker, topic, readings)
        keys.append(take(spark, on, spec).window.key)
    assert verdicts(on, spec) == dict(zip(keys, ["published", "quarantined", "quarantined", "published"], strict=True))
    assert streamed.silver(on) == streamed.oracle(sent[0] + sent[3])
    second, third = (find_window(spec, key).start for key in keys[1:3])
    release(runner(spark, on, spec), second, None, waived=["in_range_value"], by="ann", because="it was so hot")
    assert streamed.silver(on) == streamed.oracle(sent[0] + sent[1] + sent[3]) == {0: 99.0, 1: 9.0, 2: 8.0}
    discard(runner(spark, on, spec), third, None, by="ann", because="a broken sensor")
    expected = ["published", "published_with_warnings", "discarded", "published"]
    assert verdicts(on, spec) == dict(zip(keys, expected, strict=True))
    send(broker, topic, [reading(3, 5)])
    take(spark, on, spec)
    assert streamed.silver(on) == {0: 99.0, 1: 9.0, 2: 8.0, 3: 5.0}


def verdicts(settings: Settings, spec: TableSpec) -> dict[str, str]:
    """The current verdict of each window, by its key."""
    current = ledger.current_decisions(logs.decisions(settings, spec.name)).values()
    return {spec.extraction.window_at(d.p_extracted_at).key: d.verdict for d in current if d.p_extracted_at}


def test_the_same_messages_as_hourly_windows_give_the_same_silver(spark, broker, topic, on, tmp_path):
    spec, sent = table(topic, {"max_rows": 25}), some(100)
    send(broker, topic, sent)
    while take(spark, on, spec) is not None:
        pass
    (tmp_path / "other").mkdir()
    other = lake_settings(tmp_path / "other").model_copy(update={"kafka_bootstrap": on.kafka_bootstrap})
    begin = window_start(datetime.now(UTC), "hourly") - timedelta(hours=1)
    attributes = {"cadence": "hourly", "start": begin, "mode": "upsert", "delete_when": "gone"}
    batch = table(topic, extraction=attributes)
    heal_windows(spark, other, list(calendar(begin, begin + timedelta(hours=4), "hourly")), batch)
    assert streamed.silver(other) == streamed.silver(on) == streamed.oracle(sent)


def test_two_writers_never_take_the_same_messages(spark, broker, topic, on, monkeypatch):
    """Between one's look and its lock the other takes all: nothing waits any more."""
    spec = table(topic)
    send(broker, topic, [reading(0, 1)])
    stream = TableStream(spec, on, {}, streamed.START)
    first, second = runner(spark, on, spec), runner(spark, on, spec)
    stream.take_turn(lambda *_: first, streamed.START)
    looked = stream.feed.next_position({}, streamed.START)
    assert looked
    assert take(spark, on, spec)
    ask = stream.feed.next_position
    answers = iter([looked])
    monkeypatch.setattr(stream.feed, "next_position", lambda recorded, now: next(answers, None) or ask(recorded, now))
    assert stream.take_turn(lambda *_: second, streamed.START) == {}
    assert len(logs.extractions(on, "readings")) == 1
    stream.feed.close()
