"""Windows of which the source says how much they have: held until all of it is there, in whatever order the files come.

Belongs here: the story on real Delta. Does not: what a figure is compared with (spec), reading control files (sources).
"""

import json
from pathlib import Path

import pytest

from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations.dry_run import try_checks
from lakehouse_assets.operations.release import rejudge
from lakehouse_assets_tests.support import heal, land, readings, runner, silver, window

SOURCE = {
    "kind": "files",
    "path": "readings/{window:%Y-%m-%d}.csv",
    "control": "readings/control/{window:%Y-%m-%d}.json",
    "format": "csv",
}
CHECKS = [
    {"check": "in_range", "column": "value", "max": 100},
    {"check": "control_total", "figure": "rows"},
    {"check": "control_total", "figure": "total", "measure": "sum(value)"},
]
ROWS = ["a,1,10,2024-01-01T00:00:00Z", "b,1,0.5,2024-01-01T00:00:00Z"]


def write_totals(settings, day: int, content) -> None:
    path = Path(settings.landing) / "readings" / "control" / f"2024-01-{day:02d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def verdicts_by_day(published) -> dict[int, tuple[str, list[str]]]:
    """Of each day its verdict and what was wrong."""
    return {w.start.day: (d.verdict, [r.message for r in d.reasons]) for w, d in sorted(published.current.items())}


@pytest.mark.exhaustive(seconds=18)
def test_a_window_is_quarantined_until_its_control_totals_match(spark, settings):
    spec = readings(source=SOURCE, checks=CHECKS)
    for day in (1, 2, 3, 4, 5):
        land(settings, day, [row.replace("01-01T", f"01-{day:02d}T") for row in ROWS])
    write_totals(settings, 1, {"rows": 2, "total": 10.5})
    write_totals(settings, 2, {"rows": 3, "total": 12.5})
    write_totals(settings, 3, "rows: 2")
    # A row that a check removes has come all the same.
    land(settings, 5, ["a,1,10,2024-01-05T00:00:00Z", "b,1,1000,2024-01-05T00:00:00Z"])
    write_totals(settings, 5, {"rows": 2, "total": 1010})
    missing = "there is no readings/control/2024-01-04.json"
    error = "not JSON (Expecting value: line 1 column 1 (char 0))"
    unreadable = f"unreadable control file readings/control/2024-01-03.json: {error}"
    outcomes = verdicts_by_day(heal(spark, settings, range(1, 6), spec))
    assert outcomes == {
        1: ("published", []),
        2: ("quarantined", ["count(*) is 2; the source says 3", "sum(value) is 10.5; the source says 12.5"]),
        3: ("quarantined", [unreadable, unreadable]),
        4: ("quarantined", [missing, missing]),
        5: ("published_with_warnings", ["1 of 2 rows: not value at most 100"]),
    }
    # On trial it says the same, of bronze and of what has landed; of silver it says nothing.
    totals = [check for check in spec.checks if check.id.startswith("control_total")]
    days = [window(day) for day in range(1, 6)]
    for layer in ("bronze", "source"):
        tried = try_checks(runner(spark, settings, spec), totals, days, layer).outcomes
        quarantined_days = {t.window.start.day for t in tried if t.window and t.would_quarantine == "the window"}
        assert quarantined_days == {2, 3, 4}, layer
    with pytest.raises(RefusedError, match="control_total_rows, control_total_total look at windows as they came"):
        try_checks(runner(spark, settings, spec), totals, days, "silver")
    # The rest arrives: of day 2 a row, of days 3 and 4 what the source says. Nothing else is read again.
    land(settings, 2, [*ROWS, "c,1,2,2024-01-02T00:00:00Z"])
    write_totals(settings, 3, {"rows": 2, "total": 10.5})
    write_totals(settings, 4, {"rows": 2, "total": 10.5, "of no use": None})
    healed = heal(spark, settings, range(1, 6), spec)
    assert {d.p_extracted_at.day for d in healed.new if d.p_extracted_at} == {2, 3, 4}
    assert {day: verdict for day, (verdict, _) in verdicts_by_day(healed).items() if verdict == "quarantined"} == {}
    assert {row["sensor"] for row in silver(settings)} == {"a", "b", "c"}


@pytest.mark.exhaustive(seconds=12)
def test_a_rejudge_without_control_totals_never_passes(spark, settings):
    """A window that was extracted before the table said where its source's figures are."""
    land(settings, 1, ROWS)
    heal(spark, settings, [1])
    spec = readings(source=SOURCE, checks=CHECKS)
    rejudge(runner(spark, settings, spec), [window(1)], by="ann", because="new rules")
    (outcome,) = verdicts_by_day(heal(spark, settings, [1], spec)).values()
    assert outcome[0] == "quarantined"
    assert "was not asked when this was extracted" in outcome[1][0]
    # Its control file arrives, and with it another look at the window.
    write_totals(settings, 1, {"rows": 2, "total": 10.5})
    assert verdicts_by_day(heal(spark, settings, [1], spec)) == {1: ("published", [])}
