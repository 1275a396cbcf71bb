"""Silver that somebody has removed, or of which a data file is missing, and what a person did to its columns.

Belongs here: what a rebuild, a migration and the next window make of it. Does not: comparing what is on record.
"""

import shutil
from pathlib import Path

import pytest
from delta.tables import DeltaTable

from lakehouse_assets.errors import EvidenceError, RefusedError
from lakehouse_assets.operations.rebuild import migrate, rebuild
from lakehouse_assets.operations.release import release
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.storage import delta
from lakehouse_assets_tests.laws.test_operations import Killed, kill_at
from lakehouse_assets_tests.support import copy_lake, heal, lake_settings, land, readings, runner, silver, window


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """Two days in silver, a row of the second in quarantine."""
    settings = lake_settings(tmp_path_factory.mktemp("gone") / "lake")
    land(settings, 1, ["a,1,10,2024-01-01T00:00:00Z", "b,1,20,2024-01-01T00:00:00Z"])
    land(settings, 2, ["a,2,30,2024-01-02T00:00:00Z", "b,2,999,2024-01-02T00:00:00Z"])
    heal(spark, settings, [1, 2])
    return settings


@pytest.fixture
def settings(template, tmp_path):
    return copy_lake(template, tmp_path)


@pytest.fixture
def published(settings):
    """What silver is, and its folder."""
    return silver(settings), Path(settings.path("silver", "readings"))


@pytest.mark.exhaustive(seconds=20)
def test_a_missing_or_damaged_silver_is_rebuilt_completely(spark, settings, published):
    before, folder = published
    shutil.rmtree(folder)
    assert (rebuild(runner(spark, settings)).rows, silver(settings)) == (3, before)
    for file in folder.glob("*.parquet"):
        file.unlink()
    assert (rebuild(runner(spark, settings)).rows, silver(settings)) == (3, before)
    # With a decision that is still to be applied to it: a release that was killed.
    again = {"waived": ["in_range_value"], "by": "me", "because": "x"}
    with pytest.raises(Killed):
        release(runner(spark, settings, step=kill_at("log_done")), window(2).start, None, **again)
    for file in folder.glob("*.parquet"):
        file.unlink()
    assert rebuild(runner(spark, settings)).rows == 4
    assert (rebuild(runner(spark, settings)).gained, len(silver(settings))) == (0, 4)


@pytest.mark.exhaustive(seconds=18)
def test_a_silver_that_is_gone_stops_the_next_window_and_a_release_until_it_is_rebuilt(spark, settings, published):
    _, folder = published
    shutil.rmtree(folder)
    land(settings, 3, ["a,3,30,2024-01-03T00:00:00Z"])
    extract(runner(spark, settings), [window(3)])
    with pytest.raises(EvidenceError, match="lakehouse rebuild readings"):
        publish(runner(spark, settings), [window(3)])
    with pytest.raises(EvidenceError, match="lakehouse rebuild readings"):
        release(runner(spark, settings), window(2).start, None, waived=["*"], by="me", because="x")
    assert silver(settings) == []
    assert rebuild(runner(spark, settings)).rows == 3
    publish(runner(spark, settings), [window(3)])
    assert len(silver(settings)) == 4
    release(runner(spark, settings), window(2).start, None, waived=["*"], by="me", because="x")
    assert len(silver(settings)) == 5


def test_a_column_added_by_hand_is_lost_only_when_it_is_named_and_comments_stay(spark, settings, published):
    before, folder = published
    spark.sql(f"ALTER TABLE delta.`{folder}` ADD COLUMNS (by_hand string COMMENT 'mine')")
    spark.sql(f"ALTER TABLE delta.`{folder}` ALTER COLUMN value COMMENT 'degrees'")
    DeltaTable.forPath(spark, str(folder)).update(set={"by_hand": "'x'"})
    with pytest.raises(RefusedError, match="--lose by_hand"):
        migrate(runner(spark, settings))
    assert {row["by_hand"] for row in silver(settings)} == {"x"}
    [step] = migrate(runner(spark, settings), lose=["by_hand"])
    assert (step.action, step.column, step.reversible) == ("drop", "by_hand", False)
    assert silver(settings) == before
    fields = {f.name: f.metadata.get("comment") for f in spark.read.format("delta").load(str(folder)).schema}
    assert fields["value"] == "degrees"
    assert migrate(runner(spark, settings, readings())) == []
    assert delta.properties(str(folder))[delta.MEANING] == readings().meaning


@pytest.mark.exhaustive(seconds=20)
def test_comments_on_nested_fields_stay_and_do_not_make_silver_another_table(spark, settings):
    nested = "struct<street: string, rooms: array<struct<number: int>>>"
    spec = readings(
        columns={"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp", "home": nested},
        source={"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv"},
    )
    home = '"{""street"": ""x"", ""rooms"": [{""number"": 1}]}"'
    header = "sensor,hour,value,updated,home"
    for day in (1, 2):
        land(settings, day, [f"a,{day},10,2024-01-0{day}T00:00:00Z,{home}"], header)
    heal(spark, settings, [1], spec)
    path = settings.path("silver", "readings")
    for field, text in {"home": "whole", "home.street": "by hand", "home.rooms.element.number": "deep"}.items():
        spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN {field} COMMENT '{text}'")

    def comments() -> list[str | None]:
        schema = spark.read.format("delta").load(path).schema
        street, rooms = schema["home"].dataType
        number = rooms.dataType.elementType["number"]
        return [field.metadata.get("comment") for field in (schema["home"], street, number)]

    before = delta.version(path)
    heal(spark, settings, [2], spec)
    assert delta.version(path) == before + 1, "merged, and not folded anew"
    assert comments() == ["whole", "by hand", "deep"]
    rebuild(runner(spark, settings, spec))
    assert comments() == ["whole", "by hand", "deep"]
    wider = spec.model_copy(
        update={"columns": {**spec.columns, "value": spec.columns["value"].model_copy(update={"type": "string"})}}
    )
    migrate(runner(spark, settings, wider), lose=["value"])
    assert comments() == ["whole", "by hand", "deep"]
    assert [row["home"]["rooms"][0]["number"] for row in silver(settings)] == [1, 1]
