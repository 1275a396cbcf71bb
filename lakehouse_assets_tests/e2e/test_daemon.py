"""The daemon off for a while and on again, with `dagster dev`'s own processes: what arrived meanwhile, and what was changed.

Belongs here: that nothing is lost and nothing done twice. Does not: which windows are asked for (orchestration).
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.dagster_run import FINISHED_STATUSES

from lakehouse_assets.decisions import ledger
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.browser.demo import EXAMPLES, dagster_dev, environment, wait
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import rows_of

PARTITION, START, END = (
    f"dagster/{name}" for name in ("partition", "asset_partition_range_start", "asset_partition_range_end")
)
SILVER, GOLD = dg.AssetKey("silver_weather"), dg.AssetKey("gold_daily_weather")
# Nine windows reported by a daemon like this one take longer than it lets pass between two evaluations of conditions.
SLOW_DAEMON = """
import sys
if "dagster._daemon" in sys.orig_argv:
    import time
    from dagster import DagsterInstance
    report = DagsterInstance.report_runless_asset_event

    def slowly(self, event):
        time.sleep(4)
        report(self, event)

    DagsterInstance.report_runless_asset_event = slowly
"""


def slow_start(home: Path, variables: dict[str, str]) -> dict[str, str]:
    """What Python imports at its start."""
    folder = home / "startup"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SLOW_DAEMON)
    path = os.pathsep.join([str(folder), *filter(None, [variables.get("PYTHONPATH")])])
    return {**variables, "PYTHONPATH": path}


def land(settings: Settings, days: Iterable[int], corrected: bool = False) -> None:
    """Days of January, all at once. A corrected one lacks its last row."""
    folder, next_, last = (Path(settings.landing, name) for name in ("weather", "next", "last"))
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder, next_)
    for day in days:
        lines = (EXAMPLES / "weather" / "on_time" / f"2013-01-{day:02d}.csv").read_text().splitlines()
        (next_ / f"2013-01-{day:02d}.csv").write_text("\n".join(lines[:-1] if corrected else lines) + "\n")
    # A look that fell between two files would take them one after the other.
    folder.rename(last)
    next_.rename(folder)
    shutil.rmtree(last)


def current_batches(settings: Settings) -> list[tuple[int, int]]:
    """Every decision that stands and was carried out, as day and extraction."""
    current = ledger.current_decisions(logs.decisions(settings, "weather")).values()
    return sorted((d.p_extracted_at.day, d.extraction_seq) for d in current if d.applied_at and not d.superseded_by)


def ranges(instance: dg.DagsterInstance) -> list[tuple[str, str]]:
    """The first and last window of each run that has silver, oldest first; none of them may have failed."""
    bounds = []
    for run in reversed(instance.get_runs()):
        if SILVER in (run.asset_selection or ()):
            assert run.status is dg.DagsterRunStatus.SUCCESS, run
            day = run.tags.get(PARTITION, "")
            bounds.append((run.tags.get(START, day), run.tags.get(END, day)))
    return bounds


def quiet(instance: dg.DagsterInstance, settings: Settings, expected: list[tuple[int, int]]) -> bool:
    """Whether all this is decided, gold has been derived after it, and no run is left."""
    if current_batches(settings) != expected:
        return False
    silver, gold = (instance.get_latest_materialization_event(key) for key in (SILVER, GOLD))
    after = silver and gold and gold.timestamp > silver.timestamp
    return bool(after) and all(run.status in FINISHED_STATUSES for run in instance.get_runs())


@pytest.mark.exhaustive(seconds=300)
@pytest.mark.timeout(1800)
def test_the_daemon_catches_up_after_downtime(spark, tmp_path):
    home = tmp_path / "dev"
    home.mkdir()
    variables = slow_start(home, environment(home))
    settings = Settings.from_environment(variables)
    nine = range(1, 10)
    land(settings, nine)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        first = [(day, 1) for day in nine]
        with dagster_dev(variables, home / "first.log"):
            assert wait(lambda: quiet(instance, settings, first), 600), (home / "first.log").read_text()[-3000:]
        assert ranges(instance) == [("2013-01-01", "2013-01-09")]
        # Off: no process is left. Two windows arrive, and one that is known is changed.
        land(settings, (10, 11))
        land(settings, (2,), corrected=True)
        assert current_batches(settings) == first
        second = [(day, 1 + (day == 2)) for day in range(1, 12)]
        scattered = (1, 3, 5, 7, 9)
        third = [(day, 1 + (day in (2, *scattered))) for day in range(1, 12)]
        with dagster_dev(variables, home / "second.log"):
            assert wait(lambda: quiet(instance, settings, second), 900), (home / "second.log").read_text()[-3000:]
            # One run a gap; nothing twice.
            assert sorted(ranges(instance)[1:]) == [("2013-01-02", "2013-01-02"), ("2013-01-10", "2013-01-11")]
            land(settings, scattered, corrected=True)
            assert wait(lambda: quiet(instance, settings, third), 600), (home / "second.log").read_text()[-3000:]
        # Many gaps near each other take one run, and no condition asks for them again.
        assert ranges(instance)[3:] == [("2013-01-01", "2013-01-09")]
    # As if it had never been off.
    (tmp_path / "other").mkdir()
    other = World(spark, tmp_path / "other", ["weather"])
    land(other.settings, nine)
    other.run()
    land(other.settings, (10, 11))
    land(other.settings, (2,), corrected=True)
    other.run()
    land(other.settings, scattered, corrected=True)
    other.run()
    for layer, table in (("silver", "weather"), ("gold", "daily_weather")):
        here, there = (
            [{k: round(v, 9) if isinstance(v, float) else v for k, v in row.items()} for row in rows_of(path)]
            for path in (settings.path(layer, table), other.settings.path(layer, table))
        )
        assert here == there
        assert here
