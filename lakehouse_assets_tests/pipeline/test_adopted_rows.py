"""Rows whose keys silver does not have become silver's with the files in which they are staged; others are written as before.

Belongs here: when, and what is in silver then. Does not: the files themselves (storage/test_adopted_files).
"""

import pytest
from deltalake import DeltaTable
from pyarrow import parquet

from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.pipeline import silver_merge
from lakehouse_assets.pipeline.staging import files_to_publish, write_once
from lakehouse_assets.storage import delta, evidence
from lakehouse_assets.storage.delta_files import TableFiles
from lakehouse_assets.storage.session_properties import set_session_property
from lakehouse_assets_tests.support import heal, lake_settings, land, readings, runner, silver

BAD = "x,{day}1,999,2024-01-0{day}T00:00:00Z"
APPEND = readings(
    extraction={"cadence": "daily", "start": "2024-01-01", "mode": "append"}, key=[], last_modified=None, checks=[]
)  # fmt: skip


@pytest.fixture
def adopted(monkeypatch) -> list[bool]:
    """Of each append whether it took the staged files."""
    results: list[bool] = []
    original = silver_merge.adopt_files

    def noted(*arguments) -> bool:
        results.append(original(*arguments))
        return results[-1]

    monkeypatch.setattr(silver_merge, "adopt_files", noted)
    return results


def rows_of_day(day: int) -> list[str]:
    """Two rows of one key, of which the second is newer; a row of another key; and one that fails a check."""
    text = f"2024-01-0{day}T0"
    return [f"a,{day}0,1,{text}1:00:00Z", f"a,{day}0,2,{text}2:00:00Z", f"b,{day}5,3,{text}1:00:00Z", BAD.format(day=day)]


def values(settings) -> list[tuple[str, int, float]]:
    return [(row["sensor"], row["hour"], row["value"]) for row in silver(settings)]


def check_fold(spark, settings, spec) -> None:
    proof = rebuild(runner(spark, settings, spec))
    assert (proof.gained, proof.lost) == (0, 0)


def test_windows_of_new_keys_are_not_written_again(spark, settings, adopted):
    spec = readings()
    for day in (1, 2):
        land(settings, day, rows_of_day(day))
        heal(spark, settings, [day], spec)
    assert adopted == [True, True]
    assert values(settings) == [("a", 10, 2), ("a", 20, 2), ("b", 15, 3), ("b", 25, 3)]
    path = settings.path("silver", "readings")
    assert all("_clean" in parquet.read_schema(file).names for file in DeltaTable(path).file_uris()), "staged files"
    files = TableFiles(path)
    assert evidence._changes(files, files.history(9), None)[-1].rows == 2, "its commit counts no rows, its files do"
    assert not any(name.startswith("_c") and name != "_content_hash" for name, _ in delta.schema_types(path))
    check_fold(spark, settings, spec)


def test_after_a_merge_the_next_window_is_staged_as_before(spark, settings, adopted):
    spec = readings()
    for day, rows in ((1, rows_of_day(1)), (2, ["a,10,9,2024-01-02T00:00:00Z"]), (3, rows_of_day(3)), (4, rows_of_day(4))):
        land(settings, day, rows)
        heal(spark, settings, [day], spec)
    assert adopted == [True, False, True], "the second is merged, the third staged before it is known to be appended"
    assert values(settings)[0] == ("a", 10, 9)
    assert len(values(settings)) == 6
    check_fold(spark, settings, spec)


def test_a_key_of_any_character_is_found_again(spark, settings, adopted):
    for day, value in ((1, 1), (2, 2)):
        land(settings, day, [f"\U00020000,1,{value},2024-01-0{day}T00:00:00Z"])
        heal(spark, settings, [day])
    assert adopted == [True]
    assert values(settings) == [("\U00020000", 1, 2)]


def test_long_keys_in_order_are_known_to_be_new(spark, settings, adopted):
    for day in (1, 2):
        land(settings, day, [f"2024-01-0{day}T00:00:00Z-{'sensor' * 9},1,1,2024-01-01T00:00:00Z"])
        heal(spark, settings, [day])
    assert adopted == [True, True]
    assert len(values(settings)) == 2


def test_a_lake_of_an_unusual_name(spark, tmp_path, adopted):
    settings = lake_settings(tmp_path / "a lake é#1 +")
    for day in (1, 2):
        land(settings, day, rows_of_day(day))
        heal(spark, settings, [day])
    assert adopted == [True, True]
    assert len(values(settings)) == 4


def test_staging_again_leaves_nothing_of_before(spark, tmp_path):
    path, flagged = str(tmp_path / "staged"), spark.createDataFrame([(1, True), (2, False)], "n int, _newest boolean")
    with set_session_property(spark, "spark.sql.sources.partitionOverwriteMode", "dynamic"):
        assert write_once(spark, flagged, path, apart=True).count() == 2
        staged = write_once(spark, flagged.where("_newest"), path, apart=True)
    assert [tuple(row) for row in staged.select("n", "_newest").collect()] == [(1, True)]
    assert len(files_to_publish(staged)) >= 1
    write_once(spark, flagged, f"{path}2")
    assert files_to_publish(staged.unionByName(spark.read.parquet(f"{path}2"))) == []


def test_windows_together_are_written_as_before(spark, settings, adopted):
    for day in (1, 2):
        land(settings, day, rows_of_day(day))
    heal(spark, settings, [1, 2])
    assert adopted == [False]
    assert len(values(settings)) == 4
    check_fold(spark, settings, readings())


def test_a_table_without_a_key_takes_each_window(spark, settings, adopted):
    for day in (1, 2):
        land(settings, day, [f"a,{day},1,2024-01-01T00:00:00Z"] * 3)
        heal(spark, settings, [day], APPEND)
    assert adopted == [True, True]
    assert values(settings) == [("a", 1, 1)] * 3 + [("a", 2, 1)] * 3
    check_fold(spark, settings, APPEND)


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("spec", [readings(), APPEND], ids=["upsert", "append"])
def test_a_run_that_is_killed_at_the_commit_loses_and_doubles_nothing(spark, settings, monkeypatch, spec, committed):
    original = DeltaTable.create_write_transaction

    def killed(self, *arguments, **named) -> None:
        if committed:
            original(self, *arguments, **named)
        raise KeyboardInterrupt

    land(settings, 1, rows_of_day(1))
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", killed)
        with pytest.raises(KeyboardInterrupt):
            heal(spark, settings, [1], spec)
    assert len(silver(settings)) == ((2 if spec.key else 4) if committed else 0)
    heal(spark, settings, [1], spec)
    assert len(silver(settings)) == (2 if spec.key else 4)
    check_fold(spark, settings, spec)
