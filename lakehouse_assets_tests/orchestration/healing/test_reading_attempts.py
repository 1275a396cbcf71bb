"""Windows that today's keys of `source:` read otherwise: what runs judge of them, and when they are requested.

Belongs here: runs on a real instance, whose flow is played (test_retries). Does not: which windows these are
(decisions/test_reading), or real files (pipeline/test_read_again).
"""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import dagster as dg
import pyarrow as pa
import pytest

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets import window_steps as assets
from lakehouse_assets.orchestration.assets.partitions import partition_key
from lakehouse_assets.orchestration.healing.ranges import range_tags
from lakehouse_assets.orchestration.healing.reading_attempts import RUN_TAG, attempt_metadata
from lakehouse_assets.orchestration.healing.unread_windows import unread_windows
from lakehouse_assets.pipeline import publish as publishing
from lakehouse_assets.pipeline.publish import Published, publish
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.commit_metadata import encode_fingerprints
from lakehouse_assets_tests.orchestration.healing.test_retries import SPEC, Shop
from lakehouse_assets_tests.support import readings, runner, window

OTHERWISE = SPEC.model_copy(update={"source": SPEC.source.model_copy(update={"delimiter": ";"})})
DAY = range_tags(readings(), [window(3)])
SILVER = [dg.AssetKey("silver_readings"), dg.AssetKey("baseline_readings")]


@pytest.fixture
def shop(settings, monkeypatch):
    shop = Shop(settings, monkeypatch)
    shop.arrives([3])
    return shop


def extracted(settings, spec, day: int = 3) -> ExtractionRecord:
    """A record of a window that nobody has judged."""
    reading = json.dumps(spec.source.reading(), sort_keys=True)
    at = datetime.now(UTC)
    record = ExtractionRecord("readings", window(day).start, 1, "v1", 3, (), 1, "r", at, reading=reading)
    logs.record_extractions(settings, [record])
    return record


def killed_before_its_record(settings, spec, day: int = 3) -> None:
    """A commit of the window's rows by these keys, and no record of it."""
    reading = json.dumps(spec.source.reading(), sort_keys=True)
    metadata = encode_fingerprints({(window(day).start, 1): "v1"}, reading=reading)
    rows = pa.table({"p_extracted_at": [window(day).start] * 3, "extraction_seq": pa.array([1] * 3, pa.int32())})
    delta.append_arrow(rows, settings.path("bronze", "readings"), user_metadata=metadata)


def extracted_otherwise(settings, is_killed: bool) -> ExtractionRecord:
    """A window whose rows today's keys read otherwise. ``is_killed``: a killed run left them; the record has today's keys."""
    record = extracted(settings, SPEC if is_killed else OTHERWISE)
    if is_killed:
        killed_before_its_record(settings, OTHERWISE)
    return record


def count_decisions(settings) -> int:
    return len(logs.decisions(settings, "readings"))


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_run_of_silver_alone_judges_no_window_that_bronze_is_to_read_first(shop, is_killed):
    extracted_otherwise(shop.settings, is_killed)
    assert shop.run(DAY, SILVER)
    assert count_decisions(shop.settings) == 0
    assert shop.next() == {3: "daemon"}
    assert shop.run(DAY)
    assert (count_decisions(shop.settings), shop.next()) == (1, {})


def test_a_run_of_silver_alone_judges_what_todays_keys_have_read(shop):
    extracted(shop.settings, SPEC)
    assert shop.run(DAY, SILVER)
    assert count_decisions(shop.settings) == 1


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_window_whose_file_is_gone_is_judged_as_it_was_read(shop, monkeypatch, is_killed):
    record = extracted_otherwise(shop.settings, is_killed)
    monkeypatch.setattr(assets, "extract", lambda run, windows: dict.fromkeys(windows, record))
    assert shop.run(DAY)
    assert count_decisions(shop.settings) == 1


def test_a_window_that_could_not_be_read_excuses_no_other_of_its_run(shop, monkeypatch):
    """The file of one is gone. A killed run leaves other rows of the other one."""
    shop.arrives([4])
    both = {window(day): extracted(shop.settings, spec, day) for day, spec in ((3, OTHERWISE), (4, SPEC))}
    monkeypatch.setattr(assets, "extract", lambda run, windows: both)
    assert shop.run(range_tags(readings(), [*both]), [dg.AssetKey("bronze_readings")])
    killed_before_its_record(shop.settings, OTHERWISE, 4)
    assert shop.run(range_tags(readings(), [*both]), SILVER)
    assert [decision.p_extracted_at.day for decision in logs.decisions(shop.settings, "readings")] == [3]


def test_only_failures_of_todays_keys_count_against_reading_a_window_otherwise(shop):
    """The window was read, and its runs failed before it was judged. Then the keys were corrected."""
    extracted(shop.settings, OTHERWISE)
    shop.poisoned = {3}
    for _ in range(5):
        assert not shop.run(DAY)
    assert shop.next() == {3: "daemon"}, "these runs were not requested with today's keys"
    assert not shop.run(DAY | {RUN_TAG: "of other keys"})
    assert shop.next() == {3: "daemon"}
    shop.later = timedelta(hours=9)
    assert (shop.tick_retries(), shop.next()) == (1, {3: "retry"})
    for hours in range(20, 100, 10):
        shop.later = timedelta(hours=hours)
        shop.tick_retries()
    assert (len(shop.sizes), shop.next()) == (5 + 1 + 5, {3: "stopped"})
    shop.poisoned = set()
    assert shop.run(DAY)
    assert shop.next() == {}


def test_windows_that_are_to_be_read_first_stay_undecided(settings, monkeypatch):
    for day in (1, 2, 3):
        extracted(settings, SPEC, day)
    judged = []
    monkeypatch.setattr(publishing, "run_steps", lambda *_: None)
    monkeypatch.setattr(publishing, "judge_and_apply", lambda run, waiting, log: judged.extend(waiting) or ([], {}))
    publish(runner(None, settings, SPEC), [window(1), window(2)], {window(2).start, window(3).start})
    assert [record.p_extracted_at.day for record in judged] == [1]


@pytest.mark.parametrize("has_attempt", [False, True], ids=["", "after an attempt"])
def test_of_a_source_that_is_away_only_what_todays_keys_have_read_is_published(settings, monkeypatch, has_attempt):
    """Of the third window, this run itself has left other rows than it has on record. ``has_attempt``: an earlier run has
    noted that the files of its partition could not be read by today's keys.
    """
    for day, spec in ((1, SPEC), (2, OTHERWISE), (3, SPEC)):
        extracted(settings, spec, day)
    killed_before_its_record(settings, OTHERWISE, 3)
    published, run = [], replace(runner(None, settings, SPEC), run_id="r")
    monkeypatch.setattr(assets, "publish", lambda run, windows: published.extend(windows) or Published({}))
    monkeypatch.setattr(assets, "table_run", lambda *_: run)
    monkeypatch.setattr(assets, "report_partitions", lambda *_: None)
    with dg.DagsterInstance.ephemeral() as instance:
        context = SimpleNamespace(instance=instance)
        if has_attempt:
            bronze, partition = asset_key(SPEC, "bronze_readings"), partition_key(SPEC.extraction, window(3))
            attempt = dg.AssetMaterialization(bronze, partition=partition, metadata=attempt_metadata(SPEC))
            instance.report_runless_asset_event(attempt)
        assets._publish_ingested(context, SPEC, settings, {}, [window(1), window(2), window(3)])
        assert unread_windows(instance, run) == {window(2).start}, "a run that has read all knows its own rows"
    assert published == [window(1)]
