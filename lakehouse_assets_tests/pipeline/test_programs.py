"""Spark makes and compiles a program of each query: the programs of one window serve the windows after it.

Belongs here: how many programs a window takes. Does not: windows of few rows, whose queries are interpreted (test_few_rows).

Where the queries name the window, or the keys of its rows, each window takes some hundred programs of its own, and half of its
processor's time.
"""

from collections.abc import Iterator

import pytest

from lakehouse_assets.pipeline import few_rows, silver_merge
from lakehouse_assets_tests.support import as_for_users, heal, land, readings, silver

DELETES = readings(
    extraction={"cadence": "daily", "start": "2024-01-01", "mode": "upsert", "delete_when": "op = 'D'"},
    columns={"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp", "op": "string"},
)


@pytest.fixture
def compiled(spark, monkeypatch) -> Iterator[None]:
    """Queries as those of many rows, in a session with room for their programs."""
    for module in (few_rows, silver_merge):
        monkeypatch.setattr(module, "FEW", 0)
    with as_for_users(spark):
        yield


def test_programs_of_a_window_serve_the_next(spark, settings, compiled):
    """Keys of all windows lie between the same two sensors, and each window deletes one."""
    counter = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    counts = []
    for day in range(1, 5):
        rows = [f"s{n},{n},{day},2024-01-{day:02}T{n:02}:00:00Z,{'D' if n == day else ''}" for n in range(10)]
        land(settings, day, rows, "sensor,hour,value,updated,op")
        before = counter.getCount()
        heal(spark, settings, [day], DELETES)
        counts.append(counter.getCount() - before)
    assert counts[0] > 20
    assert counts[-1] == 0
    assert {row["sensor"] for row in silver(settings)} == {f"s{n}" for n in range(10)} - {"s4"}
