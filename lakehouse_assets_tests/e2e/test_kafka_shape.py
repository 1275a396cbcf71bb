"""Messages of one shape are read in one pass, with the columns of the window before; the result is that of two passes.

Belongs here: both ways side by side on a real broker, and the change between them. Does not: splitting a line
(sources/test_json_shape).
"""

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.pipeline.extract import bronze_rows
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import SCAN_ERRORS, Extraction, open_feed, open_source
from lakehouse_assets.sources.kafka import KafkaReader
from lakehouse_assets.sources.kafka_client import open_topic
from lakehouse_assets.sources.kafka_ranges import range_to_text
from lakehouse_assets.sources.kafka_rows import OTHER_KEYS
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.e2e import streamed
from lakehouse_assets_tests.e2e.streamed import reading, table, take
from lakehouse_assets_tests.support import rows_of

SHAPED = 150  # more than are looked at before the scan


@pytest.fixture
def topic(broker) -> str:
    return streamed.make_topic(broker)


def produce(broker: Any, topic: str, values: Sequence[bytes | None]) -> None:
    """To the first partition, in order, each with the key of its number."""
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5})
    for number, value in enumerate(values):
        producer.produce(topic, value, str(number), partition=0)
    assert producer.flush(120) == 0


def shaped(count: int) -> list[bytes]:
    return [json.dumps({"sensor": number, "value": number / 8, "note": "x"}).encode() for number in range(count)]


def source_and_window(on: Settings, spec: TableSpec, count: int) -> tuple[KafkaReader, Window]:
    """The topic with a window of so many messages on record."""
    window = spec.extraction.window_at(datetime(2024, 5, 1, tzinfo=UTC))
    source = open_source(spec, on, {window.start: range_to_text({0: (0, count), 1: (0, 0)})}, {})
    assert isinstance(source, KafkaReader)
    return source, window


def rows(extraction: Extraction) -> list[tuple]:
    """The rows as bronze has them, with the names of their columns."""
    (window,) = extraction.columns
    frame = bronze_rows(extraction.frame, {window: 1})
    collected = [tuple(map(repr, row)) for row in frame.collect()]
    extraction.release()
    return [tuple(frame.columns), *sorted(collected)]


OTHERS = [
    None,
    b"no object",
    b'{"sensor": 1, "value": 2.5, "note": "x"} {}',
    b'{"sensor": 1, "sensor": 2, "value": 2.5, "note": "x"}',
    b'{"note": "x", "value": 1e3, "sensor": 1}',
    b'{"value": 1}',
    b'{"sensor": null, "value": null, "note": null}',
    b'{"sensor":"1","value":"null","note":""}',
    b'{"sensor": 7, "value": 1.10, "note": "a\\"b"}',
    b'{"sensor": 7, "value": [1, 2], "note": {"a": 1}}',
    b'{"sensor": 7, "value": 1, "note": "\xff"}',
    b"{}",
    b"",
]


@pytest.mark.parametrize(
    ("own", "has_window_before"),
    [((), True), (("kafka_key", "kafka_tombstone", "kafka_timestamp"), True), ((), False)],
)
def test_one_pass_gives_what_two_give(spark, broker, topic, on, own, has_window_before):
    changes = {name: {"type": "string", "from": name} for name in own}
    columns = {"sensor": "bigint", "value": "string", "position": {"type": "bigint", "from": "kafka_offset"}, **changes}
    spec = table(topic, columns={**columns, "gone": {"type": "boolean", "from": "kafka_tombstone"}})
    values = [*shaped(SHAPED), *OTHERS, *shaped(5)]
    produce(broker, topic, values)
    source, window = source_and_window(on, spec, len(values))
    two = source.read(spark, [window])
    one = source.read_in_one_pass(spark, window, two.columns[window] if has_window_before else ())
    assert one is not None
    assert (one.columns, one.respelled, one.held_frames) == (two.columns, two.respelled, ())
    expected = rows(two)
    assert len(expected) == len(values) + 1
    assert rows(one) == expected


@pytest.mark.parametrize(
    ("values", "last_columns"),
    [
        (shaped(9), ("sensor", "value")),  # a column more
        (shaped(9), ("sensor", "value", "note", "other")),  # one less
        ([b'{"sensor": 1, "value": [], "note": "x"}'] * 9, ("sensor", "value", "note")),
        ([None] * 9, ("sensor",)),
    ],
)
def test_other_messages_are_read_in_two_passes(spark, broker, topic, on, values, last_columns):
    produce(broker, topic, values)
    source, window = source_and_window(on, table(topic), len(values))
    assert source.read_in_one_pass(spark, window, (*last_columns, "kafka_offset", "kafka_tombstone")) is None
    assert len(rows(source.read(spark, [window]))) == 10


def test_a_key_that_only_a_later_message_has_fails_the_scan(spark, broker, topic, on):
    values = [*shaped(SHAPED), b'{"sensor": 1, "value": 2, "note": "x", "unit": "hPa"}']
    produce(broker, topic, values)
    source, window = source_and_window(on, table(topic), len(values))
    two = source.read(spark, [window])
    one = source.read_in_one_pass(spark, window, {*two.columns[window]} - {"unit"})
    assert one is not None
    with pytest.raises(SCAN_ERRORS, match=OTHER_KEYS):
        rows(one)
    assert len(rows(two)) == len(values) + 1


def test_windows_that_do_not_adjoin_are_read_together(spark, broker, topic, on):
    values, spec = shaped(40), table(topic)
    produce(broker, topic, values)
    windows = [spec.extraction.window_at(datetime(2024, 5, 1, hour, tzinfo=UTC)) for hour in range(4)]
    positions = {w.start: range_to_text({0: (10 * n, 10 * n + 10), 1: (0, 0)}) for n, w in enumerate(windows)}
    source = open_source(spec, on, positions, {})
    extraction = source.read(spark, [windows[0], *windows[2:]])
    counts = {row["p_extracted_at"].hour: row["count"] for row in extraction.frame.groupBy("p_extracted_at").count().collect()}
    extraction.release()
    assert counts == {0: 10, 2: 10, 3: 10}


def test_feeds_of_one_topic_do_not_close_each_other(broker, topic, on):
    streamed.send(broker, topic, [reading(1, 1.0)])
    first, second = (open_feed(table(topic, name=name), on) for name in ("one", "other"))
    now = datetime(2024, 6, 1, tzinfo=UTC)
    assert [first.waiting({}, now).number, second.waiting({}, now).number] == [1, 1]
    first.close()
    assert second.waiting({}, now).number == 1
    with open_topic(on, topic) as shared:
        assert shared.bounds()[1] == {0: 0, 1: 1}
    second.close()
    with open_topic(on, topic) as own:
        assert own.bounds()[1] == {0: 0, 1: 1}


def test_a_stream_whose_messages_get_a_key(spark, broker, topic, on):
    spec, sent, rng = table(topic), [], random.Random(7)
    for turn in range(4):
        new = [reading(rng.randrange(40), round(rng.gauss(10, 2), 3)) for _ in range(2 * SHAPED)]
        if turn == 2:
            new[-1] |= {"unit": "hPa"}
        streamed.send(broker, topic, new)
        sent += new
        [decision] = take(spark, on, spec).published.new
        assert decision.counts.rows_in == len(new)
    records = logs.extractions(on, "readings")
    assert ["unit" in record.columns for record in records] == [False, False, True, False]
    assert streamed.bronze_offsets(on) == streamed.all_offsets(sent)
    assert streamed.silver(on) == streamed.oracle(sent)
    units = [row["unit"] for row in rows_of(on.path("bronze", "readings"), ["unit"]) if row["unit"]]
    assert units == ["hPa"]
