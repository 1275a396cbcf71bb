"""An operation that was killed and is run again counts once: one decision, one set of profiles, every result of its checks.

Belongs here: releases, discards and judgements on request, stopped at a step in this process. Does not: SIGKILL.
"""

from collections import Counter
from typing import Any

import pytest

from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations.release import discard, rejudge, release
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.support import Killed, heal, land, readings, rows_of, runner, window

RANGE = {"check": "in_range", "column": "value", "min": -100}
SPEC = readings(drift={"features": ["value"]}, checks=[{"check": "not_empty"}, {**RANGE, "max": 100}])
STRICT = readings(drift={"features": ["value"]}, checks=[{"check": "not_empty"}, {**RANGE, "max": 5}])
AUTHOR = {"by": "ann", "because": "right after all"}
# One row is released, the other (no number) stays in quarantine: there is something to release again.
MIXED = ["a,1,500,2024-01-01T00:00:00Z", "a,2,none,2024-01-01T00:00:00Z", "a,3,1,2024-01-01T00:00:00Z"]


def kill_at(step: str):
    """A `Run.step` that ends the process at this step."""

    def kill(name: str) -> None:
        if name == step:
            raise Killed

    return kill


def decisions_of(settings, kind: str):
    return [d for d in logs.decisions(settings, "readings") if d.kind == kind and not d.superseded_by]


def assert_complete(settings) -> None:
    """Every applied decision has its check results, once; no decision has a profile twice; nothing is left to apply."""
    decisions = logs.decisions(settings, "readings", evidence=True)
    assert ledger.unapplied_decisions(decisions) == []
    results = Counter((r["decision_id"], r["check"]) for r in rows_of(settings.path("ops", "check_results")))
    assert set(results.values()) == {1}
    assert set(results) == {(d.decision_id, c["check"]) for d in decisions if not d.superseded_by for c in d.checks}
    profiles = Counter((r["decision_id"], r["feature"]) for r in rows_of(settings.path("baseline", "readings")))
    assert set(profiles.values()) <= {1}


@pytest.mark.exhaustive(seconds=45)
def test_a_release_killed_twice_and_repeated_is_one_decision(spark, settings):
    land(settings, 1, MIXED)
    heal(spark, settings, [1], SPEC)
    again: dict[str, Any] = {"waived": ["in_range_value"], **AUTHOR}
    for step in ("write_done", "mark_applied_done"):
        with pytest.raises(Killed):
            release(runner(spark, settings, SPEC, kill_at(step)), window(1).start, None, **again)
    decision = release(runner(spark, settings, SPEC), window(1).start, None, **again)
    assert [d.decision_id for d in decisions_of(settings, "released")] == [decision.decision_id]
    assert (decision.counts.rows_published, decision.counts.rows_quarantined) == (2, 1)
    assert decision.applied_at is not None
    assert_complete(settings)
    # Said otherwise, or by other rules, it is another operation.
    other = release(runner(spark, settings, SPEC), window(1).start, None, **{**again, "because": "once more"})
    assert other.number == decision.number + 1
    stricter = release(runner(spark, settings, STRICT), window(1).start, None, **{**again, "because": "once more"})
    assert stricter.number == other.number + 1
    # And back on the state that another decision has made, it is done anew.
    assert release(runner(spark, settings, SPEC), window(1).start, None, **again).number == stricter.number + 1
    assert_complete(settings)


def test_a_discard_killed_and_repeated_has_its_check_results(spark, settings):
    land(settings, 1, MIXED)
    heal(spark, settings, [1], SPEC)
    with pytest.raises(Killed):
        discard(runner(spark, settings, SPEC, kill_at("mark_applied_done")), window(1).start, None, **AUTHOR)
    # Whatever is requested next finishes it, refused as it may be.
    with pytest.raises(RefusedError):
        release(runner(spark, settings, SPEC), window(1).start, None, waived=[], by="bob", because="mine")
    assert_complete(settings)
    decision = discard(runner(spark, settings, SPEC), window(1).start, None, **AUTHOR)
    assert [d.decision_id for d in decisions_of(settings, "discarded")] == [decision.decision_id]
    assert_complete(settings)
    with pytest.raises(RefusedError, match="has no quarantined rows"):
        discard(runner(spark, settings, SPEC), window(1).start, None, by="ann", because="again")


@pytest.mark.exhaustive(seconds=35)
def test_a_rejudge_killed_and_repeated_judges_each_window_once(spark, settings):
    """The first group is applied when the process ends; an overridden window makes a second one."""
    for day in (1, 2):
        land(settings, day, [f"a,{day},500,2024-01-01T00:00:00Z", f"b,{day},1,2024-01-01T00:00:00Z"])
    heal(spark, settings, [1, 2], SPEC)
    release(runner(spark, settings, SPEC), window(2).start, None, waived=["in_range_value"], **AUTHOR)
    days = [window(1), window(2)]
    with pytest.raises(Killed):
        rejudge(runner(spark, settings, STRICT, kill_at("mark_applied_done")), days, by="ann", because="a stricter rule")
    assert len(decisions_of(settings, "rejudged")) == 1
    land(settings, 3, ["a,9,2,2024-01-03T00:00:00Z"])
    heal(spark, settings, [3], STRICT)
    decisions = rejudge(runner(spark, settings, STRICT), days, by="ann", because="a stricter rule")
    assert sorted(d.p_extracted_at.day for d in decisions) == [1, 2]
    assert len(decisions_of(settings, "rejudged")) == 2
    again = rejudge(runner(spark, settings, STRICT), days, by="ann", because="a stricter rule")
    assert [d.decision_id for d in again] == [d.decision_id for d in decisions]
    assert_complete(settings)

    # Once another window has been judged, it is another question.
    heal(spark, settings, [3], STRICT)
    land(settings, 4, ["a,9,2,2024-01-04T00:00:00Z"])
    heal(spark, settings, [4], STRICT)
    assert len(rejudge(runner(spark, settings, STRICT), days, by="ann", because="a stricter rule")) == 2
    assert len(decisions_of(settings, "rejudged")) == 4
