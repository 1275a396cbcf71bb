"""Checks tried on real data: what they say, where they look, and that nothing is left behind.

Belongs here: trials, backtests and proposals on real Delta. Does not: the commands (test_cli), the gate.
"""

import random
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.decisions.decide import JudgementRequest
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations.dry_run import try_checks, with_check
from lakehouse_assets.operations.suggest import suggest, try_proposals
from lakehouse_assets.pipeline.gate import JUDGING, hold_lock, run_steps
from lakehouse_assets.pipeline.silver import SilverTarget
from lakehouse_assets.storage import delta, logs
from lakehouse_assets_tests.support import copy_lake, heal, lake_settings, land, readings, rows_of, runner, window

ANY = TypeAdapter(AnyCheck)


def check(**parameters):
    return ANY.validate_python(parameters)


def days(settings, values, first=1, count=3):
    for hour, value in enumerate(values):
        day = first + hour
        land(settings, day, [f"s{n},{n},{value},2024-01-{day:02d}T00:00:00Z" for n in range(count)])


def files(root) -> dict[str, int]:
    """Every file below a folder, with the time of its last change."""
    return {str(f): f.stat().st_mtime_ns for f in Path(root).rglob("*") if f.is_file() and "_locks" not in f.parts}


def run_trial(spark, settings, one, over, layer="bronze", spec=None):
    trial = try_checks(runner(spark, settings, spec), [one], [window(day) for day in over], layer)
    return [(t.window.start.day, t.rows, t.outcome.status, t.would_quarantine) for t in trial.outcomes], trial


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    settings = lake_settings(tmp_path_factory.mktemp("dry_run") / "lake")
    days(settings, [10, 20, 90])
    heal(spark, settings, [1, 2, 3])
    return settings


@pytest.fixture
def lake(template, tmp_path):
    return copy_lake(template, tmp_path)


SMALL = {"check": "in_range", "column": "value", "max": 50, "name": "small"}


@pytest.mark.parametrize("waived", [(), ("small",)], ids=["", "waived"])
@pytest.mark.parametrize("severity", ["critical", "warning"])
def test_rows_that_stay_are_shown_as_those_that_leave(spark, lake, severity, waived):
    """By a warning, or by an override; alone, and beside a check whose rows leave."""
    alone = readings(checks=[SMALL | {"severity": severity}])
    beside = readings(checks=[SMALL | {"severity": severity}, SMALL | {"name": "tiny", "max": 15}])
    for spec, expected in ((alone, {"small"}), (beside, {"small", "tiny"})):
        target = SilverTarget(runner(spark, lake, spec), records=[logs.extractions(lake, "readings")[-1]])
        target.request = JudgementRequest(waived=waived)
        with hold_lock(target.run):
            run_steps(target, JUDGING)
        assert target.samples == {name: ["2024-01-03 00:00: 90.0"] for name in sorted(expected)}


def test_a_dry_run_lists_the_windows_a_new_check_would_quarantine(spark, lake):
    before = files(lake.root)
    outcomes, trial = run_trial(spark, lake, check(**SMALL), [1, 2, 3, 4])
    assert outcomes == [(1, 3, "passed", "nothing"), (2, 3, "passed", "nothing"), (3, 3, "failed", "3 row(s)")]
    assert trial.samples == {"small": ["2024-01-03 00:00: 90.0"]}
    assert [t.current.verdict for t in trial.outcomes if t.current] == ["published"] * 3
    outcomes, _ = run_trial(spark, lake, check(**SMALL, threshold=0.5), [1, 3])
    assert outcomes == [(1, 3, "passed", "nothing"), (3, 3, "failed", "the window")]
    assert files(lake.root) == before


def test_a_non_blocking_check_with_its_own_query_is_tried_too(spark, lake):
    one = check(check="distinct_count", columns=["sensor"], max=2, severity="warning")
    assert run_trial(spark, lake, one, [1, 2])[0] == [(1, 3, "failed", "nothing"), (2, 3, "failed", "nothing")]


def test_before_extraction_and_after_publication(spark, lake):
    days(lake, [60], first=4)
    with pytest.raises(RefusedError, match="is in bronze"):
        run_trial(spark, lake, check(**SMALL), [4])
    before = files(lake.root)
    assert run_trial(spark, lake, check(**SMALL), [4, 5], "source")[0] == [(4, 3, "failed", "3 row(s)")]
    with pytest.raises(RefusedError, match="has landed"):
        run_trial(spark, lake, check(**SMALL), [5], "source")
    with pytest.raises(RefusedError, match="is published"):
        run_trial(spark, lake, check(**SMALL), [4], "silver")
    # Of days 1 and 2 nothing is left in silver: day 3 wrote the same keys.
    assert run_trial(spark, lake, check(**SMALL), [1, 2, 3], "silver")[0] == [
        (1, 0, "passed", "nothing"),
        (2, 0, "passed", "nothing"),
        (3, 3, "failed", "3 row(s)"),
    ]
    mean = check(check="statistic", column="value", of="mean", max=50)
    assert run_trial(spark, lake, mean, [3], "silver")[0] == [(3, 3, "failed", "the window")]
    assert files(lake.root) == before


def test_a_backtest_uses_its_own_history(spark, settings):
    days(settings, [10, 11, 12, 50, 11, 60])
    heal(spark, settings, range(1, 7))
    one = check(check="anomaly", sql="avg(value)", least=3)
    outcomes, trial = run_trial(spark, settings, one, range(1, 7))
    assert [status for _, _, status, _ in outcomes] == ["skipped"] * 3 + ["failed", "passed", "failed"]
    assert [t.outcome.observed["windows"] for t in trial.outcomes[3:]] == [3, 3, 4]
    ratio = check(check="row_count_ratio", max=2, least=3)
    assert {status for _, _, status, _ in run_trial(spark, settings, ratio, range(4, 7))[0]} == {"passed"}


@pytest.mark.exhaustive(seconds=18)
def test_an_error_is_reported_in_its_window_and_check_alone(spark, lake):
    divides = check(check="expression", name="divides", expr="100 / (value - 20) > 0")
    outcomes, trial = run_trial(spark, lake, divides, [1, 2, 3])
    assert [status for _, _, status, _ in outcomes] == ["failed", "error", "passed"]
    assert "DIVIDE_BY_ZERO" in trial.outcomes[1].outcome.message
    spec = with_check(readings(), divides)
    assert [s for _, _, s, _ in run_trial(spark, lake, check(**SMALL), [1, 2, 3], spec=spec)[0]] == [
        "passed",
        "passed",
        "failed",
    ]


def test_errors_are_reported_by_check_and_quote_nothing_personal(spark, settings):
    columns = {"sensor": {"type": "string", "pii": True}, "hour": "int", "value": "double", "updated": "timestamp"}
    spec = readings(columns=columns)
    days(settings, [10])
    heal(spark, settings, [1], spec)
    casts = check(check="expression", name="casts_it", expr="cast(sensor as int) > 0")
    run = runner(spark, settings, spec)
    trial = try_checks(run, [casts, check(**SMALL), check(check="row_count", min=9, name="many")], [window(1)])
    outcomes = {t.outcome.check: t.outcome for t in trial.outcomes}
    assert {name: o.status for name, o in outcomes.items()} == {"casts_it": "error", "small": "passed", "many": "failed"}
    assert outcomes["casts_it"].message.startswith("[CAST_INVALID_INPUT] (masked: pii)")


def test_checks_with_a_history_are_refused_on_silver(spark, lake):
    with pytest.raises(RefusedError, match="look at windows as they came"):
        run_trial(spark, lake, check(check="row_count_ratio", min=0.5), [3], "silver")


def test_dependencies_are_judged_first(spark, lake):
    spec = with_check(readings(), check(check="in_range", column="value", max=15, name="first"))
    one = check(**SMALL, depends_on=["first"])
    assert run_trial(spark, lake, one, [3], spec=spec)[0] == [(3, 3, "passed", "nothing")]


def test_the_table_must_be_able_to_have_it():
    with pytest.raises(ValidationError, match="no column 'valeu'"):
        with_check(readings(), check(check="not_null", column="valeu"))
    replaced = with_check(readings(), check(check="in_range", column="value", max=5, name="in_range_value"))
    assert [c.id for c in replaced.checks] == ["not_empty", "in_range_value"]


def test_personal_values_are_masked(spark, settings):
    columns = {"sensor": {"type": "string", "pii": True}, "hour": "int", "value": "double", "updated": "timestamp"}
    spec = readings(columns=columns)
    days(settings, [10])
    heal(spark, settings, [1], spec)
    _, trial = run_trial(spark, settings, check(check="in_set", column="sensor", values=["x"]), [1], spec=spec)
    assert "s1" not in str(trial.samples)
    assert trial.outcomes[0].outcome.failed_rows == 3


@pytest.mark.exhaustive(seconds=15)
def test_suggested_checks_pass(spark, settings):
    columns = {
        "sensor": "string", "hour": "int", "value": "double", "updated": "timestamp",
        "code": "string", "note": "string", "who": {"type": "string", "pii": True}, "free": "string",
        "again": {"type": "string", "from": "who"},
    }  # fmt: skip
    spec = readings(columns=columns, checks=[{"check": "not_null", "column": "code"}])
    for day in range(1, 7):
        rows = [
            f"s{n},{n},{13 + n * 4},2024-01-{day:02d}T00:00:00Z,"
            f"{'ABC'[n % 3]}X,{'NA' if n % 10 == 0 else 'x' * n},ann{n},t{n:03d}"
            for n in range(22)
        ]
        land(settings, day, [f"{day}{row}" for row in rows], header=",".join(name for name in columns if name != "again"))
    heal(spark, settings, range(1, 7), spec)
    before = files(settings.root)
    proposed = [p.check for p in suggest(runner(spark, settings, spec))]
    assert {"check": "in_set", "column": "code", "values": ["AX", "BX", "CX"]} in proposed
    assert {"check": "in_range", "column": "value", "min": 0, "max": 120, "severity": "warning"} in proposed
    assert {"check": "null_share", "column": "note", "max": 0.273, "severity": "warning"} in proposed
    assert {"check": "matches", "column": "free", "pattern": "^[a-z][0-9]{3}$", "severity": "warning"} in proposed
    assert {"check": "not_null", "column": "who"} in proposed
    assert {"check": "row_count_ratio", "min": 0.8, "max": 1.2, "severity": "warning"} in proposed
    named = [p.get("column") for p in proposed]
    assert "ann" not in str(proposed)
    assert ("not_null", "code") not in [(p["check"], p.get("column")) for p in proposed], "it is declared"
    assert "sensor" not in [p["column"] for p in proposed if p["check"] == "not_null"], "the key is checked anyway"
    assert len(named) == len(proposed)
    # Each can be declared, and every window that is published bears it.
    for one in proposed:
        trial = try_checks(runner(spark, settings, spec), [check(**one)], [window(day) for day in range(1, 7)])
        assert {t.outcome.status for t in trial.outcomes} <= {"passed", "skipped"}, one
    assert files(settings.root) == before
    assert len(logs.decisions(settings, "readings")) == 6


@pytest.mark.exhaustive(seconds=12)
def test_suggestions_use_the_profiles_of_every_window(spark, settings):
    drift = {"features": [{"name": "value", "by": "hour"}]}
    for day, value in enumerate(("-50", "20", "NA", "30"), 1):
        land(settings, day, [f"s{n},{n % 3},{value if n < 30 else 25},2024-01-{day:02d}T00:00:00Z" for n in range(120)])
    spec = readings(checks=[], drift=drift)
    run = runner(spark, settings, spec)
    heal(spark, settings, [1, 2, 3], spec)
    heal(spark, settings, [4], spec)
    # All four wrote the same keys: what day 1 had is in no row of silver.
    assert {row["value"] for row in rows_of(settings.path("silver", "readings"))} == {25.0, 30.0}
    proposed = {(p.check["check"], p.check.get("column")): (p.check, p.because) for p in suggest(run)}
    check, because = proposed["in_range", "value"]
    assert (check["min"], check["max"]) == (-70, 50)
    assert because == "seen from -50 to 30 in 4 windows"
    # A quarter of day 3 had none.
    assert proposed["null_share", "value"] == (
        {"check": "null_share", "column": "value", "max": 0.3, "severity": "warning"},
        "6.25% are NULL in 4 windows",
    )
    # Of a feature of another meaning, the windows so far have no profile: then silver is looked at.
    later = runner(spark, settings, readings(checks=[], drift={"features": ["value"]}))
    assert "seen from 25 to 30" in [p.because for p in suggest(later) if p.check.get("column") == "value"]


@pytest.mark.exhaustive(seconds=6)
def test_nothing_is_proposed_of_little(spark, settings):
    with pytest.raises(RefusedError, match="no silver table yet"):
        suggest(runner(spark, settings))
    days(settings, [1])
    heal(spark, settings, [1])
    assert delta.exists(settings.path("silver", "readings"))
    with pytest.raises(RefusedError, match="3 rows; at least 100"):
        suggest(runner(spark, settings))


@pytest.mark.exhaustive(seconds=60)
def test_suggested_checks_flag_few_new_windows(spark, settings):
    """Proposals of 20 windows, judged on 10 more of the same distribution: at most one of twenty, as it is stated."""
    rng = random.Random(24)
    columns = {"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp", "code": "string", "rare": "string"}
    spec = readings(columns=columns, checks=[])

    def land_days(over):
        for day in over:
            # Two windows of three have a word of their own.
            texts = ["usual", "usual", f"word{day}" if day % 3 else "usual"]
            rows = [
                f"d{day}s{n},{n},{rng.gauss(20, 5):.3f},2024-01-{day:02d}T00:00:00Z,"
                f"{rng.choice('ABC')}{rng.randint(10**3, 10**6)}-x,{rng.choice(texts)}"
                for n in range(40 + rng.randint(0, 8))
            ]
            rows = [row if rng.random() > 0.03 else row.replace(",usual", ",NA") for row in rows]
            land(settings, day, rows, ",".join(columns))
        heal(spark, settings, over, spec)

    land_days(range(1, 21))
    run = runner(spark, settings, spec)
    proposed = try_proposals(run, suggest(run))
    kinds = {(p.check["check"], p.check.get("column")) for p in proposed}
    assert {("matches", "code"), ("in_range", "value"), ("null_share", "rare")} <= kinds
    kept_proposals = [p for p in proposed if not p.flags_too_many]
    # The words of single windows make a list that the next window breaks.
    assert ("in_set", "rare") not in {(p.check["check"], p.check.get("column")) for p in kept_proposals}
    land_days(range(21, 31))
    checks = [check(**p.check) for p in kept_proposals]
    outcomes = try_checks(runner(spark, settings, spec), checks, [window(day) for day in range(21, 31)]).outcomes
    assert len(outcomes) == 10 * len(checks)
    flagged = [each.outcome.check for each in outcomes if each.outcome.status in ("failed", "error")]
    assert len(flagged) <= len(outcomes) / 20, flagged
