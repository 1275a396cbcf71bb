"""A table whose windows share files: bronze without partitions, before and after the compaction that a stream does.

Belongs here: that every reader of bronze by window finds its rows. Does not: retention (test_maintain).
"""

from pathlib import Path

import pytest

from lakehouse_assets.contracts.extraction import ExtractionSpec
from lakehouse_assets.operations import maintain
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.pipeline.evidence import findings_of
from lakehouse_assets.storage import delta, log_compaction, log_rows, logs
from lakehouse_assets.storage.delta_files import TableFiles
from lakehouse_assets_tests.support import heal, land, readings, runner, silver

SPEC = readings()


def rows(day: int, value: float) -> list[str]:
    return [f"{name},{day},{value},2024-01-{day:02d}T00:00:00Z" for name in ("a", "b")]


def counts(settings) -> dict:
    extractions = TableFiles(settings.path("bronze", "readings")).extractions().items()
    return {(start.day, seq): count for (start, seq), (count, _) in extractions}


def test_windows_that_share_files(spark, settings, monkeypatch):
    monkeypatch.setattr(ExtractionSpec, "shares_partitions", property(lambda _: True))
    for module in (log_compaction, maintain):
        monkeypatch.setattr(module, "FEW_FILES", 1)
    bronze = settings.path("bronze", "readings")
    for day in (1, 2):
        land(settings, day, rows(day, 1.0))
    heal(spark, settings, [1, 2], SPEC)
    land(settings, 1, rows(1, 2.0))
    heal(spark, settings, [1], SPEC)
    assert delta.snapshot(bronze).partitions == ()
    before, in_bronze = silver(settings), counts(settings)
    assert in_bronze == {(1, 1): 2, (1, 2): 2, (2, 1): 2}

    compacted = maintain.compact(runner(spark, settings, SPEC))
    assert {each.log for each in compacted} >= {"extractions", "decisions"}
    assert delta.row_counts(bronze).num_rows == 1
    assert (silver(settings), counts(settings), findings_of(settings, SPEC)) == (before, in_bronze, [])

    land(settings, 3, rows(3, 1.0))
    land(settings, 2, rows(2, 3.0))
    heal(spark, settings, [2, 3], SPEC)
    assert counts(settings) == in_bronze | {(2, 2): 2, (3, 1): 2}
    assert {d.verdict for d in logs.decisions(settings, "readings") if d.superseded_by is None} == {"published"}
    proof = rebuild(runner(spark, settings, SPEC))
    assert (proof.gained, proof.lost, findings_of(settings, SPEC)) == (0, 0, [])

    largest = max(TableFiles(bronze).files, key=lambda file: file["num_records"])
    Path(bronze, largest["path"]).unlink()
    assert {finding.layer for finding in findings_of(settings, SPEC)} == {"bronze"}


@pytest.mark.parametrize("table", ["decisions", "nothing"])
def test_a_log_with_few_files_is_left_as_it_is(settings, table):
    assert log_compaction.compact_log(settings, log_rows.DECISIONS, table) is None
    assert log_compaction.compact_table(settings, settings.path("baseline", table)) is None
