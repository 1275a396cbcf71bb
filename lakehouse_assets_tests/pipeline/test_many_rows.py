"""What is done otherwise where there are many rows, and gives the same: statistics, reasons, and a MERGE's source.

Belongs here: the choice, and that both ways agree. Does not: what they cost (benchmarks/end_to_end).
"""

from unittest.mock import Mock

import pytest

from lakehouse_assets.contracts.decision import Counts
from lakehouse_assets.contracts.extraction import ExtractionSpec
from lakehouse_assets.pipeline import silver_merge, silver_write
from lakehouse_assets.pipeline.few_rows import FEW
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.session_properties import set_session_property
from lakehouse_assets_tests.support import heal, land, readings, rows_of, silver

STATISTICS = "delta.dataSkippingStatsColumns"
AT = "2024-01-01T01:00:00Z"


@pytest.mark.parametrize("is_shared", [False, True])
def test_bronze_has_statistics_of_what_it_is_looked_up_by(spark, settings, monkeypatch, is_shared):
    monkeypatch.setattr(ExtractionSpec, "shares_partitions", property(lambda _: is_shared))
    path, spec = settings.path("bronze", "readings"), readings()
    land(settings, 1, [f"a,1,10,{AT}", "b,2"])
    heal(spark, settings, [1], spec)
    land(settings, 2, [f"c,3,30,{AT},more"], header="sensor,hour,value,updated,note")
    heal(spark, settings, [2], spec)
    looked_up = ["p_extracted_at", "extraction_seq", "_corrupt_record"][0 if is_shared else 1 :]
    assert delta.properties(path)[STATISTICS] == ",".join(looked_up)
    files = delta.row_counts(path)
    assert {name.removeprefix("null_count.") for name in files.column_names if name.startswith("null_count.")} == {*looked_up}
    assert sorted(files["null_count._corrupt_record"].to_pylist()) == [1, 1]
    assert [row["sensor"] for row in silver(settings)] == ["a", "c"]


def test_an_older_table_keeps_its_statistics(spark, settings):
    path = settings.path("bronze", "readings")
    spark.createDataFrame([], "p_extracted_at timestamp, extraction_seq int, sensor string").write.format("delta").partitionBy(
        "p_extracted_at"
    ).save(path)
    land(settings, 1, [f"a,1,10,{AT}"])
    heal(spark, settings, [1])
    assert STATISTICS not in delta.properties(path)
    assert [row["sensor"] for row in silver(settings)] == ["a"]


@pytest.mark.parametrize("most", [0, silver_write.MOST_REASONS])
def test_the_quarantined_rows_of_many_have_their_reasons(spark, settings, monkeypatch, most):
    monkeypatch.setattr(silver_write, "MOST_REASONS", most)
    land(
        settings,
        1,
        [
            *(f"s{number},1,10,{AT}" for number in range(FEW)),
            *[f"high,1,999,{AT}"] * 2,
            f"text,1,much,{AT}",
            f"both,never,-999,{AT}",
            "torn,1",
        ],
    )
    heal(spark, settings, [1])
    rows = rows_of(settings.path("quarantine", "readings"), ["sensor", "value", "_corrupt_record", "reasons"])
    rows_quarantined = [
        (row["sensor"], row["value"], row["_corrupt_record"], sorted((r["check"], r["column"]) for r in row["reasons"]))
        for row in rows
    ]
    assert rows_quarantined == [
        (None, None, "torn,1", [("readable_row", "_corrupt_record")]),
        ("both", "-999", None, [("cast_hour", "hour"), ("in_range_value", "value"), ("key_not_null", "sensor, hour")]),
        ("high", "999", None, [("in_range_value", "value")]),
        ("high", "999", None, [("in_range_value", "value")]),
        ("text", "much", None, [("cast_value", "value")]),
    ]
    assert len(silver(settings)) == FEW


@pytest.mark.parametrize(
    ("counts", "rules", "expected"),
    [
        ([(FEW + 1, 10)], 20, True),
        ([(FEW, 10)], 20, False),
        ([(FEW, 10), (1, 0)], 20, True),
        ([(10**6, 5_000)], 20, True),
        ([(10**6, 5_001)], 20, False),
        ([(10**6, 2_500), (10**6, 2_501)], 20, False),
        ([(20_000, 20_000)], 3, False),
        ([(10**6, 10), (50, 50)], 3, False),
    ],
)
def test_few_reasons_are_those_of_single_rows(counts, rules, expected):
    decisions = [Mock(counts=Counts(rows_in, rows_in - rows, 0, rows, 0)) for rows_in, rows in counts]
    assert silver_write.has_few_reasons(decisions, rules) is expected


@pytest.fixture
def settings_of_source(monkeypatch) -> list[str]:
    """What each MERGE said of its source, where it said something."""
    values: list[str] = []
    original = silver_merge.set_session_property

    def noted(spark, key, value):
        values.append(value)
        return original(spark, key, value)

    monkeypatch.setattr(silver_merge, "set_session_property", noted)
    monkeypatch.setattr(silver_merge, "merge_few", lambda *_: False)  # as of many rows
    return values


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (None, "", ["none"]),
        (silver_merge.HOLD_SOURCE, "all", []),
        ("spark.sql.files.ignoreMissingFiles", "true", []),
        ("spark.sql.files.ignoreCorruptFiles", "true", []),
    ],
)
def test_a_merge_reads_staged_rows_twice_unless_the_session_lets_files_be_absent(
    spark, settings, settings_of_source, key, value, expected
):
    land(settings, 1, [f"a,1,10,{AT}", f"b,1,20,{AT}"])
    heal(spark, settings, [1])
    land(settings, 2, ["a,1,11,2024-01-02T01:00:00Z", "c,1,30,2024-01-02T01:00:00Z"])
    if key:
        with set_session_property(spark, key, value):
            heal(spark, settings, [2])
    else:
        heal(spark, settings, [2])
    assert settings_of_source == expected
    assert [(row["sensor"], row["value"]) for row in silver(settings)] == [("a", 11.0), ("b", 20.0), ("c", 30.0)]
    assert spark.conf.get(silver_merge.HOLD_SOURCE, None) is None


def test_a_merge_of_several_batches_holds_its_rows(spark, settings, settings_of_source):
    land(settings, 1, [f"a,1,10,{AT}"])
    heal(spark, settings, [1])
    for day in (2, 3):
        land(settings, day, [f"a,1,{day},2024-01-0{day}T01:00:00Z"])
    heal(spark, settings, [2, 3])
    assert settings_of_source == []
    assert [row["value"] for row in silver(settings)] == [3.0]
