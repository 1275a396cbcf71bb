"""The short ways of a small window under a lease: few rows, staged files that become a table's own, and small merges.

Belongs here: that they are open, and refused after a takeover. Does not: what they write (storage/test_small_writes,
test_adopted_files, test_small_merges), or other commits (test_fencing).
"""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as LightTable
from deltalake import write_deltalake

from lakehouse_assets.storage import adopted_files, delta, delta_writes, small_merges, small_writes
from lakehouse_assets.storage.adopted_files import adopt_files
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.leases.holding import Lease, now
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.opened_tables import open_to_change
from lakehouse_assets.storage.small_merges import merge_few
from lakehouse_assets.storage.small_writes import write_few
from lakehouse_assets.storage.staged_rows import StagedBatch
from lakehouse_assets.storage.staging_folder import staging_path
from lakehouse_assets_tests.storage.leases.test_fencing import give_back, rows_of, take_over, taken_over_within, write_rows


def append_few(spark, settings, path):
    return write_few(spark.range(9).withColumnRenamed("id", "n"), path, 9, "append", None)


def replace_few(spark, settings, path):
    return write_few(spark.range(1).withColumnRenamed("id", "n"), path, 1, "overwrite", None)


def adopt_staged(spark, settings, path):
    frame = spark.range(9).withColumnRenamed("id", "n")
    folder = Path(staging_path(settings, "weather", "run"))
    frame.write.parquet(str(folder))
    return adopt_files(sorted(map(str, folder.glob("*.parquet"))), frame.schema.jsonValue()["fields"], path, 9, None)


def merge_some(spark, settings, path):
    return merge_few(spark.range(9).withColumnRenamed("id", "n"), path, 9, ["n"], ["n"], staged=StagedBatch([]))


SHORT_WAYS = {
    "few rows": (append_few, small_writes), "all rows": (replace_few, small_writes),
    "staged files": (adopt_staged, adopted_files), "a merge": (merge_some, small_merges),
}  # fmt: skip


@pytest.mark.parametrize("way", SHORT_WAYS)
def test_the_short_ways_of_a_small_window_are_open_under_a_lease(leased_spark, leased, way):
    """And each states the lease's number, so that the former holder's commits meet it."""
    path = leased.path("silver", "weather")
    write_rows(leased_spark, leased)
    with table_lock(leased, "weather"):
        assert SHORT_WAYS[way][0](leased_spark, leased, path)
        number = guards.lease_of(leased, "weather").number
    info = LightTable(path).history(1)[0]
    assert (info["version"], info["lakehouseLease"]) == (1, str(number))
    write_rows(leased_spark, leased, count=1)
    expected = {"few rows": [0, 0, 0, 1, 1, 2, 2, *range(3, 9)], "all rows": [0, 0], "a merge": [0, *range(9)]}
    assert rows_of(leased) == expected.get(way, expected["few rows"])


@pytest.mark.parametrize("way", SHORT_WAYS)
def test_a_short_way_that_comes_after_a_takeover_is_refused(leased_spark, leased, way):
    path = leased.path("silver", "weather")
    write_rows(leased_spark, leased)
    with taken_over_within(leased):
        take_over(leased)
        SHORT_WAYS[way][0](leased_spark, leased, path)
    assert (delta.version(path), rows_of(leased)) == (1, [0, 1, 2])


def delete_some(spark, settings, path):
    return open_to_change(path).delete("n = 1", commit_properties=guards.commit_properties(path))


@pytest.mark.parametrize("foreign", [0, 1, 2], ids=["", "below another program's commit", "below two"])
@pytest.mark.parametrize("write", [*(write for write, _ in SHORT_WAYS.values()), delete_some])
def test_a_short_way_into_a_table_that_the_next_holder_has_created_is_refused(leased_spark, leased, write, foreign):
    """It was absent at the takeover, and has no fence: only the number of its commits tells."""
    path = leased.path("silver", "weather")
    with taken_over_within(leased):
        number, former = take_over(leased), guards.lease_of(leased, "weather")
        absent = frozenset(["silver/weather"])
        guards.begin_writes(leased, Lease("weather", number, number, True, now(), now(), absent=absent))
        delta_writes.append(leased_spark.range(3).withColumnRenamed("id", "n"), path)
        for _ in range(foreign):
            write_deltalake(path, pa.table({"n": [7]}), mode="append")
        guards.begin_writes(leased, former)
        write(leased_spark, leased, path)
    assert (delta.version(path), rows_of(leased)) == (foreign, [0, 1, 2, *[7] * foreign])


def test_a_commit_without_its_info_stops_no_later_one(leased_spark, leased):
    """Delta's protocol lets it be without."""
    path = leased.path("silver", "weather")
    write_deltalake(path, pa.table({"n": [7]}))
    (file,) = Path(path, "_delta_log").glob("*.json")
    file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith('{"commitInfo"')))
    with table_lock(leased, "weather"):
        assert append_few(leased_spark, leased, path)
    assert rows_of(leased) == sorted([*range(9), 7])


@pytest.mark.parametrize("commits_more", [False, True], ids=["a fence", "a fence and a commit of Spark"])
@pytest.mark.parametrize("way", SHORT_WAYS)
def test_a_short_way_between_whose_files_and_commit_the_lease_is_taken_over_is_refused(
    leased_spark, leased, monkeypatch, way, commits_more
):
    """Its files are there and no part of the table: VACUUM removes them."""
    path = leased.path("silver", "weather")
    write_rows(leased_spark, leased)
    write, module = SHORT_WAYS[way]
    open_before = module.open_to_change

    def open_and_lose_lease(*arguments):
        table = open_before(*arguments)
        monkeypatch.setattr(module, "open_to_change", open_before)
        if way != "a merge":
            lose_lease()
        return table

    def lose_lease():
        number, former = take_over(leased), guards.lease_of(leased, "weather")
        if commits_more:  # the new holder's, in the same Java
            guards.begin_writes(leased, Lease("weather", number, number, True, now(), now()))
            delta_writes.append(leased_spark.range(1).withColumnRenamed("id", "n"), path)
            guards.begin_writes(leased, former)

    commit = small_merges._commit

    def commit_late(*arguments):
        lose_lease()
        commit(*arguments)

    monkeypatch.setattr(small_merges, "_commit", commit_late)
    monkeypatch.setattr(module, "open_to_change", open_and_lose_lease)
    with taken_over_within(leased):
        write(leased_spark, leased, path)
    assert rows_of(leased) == ([0, 0, 1, 2] if commits_more else [0, 1, 2])
    assert delta.version(path) == 1 + commits_more
    unreferenced = {*map(str, Path(path).glob("*.parquet"))} - {*LightTable(path).file_uris()}
    if way == "staged files":
        assert unreferenced
    give_back(leased)
    with table_lock(leased, "weather"):
        vacuumed = open_to_change(path).vacuum(0, enforce_retention_duration=False, dry_run=False, full=True)
    assert {str(Path(path, name)) for name in vacuumed} >= unreferenced
    assert rows_of(leased) == ([0, 0, 1, 2] if commits_more else [0, 1, 2])
