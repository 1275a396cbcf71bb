"""Checks of one table that look into another: foreign keys and reconciliation, now, after a crash, and on replay.

Belongs here: what the layers make of them on real Delta. Does not: their parameters (test_judgements, test_references).
"""

import pytest

from lakehouse_assets.decisions import ledger
from lakehouse_assets.operations.dry_run import try_checks
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.operations.release import release
from lakehouse_assets.operations.replay import replay
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.support import Killed, heal, land, readings, runner, silver, window

SENSORS = readings(
    name="sensors",
    source={"kind": "files", "path": "sensors/{window:%Y-%m-%d}.csv", "format": "csv"},
    extraction={"cadence": "daily", "start": "2024-01-01", "mode": "snapshot"},
    key=["id"],
    last_modified=None,
    columns={"id": "string", "site": "string"},
    checks=[],
)
KEY = {"check": "foreign_key", "columns": ["sensor"], "table": "sensors", "to": ["id"], "name": "known_sensor"}


def sensors(spark, settings, day: int, ids: str) -> None:
    path = land(settings, day, [f"{name},north" for name in ids], header="id,site")
    target = path.parent.parent / "sensors" / path.name
    target.parent.mkdir(exist_ok=True)
    path.rename(target)
    heal(spark, settings, [day], SENSORS)


def land_readings(settings, day: int, names: list[str]) -> None:
    land(settings, day, [f"{name},{hour},1,2024-01-{day:02d}T00:00:00Z" for hour, name in enumerate(names)])


def decide_day(spark, settings, day: int, spec):
    return heal(spark, settings, [day], spec).current[window(day)]


def spec(**more):
    return readings(checks=[{**KEY, **more}])


@pytest.mark.parametrize(
    ("more", "verdict", "published"),
    [
        ({}, "published_with_warnings", 2),
        pytest.param({"threshold": 0.9}, "quarantined", 0, marks=pytest.mark.exhaustive(seconds=12)),
        pytest.param({"severity": "warning"}, "published_with_warnings", 3, marks=pytest.mark.exhaustive(seconds=12)),
        pytest.param({"severity": "warning", "threshold": 0.5}, "published", 3, marks=pytest.mark.exhaustive(seconds=12)),
        pytest.param({"where": "hour < 2"}, "published", 3, marks=pytest.mark.exhaustive(seconds=12)),
    ],
    ids=str,
)
def test_a_key_that_the_other_table_lacks(spark, settings, more, verdict, published):
    sensors(spark, settings, 1, "ab")
    land_readings(settings, 1, ["a", "b", "x"])
    decision = decide_day(spark, settings, 1, spec(**more))
    assert (decision.verdict, decision.counts.rows_published) == (verdict, published)
    (outcome,) = [c for c in decision.checks if c["check"] == "known_sensor"]
    assert outcome["failed_rows"] == (0 if "where" in more else 1)


@pytest.mark.exhaustive(seconds=10)
def test_a_null_refers_to_nothing_and_is_no_match_either(spark, settings):
    sensors(spark, settings, 1, "ab")
    checks = [{**KEY, "columns": ["sensor", "value"], "to": ["id", "site"]}]
    columns = {"sensor": "string", "hour": "int", "value": "string", "updated": "timestamp"}
    text_values = readings(checks=checks, columns=columns, source={**readings().source.model_dump(), "nulls": ["NA"]})
    rows = ["a,1,north", "a,2,south", "x,3,NA", "NA,4,north"]
    land(settings, 1, [f"{row},2024-01-01T00:00:00Z" for row in rows])
    nullable = text_values.model_copy(update={"key": ("hour",)})
    decision = decide_day(spark, settings, 1, nullable)
    assert decision.counts.rows_quarantined == 1
    assert {row["hour"] for row in silver(settings)} == {1, 3, 4}


@pytest.mark.parametrize(
    ("severity", "verdict"),
    [
        ("critical", "quarantined"),
        pytest.param("warning", "published_with_warnings", marks=pytest.mark.exhaustive(seconds=6)),
    ],
)
def test_a_table_that_was_never_published_is_no_pass(spark, settings, severity, verdict):
    land_readings(settings, 1, ["a"])
    both = [
        {**KEY, "severity": severity},
        {"check": "reconcile", "measure": "count(*)", "table": "sensors", "against": "count(*)", "severity": severity},
    ]
    decision = decide_day(spark, settings, 1, readings(checks=both))
    assert decision.verdict == verdict
    assert [(r.check, r.status) for r in decision.reasons] == [("known_sensor", "error"), ("reconcile_sensors", "error")]
    assert all("sensors has never been published" in r.message for r in decision.reasons)


@pytest.mark.exhaustive(seconds=15)
def test_a_dry_run_equals_the_gate_without_a_reference_table(spark, settings):
    """That no key is found there says nothing of its rows."""
    more = [{"check": "not_null", "column": "sensor"}, {"check": "null_share", "column": "sensor", "max": 0.0}]
    more += [
        {"check": "statistic", "column": "value", "of": "mean", "min": 0, "max": 9},
        {"check": "unique", "columns": ["hour"]},
    ]
    both = readings(checks=[{**KEY, "severity": "critical"}, *more])
    land_readings(settings, 1, ["a", "b"])
    decision = decide_day(spark, settings, 1, both)
    statuses = {
        outcome["check"]: outcome["status"]
        for outcome in decision.checks
        if outcome["check"] in {check.id for check in both.checks}
    }
    assert statuses == {check.id: "error" if check.id == "known_sensor" else "passed" for check in both.checks}
    for check in both.checks:
        (tried,) = try_checks(runner(spark, settings, both), [check], [window(1)]).outcomes
        assert (tried.outcome.status, tried.outcome.failed_rows) == (statuses[check.id], 0), check.id


@pytest.mark.exhaustive(seconds=15)
def test_a_table_of_which_nothing_was_accepted_is_no_pass_and_wedges_nobody(spark, settings):
    quarantined = SENSORS.model_copy(update={"checks": readings(checks=[{"check": "row_count", "min": 5}]).checks})
    path = land(settings, 1, ["a,north"], header="id,site")
    (path.parent.parent / "sensors").mkdir()
    path.rename(path.parent.parent / "sensors" / path.name)
    heal(spark, settings, [1], quarantined)
    land_readings(settings, 1, ["a"])
    decision = decide_day(spark, settings, 1, spec())
    assert decision.verdict == "quarantined"
    assert [(r.check, r.status) for r in decision.reasons] == [("known_sensor", "error")]
    (stored,) = logs.decisions(settings, "readings", evidence=True)
    again = replay(runner(spark, settings, spec()), stored)
    assert (again.verdict, again.checks) == (stored.verdict, stored.checks)


def test_a_replay_gives_the_same_verdict_after_the_reference_table_changed(spark, settings):
    sensors(spark, settings, 1, "ab")
    land_readings(settings, 1, ["a", "x"])
    quarantined = decide_day(spark, settings, 1, spec(threshold=1.0))
    assert (quarantined.verdict, quarantined.inputs) == ("quarantined", {"silver_sensors": 1})
    sensors(spark, settings, 2, "abx")

    again = replay(runner(spark, settings, spec(threshold=1.0)), quarantined)
    assert (again.verdict, again.counts, again.checks) == (quarantined.verdict, quarantined.counts, quarantined.checks)

    run = runner(spark, settings, spec(threshold=1.0))
    released = release(run, window(1).start, None, waived=(), by="me", because="the sensor is known now")
    assert (released.verdict, released.inputs) == ("published", {"silver_sensors": 2})
    assert len(silver(settings)) == 2


@pytest.mark.exhaustive(seconds=15)
def test_a_recovery_uses_the_reference_version_of_the_decision(spark, settings):
    sensors(spark, settings, 1, "ab")
    land_readings(settings, 1, ["a", "x"])

    def stop(step: str) -> None:
        if step == "log_done":
            raise Killed

    run = runner(spark, settings, spec(), stop)
    extract(run, [window(1)])
    with pytest.raises(Killed):
        publish(run, [window(1)])
    sensors(spark, settings, 2, "x")

    publish(runner(spark, settings, spec()), [window(1)])
    (decision,) = ledger.current_decisions(logs.decisions(settings, "readings", evidence=True)).values()
    assert (decision.counts.rows_published, decision.counts.rows_quarantined) == (1, 1)
    assert [row["sensor"] for row in silver(settings)] == ["a"]
    proof = rebuild(runner(spark, settings, spec()))
    assert (proof.gained, proof.lost) == (0, 0)


NOTHING = {
    # the check: how many groups there are on a day without clean rows, and how many differ
    "counts": ({"measure": "count(*)", "against": "count(*)"}, 1, 1),
    "null_is_not_0": ({"measure": "sum(hour)", "against": "max(length(site)) - 5"}, 1, 1),
    "null_is_null": ({"measure": "sum(hour)", "against": "max(nullif(length(site), 5))"}, 1, 0),
    "zero_is_zero": ({"measure": "count(*)", "against": "count(nullif(site, 'north'))"}, 1, 0),
    "by_group": ({"measure": "count(*)", "against": "count(*)", "by": {"sensor": "id"}}, 0, 0),
}


@pytest.mark.exhaustive(seconds=10)
def test_a_batch_without_clean_rows_is_reconciled(spark, settings):
    """Beside a window that has some. The sensors are two, both in the north."""
    sensors(spark, settings, 1, "ab")
    land_readings(settings, 1, [])
    land(settings, 2, ["a,1,many,2024-01-02T00:00:00Z"])
    land_readings(settings, 3, ["a", "b"])
    checks = [{"check": "reconcile", "table": "sensors", "name": name, **more} for name, (more, _, _) in NOTHING.items()]
    decisions = heal(spark, settings, [1, 2, 3], readings(checks=checks)).current
    for name, (more, groups, differing) in NOTHING.items():
        outcomes = {day: next(c for c in decisions[window(day)].checks if c["check"] == name) for day in (1, 2, 3)}
        for day in (1, 2):
            assert (outcomes[day]["observed"]["groups"], outcomes[day]["observed"]["differing"]) == (groups, differing), name
            assert outcomes[day]["status"] == ("failed" if differing else "passed"), name
            assert ("only sensors has" in outcomes[day]["observed"]["compared"]) == ("by" in more)
        assert outcomes[3]["observed"]["groups"] == (2 if "by" in more else 1)
    assert decisions[window(1)].verdict == decisions[window(2)].verdict == "quarantined"


FIGURES = {
    # the check: its groups that differ
    "by_group": ({"measure": "count(*)", "against": "count(*)", "by": {"sensor": "id"}}, ["x"]),
    "of_all": ({"measure": "count(distinct sensor)", "against": "count(*)"}, ["all"]),
    "tolerated": ({"measure": "count(distinct sensor)", "against": "count(*)", "tolerance": 0.5}, []),
    "sums": ({"measure": "sum(hour)", "against": "count(*)", "by": {"sensor": "id"}, "tolerance": 3}, ["x"]),
    "fractions": ({"measure": "max(0.1D) + max(0.2D)", "against": "max(0.3D)", "by": {"sensor": "id"}}, ["x"]),
    "no_number": ({"measure": "sum(hour)", "against": "max(cast('NaN' as double))"}, ["all"]),
    "infinite": ({"measure": "sum(hour)", "against": "max(cast('Infinity' as double))"}, ["all"]),
    "both_no_number": ({"measure": "max(cast('NaN' as double))", "against": "max(cast('NaN' as double))"}, ["all"]),
    "texts": ({"measure": "max(value)", "against": "max(site)", "by": {"upper(sensor)": "upper(id)"}}, ["error"]),
}


@pytest.mark.exhaustive(seconds=12)
def test_a_figure_of_each_group(spark, settings):
    """Of a to c in sensors the batch has a, b and x, once each."""
    sensors(spark, settings, 1, "abcd")
    land_readings(settings, 1, ["a", "b", "x"])
    parameters = {"check": "reconcile", "table": "sensors", "severity": "warning"}
    checks = [{**parameters, "name": name, **more} for name, (more, _) in FIGURES.items()]
    decision = decide_day(spark, settings, 1, readings(checks=checks))
    for name, (_, differing) in FIGURES.items():
        (outcome,) = [c for c in decision.checks if c["check"] == name]
        if differing == ["error"]:
            assert outcome["status"] == "error", "text cannot be subtracted from a number: not a pass"
            continue
        assert outcome["observed"]["differing"] == len(differing), name
        assert outcome["status"] == ("failed" if differing else "passed")
        if differing == ["x"]:
            assert '"x"' in outcome["observed"]["worst"]


IN_WINDOW = "p_extracted_at >= :window_start and p_extracted_at < :window_end"
BOTH_WAYS = {
    # the check: of each day, how many groups there are, how many differ, and how many only the other table has
    "whole": ({"by": {"sensor": "id"}, "against_where": "true"}, {1: (5, 3, 2), 2: (4, 4, 4), 3: (4, 3, 3)}),
    "some": ({"by": {"sensor": "id"}, "against_where": "id < 'c'"}, {1: (3, 1, 0), 2: (2, 2, 2), 3: (2, 1, 1)}),
    "window": ({"by": {"sensor": "id"}, "against_where": IN_WINDOW}, {1: (5, 3, 2), 2: (0, 0, 0), 3: (1, 1, 0)}),
    "by_window": (
        {"by": {"p_extracted_at": "p_extracted_at", "sensor": "id"}},
        {1: (5, 3, 2), 2: (0, 0, 0), 3: (1, 1, 0)},
    ),
    "one_figure": ({"against_where": "id <> 'd'"}, {1: (1, 0, 0), 2: (1, 1, 0), 3: (1, 1, 0)}),
    "one_of_window": ({"against_where": IN_WINDOW}, {1: (1, 1, 0), 2: (1, 0, 0), 3: (1, 1, 0)}),
    "null": (
        {"by": {"nullif(sensor, 'b')": "nullif(id, 'a')"}, "against_where": "id = 'a'"},
        {1: (3, 2, 0), 2: (1, 1, 1), 3: (2, 2, 1)},
    ),
}


@pytest.mark.exhaustive(seconds=20)
def test_a_group_that_only_the_other_table_has_differs_where_it_is_the_windows(spark, settings):
    """Of a to d, all extracted on day 1, day 1 has a, b and x, day 2 has no row, and day 3 has a."""
    sensors(spark, settings, 1, "abcd")
    for day, names in ((1, "abx"), (2, ""), (3, "a")):
        land_readings(settings, day, list(names))
    parameters = {"check": "reconcile", "table": "sensors", "measure": "count(*)", "against": "count(*)", "severity": "warning"}
    checks = [{**parameters, "name": name, **more} for name, (more, _) in BOTH_WAYS.items()]
    decisions = heal(spark, settings, [1, 2, 3], readings(checks=checks)).current
    for name, (_, wanted) in BOTH_WAYS.items():
        for day, (groups, differing, lacking) in wanted.items():
            (outcome,) = [c for c in decisions[window(day)].checks if c["check"] == name]
            assert outcome["status"] == ("failed" if differing else "passed"), (name, day, outcome)
            assert (outcome["observed"]["groups"], outcome["observed"]["differing"]) == (groups, differing), (
                name,
                day,
                outcome,
            )
            assert outcome["message"].endswith(f"{lacking} of them only sensors has") == bool(lacking), (name, day, outcome)
            assert "both ways" in outcome["observed"]["compared"]
    (null,) = [c for c in decisions[window(2)].checks if c["check"] == "null"]
    assert """'b')":null""" in null["observed"]["worst"], "a group without a value is said, too"
