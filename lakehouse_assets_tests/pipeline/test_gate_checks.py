"""What the gate makes of checks that wait for others, look back, or run after the exchange, on real Delta.

Belongs here: the layers' part of the Wall. Does not: parameters and judgements (checks, decisions).
"""

import pytest

from lakehouse_assets.operations.release import release
from lakehouse_assets.operations.replay import replay
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.support import Killed, heal, land, readings, rows_of, runner, silver, window

HAS_VALUE = {"check": "not_null", "column": "value", "name": "has_value"}
POSITIVE = {"check": "expression", "expr": "coalesce(value, -1) > 0", "name": "positive", "depends_on": ["has_value"]}


def outcome(decision, check):
    (match,) = [o for o in decision.checks if o["check"] == check]
    return match


def reasons_in_quarantine(settings):
    return {
        (row["sensor"], reason["check"])
        for row in rows_of(settings.path("quarantine", "readings"))
        for reason in row["reasons"]
    }


def test_a_row_that_fails_a_prerequisite_is_not_checked_further(spark, settings):
    spec = readings(checks=[POSITIVE, HAS_VALUE])
    rows = ["a,1,NA", "b,1,-5", "c,1,5"]
    land(settings, 1, [f"{row},2024-01-01T00:00:00Z" for row in rows])
    decision = heal(spark, settings, [1], spec).current[window(1)]
    assert reasons_in_quarantine(settings) == {("a", "has_value"), ("b", "positive")}
    assert outcome(decision, "positive")["failed_rows"] == 1
    assert [row["sensor"] for row in silver(settings)] == ["c"]
    # Overridden, the row has what was promised of it looked at.
    release(runner(spark, settings, spec), window(1).start, None, waived=["has_value"], by="ann", because="test")
    assert ("a", "positive") in reasons_in_quarantine(settings)
    assert [row["sensor"] for row in silver(settings)] == ["c"]


@pytest.mark.exhaustive(seconds=6)
def test_a_threshold_counts_the_rows_of_where_and_no_record_that_cannot_be_read(spark, settings):
    """Of four rows and a broken record, `where` means the two without an hour above 1, of which one has a value."""
    parameters = {"check": "not_null", "column": "value", "where": "coalesce(hour, 0) < 2", "threshold": 0.6, "name": "most"}
    spec = readings(checks=[{"check": "not_empty"}, parameters])
    rows = [
        "a,1,NA,2024-01-01T00:00:00Z",
        "b,1,5,2024-01-01T00:00:00Z",
        *[f"{s},3,5,2024-01-01T00:00:00Z" for s in "cd"],
        "e,1",
    ]
    land(settings, 1, rows)
    decision = heal(spark, settings, [1], spec).current[window(1)]
    most = outcome(decision, "most")
    assert (most["status"], most["effect"]) == ("failed", "batch")
    assert (most["observed"]["rows"], most["observed"]["failed"], most["observed"]["share_passed"]) == (2, 1, 0.5)
    assert decision.verdict == "quarantined"


@pytest.mark.exhaustive(seconds=6)
def test_sql_over_the_batch_sees_no_row_that_was_removed(spark, settings):
    """Nor a record that could not be read; an older row of a key, as every check of the batch does."""
    some = "select sensor from batch group by sensor having sum(value) is null or count(*) > 2"
    over_batch = {"check": "sql", "name": "some_value", "sql": some, "depends_on": ["has_value"]}
    older = {"check": "sql", "name": "older", "sql": "select count(*) from batch having count(*) <> 2", "severity": "warning"}
    spec = readings(checks=[HAS_VALUE, over_batch, older])
    land(settings, 1, ["a,1,NA,2024-01-01T00:00:00Z", *[f"b,1,{n},2024-01-0{n}T00:00:00Z" for n in (1, 2)], "e,1"])
    decision = heal(spark, settings, [1], spec).current[window(1)]
    assert (outcome(decision, "some_value")["status"], outcome(decision, "older")["status"]) == ("passed", "passed")
    assert (decision.verdict, [row["sensor"] for row in silver(settings)]) == ("published_with_warnings", ["b"])
    assert (decision.counts.rows_quarantined, decision.counts.rows_superseded) == (2, 1)


@pytest.mark.exhaustive(seconds=8)
def test_a_check_whose_prerequisite_stops_the_scan_is_skipped(spark, settings):
    broken = {"check": "expression", "name": "broken", "expr": "raise_error('no') is null", "on_fail": "quarantine_batch"}
    spec = readings(checks=[broken, {**POSITIVE, "depends_on": ["broken"]}])
    land(settings, 1, ["a,1,-1,2024-01-01T00:00:00Z"])
    decision = heal(spark, settings, [1], spec).current[window(1)]
    assert (outcome(decision, "broken")["status"], outcome(decision, "positive")["status"]) == ("error", "skipped")
    assert outcome(decision, "positive")["message"] == "not judged: broken is in error"
    assert decision.verdict == "quarantined"


def days(settings, values, first=1):
    for index, value in enumerate(values):
        day = first + index
        land(settings, day, [f"a,{hour},{value},2024-01-{day:02d}T00:00:00Z" for hour in range(3)])


LOOKS_BACK = [
    {"check": "anomaly", "name": "usual", "sql": "avg(value)", "least": 3},
    {"check": "row_count_ratio", "name": "as_many", "min": 0.5, "max": 2, "least": 3, "severity": "warning"},
]


def test_a_batch_is_compared_with_the_windows_before_it(spark, settings):
    spec = readings(checks=LOOKS_BACK)
    days(settings, [10, 11, 12, 50])
    current = heal(spark, settings, [1, 2, 3, 4], spec).current
    statuses = [outcome(current[window(day)], "usual")["status"] for day in (1, 2, 3, 4)]
    assert statuses == ["skipped", "skipped", "skipped", "failed"]
    assert current[window(4)].verdict == "quarantined"
    days(settings, [11.5], first=5)
    land(settings, 6, ["a,1,11,2024-01-06T00:00:00Z"])
    later = heal(spark, settings, [5, 6], spec).current
    # Held windows teach nothing: day 5 is compared with days 1 to 3.
    assert outcome(later[window(5)], "usual")["observed"]["windows"] == 3
    assert outcome(later[window(6)], "as_many")["status"] == "failed"
    assert later[window(6)].verdict == "published_with_warnings"
    for decision in logs.decisions(settings, "readings", evidence=True):
        if decision.p_extracted_at.day in (3, 4, 6):  # without a history, and with each kind of it
            again = replay(runner(spark, settings, spec), decision)
            assert (again.verdict, again.checks) == (decision.verdict, decision.checks)


@pytest.mark.exhaustive(seconds=15)
def test_an_override_publishes_and_does_not_join_the_baseline(spark, settings):
    spec = readings(checks=LOOKS_BACK[:1])
    days(settings, [10, 11, 12, 50, 11])
    heal(spark, settings, [1, 2, 3, 4], spec)
    release(runner(spark, settings, spec), window(4).start, None, waived=["usual"], by="ann", because="true, the stove was on")
    decision = heal(spark, settings, [5], spec).current[window(5)]
    assert outcome(decision, "usual")["observed"]["windows"] == 3


LATE = [
    {"check": "unique", "columns": ["value"], "name": "all_differ", "severity": "warning"},
    {"check": "sql", "name": "some_b", "on_fail": "warn", "sql": "select 1 where not exists (select * from batch)"},
    {"check": "in_range", "column": "value", "min": 0, "name": "positive"},
]


def test_a_non_blocking_check_runs_after_the_exchange(spark, settings):
    spec = readings(checks=LATE)
    land(settings, 1, [f"{row},2024-01-01T00:00:00Z" for row in ("a,1,5", "b,1,5", "c,1,-1")])
    steps: list[str] = []
    run = runner(spark, settings, spec, steps.append)
    extract(run, [window(1)])
    decision = publish(run, [window(1)]).current[window(1)]
    assert steps.index("write_done") < steps.index("deferred_checks_done") < steps.index("mark_applied_done")
    assert decision.verdict == "published_with_warnings"
    assert [(o["check"], o["status"]) for o in decision.checks if o["check"] in ("all_differ", "some_b")] == [
        ("all_differ", "failed"),
        ("some_b", "passed"),
    ]
    assert {r.check for r in decision.reasons} == {"positive", "all_differ"}
    (stored,) = logs.decisions(settings, "readings", evidence=True)
    assert (stored.verdict, stored.checks, stored.reasons) == (decision.verdict, decision.checks, decision.reasons)
    assert logs.decisions(settings, "readings")[0].reasons == decision.reasons
    again = replay(runner(spark, settings, spec), stored)
    assert (again.verdict, again.checks) == (stored.verdict, stored.checks)


@pytest.mark.exhaustive(seconds=5)
def test_a_warning_makes_a_verdict_of_its_own(spark, settings):
    spec = readings(checks=LATE[:1])
    land(settings, 1, ["a,1,5,2024-01-01T00:00:00Z", "b,1,5,2024-01-01T00:00:00Z"])
    decision = heal(spark, settings, [1], spec).current[window(1)]
    assert (decision.verdict, decision.counts.rows_published) == ("published_with_warnings", 2)


def test_a_recovery_runs_the_deferred_checks_of_the_decision(spark, settings):
    """The rules changed between the crash and the next run: the decision keeps its own (law 3)."""
    land(settings, 1, ["a,1,5,2024-01-01T00:00:00Z", "b,1,5,2024-01-01T00:00:00Z"])

    def die(step):
        if step == "write_done":
            raise Killed

    run = runner(spark, settings, readings(checks=LATE), die)
    extract(run, [window(1)])
    with pytest.raises(Killed):
        publish(run, [window(1)])
    first = {"check": "not_empty", "name": "first"}
    today = [first, {"check": "distinct_count", "columns": ["sensor"], "min": 9, "severity": "info", "depends_on": ["first"]}]
    heal(spark, settings, [1], readings(checks=today))
    (stored,) = logs.decisions(settings, "readings", evidence=True)
    assert {o["check"] for o in stored.checks} >= {"all_differ", "some_b", "positive"}
    assert not {o["check"] for o in stored.checks} & {"distinct_count_sensor", "first"}
    again = replay(runner(spark, settings, readings(checks=today)), stored)
    assert (again.verdict, again.checks) == (stored.verdict, stored.checks)


@pytest.mark.exhaustive(seconds=10)
@pytest.mark.parametrize("at", ["write_done", "profiles_done", "deferred_checks_done"])
def test_a_run_killed_before_its_deferred_checks_completes_them(spark, settings, at):
    spec = readings(checks=LATE)
    land(settings, 1, ["a,1,5,2024-01-01T00:00:00Z", "b,1,5,2024-01-01T00:00:00Z"])

    def die(step):
        if step == at:
            raise Killed

    run = runner(spark, settings, spec, die)
    extract(run, [window(1)])
    with pytest.raises(Killed):
        publish(run, [window(1)])
    decision = heal(spark, settings, [1], spec).current[window(1)]
    (stored,) = logs.decisions(settings, "readings", evidence=True)
    assert stored.applied_at
    assert stored.verdict == decision.verdict == "published_with_warnings"
    assert [o["status"] for o in stored.checks if o["check"] == "all_differ"] == ["failed"]
    assert len(silver(settings)) == 2


@pytest.mark.exhaustive(seconds=15)
def test_a_text_too_long_to_be_searched_is_an_error_in_its_window_alone(spark, settings):
    checks = [
        {"check": "expression", "name": "by_row", "expr": "sensor rlike '^[a-z]+$'", "severity": "warning"},
        {"check": "metric", "name": "by_metric", "sql": "count_if(sensor rlike 'x+y')", "max": 0, "severity": "warning"},
        {"check": "sql", "name": "by_query", "sql": "select sensor from batch where sensor rlike 'x+y' group by sensor"},
    ]
    for day, sensor in ((1, "a" * 5000), (2, "b")):
        land(settings, day, [f"{sensor},1,5,2024-01-0{day}T00:00:00Z"])
    decisions = heal(spark, settings, [1, 2], readings(checks=checks)).current
    for name in ("by_row", "by_metric", "by_query"):
        assert outcome(decisions[window(1)], name)["status"] == "error"
        assert "more than 4096 characters" in outcome(decisions[window(1)], name)["message"]
        assert outcome(decisions[window(2)], name)["status"] == "passed"
    assert [decisions[window(day)].verdict for day in (1, 2)] == ["quarantined", "published"]
