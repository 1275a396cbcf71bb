"""`make demo-stream`: the script of the demonstration, with three days instead of two months.

Belongs here: that it ends, what it prints, and each reading in silver once. Does not: drift of a stream (decisions/drift).
"""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_assets_tests.e2e.servers import kafka_jars
from lakehouse_assets_tests.support import PROJECT_ROOT, rows_of

DAYS = ("2013-08-31", "2013-09-01", "2013-09-02")


@pytest.mark.exhaustive(seconds=120)
def test_the_demonstration_ends_with_each_reading_in_silver(tmp_path):
    try:
        kafka_jars()
    except (RuntimeError, OSError) as error:
        pytest.skip(str(error))
    folder = tmp_path / "stream"
    script = [sys.executable, str(PROJECT_ROOT / "scripts" / "demo_stream.py"), "--folder", str(folder)]
    command = [*script, "--first", DAYS[0], "--last", DAYS[-1], "--seconds-per-day", "2"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    assert ": published, " in process.stdout
    assert "gold_station_weather: rewritten" in process.stdout
    assert "0 messages wait" in process.stdout
    silver = rows_of(str(folder / "weather_stream" / "data" / "lake" / "silver" / "readings"), ["origin", "time_hour"])
    keys = sorted((row["origin"], row["time_hour"].strftime("%Y-%m-%dT%H:%M:%SZ")) for row in silver)
    assert keys == sorted(sent_keys())
    again = subprocess.run(script, capture_output=True, text=True, check=False)
    assert again.returncode == 5, again.stderr


def sent_keys() -> list[tuple[str, str]]:
    """Station and hour of each reading that the demonstration sends: the days, and the corrected ones."""
    examples = PROJECT_ROOT / "data" / "examples" / "weather"
    paths: list[Path] = [examples / "on_time" / f"{day}.csv" for day in DAYS]
    paths += sorted((examples / "corrections").glob("*.csv"))
    keys = []
    for path in paths:
        with path.open(newline="") as file:
            keys += [(row["origin"], row["time_hour"]) for row in csv.DictReader(file)]
    return keys
