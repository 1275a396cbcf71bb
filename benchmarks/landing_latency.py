"""From a file that lands to its rows in silver, with everything on: `make dev` over the example's weather.

    python -m benchmarks.landing_latency [DAYS]

One day's file lands after another, each once the one before is applied; the first five warm the worker up. Prints as JSON the
median and the greatest seconds to the mark *applied*: from landing, and from the poll that found the file unchanged.
"""

import json
import shutil
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from benchmarks import PROJECT_ROOT
from benchmarks.lab import own_instance
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.browser.demo import dagster_dev

TABLE, SOURCE, WARM_DAYS, SECONDS = "weather", dg.AssetKey("source_weather"), 5, 600


def measure(days: int) -> dict[str, Any]:
    """Land so many days, one after another."""
    files = sorted((PROJECT_ROOT / "data/examples/weather/on_time").glob("*.csv"))[: WARM_DAYS + days]
    with tempfile.TemporaryDirectory() as folder:
        home, seconds = Path(folder, "home"), list[tuple[float, float]]()
        variables = own_instance(home)
        settings = Settings.from_environment(variables)
        landing = Path(settings.landing, TABLE)
        landing.mkdir(parents=True)
        with dagster_dev(variables, home / "log"), dg.DagsterInstance.from_config(str(home)) as instance:
            for file in files:
                landed = time.time()
                shutil.copyfile(file, landing / f".{file.name}")
                (landing / f".{file.name}").rename(landing / file.name)
                applied = _wait_until_applied(settings, datetime.fromisoformat(file.stem).replace(tzinfo=UTC))
                seconds.append((applied - landed, applied - _settled_at(instance, file.stem)))
    measured = seconds[WARM_DAYS:]
    names = ("landing to applied", "settled to applied")
    return {
        name: {"median": round(statistics.median(each), 1), "greatest": round(max(each), 1)}
        for name, each in zip(names, zip(*measured, strict=True), strict=True)
    } | {"windows": len(measured)}


def _wait_until_applied(settings: Settings, start: datetime) -> float:
    """Return when the window's decision was marked as applied. Raises TimeoutError."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for decision in logs.decisions(settings, TABLE):
            if decision.p_extracted_at == start and decision.applied_at is not None:
                return decision.applied_at.timestamp()
        time.sleep(0.5)
    raise TimeoutError(f"{start:%Y-%m-%d} is not applied after {SECONDS} s")


def _settled_at(instance: dg.DagsterInstance, partition: str) -> float:
    """Return when the sensor reported the window's file as whole."""
    records = dg.AssetRecordsFilter(asset_key=SOURCE, asset_partitions=[partition])
    return instance.fetch_materializations(records, limit=1).records[0].timestamp


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 20), indent=2) + "\n")
