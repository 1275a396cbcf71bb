"""How many jobs of Spark a run of one small window takes: what it costs besides its rows.

Belongs here: the number. Does not: what the jobs compute.
"""

from typing import Any

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.pipeline import silver_merge
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.support import as_for_users, heal, land, readings, runner, window

CHECKS = [
    {"check": "not_empty"},
    {"check": "unique", "columns": ["sensor", "hour"]},
    {"check": "in_range", "column": "value", "min": -100, "max": 100},
    {"check": "sql", "name": "own", "sql": "select * from batch where value > 1000"},
]
MOST = 12


def jobs_so_far(spark: Any) -> int:
    return spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()


def jobs_of_window(spark: Any, settings: Settings, spec: TableSpec, day: int) -> int:
    before = jobs_so_far(spark)
    run = runner(spark, settings, spec)
    extract(run, [window(day)])
    publish(run, [window(day)])
    return jobs_so_far(spark) - before


def test_a_window_takes_few_jobs(spark, settings, monkeypatch):
    spec = readings(checks=CHECKS, drift={"features": ["value", "sensor"]})
    land(settings, 1, [f"a,{hour},{hour},2024-01-01T01:00:00Z" for hour in range(20)])
    land(settings, 2, [f"b,{hour + 30},{hour},2024-01-02T01:00:00Z" for hour in range(20)])
    land(settings, 3, [f"a,{hour + 10},{hour},2024-01-03T01:00:00Z" for hour in range(20)])
    land(settings, 4, [f"a,{hour + 20},{hour},2024-01-04T01:00:00Z" for hour in range(20)])
    heal(spark, settings, [1], spec)
    merge, merged = silver_merge._merge, list[int]()

    def count_merge(*arguments: Any) -> None:
        before = jobs_so_far(spark)
        merge(*arguments)
        merged.append(jobs_so_far(spark) - before)

    monkeypatch.setattr(silver_merge, "_merge", count_merge)
    with as_for_users(spark):
        # The keys of the second window are new: they are appended. Those of the third are merged without Spark.
        assert jobs_of_window(spark, settings, spec, 2) <= MOST
        assert jobs_of_window(spark, settings, spec, 3) <= MOST
        assert merged == []
        # Spark's MERGE, as of a window or a table that is not small, has jobs of its own.
        monkeypatch.setattr(silver_merge, "merge_few", lambda *_: False)
        jobs = jobs_of_window(spark, settings, spec, 4)
        (own,) = merged
        assert 0 < own < jobs <= MOST + own


def test_numbers_are_profiled_without_a_job(spark, settings):
    spec = readings(checks=CHECKS, drift={"features": ["value"]})
    for day in (1, 2):
        land(settings, day, [f"a,{hour},{hour},2024-01-0{day}T01:00:00Z" for hour in range(20)])
    heal(spark, settings, [1], spec)
    with as_for_users(spark):
        jobs = jobs_of_window(spark, settings, spec, 2)
    other = settings.model_copy(update={"root": f"{settings.root}-without"})
    heal(spark, other, [1], readings(checks=CHECKS))
    with as_for_users(spark):
        assert jobs == jobs_of_window(spark, other, readings(checks=CHECKS), 2)
    decision = logs.decisions(settings, spec.name)[-1]
    (profile,) = logs.with_evidence(settings, spec.name, [decision])[0].profiles
    assert (profile["feature"], profile["rows"], profile["mean"]) == ("value", 20, 9.5)
