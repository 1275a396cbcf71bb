"""The `lakehouse` command as a person runs it: what it prints, and the code it ends with. No JVM is started.

Belongs here: arguments, listings, exit codes. Does not: what a run or an operation does (e2e, laws).
"""

import json
import re
import subprocess
import sys
import time
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from typer.testing import CliRunner

from lakehouse_assets import cli
from lakehouse_assets.checks.registry import kinds
from lakehouse_assets.cli import common, terminal
from lakehouse_assets.contracts.decision import Counts, Decision, Reason
from lakehouse_assets.contracts.extraction import ExtractionSpec
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.errors import CheckFailedError, ConfigError, RefusedError, SourceError
from lakehouse_assets.orchestration import validate
from lakehouse_assets.orchestration.assets.project_tables import load_tables
from lakehouse_assets.orchestration.healing import foreground
from lakehouse_assets.orchestration.jobs import operation_job
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets.storage.baseline import BaselineEvent, log_baseline_event, write_profiles
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import PROJECT_ROOT

WINDOW = "2013-01-01"
TABLES = ", ".join(table.spec.name for table in load_tables())


@pytest.fixture(scope="module")
def loaded_tables():
    """The project's tables, read once: half of a command's time, and none of these commands changes them."""
    return common.load_all_tables()


@pytest.fixture(autouse=True)
def empty_lake(tmp_path, monkeypatch, loaded_tables):
    """A lake and a landing folder in which nothing is."""
    monkeypatch.setattr(common, "load_all_tables", lambda: loaded_tables)
    (tmp_path / "landing").mkdir()
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(tmp_path / "lake"))
    monkeypatch.setenv("LAKEHOUSE_LANDING", str(tmp_path / "landing"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.delenv("LAKEHOUSE_SPARK_CONF", raising=False)
    return tmp_path


def run(*arguments: str):
    return CliRunner().invoke(cli.app, list(arguments))


def run_json(*arguments: str):
    """What a command prints as JSON, which must be all that it prints."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*arguments: str) -> str:
    """The message of a command that refuses; `main` turns it into an exit code (see the tests of the process below)."""
    result = run(*arguments)
    assert isinstance(result.exception, RefusedError), result.output
    return str(result.exception)


def process(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-W", "error:::lakehouse_assets", "-m", "lakehouse_assets.cli", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=PROJECT_ROOT,
    )


def test_check_kinds():
    rows = run_json("check", "kinds", "--json")
    assert [row["kind"] for row in rows] == sorted(kinds())
    for row in rows:
        assert row["what"]
        example = yaml.safe_load(row["example"])
        assert row["kind"] in str(example), row


def test_check_kinds_as_a_table():
    result = run("check", "kinds")
    assert result.exit_code == 0
    assert result.stdout.split()[:3] == ["kind", "what", "example"]
    assert all(kind in result.stdout for kind in kinds())


def test_check_list():
    rows = run_json("check", "list", "--json")
    declared = sum(len(t.spec.checks) + sum(len(g.checks) for g in t.spec.gold) for t in load_tables())
    assert len(rows) == declared
    (row,) = [r for r in rows if (r["table"], r["check"]) == ("weather", "in_range_humidity_percent")]
    assert (row["kind"], row["severity"], row["on failure"]) == ("in_range", "warning", "warn")
    assert row["parameters"].items() >= {"column": "humidity_percent", "min": 0, "max": 100, "threshold": 0.99}.items()
    assert row["parameters"].keys() >= {"where", "on_fail", "depends_on"}
    assert re.fullmatch(r"tables/weather/defs\.yaml:\d+", row["from"])
    assert {r["table"] for r in run_json("check", "list", "--table", "weather", "--json")} == {
        "weather",
        "gold_daily_weather",
    }


def test_check_list_as_a_table():
    result = run("check", "list", "--table", "weather")
    assert "no_reading_outside_its_day" in result.stdout
    assert '{"column": "origin"' in result.stdout, "square brackets and braces are no markup"


def test_check_validate_where_nothing_has_landed():
    result = run("check", "validate")
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith(": valid\n")


def test_check_validate_prints_notes_and_refuses_mistakes(monkeypatch):
    note = "defs.yaml:9: packs: '*_at' (times.checks.0.for_columns) fits no column here"
    monkeypatch.setattr(validate, "unmatched_patterns", lambda _: ([], [note]))
    result = run("check", "validate")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(note + "\n")
    monkeypatch.setattr(validate, "unmatched_patterns", lambda _: ([note], []))
    assert str(run("check", "validate").exception) == note


def test_check_validate_notes_what_drift_does_not_watch(empty_lake):
    verdict = {"unwatched": [["temp_offset", "LGA"]]}
    decision = logbook.decided(1, "weather", drift=verdict, drift_p_value=0.4)
    logbook.write(Settings.from_environment(), [decision])
    result = run("check", "validate")
    assert result.exit_code == 0, result.output
    (note,) = [line for line in result.stdout.splitlines() if "is not watched" in line]
    assert re.search(r"weather/defs.yaml:\d+: drift.features.1: temp_offset at LGA is not watched \(window 2024-01-01T", note)


def test_a_folder_without_defs_yaml_is_a_note(tmp_path):
    for file in (
        "orders/defs.yaml",
        "orders/day.sql",
        "flights/defs.yml",
        "flights/day.sql",
        "notes/readme.md",
        "_old/a.sql",
    ):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    (note,) = validate.undeclared_folders(tmp_path)
    assert note == f"{tmp_path}/flights declares no table: it has day.sql, defs.yml, and no defs.yaml"


def test_check_validate_looks_at_the_newest_file(empty_lake):
    folder = empty_lake / "landing" / "weather"
    folder.mkdir()
    (folder / "2013-01-01.csv").write_text("origin,time_hour\nJFK,2013-01-01T00:00:00Z\n")
    result = run("check", "validate")
    assert isinstance(result.exception, ConfigError)
    lines = str(result.exception).splitlines()
    (humid,) = [line for line in lines if "columns.humidity_percent:" in line]
    location, _, rest = humid.partition(": ")
    file, _, number = location.rpartition(":")
    assert Path(file).read_text().splitlines()[int(number) - 1].strip().startswith("humidity_percent:")
    assert "2013-01-01 has no column 'humid'; it has origin, time_hour" in rest


def test_a_column_that_only_the_newest_file_lacks_is_a_note(empty_lake):
    folder = empty_lake / "landing" / "weather"
    folder.mkdir()
    first = Path(__file__).parents[1] / "data" / "examples" / "weather" / "on_time" / "2013-01-01.csv"
    (folder / "2013-01-01.csv").write_bytes(first.read_bytes())
    (folder / "2013-01-02.csv").write_text("origin,time_hour\nJFK,2013-01-02T00:00:00Z\n")
    result = run("check", "validate")
    assert result.exit_code == 0, result.output
    (humid,) = [line for line in result.stdout.splitlines() if "columns.humidity_percent:" in line]
    assert humid.endswith("2013-01-02 has no column 'humid'; 2013-01-01 has it")


def test_a_file_that_matches_no_tables_path_is_a_note(empty_lake):
    folder = empty_lake / "landing" / "weather"
    folder.mkdir()
    first = Path(__file__).parents[1] / "data" / "examples" / "weather" / "on_time" / "2013-01-01.csv"
    for name in ("2013-01-01.csv", "20130102.csv", ".20130103.csv"):
        (folder / name).write_bytes(first.read_bytes())
    result = run("check", "validate")
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stdout.splitlines() if "no table's path" in line]
    location, key, text = line.split(": ", 2)
    assert (Path(location).parent.name, key) == ("weather", "source.path")
    assert text.startswith("'weather/20130102.csv' matches no table's path")


@pytest.mark.parametrize(("unreadable", "mistakes"), [("2013-01-01", 1), ("2013-01-02", 0)])
def test_a_window_that_cannot_be_read_hides_no_finding(empty_lake, monkeypatch, unreadable, mistakes):
    folder = empty_lake / "landing" / "weather"
    folder.mkdir()
    columns_of = FilesReader.columns

    def columns(self, window):
        if window.key == unreadable:
            raise SourceError("this version has expired")
        return columns_of(self, window)

    monkeypatch.setattr(FilesReader, "columns", columns)
    for day in ("2013-01-01", "2013-01-02"):
        (folder / f"{day}.csv").write_text(f"origin,time_hour\nJFK,{day}T00:00:00Z\n")
    lines, _ = validate.source_findings(common.load_all_tables().tables, Settings.from_environment())
    assert len([line for line in lines if "columns.humidity_percent:" in line]) == mistakes


@pytest.mark.parametrize(
    ("landed", "note"),
    [
        ("wether/2013-01-01.csv", "the landing folder has 'wether', not 'weather'"),
        ("weather/w2013-01-01.csv", "weather has 'w2013-01-01.csv', not '2013-01-01.csv'"),
        ("weather/2034-01-01.csv", "of windows from 2034-01-01 to 2034-01-01; the table's windows go from 2013-01-01"),
    ],
)
def test_a_path_that_matches_no_file_is_a_note(empty_lake, landed, note):
    file = empty_lake / "landing" / landed
    file.parent.mkdir()
    file.write_text("origin\n")
    result = run("check", "validate")
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stdout.splitlines() if "weather/{window:%Y-%m-%d}.csv" in line]
    assert re.search(r"weather/defs\.yaml:\d+: source\.path: ", line)
    assert note in line


@pytest.mark.parametrize("command", [("verdicts",), ("quarantine", "list")])
def test_listings_of_an_empty_lake(command):
    assert run_json(*command, "--json") == []
    assert run(*command).stdout.strip() in ("nothing has been judged yet; run `lakehouse run`", "nothing is in quarantine")


def test_a_verdict_that_does_not_exist_is_refused():
    assert "there are published, published_with_warnings, quarantined, discarded, superseded" in refused(
        "verdicts", "--verdict", "held"
    )
    assert run_json("verdicts", "--verdict", "superseded", "--json") == []


def test_quarantine_show_of_an_empty_lake():
    message = refused("quarantine", "show", "weather", "--window", WINDOW, "--json")
    assert (
        message == f"weather {WINDOW}: it has no verdict; `lakehouse verdicts --table weather` lists the windows that have one"
    )
    assert run_json("quarantine", "show", "gold_daily_weather", "--json") == []
    assert "--window" in refused("quarantine", "show", "weather")


def test_quarantine_show_lists_gold_rows_of_the_last_decision():
    settings = Settings.from_environment()
    decisions = logbook.write(settings, [logbook.decided(n, "gold_daily_weather") for n in (1, 2)])
    reason = {"check": "c", "column": "x", "severity": "critical", "value": "1", "message": "m"}
    rows = [{"decision_id": d.decision_id, "row": json.dumps({"origin": d.number}), "reasons": [reason]} for d in decisions]
    write_deltalake(settings.path("quarantine", "gold_daily_weather"), pa.Table.from_pylist(rows))
    assert run_json("quarantine", "show", "gold_daily_weather", "--json") == [{"reasons": "c: m", "origin": 2}]
    logbook.write(settings, [logbook.decided(3, "gold_daily_weather", counts=Counts(3, 3, 0, 0, 0), reasons=())])
    assert run_json("quarantine", "show", "gold_daily_weather", "--json") == []


def test_several_tables_are_all_of_those():
    two = ("--table", "weather", "--table", "planes")
    golds = {f"gold_{gold.name}" for table in load_tables() if table.spec.name in two for gold in table.spec.gold}
    assert {row["table"] for row in run_json("check", "list", *two, "--json")} == {"weather", "planes", *golds}
    assert {row["table"] for row in run_json("heal", "status", *two, "--json")} == {"weather", "planes"}
    logbook.write(Settings.from_environment(), [logbook.decided(1, name) for name in ("weather", "planes", "flights")])
    assert [row["table"] for row in run_json("verdicts", *two, "--json")] == ["planes", "weather"]
    assert "nope" in refused("verdicts", *two, "--table", "nope")


def test_a_run_of_several_tables_runs_those(monkeypatch):
    ran: list[str] = []

    def run_of(self):
        ran.extend(table.spec.name for table in self.tables)
        return self.report

    monkeypatch.setattr("lakehouse_assets.cli.common.open_dagster", lambda _: nullcontext((None, None)))
    monkeypatch.setattr(foreground.ForegroundRun, "run", run_of)
    assert run("run", "--table", "weather", "--table", "planes", "--table", "weather").exit_code == 0
    assert ran == ["weather", "planes"]
    of_one = refused("run", "--rejudge", "--table", "weather", "--table", "planes", "--window", WINDOW, "--because", "x")
    assert "name one --table" in of_one


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--table", "nope"),
        ("verdicts", "--table", "nope"),
        ("quarantine", "list", "--table", "nope"),
        ("check", "list", "--table", "nope"),
        ("rebuild", "nope"),
        ("quarantine", "show", "nope", "--window", WINDOW),
        ("quarantine", "release", "nope", "--window", WINDOW, "--because", "x"),
        ("quarantine", "discard", "nope", "--window", WINDOW, "--because", "x"),
        ("baseline", "show", "nope"),
        ("baseline", "pin", "nope", "--because", "x"),
        ("baseline", "reset", "nope", "--because", "x"),
        ("baseline", "seed", "nope", "--from", "y", "--because", "x"),
    ],
    ids=" ".join,
)
def test_an_unknown_table(command):
    assert refused(*command) == f"there is no table 'nope'; there are {TABLES}"


def test_an_empty_baseline_is_shown():
    listed = run_json("baseline", "show", "weather", "--json")
    assert (listed["version"], listed["windows"], listed["pinned"], listed["learning"]) == (0, 0, False, True)
    assert (listed["features"], listed["events"]) == ([], [])
    assert "the baseline has no window yet" in run("baseline", "show", "weather").stdout
    assert "no baseline version 7" in refused("baseline", "show", "weather", "--version", "7")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("pin",), "nothing to pin"),
        pytest.param(("pin", "--clear"), "not pinned", marks=pytest.mark.exhaustive(seconds=6)),
        pytest.param(("reset",), "nothing to forget", marks=pytest.mark.exhaustive(seconds=6)),
        pytest.param(("seed", "--from", "nowhere"), "nowhere is no Delta table", marks=pytest.mark.exhaustive(seconds=6)),
    ],
    ids=str,
)
def test_operations_on_an_empty_baseline_are_refused(command, message):
    """Through Dagster, on the instance of this lake; no JVM is needed to see that there is nothing."""
    assert message in refused("baseline", command[0], "weather", "--because", "x", *command[1:])


def test_baseline_show_lists_the_contents():
    """As decisions have taught it, and as it was at a version."""
    settings = Settings.from_environment()
    spec = load_tables()[[table.spec.name for table in load_tables()].index("weather")].spec
    assert spec.drift is not None
    feature = spec.drift.features[0]
    counts = tuple((float(value), 10) for value in range(20))
    one = Profile(feature.name, "LGA", 210, 10, mean=9.5, std=5.78, minimum=0.0, maximum=19.0, counts=counts, distinct=20.0)
    decisions = []
    for number in (1, 2):
        drift = {"statistics": [[feature.name, "LGA", {"ks": 0.1}]]}
        more = {"ruleset": spec.ruleset(), "teaches": True, "drift": drift, "profiles": (one.to_dict(),)}
        decisions += logbook.write(settings, [logbook.decided(number, "weather", **more)])
    write_profiles(settings, "weather", decisions)
    log_baseline_event(
        settings, BaselineEvent("weather", "pin", 2, datetime.now(UTC), "ann", "a good year", "run", {"windows": 2})
    )
    listed = run_json("baseline", "show", "weather", "--json")
    assert (listed["version"], listed["windows"], listed["pinned"]) == (2, 2, True)
    assert listed["events"][0]["because"] == "a good year"
    (row,) = listed["features"]
    assert (row["feature"], row["stratum"], row["windows"], row["rows"]) == (feature.name, "LGA", 2, 420)
    assert (row["distinct"], row["quantiles"]["0.5"], row["moved"]) == (20.0, 9.0, 0.0)
    assert row["mean"] == pytest.approx(9.5)
    earlier = run_json("baseline", "show", "weather", "--version", "1", "--json")
    assert (earlier["windows"], earlier["pinned"], earlier["events"]) == (1, False, [])
    assert "a good year" in run("baseline", "show", "weather").stdout


@pytest.mark.parametrize("key", ["2013-1", "2013-02-30", "yesterday", "2013-01-01-00:00", ""])
@pytest.mark.parametrize(
    "command",
    [("show", "weather"), ("release", "weather", "--because", "x"), ("discard", "weather", "--because", "x")],
    ids=str,
)
def test_a_bad_window_key(command, key):
    assert refused("quarantine", *command, "--window", key) == (
        f"weather: {key!r} is no window's key; keys look like 2013-01-01"
    )


def test_a_range_of_windows_is_judged_again_and_not_released():
    message = refused("quarantine", "release", "weather", "--window", "2013-01-01..2013-01-09", "--because", "x")
    assert "`lakehouse run --table weather --window 2013-01-01..2013-01-09 --rejudge --because WHY`" in message
    assert "one window" in refused("quarantine", "discard", "weather", "--window", "2013-01-01..2013-01-09", "--because", "x")


@pytest.mark.parametrize("command", ["release", "discard"])
def test_a_decision_needs_a_reason(command):
    result = run("quarantine", command, "weather", "--window", WINDOW, "--because", " ")
    assert (result.exit_code, "say why" in result.stderr) == (2, True)


def write_quarantined(settings: Settings, decision: Decision, rows: list[dict[str, Any]]) -> None:
    """Quarantined rows of a decision on weather, each without reasons unless it has `batch_reasons`."""
    batch = {"decision_id": decision.decision_id, "p_extracted_at": decision.p_extracted_at, "extraction_seq": 1}
    stored = [{**batch, "reasons": [], "batch_reasons": [], **row} for row in rows]
    schema = pa.Table.from_pylist(stored).schema
    types = {
        "reasons": pa.list_(pa.struct({name: pa.string() for name in ("check", "column", "severity", "value", "message")})),
        "batch_reasons": pa.list_(pa.string()),
    }
    schema = pa.schema([field.with_type(types.get(field.name, field.type)) for field in schema])
    write_deltalake(settings.path("quarantine", "weather"), pa.Table.from_pylist(stored, schema), mode="append")


def test_quarantine_show_prints_reasons_of_all_rows_once():
    settings = Settings.from_environment()
    decisions = [logbook.decided(n, "weather", verdict="quarantined", counts=Counts(2, 0, 0, 2, 0)) for n in (1, 2)]
    logbook.write(settings, decisions)
    drift = ["drift: 2 features differ from 40 windows"]
    shared = [{"temp": each, "batch_reasons": drift} for each in ("1", "2")]
    write_quarantined(settings, decisions[0], shared)
    write_quarantined(settings, decisions[1], [{**shared[0], "batch_reasons": [*drift, "late"]}, shared[1]])
    first, second = (("quarantine", "show", "weather", "--window", f"2024-01-0{day}") for day in (1, 2))
    lines = run(*first).stdout.splitlines()
    assert lines[0] == f"each of these rows: {drift[0]}"
    assert [line.split() for line in lines[1:]] == [["extraction_seq", "temp"], ["1", "1"], ["1", "2"]]
    assert [row["reasons"] for row in run_json(*first, "--json")] == drift * 2
    assert run(*first, "--limit", "1").stdout.splitlines()[0].split()[0] == "reasons"
    assert [line.count(drift[0]) for line in run(*second).stdout.splitlines()] == [0, 1, 1]


def test_quarantine_show_counts_the_rows_and_gives_the_reasons_of_an_empty_window():
    settings = Settings.from_environment()
    rows = logbook.decided(1, "weather", verdict="quarantined", counts=Counts(9, 0, 0, 9, 0))
    reason = Reason("not_empty", "critical", "failed", "batch", 0, "the batch is empty")
    empty = logbook.decided(2, "weather", verdict="quarantined", counts=Counts(), reasons=(reason,))
    logbook.write(settings, [rows, empty])
    write_quarantined(settings, rows, [{"temp": str(number), "my_x20_note": "x"} for number in range(9)])
    first, second = (("quarantine", "show", "weather", "--window", f"2024-01-0{day}") for day in (1, 2))
    assert "4 of 9 rows; --limit shows more" in run(*first, "--limit", "4").stdout
    assert "rows; --limit" not in run(*first).stdout
    assert run(*first).stdout.splitlines()[0].endswith("my note")
    assert "my_x20_note" in run_json(*first, "--json")[0]
    shown = " ".join(run(*second).stdout.split())
    assert shown.startswith("weather 2024-01-02 is quarantined without rows: not_empty: the batch is empty")
    assert run(*second, "--limit", "0").exit_code == 2


@pytest.mark.parametrize("keys", ["2013/09/09", "yesterday", "2013-09-09..", "..2013-09-09", "2013-09-09..x", ""])
def test_a_bad_range_of_windows(keys):
    assert refused("run", "--table", "weather", "--window", keys) == (
        f"--window {keys}: give a window's key, or two as A..B; keys look like 2013-01-01"
    )


@pytest.mark.parametrize(
    ("text", "cadences", "expected"),
    [
        ("2024-01-08..2024-01-09", "daily hourly", {"daily": 2, "hourly": 48}),
        ("2024-01-08..2024-01-09", "hourly daily", {"daily": 2, "hourly": 48}),
        ("2024-01-08", "weekly daily hourly", {"weekly": 1, "daily": 1, "hourly": 24}),
        ("2024-01-01..2024-01-08", "monthly weekly daily", {"monthly": 1, "weekly": 2, "daily": 8}),
        ("2024-01-08-00:00..2024-01-08-05:00", "daily hourly", {"daily": 1, "hourly": 6}),
        ("2024-01-08-05:00", "hourly", {"hourly": 1}),
    ],
)
def test_a_range_is_of_every_cadence_with_both_ends(text, cadences, expected):
    extractions = [ExtractionSpec.model_validate({"cadence": name, "start": date(2024, 1, 1)}) for name in cadences.split()]
    first, end = common.window_range(text, [SimpleNamespace(extraction=extraction) for extraction in extractions])
    calendars = {extraction.cadence: extraction.windows(datetime(2024, 3, 1, tzinfo=UTC)) for extraction in extractions}
    assert {name: sum(first <= window.start < end for window in windows) for name, windows in calendars.items()} == expected


def test_a_range_of_one_window_of_a_stream():
    extraction = ExtractionSpec.model_validate({"cadence": "hourly", "start": date(2024, 1, 1), "stream": {}})
    table = SimpleNamespace(extraction=extraction)
    start = datetime(2024, 1, 8, 13, 0, 5, 123_000, tzinfo=UTC)
    assert common.window_range("2024-01-08-13:00:05.123", [table]) == (start, start + timedelta(milliseconds=1))


def test_a_range_of_windows_the_wrong_way_round():
    assert "the first window is after the last" in refused("run", "--window", "2013-01-02..2013-01-01")


@pytest.mark.parametrize(
    "arguments", [("nope",), ("verdicts", "--nope"), ("quarantine", "release", "weather", "--window", WINDOW), ("init", "t")]
)
def test_arguments_that_are_missing_or_unknown(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)


def test_init_refuses_before_it_writes(empty_lake):
    assert "exists already" in refused("init", "weather", "--from", str(empty_lake / "x.csv"))
    result = run("init", "nothing_of_the_kind", "--from", str(empty_lake / "x.csv"))
    assert isinstance(result.exception, ConfigError)
    assert not (PROJECT_ROOT / "lakehouse_assets" / "tables" / "nothing_of_the_kind").exists()


def test_the_codes_that_a_process_ends_with(empty_lake):
    unknown = process("verdicts", "--table", "nope")
    assert (unknown.returncode, unknown.stdout) == (5, "")
    assert unknown.stderr == f"error: there is no table 'nope'; there are {TABLES}\n", "one line, for grep"
    draft = process("init", "t", "--from", str(empty_lake / "x.csv"))
    assert (draft.returncode, draft.stderr.startswith("error: --from ")) == (2, True)


def test_a_listing_starts_no_dagster_and_no_jvm():
    began = time.monotonic()
    listed = process("verdicts", "--json")
    assert (listed.returncode, json.loads(listed.stdout), listed.stderr) == (0, [], "")
    assert time.monotonic() - began < 60
    script = "import sys, lakehouse_assets.cli; print([m for m in ('dagster', 'pyspark') if m in sys.modules])"
    command = [sys.executable, "-c", script]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True, cwd=PROJECT_ROOT, timeout=300)
    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize("error", [ConfigError, SourceError, RefusedError])
def test_main_ends_with_the_errors_code(monkeypatch, capsys, error):
    def fails(**_):
        raise error("[red]told[/red] as it is")

    monkeypatch.setattr(cli, "app", fails)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == error.exit_code


def test_a_listing_of_moments_and_of_nothing(capsys):
    day = datetime(2024, 1, 2, tzinfo=UTC)
    terminal.show([{"a": None, "b": day, "c": day.replace(hour=3, minute=4)}])
    assert capsys.readouterr().out.split() == ["a", "b", "c", "2024-01-02", "2024-01-02", "03:04"]
    terminal.show([], False, "[b]nothing[/b]")
    assert capsys.readouterr().out == "[b]nothing[/b]\n"


def test_a_listing_shows_values_as_they_are(capsys):
    """No value is read as rich's markup: it would vanish, or fail for a tag that is not open."""
    terminal.show([{"a": "^[a-z]+$", "b": "[/]"}])
    assert capsys.readouterr().out.split() == ["a", "b", "^[a-z]+$", "[/]"]


def test_heal_status_of_a_lake_in_which_nothing_is():
    rows = run_json("heal", "status", "--table", "weather", "--json")
    assert {row["next"] for row in rows} == {"source"}
    assert {tuple(row["states"]) for row in rows} == {("missing",)}
    (row,) = run_rows("heal", "status", "--table", "weather")
    assert "2013-01-01..2013-12-31" in row
    assert "ingested once a poll finds it at the source" in row


def test_heal_status_of_many_quarantined_windows_names_one_command_for_them():
    days = [datetime(2013, 1, day, tzinfo=UTC) for day in (1, 2, 4)]
    settings, (table,) = Settings.from_environment(), common.select_tables("weather")
    more = {"verdict": "quarantined", "counts": Counts(9, 0, 0, 9, 0)}
    command = "--window 2013-01-01..2013-01-02 --rejudge --because WHY"
    logbook.write(settings, [logbook.decided(1, "weather", p_extracted_at=days[0], **more)])
    assert command not in run("heal", "status", "--table", "weather").stdout
    logbook.write(settings, [logbook.decided(n, "weather", p_extracted_at=day, **more) for n, day in enumerate(days[1:], 2)])
    shown = run("heal", "status", "--table", "weather").stdout.splitlines()[-1]
    assert shown.startswith("weather: 2 windows in a row wait for you")
    assert f"`lakehouse run --table weather {command}`" in shown
    assert table.spec.name in {row["table"] for row in run_json("heal", "status", "--table", "weather", "--json")}


def run_rows(*arguments: str) -> list[str]:
    """The lines of a listing without its header."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()[1:]


def test_rejudging_requires_an_explicit_option():
    assert "--because" in refused("run", "--rejudge", "--table", "weather", "--window", WINDOW)
    assert "--window" in refused("run", "--rejudge", "--because", "x", "--table", "weather")


def test_rejudging_lists_only_the_named_windows(monkeypatch, empty_lake):
    settings = Settings.from_environment()
    days = [datetime(2013, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    logbook.write(settings, [logbook.decided(n, "weather", p_extracted_at=day) for n, day in enumerate(days, 1)])
    monkeypatch.setattr("lakehouse_assets.cli.common.open_dagster", lambda _: nullcontext((None, None)))
    monkeypatch.setattr(operation_job, "run_job", lambda *_: None)
    monkeypatch.setattr(foreground.ForegroundRun, "run", lambda _: None)
    lines = run_rows("run", "--rejudge", "--table", "weather", "--window", "2013-01-01..2013-01-02", "--because", "x")
    assert [re.findall(r"2013-01-\d\d", line)[0] for line in lines if "2013-01-" in line] == ["2013-01-01", "2013-01-02"]


WARNED = {"verdict": "published_with_warnings", "counts": Counts(9, 6, 0, 3, 0)}


@pytest.mark.parametrize(
    ("before", "verdict", "counts", "line"),
    [
        ({}, "quarantined", Counts(9, 0, 0, 9, 0), "nothing changed: the window is still quarantined (9 rows)"),
        (WARNED, "quarantined", Counts(9, 0, 0, 9, 0), "the window is now quarantined as a whole: its 6 published rows leave"),
        (WARNED | {"extraction_seq": 2}, "quarantined", Counts(9, 0, 0, 9, 0), "nothing changed: "),
        (WARNED | {"superseded_by": "x"}, "quarantined", Counts(9, 0, 0, 9, 0), "nothing changed: "),
        ({}, "published_with_warnings", Counts(40, 0, 0, 40, 0), "0 of 40 rows published, 40 still in quarantine"),
        (WARNED, "published", Counts(9, 9, 0, 0, 0), "9 of 9 rows published"),
    ],
)
def test_a_release_ends_with_what_it_published_or_withdrew(monkeypatch, before, verdict, counts, line):
    day = datetime(2013, 1, 1, tzinfo=UTC)
    first = {"verdict": "quarantined", "counts": Counts(9, 0, 0, 9, 0)} | before
    decisions = [logbook.decided(1, "weather", p_extracted_at=day, **first)]
    decisions.append(logbook.decided(2, "weather", p_extracted_at=day, kind="released", verdict=verdict, counts=counts))
    logbook.write(Settings.from_environment(), decisions)
    monkeypatch.setattr("lakehouse_assets.cli.common.open_dagster", lambda _: nullcontext((None, None)))
    monkeypatch.setattr(operation_job, "run_job", lambda *_: None)
    monkeypatch.setattr(foreground.ForegroundRun, "run", lambda _: None)
    result = run("quarantine", "release", "weather", "--window", "2013-01-01", "--because", "x")
    if verdict == "quarantined":  # the verdicts are listed, and a script can tell by the code
        assert isinstance(result.exception, CheckFailedError), result.output
        assert "2013-01-01" in result.stdout and str(result.exception).startswith(f"weather 2013-01-01: {line}")
    else:
        assert (result.exit_code, result.stdout.splitlines()[-1].startswith(line)) == (0, True), result.output
