"""Which windows of a stream the daemon looks at: those that may need a step, and not the many that are done.

Belongs here: the facts of a stream's windows. Does not: what follows from them (decisions/test_healing).
"""

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from lakehouse_assets.contracts.decision import Counts, ExtractionRecord
from lakehouse_assets.contracts.extraction import ExtractionSpec
from lakehouse_assets.orchestration.healing.window_state import read_facts, read_statuses
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.source_positions import record_positions
from lakehouse_assets_tests.logbook import DECIDED, decided, write
from lakehouse_assets_tests.support import readings

START = datetime(2024, 1, 1, 10, tzinfo=UTC)
SPEC = readings(
    source={"kind": "files", "path": "readings/*.csv", "format": "csv"},
    extraction={"start": datetime(2024, 1, 1, tzinfo=UTC), "cadence": "hourly", "stream": {}},
)
QUARANTINED, FIRST_OF_SECOND_HOUR, WAITING, UNJUDGED, UNREAD = 7, 60, 97, 98, 99


def start(number: int) -> datetime:
    """One window a minute."""
    return START + timedelta(minutes=number)


@pytest.fixture
def lake(settings):
    windows = {SPEC.extraction.window_at(start(number)): f"{number}" for number in range(100)}
    record_positions(settings, "readings", windows, "run", DECIDED)
    records = [
        ExtractionRecord("readings", start(n), 1, "print", 3, ("sensor",), n, "run", DECIDED, position=f"{n}")
        for n in range(UNREAD)
    ]
    logs.record_extractions(settings, records)
    counts = {QUARANTINED: {"verdict": "quarantined", "counts": Counts(3, 0, 0, 3)}}
    judged = [decided(n + 1, p_extracted_at=start(n), verdict="published", counts=Counts(3, 3)) for n in range(UNJUDGED)]
    judged = [decided(n + 1, p_extracted_at=start(n), **counts[n]) if n in counts else judged[n] for n in range(UNJUDGED)]
    write(settings, judged[:WAITING])
    write(settings, judged[WAITING:], applied=False)
    return settings


def numbers(lake, instance: dg.DagsterInstance) -> list[int]:
    facts = read_facts(instance, lake, SPEC, start(1_000))
    assert [each.window for each in facts] == sorted(each.window for each in facts)
    return [(each.window.start - START) // timedelta(minutes=1) for each in facts]


def test_windows_that_are_done_are_not_looked_at(lake, monkeypatch):
    instance, calls = dg.DagsterInstance.ephemeral(), []
    assert numbers(lake, instance) == [*range(100)]
    for hour in ("2024-01-01-10:00", "2024-01-01-11:00"):
        for layer in ("bronze", "silver"):
            if (layer, hour) != ("silver", "2024-01-01-11:00"):
                instance.report_runless_asset_event(dg.AssetMaterialization(f"{layer}_readings", partition=hour))
    assert numbers(lake, instance) == [QUARANTINED, *range(FIRST_OF_SECOND_HOUR, 100)]
    instance.report_runless_asset_event(dg.AssetMaterialization("silver_readings", partition="2024-01-01-11:00"))
    window_at = ExtractionSpec.window_at
    monkeypatch.setattr(ExtractionSpec, "window_at", lambda *args: calls.append(args) or window_at(*args))
    assert numbers(lake, instance) == [QUARANTINED, WAITING, UNJUDGED, UNREAD]
    assert len(calls) < 12
    states = {
        (s.window.start - START) // timedelta(minutes=1): s.states for s in read_statuses(instance, lake, SPEC, start(1_000))
    }
    assert states == {QUARANTINED: ("quarantined",), WAITING: ("unfinished",), UNJUDGED: ("unfinished",), UNREAD: ("missing",)}
