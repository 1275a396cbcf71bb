"""Checks that compare a batch with the windows before it: which windows these are, and what is strange beside them. Pure."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import TypeAdapter, ValidationError

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.families import Past
from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.contracts.decision import Counts, Decision
from lakehouse_assets.decisions.history import History, choose_history
from lakehouse_assets_tests.support import readings

ANY = TypeAdapter(AnyCheck)
CONTEXT = CheckContext((), "", "", "batch")
START = datetime(2024, 1, 1, tzinfo=UTC)
SQL = "avg(value)"


def past(values, sql=SQL):
    return [Past(START, 10, {"value": value, "sql": sql}) for value in values]


def anomaly(**more):
    return ANY.validate_python({"check": "anomaly", "sql": SQL, "least": 3, **more})


# more | the windows before | this batch | status
FIGURES = [
    ({}, [10, 11, 12, 13, 14], 12.5, "passed"),
    # median 12, MAD 1, so that a score of 3.5 is at 12 ± 5.19
    ({}, [10, 11, 12, 13, 14], 17.1, "passed"),
    ({}, [10, 11, 12, 13, 14], 17.3, "failed"),
    ({}, [10, 11, 12, 13, 14], 6.7, "failed"),
    ({"score": 4}, [10, 11, 12, 13, 14], 17.3, "passed"),
    ({"floor": 6}, [10, 11, 12, 13, 14], 17.3, "passed"),
    # one outlier among them does not hide the next
    ({}, [10, 11, 12, 13, 1000], 100, "failed"),
    # most are one figure, so that the MAD is 0: MeanAD is 0.4
    ({}, [5, 5, 5, 5, 7], 6.7, "passed"),
    ({}, [5, 5, 5, 5, 7], 6.8, "failed"),
    ({}, [5, 5, 5], 5, "passed"),
    ({}, [5, 5, 5], 5.001, "failed"),
    ({"floor": 0.01}, [5, 5, 5], 5.001, "passed"),
    ({}, [5, 5, 5], None, "failed"),
    ({}, [5, 5, 5], float("nan"), "failed"),
    ({}, [5, 5], 500, "skipped"),
    ({}, [], 5, "skipped"),
]


@pytest.mark.parametrize(("more", "before", "value", "status"), FIGURES)
def test_a_figure_beside_earlier_ones(more, before, value, status):
    judged = anomaly(**more).judge_against({"value": value}, CONTEXT, past(before))
    assert judged.status == status, judged
    assert judged.observed["sql"] == SQL
    assert bool(judged.message) == (status != "passed")


def test_only_windows_that_have_the_same_figure_are_shown():
    hours = [START + timedelta(hours=n) for n in range(6)]
    decisions = [decided(n + 1, start, value=None if n in (3, 4) else float(n)) for n, start in enumerate(hours)]
    history = History(decisions)
    assert starts(history.before(hours[5], anomaly(windows=3))) == [hours[2], hours[1], hours[0]]
    assert history.before(hours[5], anomaly(sql="sum(value)", windows=3)) == []
    judged = anomaly().judge_against({"value": 5.0}, CONTEXT, [])
    assert (judged.status, judged.observed) == ("skipped", {"value": 5.0, "sql": SQL})


def test_a_meaningless_season_is_refused():
    with pytest.raises(ValidationError, match="season: hour has no effect in a daily table"):
        readings(checks=[{"check": "anomaly", "sql": SQL, "season": "hour"}])
    assert readings(checks=[{"check": "anomaly", "sql": SQL, "season": "weekday"}])


# min, max | rows of the windows before | rows | status
ROWS = [
    (0.5, 2, [10, 10, 10], 10, "passed"),
    (0.5, 2, [10, 10, 10], 5, "passed"),
    (0.5, 2, [10, 10, 10], 4, "failed"),
    (0.5, 2, [10, 10, 10], 21, "failed"),
    (0.5, None, [10, 10, 10], 2000, "passed"),
    (0.5, 2, [10, 10, 1000], 12, "passed"),
    (0.5, 2, [0, 0, 10], 0, "passed"),
    (0.5, 2, [0, 0, 10], 1, "failed"),
    (0.5, 2, [10, 10], 1, "skipped"),
]


@pytest.mark.parametrize(("low", "high", "before", "rows", "status"), ROWS)
def test_rows_beside_earlier_ones(low, high, before, rows, status):
    check = ANY.validate_python({"check": "row_count_ratio", "min": low, "max": high, "least": 3})
    judged = check.judge_against({"rows": rows}, CONTEXT, [Past(START, n, {}) for n in before])
    assert judged.status == status, judged
    assert judged.observed["rows"] == rows


def test_contradictory_history_checks_are_refused():
    with pytest.raises(ValidationError, match="would never be judged"):
        anomaly(windows=2)
    with pytest.raises(ValidationError, match="needs min, max or both"):
        ANY.validate_python({"check": "row_count_ratio"})
    with pytest.raises(ValidationError, match="no aggregate"):
        anomaly(sql="value")


def test_without_its_history_it_is_an_error():
    assert anomaly().judge({"value": 1.0}, CONTEXT).status == "error"


def test_a_figure_of_a_personal_column_and_gold_are_refused():
    columns = {"sensor": "string", "hour": "int", "value": {"type": "double", "pii": True}, "updated": "timestamp"}
    with pytest.raises(ValidationError, match="is pii"):
        readings(columns=columns, checks=[{"check": "anomaly", "sql": SQL}])
    with pytest.raises(ValidationError, match="gold has no windows"):
        readings(gold=[{"name": "g", "sql": "g.sql", "key": ["a"], "checks": [{"check": "row_count_ratio", "min": 1}]}])


def decided(number, start, *, rows=10, verdict="published", value=1.0, **more):
    fields = {
        "table": "readings",
        "p_extracted_at": start,
        "extraction_seq": 1,
        "number": number,
        "kind": "judged",
        "verdict": verdict,
        "counts": Counts(rows_in=rows),
        "reasons": (),
        "ruleset_hash": "",
        "ruleset": "",
        "bronze_version": 0,
        "baseline_version": None,
        "run_id": "",
        "decided_at": START,
        "checks": ({"check": "anomaly_value", "observed": {"value": value, "sql": SQL}},),
    }
    return Decision(**{**fields, **more})


def starts(shown):
    return [p.start for p in shown]


def test_which_windows_are_shown():
    hours = [START + timedelta(hours=n) for n in range(60)]
    decisions = [decided(n + 1, start, rows=n) for n, start in enumerate(hours)]
    decisions.append(decided(100, hours[9], verdict="quarantined", extraction_seq=2))  # the accepted extraction stands
    decisions.append(decided(101, hours[7], verdict="discarded"))
    decisions.append(decided(102, hours[6], rows=77, extraction_seq=2))
    decisions.append(decided(103, hours[6], superseded_by="x"))
    decisions.append(decided(104, hours[5], waived=("anomaly_value",)))
    history = History(decisions)
    assert starts(history.before(hours[10], anomaly(windows=4))) == [hours[9], hours[8], hours[6], hours[4]]
    assert history.before(hours[7], anomaly(windows=3))[0].rows == 77
    assert starts(history.before(hours[50], anomaly(season="hour"))) == [hours[26], hours[2]]
    assert history.before(START, anomaly()) == []
    history.learn(decided(200, START - timedelta(days=1)))
    assert starts(history.before(START, anomaly())) == [START - timedelta(days=1)]


def test_seasons():
    monday = datetime(2024, 1, 1, 5, tzinfo=UTC)
    assert anomaly(season="weekday").in_season(monday, monday + timedelta(days=7))
    assert not anomaly(season="weekday").in_season(monday, monday + timedelta(days=1))
    assert anomaly(season="month").in_season(monday, monday.replace(year=2023, day=9))
    assert not anomaly(season="month").in_season(monday, monday.replace(month=2))


def accepted(start: datetime) -> Decision:
    fields = {"table": "t", "p_extracted_at": start, "extraction_seq": 1, "number": 1, "kind": "judged", "verdict": "published"}
    more = {"counts": Counts(rows_in=7), "reasons": (), "ruleset_hash": "", "ruleset": "", "bronze_version": 1}
    return Decision(**fields, **more, baseline_version=0, run_id="", decided_at=START)


def test_on_a_stream_a_check_compares_with_the_windows_right_before_or_with_one_an_hour():
    """A window every minute of three days: few of them are read."""
    starts = [START + timedelta(minutes=minute, seconds=7) for minute in range(3 * 1440)]
    plain, hourly = anomaly(windows=5), anomaly(windows=4, season="hour")
    judged = starts[-1] + timedelta(seconds=5)
    chosen, first = choose_history(starts, [judged], [plain, hourly])
    assert chosen == {*starts[-10:], *first}
    assert len(first) == 72
    history = History(map(accepted, sorted(chosen)), first)
    history.learn(accepted(judged))
    row_counts = ANY.validate_python({"check": "row_count_ratio", "min": 0.5, "windows": 5, "least": 3})
    by_hour = ANY.validate_python({"check": "row_count_ratio", "min": 0.5, "windows": 4, "least": 2, "season": "hour"})
    after = judged + timedelta(seconds=5)
    assert [past.start for past in history.before(after, row_counts)] == [judged, *starts[-1:-5:-1]]
    hours = [START + timedelta(days=day, hours=23, seconds=7) for day in (2, 1, 0)]
    assert [past.start for past in history.before(after, by_hour)] == hours
    next_hour = START + timedelta(days=3, seconds=3)
    history.learn(accepted(next_hour))
    assert history.before(next_hour + timedelta(seconds=5), by_hour)[0].start == next_hour


def test_only_a_short_season_applies_to_a_stream():
    stream = {"source": {"kind": "kafka", "topic": "readings", "format": "json"}}
    stream["extraction"] = {"cadence": "daily", "start": "2024-01-01", "stream": {}}
    check = {"check": "row_count_ratio", "min": 0.5}
    assert readings(checks=[{**check, "season": "hour"}], **stream).checks
    with pytest.raises(ValidationError, match="season: month does not apply to a stream"):
        readings(checks=[{**check, "season": "month"}], **stream)
