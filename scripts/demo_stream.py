"""The demonstration of a stream: a broker, stations that send a day of readings every few seconds, and `lakehouse stream`.

Belongs here: the order of the demonstration, and its project in data/stream. Does not: the broker (the tests' own), or anything
that the project itself does.
"""

import argparse
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from script_exit import exit_with

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from lakehouse_assets.settings import Settings  # noqa: E402
from lakehouse_assets.sources import open_feed  # noqa: E402
from lakehouse_assets.storage.source_positions import read_positions  # noqa: E402
from lakehouse_assets_tests.e2e.servers import Broker, kafka_jars  # noqa: E402

TOPIC, TABLE = "readings", "readings"
EXAMPLES, DEMO = ROOT / "data" / "examples" / "weather", Path(__file__).with_name("stream_demo")
LAKEHOUSE = Path(sys.executable).parent / "lakehouse"
FAULTY = (date(2013, 9, 9), date(2013, 9, 12))


def main() -> int:
    """Run the demonstration. Exit code 5 where its folder exists."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--first", type=date.fromisoformat, default=date(2013, 7, 20), help="the first day that is sent")
    parser.add_argument("--last", type=date.fromisoformat, default=date(2013, 9, 14), help="the last day")
    parser.add_argument("--seconds-per-day", type=float, default=5.0, help="how fast the days pass (default: 5)")
    parser.add_argument("--folder", type=Path, default=ROOT / "data" / "stream", help="the project's folder")
    arguments = parser.parse_args()
    if arguments.folder.exists():
        print(f"{arguments.folder} exists; `make clean-data` deletes it", file=sys.stderr)
        return 5
    kafka_jars()
    project = make_project(arguments.folder)
    home = arguments.folder / "kafka"
    home.mkdir()
    with Broker(home).up() as broker:
        environment = {**os.environ, "LAKEHOUSE_PROJECT": str(project), "DAGSTER_HOME": str(project)}
        environment["LAKEHOUSE_KAFKA_BOOTSTRAP"] = broker.address
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
        say(f"1 · the stations send a day every {arguments.seconds_per_day:g} s; LGA's barometer is off from 9 to 12 September")
        stream = subprocess.Popen([LAKEHOUSE, "stream"], env=environment, cwd=project)
        try:
            send_days(broker.address, days(arguments.first, arguments.last), arguments.seconds_per_day, "on_time", "late")
            wait_until_taken(environment, stream)
            say("2 · what is quarantined")
            command(environment, project, "verdicts", "--verdict", "quarantined")
            say("3 · the faulty days are sent again, corrected: the later message of a reading wins")
            send_days(broker.address, days(*FAULTY), arguments.seconds_per_day, "corrections")
            wait_until_taken(environment, stream)
        finally:
            stream.send_signal(signal.SIGTERM)
            stream.wait(180)
        say("4 · gold, and what the stream left")
        command(environment, project, "stream", "--available-now")
        command(environment, project, "heal", "status")
        command(environment, project, "pages")
    print(f"\nThe project is in {project}. To see its partitions: DAGSTER_HOME={project} dagster dev, in that folder.")
    return 0


def make_project(folder: Path) -> Path:
    """Make the project with its one table."""
    folder.mkdir(parents=True)
    # Its Dagster home is its own, and not that of this checkout.
    own = {name: value for name, value in os.environ.items() if name not in ("DAGSTER_HOME", "LAKEHOUSE_PROJECT")}
    subprocess.run([LAKEHOUSE, "new", "weather_stream"], cwd=folder, env=own, check=True, stdout=subprocess.DEVNULL)
    project = folder / "weather_stream"
    table = project / "src" / "weather_stream" / "defs" / TABLE
    shutil.copytree(DEMO, table)
    return project


def days(first: date, last: date) -> list[date]:
    """Return the days from the first to the last."""
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]


def send_days(brokers: str, chosen: list[date], seconds_per_day: float, *folders: str) -> None:
    """Send each day's readings at once, by the hour, so that a window has all stations of an hour."""
    producer = Producer({"bootstrap.servers": brokers})
    for day in chosen:
        began = time.monotonic()
        for reading in readings(day, folders):
            producer.produce(TOPIC, json.dumps(reading), reading["origin"])
        producer.flush(60)
        time.sleep(max(0.0, seconds_per_day - (time.monotonic() - began)))


def readings(day: date, folders: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Yield a day's readings of the example in the order of their time."""
    paths = [EXAMPLES / folder / f"{day.isoformat()}.csv" for folder in folders]
    for path in (path for path in paths if path.exists()):
        with path.open(newline="") as file:
            yield from sorted(csv.DictReader(file), key=lambda row: (row["time_hour"], row["origin"]))


def wait_until_taken(environment: dict[str, str], stream: subprocess.Popen, seconds: float = 300) -> None:
    """Wait until no message waits. Raises RuntimeError if the stream ends, or that takes too long."""
    from lakehouse_assets.orchestration.assets.project_tables import read_project  # noqa: PLC0415 (loads the tables)

    settings = Settings.from_environment(environment)
    [table] = read_project(settings).tables
    feed, end = open_feed(table.spec, settings), time.monotonic() + seconds
    while feed.waiting(read_positions(settings, TABLE), table.spec.extraction.start).number:
        if stream.poll() is not None or time.monotonic() > end:
            raise RuntimeError("the stream has not taken all messages")
        time.sleep(1)
    feed.close()
    time.sleep(5)  # the last window passes the gate


def command(environment: dict[str, str], project: Path, *arguments: str) -> None:
    """Run a `lakehouse` command in the project."""
    print(f"\n$ lakehouse {' '.join(arguments)}", flush=True)
    subprocess.run([LAKEHOUSE, *arguments], env=environment, cwd=project, check=True)


def say(text: str) -> None:
    """Print a heading."""
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    exit_with(main)
