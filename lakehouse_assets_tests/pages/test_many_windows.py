"""The quality pages of a table with 100,000 hourly windows: which have a page, and how large the table's page is.

Belongs here: one long history. Does not: what a page shows (test_site), seconds (benchmarks/pages).
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from lakehouse_assets.contracts.decision import Counts
from lakehouse_assets.pages.names import table_path
from lakehouse_assets.pages.site import make_site
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.logbook import outcome
from lakehouse_assets_tests.pages.lake import START, extraction, page, passed, ruleset

WINDOWS, PARTS = 100_000, 20_000
RULES = ruleset(extraction={"cadence": "hourly", "start": "2024-01-01", "mode": "upsert"}, drift=None)
BAD = outcome("in_range_value", status="failed", effect="batch", failed_rows=24, message="24 of 24 rows fail")
IN_QUARANTINE = {"verdict": "quarantined", "checks": (BAD,), "counts": Counts(24, 0, 0, 24, 0)}


@pytest.mark.exhaustive(seconds=240)
def test_a_hundred_thousand_windows(settings):
    model, gap = passed(1, rules=RULES, drift=None), 90_000
    for first in range(1, WINDOWS + 1, PARTS):
        numbers = [number for number in range(first, first + PARTS) if number != gap]
        hours = {number: START + timedelta(hours=number - 1) for number in numbers}
        # The oldest window, and one of 997.
        decisions = [
            replace(
                model,
                number=number,
                p_extracted_at=hour,
                decided_at=hour + timedelta(hours=1),
                **(IN_QUARANTINE if number % 997 == 1 else {}),
            )
            for number, hour in hours.items()
        ]
        logs.record_extractions(settings, [replace(extraction(n), p_extracted_at=hour) for n, hour in hours.items()])
        logs.log_decisions(settings, decisions)
        logs.mark_applied(settings, decisions, first, decisions[-1].decided_at)
    report = make_site(settings, clock=lambda: START + timedelta(hours=WINDOWS))
    quarantined = [number for number in range(1, WINDOWS + 1) if number % 997 == 1]
    files = sorted(file.name for file in (settings.site / "tables/readings/windows").iterdir())
    assert len(files) == 1_000 + sum(number <= WINDOWS - 1_000 for number in quarantined)
    assert (files[0], files[-1]) == ("2024-01-01-00-00.html", "2035-05-29-15-00.html")
    table = page(settings, table_path("readings"))
    assert f"{WINDOWS - 1 - len(files):,} of {WINDOWS - 1:,} windows are older" in table
    assert "2034-04-07-23:00" in table  # the gap
    assert f'<b class="bad">{len(quarantined)}</b>' in page(settings, "index.html")
    assert (settings.site / table_path("readings")).stat().st_size < 5_000_000
    # The next window changes few pages.
    hour = START + timedelta(hours=WINDOWS)
    new = replace(model, number=WINDOWS + 1, p_extracted_at=hour, decided_at=hour + timedelta(hours=1))
    logs.record_extractions(settings, [replace(extraction(WINDOWS + 1), p_extracted_at=hour)])
    logs.log_decisions(settings, [new])
    logs.mark_applied(settings, [new], WINDOWS, new.decided_at)
    again = make_site(settings, clock=lambda: hour + timedelta(hours=1))
    assert (report.refreshed, again.refreshed) == (1, 1)
    assert again.written < 20
