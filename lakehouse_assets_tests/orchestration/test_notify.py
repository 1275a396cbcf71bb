"""Publishing decisions on a real log and a real instance, with a carrier that writes a file: what is marked, and when. No JVM.

Belongs here: the cursor, a crash between send and mark, the sensor's words, Kafka's properties. Does not: a broker (e2e).
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from pydantic import SecretStr

from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.errors import ConfigError, EnvironmentMissing
from lakehouse_assets.events.kafka import client_properties, open_sender
from lakehouse_assets.events.outbox import Answer
from lakehouse_assets.orchestration import notify as publish
from lakehouse_assets.orchestration.notify import OFF, DeliveryReport, publish_decisions
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets_tests.e2e.servers import free_port
from lakehouse_assets_tests.logbook import apply, decided, write
from lakehouse_assets_tests.support import PROJECT_ROOT


class Journal:
    """A carrier: a line of a file for each event, unless the event's table is refused."""

    def __init__(self, home: Path, refused: frozenset[str] = frozenset()) -> None:
        self.file, self.refused = home / "journal", refused

    @contextmanager
    def opened(self, _):
        yield self

    def send(self, messages, seconds):
        with self.file.open("a") as file:
            for table, message in messages.items():
                if table not in self.refused:
                    file.write(f"{table} {message.event_id}\n")
        return {table: Answer(accepted=table not in self.refused, error="refused") for table in messages}

    def read(self) -> list[tuple[str, str]]:
        return [tuple(line.split()) for line in self.file.read_text().splitlines()] if self.file.exists() else []


@pytest.fixture
def on(settings) -> Settings:
    return settings.model_copy(update={"kafka_bootstrap": f"127.0.0.1:{free_port()}"})


@pytest.fixture
def instance(tmp_path):
    (tmp_path / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as local_instance:
        yield local_instance


def ids(settings, table: str) -> list[tuple[str, str]]:
    return [(table, d.decision_id) for d in logs.decisions(settings, table) if d.applied_at]


def test_each_tick_sends_the_newly_applied_decisions_once(on, instance, tmp_path):
    journal = Journal(tmp_path)
    write(on, [decided(n) for n in (1, 2)])
    write(on, [decided(3)], applied=False)
    write(on, [decided(1, "gold_days")])
    assert publish_decisions(instance, on, open_sender=journal.opened) == DeliveryReport(sent=3)
    assert publish_decisions(instance, on, open_sender=journal.opened) == DeliveryReport()
    apply(on, [decided(3)])
    assert publish_decisions(instance, on, open_sender=journal.opened) == DeliveryReport(sent=1)
    assert sorted(journal.read()) == sorted(ids(on, "readings") + ids(on, "gold_days"))
    assert [line for line in journal.read() if line[0] == "readings"] == ids(on, "readings")


def test_a_refused_table_waits_and_is_counted(on, instance, tmp_path):
    write(on, [decided(n) for n in (1, 2)])
    write(on, [decided(1, "gold_days")])
    report = publish_decisions(instance, on, open_sender=Journal(tmp_path, frozenset({"readings"})).opened)
    assert (report.sent, report.waiting, report.warnings) == (1, 2, ["readings: refused"])
    assert str(report) == "1 event(s) sent; 2 wait; readings: refused"
    assert publish_decisions(instance, on, open_sender=Journal(tmp_path).opened).sent == 2


def test_a_tick_sends_a_limited_number_of_events(on, instance, tmp_path):
    write(on, [decided(n) for n in range(1, 8)])
    journal = Journal(tmp_path)
    sent = [publish_decisions(instance, on, open_sender=journal.opened, max_events=3) for _ in range(4)]
    assert [(each.sent, each.waiting) for each in sent] == [(3, 4), (3, 1), (1, 0), (0, 0)]
    assert journal.read() == ids(on, "readings")


def test_another_topic_and_another_lake_are_sent_from_the_beginning(on, instance, tmp_path):
    journal = Journal(tmp_path)
    write(on, [decided(1)])
    publish_decisions(instance, on, open_sender=journal.opened)
    assert publish_decisions(instance, on.model_copy(update={"kafka_topic": "other"}), open_sender=journal.opened).sent == 1
    anew = on.model_copy(update={"root": str(tmp_path / "anew")})
    write(anew, [decided(1, ruleset_hash="another")])
    assert publish_decisions(instance, anew, open_sender=journal.opened).sent == 1


def test_two_do_not_send_at_once(on, instance, tmp_path):
    write(on, [decided(1)])
    # A lock of this process would be its own again.
    hold = f"""
import sys, time
from pathlib import Path
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.lock import table_lock
with table_lock(Settings(root={on.root!r}, landing="/", dagster_home=Path("/")), "ops_outbox"):
    print("held", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        report = publish_decisions(instance, on, open_sender=Journal(tmp_path).opened)
        other.communicate()
    assert report.warnings == ["another process is sending"]
    with table_lock(on, "ops_outbox", wait_seconds=0):
        pass
    assert publish_decisions(instance, on, open_sender=Journal(tmp_path).opened).sent == 1


def kill_process(step: str) -> None:
    assert step == "events_sent"
    os.kill(os.getpid(), signal.SIGKILL)


def main(home: str) -> None:
    """What the test below runs in a process of its own: a look that dies when all is sent and nothing is marked."""
    folder = Path(home)
    settings = Settings(root=str(folder / "lake"), landing=home, dagster_home=folder, kafka_bootstrap="nobody:1")
    with dg.DagsterInstance.local_temp(str(folder / "dagster")) as instance:
        publish_decisions(instance, settings, open_sender=Journal(folder).opened, step=kill_process)


def test_killed_between_send_and_mark_it_is_sent_again_with_the_same_ids(on, instance, tmp_path):
    write(on, [decided(n) for n in (1, 2, 3)])
    code = f"from lakehouse_assets_tests.orchestration.test_notify import main; main({str(tmp_path)!r})"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert child.returncode == -signal.SIGKILL, child.stderr
    journal, expected = Journal(tmp_path), ids(on, "readings")
    assert journal.read() == expected, "all was sent before the kill"
    write(on, [decided(4)])
    assert publish_decisions(instance, on, open_sender=journal.opened).sent == 4
    assert journal.read() == expected + ids(on, "readings")
    assert list(dict.fromkeys(journal.read())) == ids(on, "readings")


def sensor(settings: Settings, instance) -> str:
    definitions = build_definitions(settings, [])
    context = dg.build_sensor_context(instance=instance)
    data = definitions.resolve_sensor_def("publish_decisions").evaluate_tick(context)
    return data.skip_message or ""


def test_without_an_address_the_sensor_skips_and_reads_nothing(settings, instance):
    write(settings, [decided(1)])
    assert sensor(settings, instance) == OFF
    assert publish_decisions(instance, settings) == DeliveryReport()


def test_the_log_is_read_again_only_once_it_has_changed_or_something_waits(on, instance, monkeypatch):
    answers = [
        DeliveryReport(sent=1),
        DeliveryReport(waiting=2),
        DeliveryReport(sent=2),
        DeliveryReport(sent=1, warnings=["a table"]),
        DeliveryReport(),
    ]
    monkeypatch.setattr(publish, "publish_decisions", lambda *_: answers.pop(0))
    sensor = build_definitions(on, []).resolve_sensor_def("publish_decisions")
    cursor = None

    def reads_log() -> bool:
        nonlocal cursor
        left = len(answers)
        context = dg.build_sensor_context(instance=instance, cursor=cursor)
        result = sensor.evaluate_tick(context)
        cursor = result.cursor
        return len(answers) < left

    write(on, [decided(1)])
    assert [reads_log(), reads_log(), reads_log()] == [True, False, False]
    write(on, [decided(2)])
    assert [reads_log(), reads_log(), reads_log()] == [True, True, False], "two waited"
    write(on, [decided(3)])
    assert [reads_log(), reads_log(), reads_log()] == [True, True, False], "there was trouble"


def test_with_kafka_down_the_tick_is_short_and_counts_waiting_events(on, instance):
    write(on, [decided(n) for n in (1, 2)])
    began = time.monotonic()
    result = sensor(on, instance)
    assert result.startswith("nothing sent; 2 wait; Kafka does not answer")
    assert time.monotonic() - began < 60


def conf(on: Settings, tmp_path: Path, text: str, **secrets: str) -> Settings:
    file = tmp_path / "kafka.conf"
    file.write_text(text)
    return on.model_copy(update={"kafka_conf": file, "secrets": {name: SecretStr(value) for name, value in secrets.items()}})


def test_properties_take_secrets_from_the_environment(on, tmp_path):
    text = "# the broker's\nsasl.username = lake\nsasl.password=${LAKEHOUSE_SECRET_KAFKA}=\n\nsecurity.protocol=SASL_SSL\n"
    properties = client_properties(conf(on, tmp_path, text, KAFKA="hush"))
    assert (properties["sasl.username"], properties["sasl.password"], properties["security.protocol"]) == (
        "lake",
        "hush=",
        "SASL_SSL",
    )
    assert (properties["enable.idempotence"], properties["acks"]) == (True, "all")
    assert properties["max.in.flight.requests.per.connection"] == 1, "e2e/test_kafka shows what is lost with more"
    assert properties["bootstrap.servers"] == on.kafka_bootstrap


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acks=1", r"kafka\.conf:1: acks is the lakehouse's own; remove the line"),
        ("max.in.flight=5", r"kafka\.conf:1: max\.in\.flight is the lakehouse's own"),
        ("\nbootstrap.servers=x:1", r":2: bootstrap\.servers .* set LAKEHOUSE_KAFKA_BOOTSTRAP"),
        ("sasl.username", r":1: .*`key=value`"),
        ("nope=1", r'No such configuration property: "nope"'),
        ("security.protocol=${LAKEHOUSE_SECRET_KAFKA}", r"refuses the value of security\.protocol"),
        ("error_cb=x", r"kafka\.conf: "),
    ],
)
def test_a_wrong_property_is_named_and_no_value_is_shown(on, tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as caught, open_sender(conf(on, tmp_path, text, KAFKA="hush-hush")):
        pass
    assert "hush-hush" not in str(caught.value)


def test_a_missing_secret_or_file_is_named(on, tmp_path):
    with pytest.raises(EnvironmentMissing, match="LAKEHOUSE_SECRET_KAFKA"):
        client_properties(conf(on, tmp_path, "sasl.password=${LAKEHOUSE_SECRET_KAFKA}"))
    with pytest.raises(EnvironmentMissing, match="LAKEHOUSE_KAFKA_CONF"):
        client_properties(on.model_copy(update={"kafka_conf": tmp_path / "none"}))


def test_settings_read_the_kafka_address_from_the_environment():
    from_environment = Settings.from_environment({"LAKEHOUSE_KAFKA_BOOTSTRAP": "a:1,b:2", "LAKEHOUSE_KAFKA_CONF": "kafka.conf"})
    assert (from_environment.kafka_bootstrap, from_environment.kafka_topic) == ("a:1,b:2", "lakehouse.decisions")
    assert from_environment.kafka_conf == PROJECT_ROOT / "kafka.conf"
    assert Settings.from_environment({}).kafka_bootstrap is None
    assert Settings.from_environment({"LAKEHOUSE_KAFKA_TOPIC": "t"}).kafka_topic == "t"
