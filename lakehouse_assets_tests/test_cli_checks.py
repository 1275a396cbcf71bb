"""`lakehouse check run|backtest|suggest|rehearse` on a small lake: what they print, and the codes they end with.

Belongs here: the commands that start Spark. Does not: the others (test_cli), or what a dry run is (operations/test_dry_run).
"""

import json
from types import SimpleNamespace

import pytest
import yaml
from pydantic import TypeAdapter
from typer.testing import CliRunner

from lakehouse_assets import cli
from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.cli import common
from lakehouse_assets.cli.checks import add_to_file
from lakehouse_assets.contracts.document import read_documents
from lakehouse_assets.contracts.source_map import SourceMap
from lakehouse_assets.decisions.rehearsal import CleanSummary, FaultSummary, Rehearsal
from lakehouse_assets.errors import CheckFailedError, ConfigError, RefusedError
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.jobs.dry_run import gold_run
from lakehouse_assets.pipeline.gold import publish_gold
from lakehouse_assets_tests.support import copy_lake, heal, lake_settings, land, readings

FAR = "{check: in_range, column: value, max: 50}"


GOLD = {
    "name": "sensors",
    "sql": "sensors.sql",
    "key": ["sensor"],
    "checks": [{"check": "in_range", "column": "most", "max": 100, "name": "most_fits"}],
}


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """Three windows."""
    settings = lake_settings(tmp_path_factory.mktemp("checks") / "lake")
    for day, value in ((1, 10), (2, 20), (3, 90)):
        land(settings, day, [f"s{n},{n},{value},2024-01-{day:02d}T00:00:00Z" for n in range(40)])
    heal(spark, settings, [1, 2, 3])
    return settings


@pytest.fixture
def lake(template, monkeypatch, tmp_path):
    settings = copy_lake(template, tmp_path)
    (tmp_path / "sensors.sql").write_text("select sensor, max(value) as most from silver_readings group by sensor")
    table = LakehouseTable(readings(gold=[GOLD]), tmp_path)
    monkeypatch.setenv("LAKEHOUSE_ROOT", settings.root)
    monkeypatch.setenv("LAKEHOUSE_LANDING", settings.landing)
    monkeypatch.setattr(common, "select_tables", lambda *_: [table])
    return settings


def run(*arguments):
    return CliRunner().invoke(cli.app, ["check", *arguments])


def test_check_run_judges_the_newest_window_and_sets_the_exit_code(lake):
    good = run("run", "readings", "in_range_value")
    assert good.exit_code == 0, good.output
    assert "2024-01-03" in good.output
    assert "2024-01-02" not in good.output
    bad = run("run", "readings", FAR, "--window", "2024-01-02..2024-01-03", "--json")
    assert isinstance(bad.exception, CheckFailedError)
    assert bad.exception.exit_code == 8
    assert "failed in 1 of 2 window(s)" in str(bad.exception)
    listed = json.loads(bad.stdout)
    assert [(r["window"], r["status"], r["failed rows"], r["would hold"]) for r in listed] == [
        ("2024-01-02", "passed", 0, "nothing"),
        ("2024-01-03", "failed", 40, "40 row(s)"),
    ]
    assert listed[1]["observed"]["failed"] == 40
    assert listed[1]["samples"] == ["2024-01-03 00:00: 90.0"]
    assert run("run", "readings", FAR, "--window", "2024-01-03", "--on", "silver").exception.exit_code == 8
    skipped = run("run", "readings", "{check: row_count_ratio, min: 0.5}")
    assert skipped.exception.exit_code == 8
    assert "skipped in 1 of 1" in str(skipped.exception)


@pytest.mark.parametrize(
    ("check", "error", "message"),
    [
        ("nope", RefusedError, "readings has no check 'nope'; there are not_empty, in_range_value"),
        ("{check: nope}", ConfigError, "--check"),
        ("{check: not_null, column: valeu}", ConfigError, "no column 'valeu'"),
        ("{check: length, column: sensor}", ConfigError, "length needs min, max or both"),
        ("{check: not_null, column: &x sensor}", ConfigError, "anchor &x is not allowed"),
        ("{check: not_null", ConfigError, "--check:1"),
        ("{check: expression, expr: \"reflect('java.lang.System', 'exit', 1)\"}", ConfigError, "reflect is not allowed"),
    ],
)
def test_an_unknown_check_is_refused(lake, check, error, message):
    refused = run("run", "readings", check)
    assert isinstance(refused.exception, error), refused.output
    assert message in str(refused.exception)


def test_the_newest_window_depends_on_the_layer(lake):
    (lake_table,) = common.select_tables()
    land(lake, 4, ["s1,1,10,2024-01-04T00:00:00Z"])
    for layer, newest in (("source", "2024-01-04"), ("bronze", "2024-01-03"), ("silver", "2024-01-03")):
        (outcome,) = json.loads(run("run", lake_table.spec.name, "not_empty", "--on", layer, "--json").stdout)
        assert (layer, outcome["window"], outcome["status"]) == (layer, newest, "passed")


def test_check_run_reads_landed_files_before_any_extraction(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("LAKEHOUSE_ROOT", settings.root)
    monkeypatch.setenv("LAKEHOUSE_LANDING", settings.landing)
    monkeypatch.setattr(common, "select_tables", lambda *_: [LakehouseTable(readings(), tmp_path)])
    assert "none of these windows has landed" in str(run("run", "readings", "not_empty", "--on", "source").exception)
    for day in (1, 2):
        land(settings, day, [f"s1,1,10,2024-01-{day:02d}T00:00:00Z"])
    (outcome,) = json.loads(run("run", "readings", "not_empty", "--on", "source", "--json").stdout)
    assert (outcome["window"], outcome["rows"], outcome["status"]) == ("2024-01-02", 1, "passed")


def test_an_unknown_window_is_refused(lake):
    assert "keys look like 2024-01-01" in str(run("run", "readings", "not_empty", "--window", "yesterday").exception)
    assert "is in bronze" in str(run("run", "readings", "not_empty", "--window", "2024-01-09").exception)


def test_a_published_gold_table(spark, lake):
    assert "gold_sensors has never been published" in str(run("run", "gold_sensors", "most_fits").exception)
    (table,) = common.select_tables()
    publish_gold(gold_run([table], "gold_sensors", settings=lake, session=lambda: spark, run_id="gold"))
    good = run("run", "gold_sensors", "most_fits")
    assert good.exit_code == 0, good.output
    assert "whole table" in good.output
    bad = run("run", "gold_sensors", "{check: in_range, column: most, max: 50}", "--json")
    assert bad.exception.exit_code == 8
    assert str(bad.exception) == "in_range_most: failed in gold_sensors"
    (outcome,) = json.loads(bad.stdout)
    assert (outcome["rows"], outcome["failed rows"], outcome["would hold"]) == (40, 40, "40 row(s)")
    assert len(outcome["samples"]) == 1, "each value once"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("run", "gold_nope", "most_fits"), RefusedError, "there is no gold table 'gold_nope'; there are gold_sensors"),
        (("run", "gold_sensors", "nope"), RefusedError, "gold_sensors has no check 'nope'; there are most_fits"),
        (("run", "gold_sensors", "{check: not_null, column: value}"), ConfigError, "no column value; it has sensor, most"),
        (("run", "gold_sensors", "{check: row_count_ratio, min: 1}"), ConfigError, "gold has no windows"),
        (("run", "gold_sensors", "most_fits", "--window", "2024-01-01"), RefusedError, "leave out --window and --on"),
        (("run", "gold_sensors", "most_fits", "--on", "silver"), RefusedError, "leave out --window and --on"),
        (("backtest", "gold_sensors", "--check", "most_fits"), RefusedError, "`lakehouse check run gold_sensors CHECK`"),
    ],
)
def test_check_run_refuses_window_options_for_gold(lake, arguments, error, message):
    refused = run(*arguments)
    assert isinstance(refused.exception, error), refused.output
    assert message in str(refused.exception)


def test_backtest(lake):
    result = run("backtest", "readings", "--check", FAR, "--json")
    assert result.exit_code == 0
    assert [(r["window"], r["would hold"], r["verdict then"]) for r in json.loads(result.stdout)] == [
        ("2024-01-01", "nothing", "published"),
        ("2024-01-02", "nothing", "published"),
        ("2024-01-03", "40 row(s)", "published"),
    ]
    short = run("backtest", "readings", "--check", FAR)
    assert "3 window(s), 1 not passed, 1 with rows quarantined" in short.output
    assert "passes in all 1 window(s)" in run("backtest", "readings", "--check", FAR, "--windows", "2024-01-01").output


def test_suggest_needs_a_hundred_rows(lake):
    # Days 1 and 2 wrote the same keys as day 3: silver has 40 rows.
    assert "at least 100 are needed" in str(run("suggest", "readings").exception)


def test_suggest(spark, lake, monkeypatch, tmp_path):
    for day in (4, 5, 6):
        land(lake, day, [f"s{n},{day * 100 + n},{n},2024-01-{day:02d}T00:00:00Z" for n in range(40)])
    heal(spark, lake, [4, 5, 6])
    result = run("suggest", "readings")
    assert result.exit_code == 0, result.output
    lines = [line for line in result.output.splitlines() if line.startswith("- ")]
    assert len(lines) > 2
    for (suggested,) in (yaml.safe_load(line) for line in lines):
        assert TypeAdapter(AnyCheck).validate_python(suggested)
    assert all("of 6 past windows" in line for line in lines)
    with pytest.raises(RefusedError, match="in no file; paste the checks by hand"):
        add_to_file(common.select_tables()[0], ["{check: not_empty}"])
    file = tmp_path / "defs.yaml"
    file.write_text("# Readings.\nattributes:\n  checks:\n    - {check: not_empty}  # always\n  key: [sensor, hour]\n")
    table = LakehouseTable(readings(), tmp_path, SourceMap(read_documents(file)[0]))
    monkeypatch.setattr(common, "select_tables", lambda *_: [table])
    listed = json.loads(run("suggest", "readings", "--apply", "--json").stdout)
    assert len([each for each in listed if not each["flags_too_many"]]) == len(lines)
    text = file.read_text()
    assert text.startswith("# Readings.\nattributes:\n  checks:\n    - {check: not_empty}  # always\n    - {check: ")
    assert text.endswith("\n  key: [sensor, hour]\n")
    assert len(read_documents(file)[0].data["attributes"]["checks"]) == len(lines) + 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["gold_sensors"], "gold has no windows to copy"),
        (["readings", "--fault", "typo"], "there is no such fault; there are swapped_columns"),
        (["readings", "--page", "nowhere/page.html"], "there is no folder nowhere; make it first"),
    ],
)
def test_a_rehearsal_that_cannot_be_is_refused(lake, arguments, text):
    refused = run("rehearse", *arguments)
    assert isinstance(refused.exception, RefusedError)
    assert text in str(refused.exception)


@pytest.mark.parametrize(
    ("faults", "text"),
    [
        ((), "no fault changed any row"),
        (
            (FaultSummary("duplicated_rows", "twice", 2, {"unseen": 2}, {}, harmless=2),),
            "no fault would do harm: the key keeps one row of each",
        ),
    ],
)
def test_a_rehearsal_without_harm_shows_no_share(monkeypatch, faults, text):
    """So a build that asks for one does not pass."""
    empty = Rehearsal("readings", 0, (), CleanSummary(), faults, (), 2, {}, {})
    monkeypatch.setattr(common, "select_tables", lambda *_: [SimpleNamespace(spec=readings())])
    monkeypatch.setattr("lakehouse_assets.operations.rehearse.rehearse", lambda *_: empty)
    listed = run("rehearse", "readings")
    assert listed.exit_code == 0
    assert text in listed.output
    refused = run("rehearse", "readings", "--at-least", "0.9")
    assert isinstance(refused.exception, CheckFailedError)
    assert f"{text}, and --at-least asks for 90% of the faulty copies" in str(refused.exception)


@pytest.mark.exhaustive(seconds=20)
def test_a_rehearsal_prints_its_scorecard_and_writes_its_page(lake, tmp_path):
    page = tmp_path / "page.html"
    arguments = ["rehearse", "readings", "--fault", "unit", "--windows", "1", "--clean", "2", "--seed", "1"]
    listed = run(*arguments, "--page", str(page), "--at-least", "0.9")
    assert listed.exception.exit_code == 8
    assert "25% of the faulty copies were seen, and --at-least asks for 90%" in str(listed.exception)
    assert "2 clean copies: no check failed" in listed.output
    assert "Rehearsal of readings" in page.read_text()
    again = run(*arguments, "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout) == json.loads(run(*arguments, "--json").stdout)
