"""Recorded decisions that are judged again: no finding on a sound lake, one where the record or bronze is another.

Belongs here: what is found, and what is left out. Does not: law 3 itself (laws/test_laws).
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse_assets.contracts.decision import Counts
from lakehouse_assets.operations import baseline
from lakehouse_assets.operations.replay import find_differences, find_other_verdicts
from lakehouse_assets.operations.restore_logs import restore_logs
from lakehouse_assets.storage import logs
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import heal, land, readings, rows_of, runner

SPEC = readings()


def rows(day: int, *more: str) -> list[str]:
    return [f"{row},2024-01-{day:02d}T00:00:00Z" for row in (f"a,{day},{day}", *more)]


def test_a_decision_that_its_batch_does_not_give_is_found(spark, settings):
    land(settings, 1, rows(1, "b,1,999"))
    land(settings, 2, [])
    land(settings, 3, rows(3))
    heal(spark, settings, [1, 2, 3], SPEC)
    run = runner(spark, settings, SPEC)
    before = rows_of(settings.path("ops", "decisions"), ["decision_id", "event"])
    assert list(find_other_verdicts(run, 10)) == []
    assert rows_of(settings.path("ops", "decisions"), ["decision_id", "event"]) == before
    decisions = logs.decisions(settings, "readings", evidence=True)
    shutil.rmtree(settings.path("ops", "decisions"))
    forged = [replace(d, reasons=(), verdict="published") if d.reasons else d for d in decisions]
    assert forged != decisions
    logs.log_decisions(settings, forged)
    findings = list(find_other_verdicts(run, 10))
    assert {f.window for f in findings if f.window} == {d.p_extracted_at for d in decisions if d.reasons}
    assert "decision 1 gives other verdict, reasons" in findings[0].message
    assert list(find_other_verdicts(run, 1)) == [], "the newest is as it was"


def test_a_replay_is_not_disturbed_by_a_run_that_ends_meanwhile(spark, settings):
    """A run's end removes the staging of its table."""
    land(settings, 1, rows(1, "b,1,999"))
    land(settings, 2, rows(2))
    heal(spark, settings, [1, 2], SPEC)
    staging, staged = Path(settings.path("staging", SPEC.name)), []

    def end_another_run(_: str) -> None:
        staged.append(staging.exists())
        shutil.rmtree(staging, ignore_errors=True)

    assert list(find_other_verdicts(runner(spark, settings, SPEC, end_another_run), 10)) == []
    assert staged and not any(staged)


def test_a_window_that_a_lost_baseline_quarantined_replays(spark, settings):
    """Also once the baseline has been learnt anew."""
    spec = readings(drift={"features": ["value"]})
    for day in (1, 2, 3, 4):
        land(settings, day, rows(day))
    heal(spark, settings, [1], spec)
    run = runner(spark, settings, spec)
    # Decisions that are brought back from commits no longer have their profiles.
    for parts in (("ops", "decisions"), ("baseline", "readings")):
        shutil.rmtree(settings.path(*parts))
        if parts[0] == "ops":
            restore_logs(run)
    (decision,) = heal(spark, settings, [2], spec).new
    assert (decision.verdict, [reason.status for reason in decision.reasons]) == ("quarantined", ["error"])
    assert list(find_other_verdicts(run, 10)) == []
    baseline.reset(run, by="ann", because="it is lost")
    heal(spark, settings, [3, 4], spec)
    assert list(find_other_verdicts(run, 10)) == []


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"verdict": "quarantined"}, ["verdict"]),
        ({"counts": Counts(3, 1, 0, 2, 0)}, ["counts"]),
        ({"reasons": ()}, ["reasons"]),
        ({"drift_p_value": 0.02 * (1 + 1e-12)}, []),
        ({"drift_p_value": 0.0201}, ["p-value of drift"]),
        ({"drift_p_value": None}, ["p-value of drift"]),
    ],
    ids=str,
)
def test_what_differs(changes, names):
    decision = logbook.decided(1, drift_p_value=0.02)
    assert find_differences(decision, replace(decision, **changes)) == names


def test_other_words_are_no_other_reason():
    decision = logbook.decided(1)
    (reason,) = decision.reasons
    assert find_differences(decision, replace(decision, reasons=(replace(reason, message="in other words"),))) == []
    assert find_differences(decision, replace(decision, reasons=(replace(reason, rows=2),))) == ["reasons"]
