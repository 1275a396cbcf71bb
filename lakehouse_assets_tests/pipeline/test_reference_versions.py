"""The silver of another table, as a check reads it: after a rebuild, after maintenance, in the middle of a run, and damaged.

Belongs here: which version is read, and refusing damage. Does not: what checks make of it (test_reference_tables).
"""

import shutil

import pytest
from delta.tables import DeltaTable

from lakehouse_assets.errors import EvidenceError
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.pipeline.reference_tables import current_reference_tables, reference_tables_at
from lakehouse_assets.storage import delta, logs
from lakehouse_assets_tests.support import Killed, heal, land, readings, runner, silver, window

SITES = readings(
    name="sites",
    source={"kind": "files", "path": "sites/{window:%Y-%m-%d}.csv", "format": "csv"},
    key=["id"],
    last_modified=None,
    columns={"id": "string", "region": "string"},
    checks=[],
)
SPEC = readings(checks=[{"check": "foreign_key", "columns": ["sensor"], "table": "sites", "to": ["id"], "name": "known_site"}])


def arrive(settings, day: int, ids: str) -> None:
    path = land(settings, day, [f"{name},north" for name in ids], header="id,region")
    target = path.parent.parent / "sites" / path.name
    target.parent.mkdir(exist_ok=True)
    path.rename(target)


def judge(spark, settings, day: int, names: str):
    land(settings, day, [f"{name},{hour},1,2024-01-{day:02d}T00:00:00Z" for hour, name in enumerate(names)])
    return heal(spark, settings, [day], SPEC).current[window(day)]


def ids_read(spark, settings) -> set[str]:
    """The keys that a check sees now, which must be those of the fold up to the decision that it names (laws 1 and 3)."""
    tables = current_reference_tables(settings, SPEC.checks, spark)
    ids = {row["id"] for row in tables.frames["sites"].collect()}
    at = reference_tables_at(runner(spark, settings, SPEC), tables.inputs)
    assert {row["id"] for row in at.frames["sites"].collect()} == ids
    return ids


@pytest.fixture
def lake(spark, settings):
    """Sites a and b, of two windows and as many versions with rows."""
    for day, ids in ((1, "a"), (2, "b")):
        arrive(settings, day, ids)
        heal(spark, settings, [day], SITES)
    return settings


@pytest.mark.exhaustive(seconds=15)
def test_versions_start_again_after_lost_silver_is_rebuilt(spark, lake):
    """Damaged, it is refused; mended, it is read. In between nothing is judged by a table that is not there."""
    shutil.rmtree(lake.path("silver", "sites"))
    with pytest.raises(EvidenceError, match="lakehouse rebuild sites"):
        judge(spark, lake, 1, "ab")
    assert logs.decisions(lake, "readings") == []
    rebuild(runner(spark, lake, SITES))
    assert max(d.silver_version for d in logs.decisions(lake, "sites")) > 0
    assert judge(spark, lake, 1, "ab").verdict == "published"
    assert ids_read(spark, lake) == {"a", "b"}


@pytest.mark.exhaustive(seconds=20)
def test_maintenance_and_an_unfinished_run(spark, lake):
    """The recorded version's files are gone, as after a week without a write; then a run commits, and is killed before its
    mark.
    """
    path = lake.path("silver", "sites")
    recorded = max(d.silver_version for d in logs.decisions(lake, "sites"))
    table = DeltaTable.forPath(spark, path)
    table.optimize().executeCompaction()
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        table.vacuum(0)
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    with pytest.raises(Exception, match=r"(?i)file"):
        spark.read.format("delta").option("versionAsOf", recorded).load(path).collect()
    assert ids_read(spark, lake) == {"a", "b"}

    def die(step: str) -> None:
        if step == "write_done":
            raise Killed

    arrive(lake, 3, "c")
    run = runner(spark, lake, SITES, die)
    extract(run, [window(3)])
    with pytest.raises(Killed):
        publish(run, [window(3)])
    assert delta.version(path) > recorded
    assert "c" in {row["id"] for row in spark.read.format("delta").load(path).collect()}
    assert ids_read(spark, lake) == {"a", "b"}
    assert judge(spark, lake, 1, "abc").counts.rows_quarantined == 1


@pytest.mark.exhaustive(seconds=12)
def test_a_fold_of_damaged_bronze_is_refused(spark, lake, tmp_path):
    """A killed run is completed by what its decision saw: from the other table's bronze, which must be all there."""
    land(lake, 1, ["a,0,1,2024-01-01T00:00:00Z"])

    def die(step: str) -> None:
        if step == "log_done":
            raise Killed

    run = runner(spark, lake, SPEC, die)
    extract(run, [window(1)])
    with pytest.raises(Killed):
        publish(run, [window(1)])
    bronze = lake.path("bronze", "sites")
    shutil.move(bronze, tmp_path / "away")
    with pytest.raises(EvidenceError, match="bronze/sites"):
        publish(runner(spark, lake, SPEC), [window(1)])
    assert silver(lake) == []
    shutil.move(tmp_path / "away", bronze)
    publish(runner(spark, lake, SPEC), [window(1)])
    assert [row["sensor"] for row in silver(lake)] == ["a"]
