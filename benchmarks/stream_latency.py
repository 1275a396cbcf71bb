"""From a message sent to its row in silver: `lakehouse stream` as a process, at a steady rate of messages.

    python -m benchmarks.stream_latency [MINUTES] [MESSAGES_A_SECOND]

Prints as JSON: the median, 99 % and greatest seconds from the broker's time of a message to the mark *applied* of its window;
the windows' rows and seconds; and the memory of the command and its JVM at its first and last minute. The trigger is 5 s.
It needs the tests' broker (lakehouse_assets_tests/e2e/servers), which shares the machine, as does the sender.
"""

import json
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.memory import bytes_now
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.source_positions import read_positions
from lakehouse_assets_tests.e2e.servers import Broker
from lakehouse_assets_tests.e2e.streamed import make_topic
from lakehouse_assets_tests.e2e.test_stream_service import Project

SENSORS, PARTITIONS = 20_000, 2
WARM_SECONDS, LAST_SECONDS = 15, 30


def measure(minutes: float, rate: int) -> dict[str, Any]:
    """Send for so long, then let the stream take what waits, and read its logs."""
    with tempfile.TemporaryDirectory() as folder, Broker(make_folder(Path(folder, "kafka"))).up() as broker:
        topic = make_topic(broker, PARTITIONS)
        project = Project(Path(folder), broker, topic)
        with project.streaming() as process:
            producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5})
            for _ in send(producer, topic, 1, 50):
                pass
            while not project.silver():
                time.sleep(1)
            time.sleep(WARM_SECONDS)
            began, memory = time.time(), [round(bytes_now(process.pid) / 2**20)]
            for second in send(producer, topic, minutes * 60, rate):
                if second % 30 == 0:
                    memory.append(round(bytes_now(process.pid) / 2**20))
            time.sleep(LAST_SECONDS)
            memory.append(round(bytes_now(process.pid) / 2**20))
            process.send_signal(signal.SIGTERM)
            process.wait(120)
        sent_at = _times(broker, topic)
        return _figures(project.settings, sent_at, began) | {"megabytes": [min(memory[:3]), max(memory[-3:])]}


def make_folder(folder: Path) -> Path:
    """Make a folder, and return it."""
    folder.mkdir(parents=True)
    return folder


def send(producer: Producer, topic: str, seconds: float, rate: int) -> Iterator[int]:
    """Send at this rate; yields once a second."""
    rng, began, sent, last = np.random.default_rng(1), time.monotonic(), 0, -1
    while (passed := time.monotonic() - began) < seconds:
        while sent < int(passed * rate):
            sensor = int(rng.integers(SENSORS))
            value = json.dumps({"sensor": sensor, "value": float(rng.normal(10, 2))})
            producer.produce(topic, value, str(sensor), partition=sensor % PARTITIONS)
            sent += 1
        producer.poll(0)
        if int(passed) > last:
            last = int(passed)
            yield last
        time.sleep(0.02)
    producer.flush()


def _times(broker: Broker, topic: str) -> dict[Any, float]:
    """Return the broker's time of each message, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "latency", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, partition))[1] for partition in range(PARTITIONS)]
    times: dict[Any, float] = {}
    while len(times) < sum(ends):
        times |= {(m.partition(), m.offset()): m.timestamp()[1] / 1000 for m in consumer.consume(10_000, 5)}
    consumer.close()
    return times


def _figures(settings: Settings, sent_at: dict[Any, float], began: float) -> dict[str, Any]:
    decisions: dict[Any, Decision] = {d.p_extracted_at: d for d in logs.decisions(settings, "readings")}
    seconds: list[float] = []
    durations, rows = [], []
    for start, text in sorted(read_positions(settings, "readings").items()):
        applied = decisions[start].applied_at
        if applied is None:
            raise AssertionError(f"the window {start} is not applied")
        ranges = json.loads(text).items()
        times = [sent_at[int(partition), offset] for partition, bounds in ranges for offset in range(*bounds)]
        seconds += [applied.timestamp() - at for at in times if at >= began]
        durations.append((applied - start).total_seconds())
        rows.append(len(times))
    return {
        "messages": len(seconds),
        "seconds": [round(float(np.quantile(seconds, share)), 1) for share in (0.5, 0.99, 1)],
        "windows": len(rows),
        "rows_of_a_window": statistics.median(rows),
        "seconds_of_a_window": [round(statistics.median(part), 1) for part in (durations[2:12], durations[-10:])],
    }


if __name__ == "__main__":
    minutes, rate = [*sys.argv[1:], *("10", "1000")[len(sys.argv) - 1 :]]
    sys.stdout.write(json.dumps(measure(float(minutes), int(rate)), indent=2) + "\n")
