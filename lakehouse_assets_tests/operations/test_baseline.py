"""What a person does to a baseline: pin, reset, seed, a release that teaches; and since when a run of windows has drifted.

Belongs here: operations on real tables, and law 3 after them. Does not: Dagster around them (orchestration), or statistics.
"""

import random
from datetime import UTC, datetime

import pytest

from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations import baseline, baseline_request
from lakehouse_assets.operations.baseline import SeedWindows
from lakehouse_assets.operations.release import release
from lakehouse_assets.operations.replay import replay
from lakehouse_assets.reports.baselines import feature_rows
from lakehouse_assets.storage import delta, logs
from lakehouse_assets_tests.support import heal, land, readings, runner, window

LEVELS = {"hold_at": 0.05, "hold_from": 20, "warn_at": 0.05, "warn_from": 20}
DRIFT = {**LEVELS, "sketch_k": 256, "lasting_at": 0, "remember": 40}
FEATURES = ["value", {"name": "site", "expr": "left(sensor, 1)"}]
REQUEST = {"by": "ann", "because": "the sensors were exchanged"}


def spec(**more):
    return readings(checks=[{"check": "not_empty"}], drift={**DRIFT, "features": FEATURES, **more})


def arrives(settings, days, shift=0.0):
    for day in days:
        dice = random.Random(day)
        rows = [f"s{n},{n % 24},{dice.gauss(10 + shift, 1):.4f},2024-01-{day:02d}T00:00:00Z" for n in range(200)]
        land(settings, day, rows)


def of(settings, day):
    return next(
        d
        for d in ledger.current_decisions(logs.decisions(settings, "readings", evidence=True)).values()
        if d.p_extracted_at == window(day).start
    )


def differing_fields(one, other):
    fields = ("verdict", "counts", "drift_p_value", "teaches", "drift", "profiles", "reasons")
    return [name for name in fields if getattr(one, name) != getattr(other, name)]


def find_replay_differences(spark, settings, table, *days) -> list[str]:
    """What differs, of every decision on these days, when it is made again from what it kept."""
    differences = []
    for decision in logs.decisions(settings, "readings", evidence=True):
        if decision.p_extracted_at in [window(day).start for day in days]:
            differences += differing_fields(replay(runner(spark, settings, table), decision), decision)
    return differences


@pytest.fixture(scope="module")
def elsewhere(spark, tmp_path_factory):
    """A Delta table of 24 days in the year before, 200 readings each, and its path."""
    path = str(tmp_path_factory.mktemp("elsewhere") / "old")
    sql = "timestampadd(HOUR, id % 24, timestampadd(DAY, cast(floor(id / 200) AS int), timestamp'2023-12-02')) AS taken"
    spark.range(4800).selectExpr("concat('s', id % 7) AS sensor", "10 + randn(4) AS value", sql).write.format("delta").save(
        path
    )
    return path


@pytest.mark.exhaustive(seconds=15)
def test_a_seeded_table_judges_its_first_window_by_the_seed(spark, settings, elsewhere):
    table = spec(cold_start="stop")
    arrives(settings, [1])
    arrives(settings, [2], shift=5)
    with pytest.raises(RefusedError, match="no column p_extracted_at; it has sensor, value, taken; name the column"):
        baseline.seed(runner(spark, settings, table), elsewhere, SeedWindows.of_table(table, None), **REQUEST)
    decision = baseline.seed(runner(spark, settings, table), elsewhere, SeedWindows.of_table(table, "taken"), **REQUEST)
    assert {name: decision.extra[name] for name in ("windows", "rows", "column")} == {
        "windows": 24,
        "rows": 4800,
        "column": "taken",
    }
    heal(spark, settings, [1, 2], table)
    assert [of(settings, day).verdict for day in (1, 2)] == ["published", "quarantined"]
    assert of(settings, 1).drift["windows_known"] == 24
    with pytest.raises(RefusedError, match="seeded already"):
        baseline.seed(runner(spark, settings, table), elsewhere, SeedWindows.of_table(table, "taken"), **REQUEST)
    assert find_replay_differences(spark, settings, table, 1, 2) == []
    shown = baseline.read_baseline_version(settings, table, None)
    assert (len(shown.entries), sum(entry.seeded for entry in shown.entries), shown.version) == (25, 24, 2)
    rows = {row["feature"]: row for row in feature_rows(shown.state.baseline, [entry.measured for entry in shown.entries])}
    assert (rows["value"]["rows"], rows["value"]["windows"]) == (5000, 25)
    assert rows["value"]["mean"] == pytest.approx(10, abs=0.1)
    assert rows["site"]["categories"] == {"s": 1.0}
    baseline.reset(runner(spark, settings, table), **REQUEST)
    assert baseline.read_baseline_version(settings, table, None).entries == []
    assert len(baseline.read_baseline_version(settings, table, 1).entries) == 25
    baseline.seed(runner(spark, settings, table), elsewhere, SeedWindows.of_table(table, "taken"), **REQUEST)
    assert find_replay_differences(spark, settings, table, 1, 2) == []


def test_a_seed_keeps_the_newest_windows_of_the_tables_own_cadence(spark, settings, elsewhere):
    drift = {**DRIFT, "features": ["value"]}
    source = {"kind": "files", "path": "readings/{window:%Y-%m-%d-%H}.csv", "format": "csv"}
    hourly = readings(drift=drift, source=source, extraction={"cadence": "hourly", "start": datetime(2024, 1, 1, tzinfo=UTC)})
    decision = baseline.seed(runner(spark, settings, hourly), elsewhere, SeedWindows.of_table(hourly, "taken"), **REQUEST)
    assert decision.extra["windows"] == 40
    entries = baseline.read_baseline_version(settings, hourly, None).entries
    assert entries[-1].window == datetime(2023, 12, 25, 23, tzinfo=UTC)
    start = datetime(2024, 1, 3, tzinfo=UTC)
    by_sensor = {**drift, "features": [{"name": "value", "by": "sensor"}]}
    weekly = readings(name="weekly", drift=by_sensor, extraction={"cadence": "weekly", "start": start})
    decision = baseline.seed(runner(spark, settings, weekly), elsewhere, SeedWindows.of_table(weekly, "taken"), **REQUEST)
    assert decision.extra["rows"] == 4800
    starts = [entry.window for entry in baseline.read_baseline_version(settings, weekly, None).entries]
    assert starts == [datetime(2023, *day, tzinfo=UTC) for day in ((11, 29), (12, 6), (12, 13), (12, 20))]


@pytest.mark.parametrize(
    ("features", "source", "column", "message"),
    [
        (["value"], "nowhere", "taken", "no Delta table"),
        (["value", "hour"], None, "taken", "has no column hour"),
        (["value"], None, "sensor", "sensor is a string"),
        ([{"name": "v", "expr": "1 / (value - value)"}], None, "taken", "cannot be measured: .*DIVIDE_BY_ZERO"),
        ([{"name": "v", "expr": "value", "by": "value"}], None, "taken", "more than 64 strata"),
    ],
)
def test_invalid_seeds_are_refused(spark, settings, elsewhere, features, source, column, message):
    table = spec(features=features)
    with pytest.raises(RefusedError, match=message):
        baseline.seed(runner(spark, settings, table), source or elsewhere, SeedWindows.of_table(table, column), **REQUEST)
    assert not delta.exists(settings.path("ops", "baselines"))


def test_operations_without_a_baseline_are_refused(spark, settings):
    run = runner(spark, settings, spec())
    for operation, message in (
        (baseline_request.pin, "nothing to pin"),
        (baseline_request.unpin, "not pinned"),
        (baseline.reset, "nothing to forget"),
    ):
        with pytest.raises(RefusedError, match=message):
            operation(run, **REQUEST)
    with pytest.raises(RefusedError, match="declares no drift"):
        baseline_request.pin(runner(spark, settings, readings()), **REQUEST)


@pytest.mark.exhaustive(seconds=20)
def test_a_pinned_baseline_stops_learning_beyond_its_bound(spark, settings):
    """Twelve days, pinned; then days that are further and further off are let through, until the baseline has moved too far."""
    table = spec(max_shift=0.15, hold_at=0.02, hold_from=50, remember=60)
    arrives(settings, range(1, 13))
    heal(spark, settings, range(1, 13), table)
    baseline_request.pin(runner(spark, settings, table), **REQUEST)
    for day in range(13, 28):
        arrives(settings, [day], shift=(day - 12) * 0.2)
    heal(spark, settings, range(13, 28), table)
    joins_baseline = [of(settings, day).teaches for day in range(1, 28)]
    assert all(joins_baseline[:14])
    assert not any(joins_baseline[-3:])
    stopped = of(settings, 1 + joins_baseline.index(False))
    assert stopped.accepted
    assert stopped.drift["learns"] is False
    assert "pinned" in stopped.drift["message"]
    assert find_replay_differences(spark, settings, table, 12, 27) == []
    baseline_request.unpin(runner(spark, settings, table), **REQUEST)
    arrives(settings, [28])
    heal(spark, settings, [28], table)
    assert of(settings, 28).teaches


@pytest.mark.exhaustive(seconds=30)
def test_a_release_states_whether_it_joins_the_baseline_and_drift_states_its_start(spark, settings):
    table = spec()
    arrives(settings, range(1, 22))
    arrives(settings, range(22, 27), shift=3)
    heal(spark, settings, range(1, 22), table)
    heal(spark, settings, [22, 23], table)
    heal(spark, settings, [24, 25, 26], table)
    quarantined_decisions = [of(settings, day) for day in range(22, 27)]
    assert {decision.verdict for decision in quarantined_decisions} == {"quarantined"}
    assert [decision.drift["since"] and decision.drift["since"][:10] for decision in quarantined_decisions] == [
        None,
        *["2024-01-22"] * 4,
    ]
    assert "since 2024-01-22" in quarantined_decisions[-1].drift["message"]
    request = {"waived": ["drift"], "by": "ann", "because": "so it is now"}
    assert not release(runner(spark, settings, table), window(22).start, None, **request).teaches
    released = release(runner(spark, settings, table), window(23).start, None, **request, teach=True)
    assert (released.teaches, released.accepted) == (True, True)
    assert not release(runner(spark, settings, table), window(24).start, None, **request, teach=False).teaches
    entries = baseline.read_baseline_version(settings, table, None).entries
    assert [entry.window.day for entry in entries] == [*range(1, 22), 23]
    assert find_replay_differences(spark, settings, table, 23, 24) == []


def test_a_cold_start_that_stops_ends_with_a_release_that_joins_the_baseline(spark, settings):
    table = spec(cold_start="stop")
    arrives(settings, [1, 2])
    heal(spark, settings, [1, 2], table)
    assert [of(settings, day).verdict for day in (1, 2)] == ["quarantined", "quarantined"]
    assert "lakehouse baseline seed" in of(settings, 1).drift["message"]
    decision = release(runner(spark, settings, table), window(1).start, None, waived=["drift"], by="a", because="b", teach=True)
    assert (decision.accepted, decision.teaches) == (True, True)
    again = release(runner(spark, settings, table), window(2).start, None, waived=[], by="a", because="b")
    assert (again.accepted, again.teaches, again.drift["status"]) == (True, True, "uncalibrated")
    assert find_replay_differences(spark, settings, table, 2) == []
