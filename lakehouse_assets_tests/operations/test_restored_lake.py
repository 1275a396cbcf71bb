"""A lake goes on after it was restored, as the one that was backed up would have; also one backed up within a run.

Belongs here: runs, releases and findings on restored lakes. Does not: copying files (test_backup).
"""

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakehouse_assets.operations.backup import make_backup
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.operations.release import release
from lakehouse_assets.operations.restore_backup import restore_lake
from lakehouse_assets.pipeline.evidence import findings_of
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.support import heal, land, readings, rows_of, runner, silver, window

SPEC = readings()
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
_names = itertools.count(1)


def rows(day: int, *more: str) -> list[str]:
    return [f"{row},2024-01-{day:02d}T00:00:00Z" for row in (f"a,{day},{day}", *more)]


def moved(settings: Settings, tmp_path: Path) -> Settings:
    """The lake, restored from a backup of now into another place."""
    number = next(_names)
    folder, target = str(tmp_path / "backups"), settings.model_copy(update={"root": str(tmp_path / f"restored-{number}")})
    manifest = make_backup(settings.root, folder, lambda: NOON + timedelta(minutes=number)).manifest
    restore_lake(target, manifest, folder)
    return target


def verdicts(settings: Settings) -> list[tuple[object, ...]]:
    decisions = logs.decisions(settings, "readings")
    return sorted(
        (d.number, d.p_extracted_at, d.extraction_seq, d.verdict, d.counts, d.superseded_by is None) for d in decisions
    )


def test_a_restored_lake_goes_on_as_the_other_does(spark, settings, tmp_path):
    land(settings, 1, rows(1, "b,1,999"))
    land(settings, 2, rows(2, "c,2,2"))
    heal(spark, settings, [1, 2], SPEC)
    target = moved(settings, tmp_path)
    assert findings_of(target, SPEC) == []
    assert silver(target) == silver(settings) != []
    land(settings, 2, rows(2, "c,2,3"))
    land(settings, 3, rows(3))
    for lake in (settings, target):
        heal(spark, lake, [2, 3], SPEC)
        release(runner(spark, lake, SPEC), window(1).start, None, waived=["*"], by="me", because="x")
        assert findings_of(lake, SPEC) == []
    assert silver(target) == silver(settings)
    assert verdicts(target) == verdicts(settings)
    assert rows_of(target.path("quarantine", "readings"), ["value"]) == rows_of(
        settings.path("quarantine", "readings"), ["value"]
    )
    before = silver(target)
    assert rebuild(runner(spark, target, SPEC)).lost == 0
    assert silver(target) == before


@pytest.mark.exhaustive(seconds=150)
def test_backed_up_at_each_step_of_a_run_it_ends_as_the_run_does(spark, settings, tmp_path):
    """What a backup sees of a run that is under way is what a kill leaves: the next run completes it."""
    land(settings, 1, rows(1, "b,1,999"))
    heal(spark, settings, [1], SPEC)
    land(settings, 1, rows(1, "b,1,7"))
    land(settings, 2, rows(2, "c,2,999"))
    copies: dict[str, Settings] = {}

    def back_up(step: str) -> None:
        copies.setdefault(step, moved(settings, tmp_path))

    run = runner(spark, settings, SPEC, back_up)
    windows = [window(1), window(2)]
    extract(run, windows)
    publish(run, windows)
    assert len(copies) >= 8
    for name, lake in copies.items():
        assert not [finding for finding in findings_of(lake, SPEC) if finding.stops], name
        heal(spark, lake, [1, 2], SPEC)
        assert findings_of(lake, SPEC) == [], name
        assert silver(lake) == silver(settings), name
        assert [each[1:] for each in verdicts(lake)] == [each[1:] for each in verdicts(settings)], name
