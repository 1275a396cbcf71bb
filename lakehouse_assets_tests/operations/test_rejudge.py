"""Windows judged again on request: what a changed rule does to what was accepted, held, overridden and given up.

Belongs here: rejudging on real Delta, each time ending with a rebuild that finds nothing. Does not: the command (test_cli).
"""

from datetime import UTC, date, datetime

import pytest

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decide import BatchEvidence, JudgementRequest, Knowledge, decide
from lakehouse_assets.decisions.history import History
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.measures import typed
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.operations.release import discard, rejudge, release
from lakehouse_assets.operations.replay import replay
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.support import heal, land, readings, runner, silver, window

DRIFT = {"features": ["value"]}
WIDE, NARROW = (
    readings(drift=DRIFT, checks=[{"check": "in_range", "column": "value", "max": most, "on_fail": "quarantine_batch"}])
    for most in (100, 50)
)


@pytest.mark.exhaustive(seconds=30)
def test_todays_rules_on_yesterdays_bronze(spark, settings):
    for day, value in enumerate((10, 60, 500, 500, 500), 1):
        land(settings, day, [f"a,{day},{value},2024-01-{day:02d}T00:00:00Z", f"b,{day},1,2024-01-{day:02d}T00:00:00Z"])
    heal(spark, settings, range(1, 6), WIDE)
    release(runner(spark, settings, WIDE), window(4).start, None, waived=["in_range_value"], by="me", because="right")
    discard(runner(spark, settings, WIDE), window(5).start, None, by="me", because="worthless")
    bronze = {(r.p_extracted_at, r.extraction_seq) for r in logs.extractions(settings, "readings")}

    def verdicts(spec, days=range(1, 7)):
        decisions = rejudge(runner(spark, settings, spec), [window(day) for day in days], by="me", because="the rule changed")
        assert all((d.kind, d.because) == ("rejudged", "the rule changed") for d in decisions)
        proof = rebuild(runner(spark, settings, spec))
        assert (proof.gained, proof.lost) == (0, 0)
        return {d.p_extracted_at.day: d.verdict for d in decisions}

    actual = verdicts(NARROW)
    assert actual.pop(4).startswith("published"), "what a person has overridden stays so"
    assert actual == {1: "published", 2: "quarantined", 3: "quarantined"}, "the fifth was given up, the sixth never came"
    assert {row["p_extracted_at"].day for row in silver(settings)} == {1, 4}
    decisions = logs.decisions(settings, "readings", evidence=True)
    live = [d for d in ledger.current_decisions(decisions).values() if d.p_extracted_at.day in (1, 2, 3)]
    assert sorted(d.p_extracted_at.day for d in live if d.accepted and d.teaches) == [1]
    # The third was judged without the second, which the same run had taken out of the baseline.
    last = next(d for d in live if d.p_extracted_at.day == 3)
    again = replay(runner(spark, settings, NARROW), last)
    assert (again.verdict, again.reasons, again.drift) == (last.verdict, last.reasons, last.drift)

    loose = readings(drift=DRIFT, checks=[])
    assert set(verdicts(loose, (2, 3))) == {2, 3}
    assert {row["p_extracted_at"].day for row in silver(settings)} == {1, 2, 3, 4}
    assert {(r.p_extracted_at, r.extraction_seq) for r in logs.extractions(settings, "readings")} == bronze
    with pytest.raises(RefusedError, match="no window here has been judged"):
        verdicts(loose, (5, 6))


def test_a_rejudged_quarantine_is_no_history_for_the_next_window():
    """Days 3 and 4 have ten times the rows, which was allowed once. Judged again by one run, each by the days that stand."""
    ratio = {"check": "row_count_ratio", "windows": 2, "least": 1, "min": 0.5}
    loose, tight = (readings(checks=[ratio | {"max": most}]) for most in (100, 2))
    rows = {1: 100, 2: 100, 3: 1000, 4: 1000}

    def record(day):
        at = datetime(2024, 1, day, tzinfo=UTC)
        return ExtractionRecord("readings", at, 1, "f", rows[day], tuple(loose.columns), day, "run", at)

    def judge_days(spec, days, knowledge):
        name = spec.checks[0].id
        numbers = {
            (record(day).p_extracted_at, 1): BatchNumbers(
                rows_in=rows[day], newest=rows[day], metrics={name: {"rows": rows[day]}}
            )
            for day in days
        }
        records = [record(day) for day in days]
        knowledge, request, decisions = (
            Knowledge(list(knowledge), tuple(loose.columns), history=History(knowledge)),
            JudgementRequest("rejudged"),
            [],
        )
        for one in records:
            evidence = BatchEvidence(numbers[one.p_extracted_at, 1])
            judged = decide(spec, one, evidence, knowledge, request, run_id="run", at=one.extracted_at)
            knowledge.learn(judged, evidence)
            decisions += judged.decisions
        return decisions

    decisions = judge_days(loose, rows, [])
    assert [d.verdict for d in decisions] == ["published"] * 4
    assert [d.verdict for d in judge_days(tight, (3, 4), decisions)] == ["quarantined"] * 2


@pytest.mark.exhaustive(seconds=10)
def test_a_key_that_todays_casts_cannot_read_names_no_row(spark, settings, monkeypatch):
    """An earlier version accepted dates of the year 0."""
    spec = readings(columns={"sensor": "string", "hour": "date", "value": "double", "updated": "timestamp"}, checks=[])
    days = ("0000-12-30", "0000-12-31", "2024-01-01")
    land(settings, 1, [f"a,{day},{value},2024-01-01T00:00:00Z" for value, day in enumerate(days)])
    with monkeypatch.context() as before:
        before.setattr(typed, "within_calendar", lambda kind, value, text=None: value)
        heal(spark, settings, [1], spec)
    rebuild(runner(spark, settings, spec))
    assert [row["hour"] for row in silver(settings)] == [date(2024, 1, 1)]
    (decision,) = rejudge(runner(spark, settings, spec), [window(1)], by="me", because="after the upgrade")
    assert (decision.counts.rows_published, decision.counts.rows_quarantined) == (1, 2)
    assert [row["hour"] for row in silver(settings)] == [date(2024, 1, 1)]
