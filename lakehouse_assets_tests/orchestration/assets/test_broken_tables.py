"""One table's mistake stops that table, and what reads it; the others go on, and the mistake is reported.

Belongs here: which tables stop, and where a person sees it. Does not: the mistakes themselves (test_bad_config).
"""

import importlib
import json
import logging
import sys
from pathlib import Path

import dagster as dg
import pytest
from typer.testing import CliRunner

from lakehouse_assets import cli, definitions
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.assets.table_files import LoadedTables, read_tables
from lakehouse_assets.settings import Settings

TABLE = """\
type: lakehouse_assets.LakehouseTable
attributes:
  name: {name}
  source: {{kind: files, path: "{name}/{{window:%Y-%m-%d}}.csv", format: csv}}
  extraction: {{cadence: daily, start: 2024-01-01, end: 2024-01-03}}
  key: [id]
  columns:
    id: string
    value: double
  checks:
    - {{check: not_empty}}
"""
READS = "    - {{check: foreign_key, columns: [id], to: [id], table: {0}}}\n"
GOLD = "  gold:\n    - {name: own, sql: own.sql, key: [id]}\n    - {name: both, sql: both.sql, key: [id]}\n"
WRONG = TABLE.format(name="wrong").replace("value: double", "value: duoble")


def write(folder: Path, **texts: str | bytes) -> Path:
    for name, text in texts.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "defs.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def read(folder: Path) -> LoadedTables:
    return read_tables(folder, {}, LakehouseTable)


def names(loaded: LoadedTables) -> tuple[list[str], list[str]]:
    return [table.spec.name for table in loaded.tables], [broken.name for broken in loaded.broken]


def test_dates_that_do_not_exist_hide_no_other_mistake(tmp_path):
    text = WRONG.replace("2024-01-01", "2024-13-21").replace("2024-01-03", "2024-02-30").replace("[id]", "[ie]")
    (broken,) = read(write(tmp_path, wrong=text)).broken
    assert [line.removeprefix(f"{tmp_path}/wrong/defs.yaml:") for line in broken.mistakes[:2]] == [
        "5: 2024-02-30: day is out of range for month",
        "5: 2024-13-21: month must be in 1..12",
    ]
    assert any(":9: columns.value" in line and "unknown type 'duoble'" in line for line in broken.mistakes)
    assert all(":5: " in line for line in broken.mistakes if "2024" in line or "extraction" in line)


def test_a_date_that_does_not_exist_hides_no_other_mistake_of_its_line(tmp_path):
    text = WRONG.replace("duoble", "double").replace("daily, start: 2024-01-01", "dayly, start: 2024-02-30")
    (broken,) = read(write(tmp_path, wrong=text)).broken
    date, cadence = [line.removeprefix(f"{tmp_path}/wrong/defs.yaml:") for line in broken.mistakes]
    assert date == "5: 2024-02-30: day is out of range for month"
    assert cadence.startswith("5: extraction.cadence: ")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (WRONG, 9, "unknown type 'duoble'"),
        ("type: lakehouse_assets.LakehouseTable\nattributes: [", 2, "expected"),
        ("", 1, "the file is empty"),
        (TABLE.format(name="wrong").encode("utf-16"), 1, "not UTF-8"),
        (TABLE.replace("LakehouseTable", "LakehouseTabel").format(name="wrong"), 1, "there is no component"),
        (TABLE.format(name="wrong").replace("  key: [id]", "  key: [id]\n  owners: ${WHO}"), 7, "no LAKEHOUSE_VAR_WHO"),
    ],
    ids=["type", "yaml", "empty", "encoding", "component", "variable"],
)
def test_a_mistake_stops_its_table_alone(tmp_path, text, line, reason):
    loaded = read(write(tmp_path, first=TABLE.format(name="first"), wrong=text, last=TABLE.format(name="last")))
    assert names(loaded) == (["first", "last"], ["wrong"])
    (message,) = loaded.mistakes
    assert f"wrong/defs.yaml:{line}: " in message and reason in message


def test_a_file_that_cannot_be_read(tmp_path):
    write(tmp_path, first=TABLE.format(name="first"))
    (tmp_path / "wrong" / "defs.yaml").mkdir(parents=True)
    assert names(read(tmp_path)) == (["first"], ["wrong"])


def test_a_table_of_several_in_one_file(tmp_path):
    loaded = read(write(tmp_path, both=TABLE.format(name="first") + "---\n" + WRONG))
    assert names(loaded) == (["first"], ["wrong"])


def test_a_table_without_a_name_beside_others(tmp_path):
    nameless = TABLE.format(name="x").replace("  name: x\n", "")
    loaded = read(write(tmp_path, shop=TABLE.format(name="shop") + "---\n" + nameless))
    assert names(loaded) == (["shop"], ["shop_document_2"])


def test_checks_that_read_a_broken_table_do_not_pass_in_silence(tmp_path):
    first, second = (
        TABLE.format(name=name) + READS.format(other) for name, other in (("first", "second"), ("second", "wrong"))
    )
    loaded = read(write(tmp_path, first=first, second=second, wrong=WRONG, fine=TABLE.format(name="fine")))
    assert names(loaded) == (["fine"], ["wrong", "second", "first"])
    by_name = {broken.name: broken.mistakes[0] for broken in loaded.broken}
    assert "second/defs.yaml:12: checks.1 (foreign_key_id): it reads wrong, which stops for this: " in by_name["second"]
    assert "wrong/defs.yaml:9: " in by_name["second"]
    assert "it reads second, which stops for this: " in by_name["first"]


def test_a_gold_table_that_reads_a_broken_table_stops_alone(tmp_path):
    folder = write(tmp_path, first=TABLE.format(name="first") + GOLD.replace("own", "zown"), wrong=WRONG)
    (folder / "first" / "both.sql").write_text("select f.id from silver_first f join silver_wrong w on f.id = w.id")
    (folder / "first" / "zown.sql").write_text("select id from silver_first")
    loaded = read(folder)
    assert names(loaded) == (["first"], ["wrong", "gold_both"])
    assert any("silver_wrong stops for this: " in line for line in loaded.mistakes)
    (table,) = loaded.tables
    assert [gold.name for gold in table.spec.gold] == ["zown"]


def test_golds_own_mistake_and_the_lines_of_the_others(tmp_path):
    folder = write(tmp_path, first=TABLE.format(name="first") + GOLD.replace("key: [id]}", "key: [id], units: {no: m}}"))
    (folder / "first" / "own.sql").write_text("select id frm silver_first")
    (folder / "first" / "both.sql").write_text("select id from silver_first")
    loaded = read(folder)
    assert names(loaded) == (["first"], ["gold_own", "gold_both"])
    # The second gold table is the first that is left when it is judged: its line is its own.
    assert "first/defs.yaml:14: gold.both.units: the SELECT in both.sql has no column no" in loaded.mistakes[-1]


def test_tables_of_one_name_stop_each_other(tmp_path):
    same = TABLE.format(name="same")
    loaded = read(
        write(tmp_path, one=same, two=same, three=WRONG.replace("name: wrong", "name: same"), fine=TABLE.format(name="f"))
    )
    assert names(loaded) == (["f"], ["same", "same", "same"])
    assert sum("'same' is already described in" in line for line in loaded.mistakes) == 2
    gold = GOLD.partition("\n    - {name: both")[0] + "\n"
    for name in ("one", "two"):
        write(tmp_path, **{name: TABLE.format(name=name) + gold})
        (tmp_path / name / "own.sql").write_text(f"select id from silver_{name}")
    assert [broken.name for broken in read(tmp_path).broken] == ["same", "one", "two"]


def test_a_circle_stops_its_tables(tmp_path):
    first, second = (TABLE.format(name=name) + READS.format(other) for name, other in (("a", "b"), ("b", "a")))
    assert names(read(write(tmp_path, a=first, b=second, c=TABLE.format(name="c")))) == (["c"], ["a", "b"])


def test_a_shared_file_stops_all_that_use_it_and_is_reported_once(tmp_path):
    write(tmp_path, first=TABLE.format(name="first"), last=TABLE.format(name="last"))
    (tmp_path / "__init__.py").touch()
    (tmp_path / "defaults.yaml").write_text("tabels: {}\n")
    loaded = read(tmp_path)
    assert names(loaded) == ([], ["first", "last"])
    assert len(loaded.mistakes) == 1 and "defaults.yaml:1: tabels: not known here" in loaded.mistakes[0]
    with pytest.raises(ConfigError, match=r"defaults\.yaml:1"):
        loaded.require_some()
    assert read(tmp_path / "nothing").require_some().tables == ()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a broken and a good table, for the CLI and for Dagster."""
    folder = write(tmp_path / "tables", fine=TABLE.format(name="fine"), wrong=WRONG)
    (tmp_path / "landing").mkdir(exist_ok=True)
    (tmp_path / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "tables"\nasset_prefix = ["shop"]\n')
    for name, value in {"ROOT": "lake", "LANDING": "landing", "PROJECT": ""}.items():
        monkeypatch.setenv(f"LAKEHOUSE_{name}", str(tmp_path / value))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)  # a command that opens Dagster goes there, and nobody brings it back
    return folder


def test_dagster_shows_it(project, caplog):
    with caplog.at_level(logging.ERROR, "dagster.lakehouse"):
        defs = definitions.build_definitions(Settings.from_environment())
    assert "wrong stops: " in caplog.text and "defs.yaml:9" in caplog.text
    repository = defs.get_repository_def()
    assets = {key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()}
    assert {"shop/silver_fine", "shop/configuration_wrong"} <= assets
    assert "shop/silver_wrong" not in assets
    sensor = repository.get_sensor_def("report_configuration_wrong")
    with dg.DagsterInstance.ephemeral() as instance:
        tick = sensor.evaluate_tick(dg.build_sensor_context(instance))
        (event,) = tick.asset_events
        assert isinstance(event, dg.AssetCheckEvaluation)
        assert (event.asset_key.to_user_string(), event.passed) == ("shop/configuration_wrong", False)
        assert "unknown type 'duoble'" in str(event.description)
        again = sensor.evaluate_tick(dg.build_sensor_context(instance, cursor=tick.cursor))
        assert not again.asset_events and again.skip_message


@pytest.fixture
def load_components(project, tmp_path, monkeypatch):
    """Load the project's tables as Dagster's own loader does, as components of a package; the sensors' names and the assets."""
    package = tmp_path / f"shop_{tmp_path.name}"

    def load() -> tuple[list[str], set[str]]:
        package.mkdir()
        (package / "__init__.py").touch()
        project.rename(package / "defs")
        (package / "defs" / "__init__.py").touch()
        (tmp_path / "pyproject.toml").write_text(f'[tool.lakehouse]\ntables = "{package.name}/defs"\n')
        monkeypatch.syspath_prepend(tmp_path)
        tree = dg.ComponentTree.from_module(importlib.import_module(f"{package.name}.defs"), project_root=tmp_path)
        defs = tree.build_defs()
        dg.Definitions.validate_loadable(defs)
        assets = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
        return sorted(sensor.name for sensor in defs.sensors or ()), assets

    yield load
    for name in [name for name in sys.modules if name.split(".")[0] == package.name]:
        del sys.modules[name]


def test_dagsters_own_loader_reports_it_and_loads_the_others(project, load_components):
    readers = {name: TABLE.format(name=name) + READS.format(other) for name, other in (("broken", "wrong"), ("reader", "fine"))}
    write(project, **readers)
    sensors, assets = load_components()
    assert {"silver_fine", "silver_reader", "configuration_wrong", "configuration_broken"} <= assets
    assert not {"silver_wrong", "silver_broken"} & assets
    assert len(sensors) == len(set(sensors))
    assert {"watch_sources", "report_configuration_broken", "report_configuration_wrong"} <= set(sensors)


def test_assets_of_others_go_on_where_every_table_has_a_mistake(project, load_components):
    write(project, fine=WRONG.replace("name: wrong", "name: fine"))
    (project / "theirs.py").write_text("import dagster as dg\n\n@dg.asset\ndef theirs(): ...\n")
    sensors, assets = load_components()
    assert assets == {"theirs", "configuration_fine", "configuration_wrong"}
    assert {"report_configuration_fine", "report_configuration_wrong"} <= set(sensors)


def test_the_command_goes_on_and_ends_with_the_mistake(project):
    (project.parent / "landing" / "fine").mkdir()
    result = CliRunner().invoke(cli.app, ["run"])
    assert isinstance(result.exception, ConfigError), result.output
    assert "unknown type 'duoble'" in str(result.exception)
    assert "nothing to do: each window that has arrived is judged" in result.stdout
    one = CliRunner().invoke(cli.app, ["run", "--table", "wrong"])
    assert isinstance(one.exception, ConfigError)
    for command in (["verdicts", "--table"], ["quarantine", "list", "--table"], ["quarantine", "show"], ["rebuild"]):
        named = CliRunner().invoke(cli.app, [*command, "wrong"])
        assert isinstance(named.exception, ConfigError), "it is there, and not loaded"
        assert str(named.exception).startswith("wrong is not loaded, because of its mistakes:\n")
        assert "unknown type 'duoble'" in str(named.exception)
        assert "duoble" not in named.output, "the error alone names it"
    listed = CliRunner().invoke(cli.app, ["check", "list", "--json"])
    assert listed.exit_code == 0 and "warning: " in listed.stderr
    assert {row["table"] for row in json.loads(listed.stdout)} == {"fine"}
    assert isinstance(CliRunner().invoke(cli.app, ["check", "validate"]).exception, ConfigError)
