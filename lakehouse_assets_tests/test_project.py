"""The project's folder and its keys: where it is found, what wins, and what is said of mistakes.

Belongs here: `[tool.lakehouse]`, `LAKEHOUSE_PROJECT`, commands with and without a project. Does not: an installed wheel (e2e).
"""

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from lakehouse_assets import cli
from lakehouse_assets.contracts.audit import read_rules
from lakehouse_assets.contracts.new_project import ProjectPlan, plan_project
from lakehouse_assets.errors import ConfigError, LakehouseError, ProjectMissing
from lakehouse_assets.orchestration.assets.project_tables import load_tables
from lakehouse_assets.project import ProjectConfig, read_config
from lakehouse_assets.settings import Settings, project_folder
from lakehouse_assets_tests.support import PROJECT_ROOT

TABLE = """\
type: lakehouse_assets.LakehouseTable
attributes:
  name: {name}
  source: {{kind: files, path: "{name}/{{window:%Y-%m-%d}}.csv", format: csv}}
  extraction: {{cadence: daily, start: 2024-01-01}}
  key: [id]
  columns: {{id: bigint}}
"""


def make_project(folder: Path, keys: str = 'tables = "defs"', **tables: str) -> Path:
    """Write a project with these tables, each from its text."""
    (folder / "defs").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(f"[tool.lakehouse]\n{keys}\n")
    for name, text in tables.items():
        (folder / "defs" / name).mkdir()
        (folder / "defs" / name / "defs.yaml").write_text(text or TABLE.format(name=name))
    return folder


@pytest.fixture
def command(monkeypatch):
    """Run `lakehouse` in a folder; what it raises, or None."""

    def run(folder: Path, *arguments: str, project: Path | None = None) -> LakehouseError | None:
        monkeypatch.chdir(folder)
        for name in ("LAKEHOUSE_ROOT", "LAKEHOUSE_LANDING", "LAKEHOUSE_PROJECT"):
            monkeypatch.delenv(name, raising=False)
        if project:
            monkeypatch.setenv("LAKEHOUSE_PROJECT", str(project))
        result = CliRunner().invoke(cli.app, list(arguments))
        assert isinstance(result.exception, LakehouseError | None), result.output
        return result.exception

    return run


def test_the_repository_is_a_project():
    settings = Settings.from_environment({}, start=PROJECT_ROOT / "docs")
    assert (settings.project, settings.dagster_home) == (PROJECT_ROOT, PROJECT_ROOT)
    assert (settings.root, settings.tables) == (f"{PROJECT_ROOT}/data/lake", PROJECT_ROOT / "lakehouse_assets" / "tables")
    assert (settings.executor, settings.asset_prefix) == ("in_process", ())


def test_the_nearest_project_above_the_working_directory_is_found(tmp_path, monkeypatch):
    outer, inner = make_project(tmp_path), make_project(tmp_path / "a" / "inner")
    (inner / "deep").mkdir()
    (inner / "deep" / "pyproject.toml").write_text("[tool.other]\n")
    monkeypatch.chdir(inner / "deep")
    assert project_folder({}) == inner
    monkeypatch.chdir(tmp_path / "a")
    assert project_folder({}) == outer
    assert project_folder({"LAKEHOUSE_PROJECT": "inner"}) == inner


def test_keys_are_defaults_and_the_environment_wins(tmp_path):
    keys = (
        'tables = "defs"\nroot = "s3n://bucket/lake"\nlanding = "in"\ndagster_home = "home"\nasset_prefix = ["sales", "eu"]\n'
        'spark_master = "local[1]"\nspark_conf = "spark.conf"'
    )
    project = make_project(tmp_path / "one", keys)
    settings = Settings.from_environment({}, start=project)
    assert (settings.root, settings.landing) == ("s3a://bucket/lake", f"{project}/in")
    assert (settings.dagster_home, settings.spark_conf) == (project / "home", project / "spark.conf")
    assert (settings.asset_prefix, settings.executor, settings.spark_master) == (("sales", "eu"), "project", "local[1]")
    environ = {"LAKEHOUSE_ROOT": "/lake", "LAKEHOUSE_LANDING": "here", "DAGSTER_HOME": "/home", "LAKEHOUSE_SPARK_CONF": "/s"}
    settings = Settings.from_environment(environ, start=project)
    assert (settings.root, settings.landing) == ("/lake", f"{project}/here")
    assert (settings.dagster_home, settings.spark_conf) == (Path("/home"), Path("/s"))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('tabels = "defs"', ":2: tool.lakehouse.tabels: not known here; did you mean tables? There are tables, audits, root"),
        ('root = "lake"', ":1: tool.lakehouse.tables: the folder of the tables is missing, e.g. tables ="),
        ('tables = "defs"\nroot = 3', ":3: tool.lakehouse.root: "),
        ('tables = "defs"\nlanding = ""', ":3: tool.lakehouse.landing: "),
        ('tables = "defs"\nasset_prefix = ["a/b"]', ":3: tool.lakehouse.asset_prefix.0: "),
        ('tables = "defs"\nasset_prefix = "sales"', ":3: tool.lakehouse.asset_prefix: "),
        ('tables = "defs"\nexecutor = "k8s"', ":3: tool.lakehouse.executor: "),
        ("tables = ", "it cannot be read as TOML"),
    ],
)
def test_a_mistake_in_the_keys_names_file_line_and_key(tmp_path, keys, message):
    project = make_project(tmp_path / "one", keys)
    with pytest.raises(ConfigError) as caught:
        read_config(project)
    assert str(caught.value).startswith(f"{project}/pyproject.toml")
    assert message in str(caught.value)


def test_a_folder_of_tables_that_is_not_there(tmp_path, command):
    make_project(tmp_path, 'tables = "nowhere"')
    refused = command(tmp_path, "check", "validate")
    assert refused.exit_code == 2
    assert "tool.lakehouse.tables: there is no folder" in str(refused)


def test_without_a_project_only_what_needs_one_is_refused(tmp_path, command):
    for arguments in (["--help"], ["check", "kinds"], ["run", "--help"]):
        assert command(tmp_path, *arguments) is None, arguments
    for arguments in (["run"], ["verdicts"], ["check", "validate"], ["init", "t", "--from", "x.csv"]):
        refused = command(tmp_path, *arguments)
        assert refused.exit_code == 3, arguments
        assert "there is no lakehouse project" in str(refused)
        assert "`lakehouse new` makes one" in str(refused)
    refused = command(tmp_path, "verdicts", project=tmp_path)
    assert refused.exit_code == 3
    assert "unset it" in str(refused)
    assert not list(tmp_path.iterdir())
    removed_folder = tmp_path / "gone"
    removed_folder.mkdir()
    command(removed_folder, "--help")
    removed_folder.rmdir()
    with pytest.raises(ProjectMissing, match="the working directory is gone"):
        project_folder({})


def test_two_projects_of_one_environment_do_not_mix(tmp_path, command):
    one, two = make_project(tmp_path / "one", orders=""), make_project(tmp_path / "two", refunds="")
    assert "there are orders" in str(command(one, "run", "--table", "nope"))
    assert "there are refunds" in str(command(two, "run", "--table", "nope"))
    assert "there are orders" in str(command(two, "run", "--table", "nope", project=one))


def test_a_project_has_audit_rules_of_its_own_beside_the_built_in_ones(tmp_path):
    project = make_project(tmp_path / "one", 'tables = "defs"\naudits = "rules"')
    settings = Settings.from_environment({}, start=project)
    with pytest.raises(ConfigError, match=r"tool\.lakehouse\.audits: there is no folder"):
        read_rules(own=settings.audits)
    (project / "rules").mkdir()
    rule = "{name: mine, columns: [amount], check: {check: in_range, min: 0}}"
    (project / "rules" / "mine.yaml").write_text(f"description: ours\nrules:\n  - {rule}\n")
    names = {rule.name for rule in read_rules(own=settings.audits).rules}
    assert names == {rule.name for rule in read_rules().rules} | {"mine"}


def test_components_of_others_are_left_to_dagster(tmp_path):
    """Their YAML may have what ours must not: anchors, tags, keys beside the attributes."""
    others = "type: dagster_dbt.DbtProjectComponent\nattributes: &a {project: x}\nrequirements: {env: [A]}\n"
    make_project(tmp_path, orders="", dbt=others)
    assert [table.spec.name for table in load_tables(tmp_path / "defs")] == ["orders"]
    (tmp_path / "defs" / "dbt" / "defs.yaml").write_text(TABLE.format(name="x").replace("LakehouseTable", "LakehouseTabel"))
    with pytest.raises(ConfigError, match=r"dbt/defs\.yaml:1: type: there is no component"):
        load_tables(tmp_path / "defs")


def test_the_page_on_configuration_lists_each_key_with_its_default():
    page = (PROJECT_ROOT / "docs" / "configuration.md").read_text(encoding="utf-8").partition("## The project")[2]
    written = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", page.partition("\n## ")[0], re.MULTILINE))
    defaults = {
        name: "required" if field.is_required() else field.default for name, field in ProjectConfig.model_fields.items()
    }
    assert {name: text.strip("`") for name, text in written.items()} == {
        name: "none" if value is None else json.dumps(value).strip('"') for name, value in defaults.items()
    }


def test_new_makes_a_project_that_dagster_loads(tmp_path, command, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    folder = tmp_path / "My-Shop"
    assert command(tmp_path, "new", str(folder)) is None
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    source = {"__init__.py", "definitions.py", "defs/__init__.py", "defs/table.schema.json"}
    assert written == {".env", ".gitignore", "dagster.yaml", "pyproject.toml", *(f"src/my_shop/{name}" for name in source)}
    assert (folder / ".env").read_text() == f"DAGSTER_HOME={folder}\n"
    assert (folder / "dagster.yaml").read_text() == (PROJECT_ROOT / "dagster.yaml").read_text()
    assert Settings.from_environment({}, start=folder).tables == folder / "src" / "my_shop" / "defs"
    assert command(folder, "check", "validate") is None


def test_new_changes_nothing_that_exists_and_shows_what_to_add(tmp_path, command, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    (tmp_path / "shop").mkdir()
    dg = '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "shop"\n'
    before = {
        "pyproject.toml": f'[project]\nname = "shop"\n{dg}',
        "dagster.yaml": "run_retries: {enabled: true}\n",
        ".env": "A=1\n",
        "shop/definitions.py": "# theirs\n",
    }
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    plan = plan_project(tmp_path, None)
    assert {path.relative_to(tmp_path).as_posix() for path in plan.files} == {
        ".gitignore", "shop/__init__.py", "shop/defs/__init__.py", "shop/defs/table.schema.json"
    }  # fmt: skip
    assert plan.additions[tmp_path / "pyproject.toml"] == '[tool.lakehouse]\ntables = "shop/defs"\n'
    assert set(yaml.safe_load(plan.additions[tmp_path / "dagster.yaml"])) == {
        "concurrency", "run_monitoring", "sensors", "retention"
    }  # fmt: skip
    assert command(tmp_path, "new") is None
    assert {name: (tmp_path / name).read_text() for name in before} == before
    (tmp_path / "pyproject.toml").write_text(before["pyproject.toml"] + plan.additions[tmp_path / "pyproject.toml"])
    (tmp_path / "dagster.yaml").write_text(before["dagster.yaml"] + plan.additions[tmp_path / "dagster.yaml"])
    (tmp_path / ".env").write_text(before[".env"] + plan.additions[tmp_path / ".env"])
    assert plan_project(tmp_path, None) == ProjectPlan({}, {})
    assert Settings.from_environment({}, start=tmp_path).tables == tmp_path / "shop" / "defs"


def test_new_leaves_an_instance_of_ones_own_alone(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    plan = plan_project(tmp_path / "shop", tmp_path / "home")
    assert not {path.name for path in plan.files} & {"dagster.yaml", ".env"}
    assert set(plan.additions) == {tmp_path / "home" / "dagster.yaml"}


@pytest.mark.parametrize(("home", "is_named"), [("home", True), ("shop", False), (None, False)])
def test_new_names_the_instance_of_another_folder_that_it_uses(tmp_path, monkeypatch, home, is_named):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    if home:
        monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / home))
    result = CliRunner().invoke(cli.app, ["new", str(tmp_path / "shop")])
    line = f"uses the Dagster instance in {tmp_path / 'home'}, because DAGSTER_HOME is set; unset it"
    assert result.exit_code == 0
    assert (line in result.output) == is_named
    assert ("DAGSTER_HOME is set" in result.output) == is_named


@pytest.mark.parametrize("name", ["3d", "class", "...", "Ü"])
def test_new_refuses_a_folder_whose_name_is_no_modules(tmp_path, command, name):
    refused = command(tmp_path, "new", str(tmp_path / name))
    assert refused.exit_code == 2
    assert "choose a folder like my_project" in str(refused)
    assert not list(tmp_path.iterdir())


def test_new_refuses_what_it_cannot_read_or_write(tmp_path, command):
    (tmp_path / "file").write_text("")
    assert "is a file" in str(command(tmp_path, "new", str(tmp_path / "file")))
    (tmp_path / "pyproject.toml").write_text("[tool")
    assert "cannot be read as TOML" in str(command(tmp_path, "new"))
    assert command(tmp_path, "new", "/proc/shop").exit_code == 3
