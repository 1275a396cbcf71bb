"""A clock that was set back by a day between two operations: the logs keep the order in which things were done. No JVM.

Belongs here: what is ordered by time in `ops/`. Does not: what waits for a time to come (decisions/test_healing).
"""

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.storage.baseline import BaselineEvent, baseline_events, log_baseline_event
from lakehouse_assets.storage.logs import extractions, record_extractions
from lakehouse_assets.storage.source_positions import read_positions, record_positions

DAY = datetime(2024, 1, 1, tzinfo=UTC)
NOW = datetime(2024, 6, 2, 12, tzinfo=UTC)
BEFORE = NOW - timedelta(days=1)


def test_the_latest_record_of_a_rewritten_extraction_is_current(settings):
    for at, version, rows in ((NOW, 3, 10), (BEFORE, 4, 12)):
        record = ExtractionRecord("t", DAY, 1, f"print-{version}", rows, ("a",), version, f"run-{version}", at)
        record_extractions(settings, [record])
    [newest] = extractions(settings, "t")
    assert (newest.rows, newest.fingerprint) == (12, "print-4")


def test_the_newest_record_counts_after_bronze_was_recreated(settings):
    for version, rows in ((50, 10), (0, 12)):
        record_extractions(settings, [ExtractionRecord("t", DAY, 1, f"print-{version}", rows, ("a",), version, "run", NOW)])
    [newest] = extractions(settings, "t")
    assert (newest.rows, newest.bronze_version) == (12, 0)


def test_a_windows_first_position_counts(settings):
    window = window_at(DAY, "daily")
    record_positions(settings, "t", {window: "first"}, "run-1", NOW)
    record_positions(settings, "t", {window: "second", window_at(DAY + timedelta(days=1), "daily"): "other"}, "run-2", BEFORE)
    assert read_positions(settings, "t") == {DAY: "first", DAY + timedelta(days=1): "other"}


@pytest.mark.parametrize("second", [BEFORE, NOW])
def test_baseline_operations_keep_their_order(settings, second):
    log_baseline_event(settings, BaselineEvent("t", "pin", 7, NOW, "anna", "as it is", "run-1"))
    log_baseline_event(settings, BaselineEvent("u", "pin", 7, BEFORE, "anna", "as it is", "run-1"))
    log_baseline_event(settings, BaselineEvent("t", "reset", 7, second, "anna", "moved", "run-2"))
    assert [event.kind for event in baseline_events(settings, "t")] == ["pin", "reset"]
    assert baseline_events(settings, "u")[0].at == BEFORE
