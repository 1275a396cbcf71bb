"""Memory and files of a stream over many windows: `lakehouse stream --available-now` as a process, window after window.

    python -m benchmarks.stream_memory [WINDOWS] [MESSAGES_A_WINDOW]

Prints as JSON a line for each tenth of the windows: the megabytes of the command and of its JVM (resident sizes), the seconds
of a window, and the live files of bronze and silver. It needs the tests' broker (lakehouse_assets_tests/e2e/servers).
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks.memory import bytes_now
from benchmarks.stream_latency import PARTITIONS, make_folder, send
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets_tests.e2e.servers import Broker
from lakehouse_assets_tests.e2e.streamed import make_topic
from lakehouse_assets_tests.e2e.test_stream_service import Project

SECONDS = 5.0
RATE = 4_000  # messages sent a second, before the stream begins


def main(windows: int, messages: int) -> None:
    """Send what fills the windows, then take it."""
    with tempfile.TemporaryDirectory() as folder, Broker(make_folder(Path(folder, "kafka"))).up() as broker:
        topic = make_topic(broker, PARTITIONS)
        producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
        for _ in send(producer, topic, windows * messages / RATE, RATE):
            pass
        project = Project(Path(folder), broker, topic, max_rows=messages)
        process = project.start("--available-now")
        samples: list[dict[str, Any]] = []
        while process.poll() is None:
            time.sleep(SECONDS)
            samples.append({"at": time.monotonic(), **_sizes(process), **_counts(project.settings)})
        for part in range(10):
            within = [each for each in samples if part * windows / 10 <= each["windows"] < (part + 1) * windows / 10]
            if within:
                _print(within)
        if process.returncode != 0:
            raise AssertionError(project.log.read_text())


def _sizes(process: subprocess.Popen) -> dict[str, int]:
    """Return the megabytes of the command alone, and of it and what it started."""
    try:
        status = Path(f"/proc/{process.pid}/statm").read_text(encoding="utf-8")
    except OSError:
        return {"python": 0, "all": 0}
    return {"python": int(status.split()[1]) * 4096 >> 20, "all": bytes_now(process.pid) >> 20}


def _counts(settings: Settings) -> dict[str, int]:
    paths = {name: settings.path(name, "readings") for name in ("bronze", "silver")}
    files = {name: delta.row_counts(path).num_rows if delta.exists(path) else 0 for name, path in paths.items()}
    return {"windows": len(logs.extractions(settings, "readings")), **files}


def _print(samples: list[dict[str, Any]]) -> None:
    first, last = samples[0], samples[-1]
    python, both = (statistics.median(each[name] for each in samples) for name in ("python", "all"))
    count = last["windows"] - first["windows"]
    line = {
        "windows": f"{first['windows']} to {last['windows']}",
        "python": python,
        "jvm": both - python,
        "seconds_of_a_window": round((last["at"] - first["at"]) / count, 2) if count else None,
        "files": {name: max(each[name] for each in samples) for name in ("bronze", "silver")},
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    chosen = [int(text) for text in sys.argv[1:]]
    main(*[*chosen, *(500, 500)[len(chosen) :]])
