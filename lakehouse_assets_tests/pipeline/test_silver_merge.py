"""Deletes and absent columns are merged from the new rows where the order allows it: bronze is not folded for them.

Belongs here: when the fast way is taken, and what it reads. Does not: that both ways agree on random histories (laws).
"""

import pytest
from pyspark.sql import DataFrame

from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.operations.release import release
from lakehouse_assets.pipeline import silver_merge, silver_write
from lakehouse_assets.pipeline.evidence import findings_of
from lakehouse_assets.storage import delta, logs, small_merges
from lakehouse_assets_tests.support import heal, land, readings, runner, silver, window

HEADER = "sensor,hour,value,updated,op"
DELETES = readings(
    extraction={"cadence": "daily", "start": "2024-01-01", "mode": "upsert", "delete_when": "op = 'D'"},
    columns={"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp", "op": "string"},
)


@pytest.fixture
def folds(monkeypatch) -> list[int]:
    """A number for each write that folded keys anew."""
    calls: list[int] = []
    original = silver_write._rebuild_keys

    def counted(*arguments):
        calls.append(len(calls))
        return original(*arguments)

    monkeypatch.setattr(silver_write, "_rebuild_keys", counted)
    return calls


@pytest.fixture
def looked_at(monkeypatch) -> list[int]:
    """The number of other batches of each MERGE in which a newer deletion was looked for."""
    numbers: list[int] = []
    original = silver_merge.merge_newest

    def counted(spec, path, plan, staged, newer: DataFrame | None, **options) -> None:
        numbers.append(len(plan.newer.publishing) if newer is not None else 0)
        original(spec, path, plan, staged, newer, **options)

    monkeypatch.setattr(silver_write, "merge_newest", counted)
    return numbers


def values(settings) -> dict[str, float | None]:
    return {row["sensor"]: row["value"] for row in silver(settings)}


def check_fold(spark, settings, spec) -> None:
    proof = rebuild(runner(spark, settings, spec))
    assert (proof.gained, proof.lost) == (0, 0)


@pytest.mark.parametrize("expression", [{}, {"expr": "try_multiply(value, 1)"}], ids=["cast", "expression"])
def test_a_deletion_that_a_wider_type_can_read_wins(spark, settings, expression):
    """The number of the deletion does not fit into an `int`, and is accepted all the same: a NULL is older than all others. By
    the wider type, it is newer than the row that comes last.
    """
    narrow, wide = (
        readings(
            extraction=DELETES.extraction,
            columns={
                "sensor": "string",
                "hour": "int",
                "value": "double",
                "op": "string",
                "updated": {"type": kind, **expression},
            },
            checks=[],
        )
        for kind in ("int", "bigint")
    )
    header = "sensor,hour,value,updated,op"
    land(settings, 1, ["a,1,1,3000000000,D", "b,1,1,100,"], header)
    heal(spark, settings, [1], narrow)
    if logs.decisions(settings, "readings")[-1].counts.rows_quarantined:
        release(runner(spark, settings, narrow), window(1).start, None, waived=["casts"], by="somebody", because="a test")
    land(settings, 2, ["b,1,2,2500000000,"], header)
    land(settings, 3, ["a,1,3,2600000000,"], header)
    for day in (2, 3):
        heal(spark, settings, [day], wide)
    assert values(settings) == {"b": 2.0}
    check_fold(spark, settings, wide)


def test_deletes_in_order_fold_nothing(spark, settings, folds, looked_at):
    for day, rows in enumerate(
        (
            ["a,1,1,2024-01-01T00:00:00Z,U", "b,1,2,2024-01-01T00:00:00Z,U", "c,1,3,2024-01-01T00:00:00Z,D"],
            ["a,1,NA,2024-01-02T00:00:00Z,D", "d,1,4,2024-01-02T00:00:00Z,U", "b,1,5,2024-01-02T00:00:00Z,U"],
            ["a,1,6,2024-01-03T00:00:00Z,U", "d,1,NA,2024-01-03T00:00:00Z,D", "d,1,7,2024-01-03T01:00:00Z,U"],
        ),
        start=1,
    ):
        land(settings, day, rows, HEADER)
        heal(spark, settings, [day], DELETES)
    assert values(settings) == {"a": 6, "b": 5, "d": 7}
    assert (folds, looked_at) == ([], [0, 0, 0])
    spans = [decision.order_span for decision in logs.decisions(settings, "readings")]
    assert [span and span.split(" ")[1:] for span in spans] == [
        ["1704067200000000", "1704067200000000"], ["1704153600000000", "1704153600000000"],
        ["1704240000000000", "1704243600000000"],
    ]  # fmt: skip
    check_fold(spark, settings, DELETES)


def test_a_row_that_is_older_than_a_deletion_stays_away(spark, settings, folds, looked_at):
    land(settings, 1, ["a,1,1,2024-01-05T00:00:00Z,D", "b,1,2,2024-01-01T00:00:00Z,U"], HEADER)
    land(settings, 2, ["c,1,3,2024-01-02T00:00:00Z,D", "e,1,3,2024-01-02T00:00:00Z,U"], HEADER)
    heal(spark, settings, [1], DELETES)
    heal(spark, settings, [2], DELETES)
    land(settings, 3, ["a,1,4,2024-01-04T00:00:00Z,U", "c,1,5,2024-01-04T00:00:00Z,U"], HEADER)
    heal(spark, settings, [3], DELETES)
    assert values(settings) == {"b": 2, "c": 5, "e": 3}
    assert (folds, looked_at) == ([], [0, 1, 1]), "only the window with a newer row is read"
    check_fold(spark, settings, DELETES)


def test_a_window_of_an_earlier_version_may_have_any_row(spark, settings, looked_at, monkeypatch):
    land(settings, 1, ["a,1,1,2024-01-05T00:00:00Z,D", "b,1,2,2024-01-01T00:00:00Z,U"], HEADER)
    with monkeypatch.context() as patch:
        patch.setattr("lakehouse_assets.pipeline.silver.measured_span", lambda *_: None)
        heal(spark, settings, [1], DELETES)
    land(settings, 2, ["a,1,4,2024-01-04T00:00:00Z,U", "b,1,3,2024-01-06T00:00:00Z,D", "c,1,5,2024-01-04T00:00:00Z,U"], HEADER)
    heal(spark, settings, [2], DELETES)
    assert values(settings) == {"c": 5}
    assert looked_at == [0, 1]
    check_fold(spark, settings, DELETES)


def test_a_column_that_newer_windows_lack_keeps_its_values(spark, settings, folds):
    spec = readings(columns={"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp", "op": "string"})
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z,x", "b,1,2,2024-01-01T00:00:00Z,x"], HEADER)
    heal(spark, settings, [1], spec)
    land(settings, 2, ["a,1,2024-01-02T00:00:00Z,y", "c,1,2024-01-02T00:00:00Z,y"], "sensor,hour,updated,op")
    heal(spark, settings, [2], spec)
    assert values(settings) == {"a": 1, "b": 2, "c": None}
    land(settings, 3, ["c,1,9,2024-01-03T00:00:00Z,z"], HEADER)
    heal(spark, settings, [3], spec)
    assert values(settings) == {"a": 1, "b": 2, "c": 9}
    assert [row["op"] for row in silver(settings)] == ["y", "x", "z"]
    assert folds == []
    land(settings, 4, ["a,1,7,2024-01-01T12:00:00Z,w"], HEADER)
    heal(spark, settings, [4], spec)
    assert values(settings) == {"a": 7, "b": 2, "c": 9}, "the newest row that has the column"
    assert folds == [0]
    check_fold(spark, settings, spec)


def test_a_deletion_ends_what_a_column_keeps(spark, settings, folds):
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z,U", "b,1,2,2024-01-01T00:00:00Z,U", "c,1,3,2024-01-01T00:00:00Z,U"], HEADER)
    heal(spark, settings, [1], DELETES)
    rows = [
        "a,1,2024-01-02T00:00:00Z,D",
        "a,1,2024-01-02T01:00:00Z,U",
        "b,1,2024-01-02T00:00:00Z,U",
        "c,1,2024-01-02T00:00:00Z,D",
    ]
    land(settings, 2, rows, "sensor,hour,updated,op")
    heal(spark, settings, [2], DELETES)
    assert values(settings) == {"a": None, "b": 2}
    assert folds == []
    check_fold(spark, settings, DELETES)


def test_a_column_of_another_letter_case_is_the_same_in_earlier_windows(spark, settings):
    """It was there before it was a column of silver: the rows of then have its values, as in the fold."""
    ignoring, evolving = (readings(schema={"new_columns": policy}, checks=[]) for policy in ("ignore", "evolve"))
    land(settings, 1, ["a,1,1,2024-01-01T01:00:00Z,old", "b,1,1,2024-01-01T01:00:00Z,old"], "sensor,hour,value,updated,Note")
    heal(spark, settings, [1], ignoring)
    land(settings, 2, ["b,1,2,2024-01-02T01:00:00Z,new"], "sensor,hour,value,updated,note")
    heal(spark, settings, [2], evolving)
    assert {row["sensor"]: row["note"] for row in silver(settings)} == {"a": "old", "b": "new"}
    check_fold(spark, settings, evolving)


@pytest.mark.parametrize("few", [True, False], ids=["few", "many"])
def test_few_rows_are_merged_without_spark_as_many_are_by_it(spark, settings, monkeypatch, few):
    spec, merged = readings(), []

    def merge_few(*arguments) -> bool:
        merged.append(few and small_merges.merge_few(*arguments))
        return merged[-1]

    monkeypatch.setattr(silver_merge, "merge_few", merge_few)
    for day, rows in enumerate(
        (
            ["a,1,1,2024-01-01T00:00:00Z", "b,1,2,2024-01-05T00:00:00Z", "c,1,3,NA", "d,1,4,2024-01-01T00:00:00Z"],
            ["a,1,10,2024-01-02T00:00:00Z", "b,1,20,2024-01-04T00:00:00Z", "c,1,30,NA", "e,1,5,2024-01-02T00:00:00Z"],
            ["a,1,9,2024-01-02T00:00:00Z", "d,1,40,NA", "e,1,999,2024-01-03T00:00:00Z"],
        ),
        start=1,
    ):
        land(settings, day, rows)
        heal(spark, settings, [day], spec)
    assert values(settings) == {"a": 9, "b": 2, "c": 30, "d": 4, "e": 5}
    assert merged == [few, few]
    check_fold(spark, settings, spec)
    assert findings_of(settings, spec) == []


@pytest.mark.parametrize("few", [True, False], ids=["few", "many"])
def test_rows_that_delete_are_merged_without_spark_as_by_it(spark, settings, monkeypatch, few):
    """A newer row deletes its key, an older one does not, one of an unknown key adds nothing; a key comes again."""
    extraction = {"cadence": "daily", "start": "2024-01-01", "mode": "upsert", "delete_when": "value < 0"}
    spec, merged = readings(extraction=extraction, checks=[]), []

    def merge_few(*arguments) -> bool:
        merged.append(few and small_merges.merge_few(*arguments))
        return merged[-1]

    monkeypatch.setattr(silver_merge, "merge_few", merge_few)
    for day, rows in enumerate(
        (
            [
                "a,1,1,2024-01-01T00:00:00Z",
                "b,1,2,2024-01-05T00:00:00Z",
                "c,1,3,2024-01-01T00:00:00Z",
                "d,1,4,2024-01-01T00:00:00Z",
            ],
            [
                "a,1,-1,2024-01-06T00:00:00Z",
                "b,1,-1,2024-01-04T00:00:00Z",
                "c,1,-1,2024-01-06T00:00:00Z",
                "x,1,-1,2024-01-06T00:00:00Z",
            ],
            ["a,1,9,2024-01-07T00:00:00Z", "x,1,7,2024-01-07T00:00:00Z"],
        ),
        start=1,
    ):
        land(settings, day, rows)
        heal(spark, settings, [day], spec)
    assert values(settings) == {"a": 9, "b": 2, "d": 4, "x": 7}
    assert merged == [few, few]
    check_fold(spark, settings, spec)
    assert findings_of(settings, spec) == []


def test_of_a_large_table_only_the_files_that_may_have_the_keys_are_merged(spark, settings, monkeypatch):
    spec = readings()
    for day, sensors in enumerate(("abc", "mno", "xyz"), start=1):
        land(settings, day, [f"{sensor},1,{day},2024-01-0{day}T00:00:00Z" for sensor in sensors])
        heal(spark, settings, [day], spec)
    before = set(delta.row_counts(settings.path("silver", "readings"))["path"].to_pylist())
    monkeypatch.setattr(small_merges, "MOST_FILES", len(before) // 3)
    monkeypatch.setattr(silver_merge, "_merge", lambda *_: pytest.fail("merged by Spark"))
    land(settings, 4, ["m,1,9,2024-01-04T00:00:00Z", "n,1,8,2024-01-04T00:00:00Z", "nn,1,7,2024-01-04T00:00:00Z"])
    heal(spark, settings, [4], spec)
    assert len(before & set(delta.row_counts(settings.path("silver", "readings"))["path"].to_pylist())) == len(before) * 2 // 3
    assert values(settings) == {"a": 1, "b": 1, "c": 1, "m": 9, "n": 8, "nn": 7, "o": 2, "x": 3, "y": 3, "z": 3}
    check_fold(spark, settings, spec)
    assert findings_of(settings, spec) == []
