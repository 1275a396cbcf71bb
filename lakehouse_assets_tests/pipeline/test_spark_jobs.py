"""How many jobs of Spark a run of one small window takes: what it costs besides its rows.

Belongs here: the number. Does not: what the jobs compute.
"""

from typing import Any

from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
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


def test_a_window_takes_few_jobs(spark, settings):
    spec = readings(checks=CHECKS, drift={"features": ["value", "sensor"]})
    land(settings, 1, [f"a,{hour},{hour},2024-01-01T01:00:00Z" for hour in range(20)])
    land(settings, 2, [f"b,{hour + 30},{hour},2024-01-02T01:00:00Z" for hour in range(20)])
    land(settings, 3, [f"a,{hour + 10},{hour},2024-01-03T01:00:00Z" for hour in range(20)])
    heal(spark, settings, [1], spec)
    with as_for_users(spark):
        jobs: dict[int, dict[str, int]] = {}
        for day in (2, 3):
            passed = jobs[day] = {"": jobs_so_far(spark)}

            def note(step: str, passed: dict[str, int] = passed) -> None:
                passed[step] = jobs_so_far(spark)

            run = runner(spark, settings, spec, note)
            extract(run, [window(day)])
            publish(run, [window(day)])
            passed["end"] = jobs_so_far(spark)
    # The keys of the second window are new: they are appended. Those of the third are merged.
    assert jobs[2]["end"] - jobs[2][""] <= MOST
    merged = jobs[3]["write_done"] - jobs[3]["before_write"]
    assert jobs[3]["end"] - jobs[3][""] - merged <= MOST
