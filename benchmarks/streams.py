"""A stream's windows against a bare `foreachBatch` that MERGEs the same messages.

A takes what waits in a topic window by window, as `lakehouse stream --available-now` does: offsets on record, bronze, the
gate, one MERGE, the decision. B is a Structured Streaming query over the same topic, with as many messages a batch, that
casts the same columns, keeps the newest row of each key and MERGEs it into a Delta table that has silver's properties: it
writes the changes too. Both upsert sensors with a value and a flag that deletes.

It needs the tests' broker (lakehouse_assets_tests/e2e/servers).
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from confluent_kafka import Producer
from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from benchmarks.harness import Result, Side, run_pairs, timed
from benchmarks.lab import Lab, public_properties
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.pipeline.silver_write import SILVER_PROPERTIES
from lakehouse_assets.pipeline.stream import publish_next
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import open_feed
from lakehouse_assets_tests.e2e.servers import Broker
from lakehouse_assets_tests.e2e.streamed import make_topic

MESSAGES, WINDOWS, SENSORS, PARTITIONS = 1_000_000, 10, 200_000, 2
DELETED_SHARE = 0.01
# A share of 0.6 of the bare query's messages a second.
LIMIT = 1 / 0.6
SCHEMA = "sensor bigint, hour timestamp, value double, gone boolean"


def table(topic: str, max_rows: int) -> TableSpec:
    """The stream's contract: three checks, no drift."""
    attributes = {
        "name": "readings",
        "source": {"kind": "kafka", "topic": topic},
        "extraction": {
            "cadence": "hourly", "start": "2024-01-01", "mode": "upsert", "delete_when": "gone",
            "stream": {"max_rows": max_rows},
        },
        "key": ["sensor"],
        "last_modified": "hour",
        "columns": {"sensor": "bigint", "hour": "timestamp", "value": "double", "gone": "boolean"},
        "checks": [
            {"check": "not_null", "column": "value"}, {"check": "in_range", "column": "value", "min": -100, "max": 100},
            {"check": "not_empty"},
        ],
    }  # fmt: skip
    return TableSpec.model_validate(attributes)


def benchmark(lab: Lab) -> Iterator[Result]:
    """Messages in ten windows."""
    count = lab.sized(MESSAGES, 10 * WINDOWS)
    home = lab.folder / "kafka"
    home.mkdir(parents=True)
    with Broker(home).up() as broker:
        lab.say(f"stream: sending {count:,} messages")
        yield paired(lab, broker, send(broker, count, lab.sized(SENSORS, 10)), count)


def send(broker: Broker, count: int, sensors: int) -> str:
    """Send readings of random sensors, each later than the one before; some delete their sensor. Returns the topic."""
    topic, rng = make_topic(broker, PARTITIONS), np.random.default_rng(1)
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 50})
    chosen, values, deletions = rng.integers(sensors, size=count), rng.normal(10, 2, count), rng.random(count) < DELETED_SHARE
    for number in range(count):
        sensor, minutes = int(chosen[number]), divmod(number // 1000, 60)
        hour = f"2024-05-{1 + minutes[0] // 24:02}T{minutes[0] % 24:02}:{minutes[1]:02}:{number % 1000 * 0.06:06.3f}Z"
        row = {"sensor": sensor, "hour": hour, "value": round(float(values[number]), 3), "gone": bool(deletions[number])}
        producer.produce(topic, json.dumps(row), partition=sensor % PARTITIONS)
        producer.poll(0)
    producer.flush()
    return topic


def paired(lab: Lab, broker: Broker, topic: str, count: int) -> Result:
    """The stream beside the bare query."""
    max_rows = -(-count // WINDOWS)
    settings = lab.settings("stream").model_copy(update={"kafka_bootstrap": broker.address})
    spec, bare = table(topic, max_rows), str(lab.folder / "bare")

    a = Side(
        "stream of windows",
        timed(lambda step: stream(lab, settings, spec, step), lab.cpu),
        lambda: lab.clear(settings.root),
    )
    b = Side(
        "bare foreachBatch",
        timed(lambda _: merge_bare(lab, broker, topic, bare, max_rows), lab.cpu),
        lambda: lab.clear(bare),
    )
    a_samples, b_samples = run_pairs(a, b, lab.pairs, lambda text: lab.say(f"stream: {text}"))
    published, merged = (lab.spark.read.format("delta").load(p).count() for p in (settings.path("silver", "readings"), bare))
    if published != merged:
        raise AssertionError(f"silver has {published} rows, and the bare query's table {merged}")
    sizes = {"messages": count, "windows": WINDOWS, "sensors": published, "checks": len(spec.checks)}
    return Result("stream", a.label, tuple(a_samples), b.label, tuple(b_samples), LIMIT, sizes, public_properties(settings))


def stream(lab: Lab, settings: Settings, spec: TableSpec, step: Callable[[str], None]) -> None:
    """Take what waits."""
    feed = open_feed(spec, settings)
    while publish_next(lab.run(settings, spec, step), feed) is not None:
        pass
    feed.close()


def merge_bare(lab: Lab, broker: Broker, topic: str, path: str, max_rows: int) -> None:
    """The query, until what waits is merged."""
    options = {
        "kafka.bootstrap.servers": broker.address, "subscribe": topic, "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(max_rows),
    }  # fmt: skip
    lab.spark.createDataFrame([], SCHEMA).write.format("delta").options(**SILVER_PROPERTIES).save(path)
    messages = lab.spark.readStream.format("kafka").options(**options).load()
    rows = messages.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("r")).select("r.*")

    def merge(batch: DataFrame, _: int) -> None:
        newest = W.partitionBy("sensor").orderBy(F.col("hour").desc())
        source = batch.withColumn("n", F.row_number().over(newest)).where("n = 1").drop("n")
        (
            DeltaTable.forPath(batch.sparkSession, path).alias("t")
            .merge(source.alias("s"), "t.sensor = s.sensor")
            .whenMatchedDelete(condition="s.hour > t.hour AND s.gone")
            .whenMatchedUpdateAll(condition="s.hour > t.hour")
            .whenNotMatchedInsertAll(condition="NOT s.gone")
            .execute()
        )  # fmt: skip

    writer: Any = rows.writeStream.foreachBatch(merge).option("checkpointLocation", f"{path}/_checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
