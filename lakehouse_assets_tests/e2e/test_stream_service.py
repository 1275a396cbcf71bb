"""`lakehouse stream` as a process: it takes what waits, goes on after SIGKILL and a broker that is away, and ends when told.

Belongs here: the command in a project of its own, on a real broker. Does not: what a window has (test_stream).
"""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets_tests.e2e import streamed
from lakehouse_assets_tests.e2e.servers import Broker, kafka_jars
from lakehouse_assets_tests.e2e.streamed import reading, send
from lakehouse_assets_tests.support import rows_of

LAKEHOUSE = str(Path(sys.executable).parent / "lakehouse")
GOLD = "SELECT count(*) AS sensors, max(value) AS highest FROM silver_readings"


@pytest.fixture(scope="module")
def jars() -> None:
    try:
        kafka_jars()
    except (RuntimeError, OSError) as error:
        pytest.skip(str(error))


class Project:
    """A project whose one table is a stream of a topic."""

    def __init__(self, folder: Path, broker: Broker, topic: str, **stream: Any) -> None:
        self.folder, self.log = folder / "shop", folder / "stream.log"
        subprocess.run([LAKEHOUSE, "new", "shop"], cwd=folder, check=True, capture_output=True)
        self.environment = {
            **os.environ,
            "LAKEHOUSE_PROJECT": str(self.folder),
            "DAGSTER_HOME": str(self.folder),
            "LAKEHOUSE_KAFKA_BOOTSTRAP": broker.address,
        }
        self.settings = Settings.from_environment(self.environment)
        self.write_table(topic, stream)

    def write_table(self, topic: str, stream: dict[str, Any], **more: Any) -> None:
        spec = json.loads(streamed.table(topic, stream).model_dump_json(exclude_unset=True))
        spec["extraction"]["start"] = "2024-01-01"
        gold = {"name": "highest", "key": ["sensors"], "sql": "gold_highest.sql"}
        folder = self.folder / "src" / "shop" / "defs" / "readings"
        folder.mkdir(exist_ok=True)
        (folder / "gold_highest.sql").write_text(GOLD)
        document = {"type": "lakehouse_assets.LakehouseTable", "attributes": {**spec, "gold": [gold], **more}}
        (folder / "defs.yaml").write_text(yaml.safe_dump(document, sort_keys=False))

    def start(self, *arguments: str) -> subprocess.Popen:
        with self.log.open("a") as log:
            command = [LAKEHOUSE, "stream", *arguments]
            return subprocess.Popen(command, env=self.environment, cwd=self.folder, stdout=log, stderr=log)

    @contextmanager
    def streaming(self) -> Iterator[subprocess.Popen]:
        """The service while the block lasts; then it is told to end, and ends well."""
        process = self.start()
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0, self.log.read_text()
        finally:
            process.kill()

    def wait_for(self, expected: dict[int, float], seconds: float = 300) -> None:
        """Wait until silver is as expected."""
        deadline = time.monotonic() + seconds
        while (now := self.silver()) != expected:
            assert time.monotonic() < deadline, f"{now} is not {expected}\n{self.log.read_text()}"
            time.sleep(0.5)

    def silver(self) -> dict[int, float]:
        return streamed.silver(self.settings) if delta.exists(self.settings.path("silver", "readings")) else {}


@pytest.fixture
def broker(jars, tmp_path) -> Iterator[Broker]:
    (tmp_path / "kafka").mkdir()
    with Broker(tmp_path / "kafka").up() as broker:
        yield broker


def test_available_now_takes_what_waits_and_rewrites_gold(broker, tmp_path):
    topic = streamed.make_topic(broker)
    project = Project(tmp_path, broker, topic, max_rows=50)
    sent = [reading(n % 7, n) for n in range(120)]
    send(broker, topic, sent)
    process = project.start("--available-now")
    assert process.wait(200) == 0, project.log.read_text()
    assert project.silver() == streamed.oracle(sent)
    lines = project.log.read_text().splitlines()
    assert len([line for line in lines if ": published" in line]) == 3
    assert "gold_highest: rewritten" in lines
    [gold] = rows_of(project.settings.path("gold", "highest"), ["sensors", "highest"])
    assert gold == {"sensors": 7, "highest": 119.0}


@pytest.mark.exhaustive(seconds=510)
def test_killed_at_random_and_without_a_broker_each_message_is_in_silver_once(jars, tmp_path):
    """Ten kills while messages keep coming, then a minute without the broker, then an end by SIGTERM."""
    rng = random.Random(7)
    (tmp_path / "kafka").mkdir()
    kafka = Broker(tmp_path / "kafka")
    sent: list[streamed.Reading] = []
    with kafka.up() as broker:
        topic = streamed.make_topic(broker)
        project = Project(tmp_path, broker, topic, max_rows=200)
        for _ in range(10):
            new = [reading(rng.randrange(30), None if rng.random() < 0.1 else rng.randrange(100)) for _ in range(60)]
            send(broker, topic, new)
            sent += new
            process = project.start()
            time.sleep(rng.uniform(10, 40))
            process.send_signal(signal.SIGKILL)
            process.wait()
        with project.streaming():
            # Of its own, so that it is not told to end before it has begun: the last one may have taken all others.
            new = [reading(rng.randrange(30), rng.randrange(100)) for _ in range(60)]
            send(broker, topic, new)
            sent += new
            project.wait_for(streamed.oracle(sent))
    process = project.start()
    time.sleep(60)
    with kafka.up() as broker:
        new = [reading(rng.randrange(30), rng.randrange(100)) for _ in range(60)]
        send(broker, topic, new)
        sent += new
        project.wait_for(streamed.oracle(sent))
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, project.log.read_text()
    assert streamed.bronze_offsets(project.settings) == streamed.all_offsets(sent)
    counts = streamed.counted(project.settings)
    assert counts["rows_in"] == len(sent) == counts["rows_published"] + counts["rows_superseded"]


@pytest.mark.exhaustive(seconds=90)
def test_a_changed_contract_is_taken_up_between_two_windows(broker, tmp_path):
    """A check that is declared while the stream runs judges the next windows, and a column then has their values."""
    topic = streamed.make_topic(broker)
    project = Project(tmp_path, broker, topic)
    check = {"check": "in_range", "column": "value", "min": 0, "max": 50}
    columns = json.loads(streamed.table(topic).model_dump_json(exclude_unset=True))["columns"]
    values = itertools.count(101)

    def send_until(is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + 150
        while not is_so():
            assert time.monotonic() < deadline, project.log.read_text()
            send(broker, topic, [reading(2, next(values)), reading(3, 5) | {"note": "mild"}])
            time.sleep(6)

    send(broker, topic, [reading(1, 1)])
    with project.streaming():
        project.wait_for({1: 1.0})
        project.write_table(topic, {}, checks=[check])
        send_until(lambda: streamed.counted(project.settings)["rows_quarantined"])
        project.write_table(topic, {}, checks=[check], columns=columns | {"note": "string"})
        send_until(lambda: "note" in column_names(project) and notes(project).get(3) == "mild")
    assert notes(project) | {2: None} == {1: None, 2: None, 3: "mild"}


def column_names(project: Project) -> list[str]:
    return DeltaTable(project.settings.path("silver", "readings")).to_pyarrow_table().column_names


def notes(project: Project) -> dict[int, str | None]:
    return {row["sensor"]: row["note"] for row in rows_of(project.settings.path("silver", "readings"), ["sensor", "note"])}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [(["weather"], 5, "there is no table 'weather'"), ([], 4, "does not answer|refused|resolve|Broker|broker|timed out")],
)
def test_what_cannot_be_streamed_names_the_reason(tmp_path, arguments, code, message):
    class Nowhere:
        address = "127.0.0.1:9"

    project = Project(tmp_path, Nowhere(), "readings")  # type: ignore[arg-type]
    command = [LAKEHOUSE, "stream", *arguments, "--available-now"]
    process = subprocess.run(command, env=project.environment, cwd=project.folder, capture_output=True, text=True, check=False)
    assert process.returncode == code, process.stderr
    assert any(part in process.stderr for part in message.split("|")), process.stderr
