"""The documents agree with the code: commands parse, YAML is accepted, links and files exist, the reference is up to date.

Belongs here: what README and docs show. Does not: running the README's commands (e2e/test_readme), or the examples of
"What do I touch?" (test_what_do_i_touch).
"""

import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import typer
import yaml
from dagster._config import validate_config
from dagster._core.instance.config import dagster_instance_config_schema
from typer.main import get_command

from lakehouse_assets import errors
from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.families import ColumnCheck
from lakehouse_assets.checks.registry import describe_kind, kinds
from lakehouse_assets.cli import app
from lakehouse_assets.contracts.audit import AuditPack
from lakehouse_assets.contracts.event import DecisionEvent
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.sharing import Defaults, Pack, Shared, resolve_attributes
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.table_tests import TableTestsFile
from lakehouse_assets.contracts.table_tests_file import with_texts
from lakehouse_assets.orchestration.code_servers import CodeServerLauncher
from lakehouse_assets.orchestration.workers.folder import WorkerLimits
from lakehouse_assets.orchestration.workers.launcher import WorkerLauncher
from lakehouse_assets.pipeline.gate import STEPS
from lakehouse_assets_tests.support import PROJECT_ROOT

PAGES = [PROJECT_ROOT / "README.md", PROJECT_ROOT / "deploy" / "README.md", *sorted((PROJECT_ROOT / "docs").glob("*.md"))]
TABLE = {
    "name": "shown",
    "source": {
        "kind": "files", "path": "shown/{window:%Y-%m-%d}.csv", "format": "csv", "control": "shown/{window:%Y-%m-%d}.json",
    },
    "extraction": {"cadence": "daily", "start": "2024-05-01T00:00:00Z"},
    "key": ["origin", "time_hour"],
    "columns": {
        "origin": "string", "time_hour": "timestamp", "tail_number": "string", "scheduled_departure_at": "timestamp",
        "departures": "int", "day": "date", "humidity_percent": "double", "pressure_kpa": "double",
        "departed_at": "timestamp", "arrived_at": "timestamp", "wind_gust_ms": "double", "wind_speed_ms": "double",
        "latitude_deg": "double", "longitude_deg": "double", "lon": "double",
        **dict.fromkeys("address contact country currency device_id homepage payload status zip".split(), "string"),
    },
}  # fmt: skip


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language, without the indentation of a surrounding list."""
    texts = re.findall(rf"^ *```{language}\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for text in texts]


def blocks_of_all_pages(language: str) -> list:
    return [
        pytest.param(block, id=f"{page.name}-{index}") for page in PAGES for index, block in enumerate(blocks(page, language))
    ]


def test_the_reference_page_matches_the_models():
    process = subprocess.run(
        [sys.executable, "scripts/make_reference.py", "--check"], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


def test_the_event_schema_matches_the_model():
    command = [sys.executable, "scripts/make_event_schema.py", "--check"]
    process = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def test_the_page_on_events_names_each_field():
    text = (PROJECT_ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    for name in DecisionEvent.model_fields:
        assert f"`{name}`" in text, name


@pytest.mark.parametrize("block", blocks_of_all_pages("yaml"))
def test_each_yaml_shown_is_accepted(block):
    shown = yaml.safe_load(block)
    if "storage" in shown:  # a piece of dagster.yaml
        schema = {"storage": dagster_instance_config_schema()["storage"]}
        assert validate_config(schema, shown).success
        return
    if "run_launcher" in shown:  # another one
        config = shown["run_launcher"].pop("config", None)
        launcher = CodeServerLauncher if config is None else WorkerLauncher
        assert shown["run_launcher"] == {"module": launcher.__module__, "class": launcher.__name__}
        if config is None:
            assert validate_config(launcher.config_type(), {}).success
            return
        assert WorkerLimits(**validate_config(WorkerLauncher.config_type(), config).value) == WorkerLimits()
        return
    if block.startswith(("# lakehouse_assets/tables/packs.yaml", "# lakehouse_assets/tables/defaults.yaml")):
        assert shown
        return  # read below, for the tables that use it
    if "tests" in shown:
        assert TableTestsFile.model_validate(with_texts(shown, yaml.compose(block))).tests
        return
    if block.startswith("# lakehouse_assets/audits/"):
        assert AuditPack.model_validate(shown)
        return
    if isinstance(shown, list):
        shown = {"checks": shown}
    attributes = shown.get("attributes", {**TABLE, **shown})
    if str(shown.get("type")).endswith(".GuardedTable"):
        assert GuardSpec.model_validate(attributes)
        return
    assert TableSpec.model_validate(resolve_attributes(attributes, shared_by_the_pages()).attributes)


def shared_by_the_pages() -> Shared:
    """The packs and defaults that the pages show."""
    shared: dict[str, dict] = {"packs": {}, "defaults": {}}
    for page in PAGES:
        for block in blocks(page, "yaml"):
            if name := re.match(r"# lakehouse_assets/tables/(packs|defaults)\.yaml", block):
                shared[name[1]] |= yaml.safe_load(block)
    packs = {name: Pack.model_validate(pack) for name, pack in shared["packs"].items()}
    return Shared(Defaults.model_validate(shared["defaults"]), packs)


def test_the_packs_shown_make_checks_of_the_table_shown():
    packs = [{"pack": name, "with": {"longitude": "lon"} if name == "position" else {}} for name in shared_by_the_pages().packs]
    assert len(packs) > 1
    columns = {"latitude_deg": "double", "lon": "double", "device_id": "string"}
    attributes = resolve_attributes({"packs": packs, "columns": columns}, shared_by_the_pages()).attributes
    assert [c["column"] for c in attributes["checks"]] == ["latitude_deg", "lon", "device_id"]


@pytest.mark.parametrize("name", kinds())
def test_each_kind_describes_how_it_treats_null(name):
    description = describe_kind(kinds()[name])
    assert re.search(r"NULL", description["nulls"]), description["details"]
    assert description["what"]
    assert description["example"]
    assert all(parameter["meaning"] for parameter in description["parameters"])


def commands_shown() -> list[str]:
    """Every `lakehouse …` of a shell block, or in backquotes in a text."""
    commands = set()
    for page in PAGES:
        for block in blocks(page, "sh"):
            lines = re.sub(r"<<'(\w+)'.*?^\1$", "", block, flags=re.MULTILINE | re.DOTALL).splitlines()
            commands |= {line.strip().removeprefix(".venv/bin/") for line in lines}
        prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        commands |= {" ".join(text.split()) for text in re.findall(r"`(lakehouse [^`]+)`", prose)}
    return sorted(command for command in commands if command.startswith("lakehouse "))


@pytest.mark.parametrize("line", commands_shown())
def test_each_command_shown_is_one(line):
    """The line is parsed with its options, and not run."""
    command, arguments = get_command(app), shlex.split(line, comments=True)[1:]
    if arguments[-1:] == ["--help"]:
        arguments.pop()
    while isinstance(command, typer.core.TyperGroup):
        if not arguments:
            return
        name, subcommand, arguments = command.resolve_command(typer.Context(command, info_name="lakehouse"), arguments)
        assert subcommand is not None, f"{name} is no command"
        command = subcommand
    # A text may name a command without its arguments.
    assert command.make_context(command.name, [*arguments], resilient_parsing=not arguments)


def test_the_pages_show_commands():
    assert len(commands_shown()) > 10


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_file_and_target_named_is_there(page):
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"(?:python |`)((?:scripts|benchmarks|docs)/[\w/]+\.\w+)", text):
        assert (PROJECT_ROOT / name).is_file(), name
    makefile = (PROJECT_ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


ROOTS = (PROJECT_ROOT, PROJECT_ROOT / "lakehouse_assets", PROJECT_ROOT / "lakehouse_assets_tests")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_source_file_named_exists(page):
    # `src/` is of a project of the reader's own.
    for name in re.findall(r"(?<!New file )`((?!src/)[\w/]+/\w+\.py)`", page.read_text(encoding="utf-8")):
        assert any((root / name).is_file() for root in ROOTS), name


def test_the_map_names_the_file_of_each_step():
    text = (PROJECT_ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = re.findall(
        r"^\| [`a-z_, ]+ \| .* \| (.*) \|$", text.partition("## The flow")[2].partition("## The rooms")[0], re.MULTILINE
    )
    assert len(steps) > 20
    assert all(re.search(r"`[\w/]+\.py`", files) for files in steps)


def test_the_map_has_the_steps_of_the_gate_in_their_order():
    text = (PROJECT_ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("**The gate.**")[2].partition("**After the gate:**")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [step.__name__ for step in STEPS]


def test_the_map_lists_each_room():
    text = (PROJECT_ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## The rooms")[2]
    folders = {path.parent.name for path in (PROJECT_ROOT / "lakehouse_assets").glob("*/*.py")}
    assert "pipeline" in folders
    for folder in folders:
        assert re.search(rf"^  {folder}/", text, re.MULTILINE), folder


def test_the_page_on_configuration_names_each_variable_that_is_read():
    pattern = r'"(LAKEHOUSE_[A-Z_]+|AUDIT_[A-Z_]+|DAGSTER_HOME)"'
    names = set(re.findall(pattern, (PROJECT_ROOT / "lakehouse_assets/settings.py").read_text()))
    table = (PROJECT_ROOT / "docs" / "configuration.md").read_text(encoding="utf-8").partition("## Environment variables")[2]
    assert len(names) > 10
    for name in names:
        assert f"`{name}" in table, name


def test_the_page_on_configuration_has_each_exit_code():
    table = (PROJECT_ROOT / "docs" / "configuration.md").read_text(encoding="utf-8").partition("## Exit codes")[2]
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.LakehouseError)]
    assert codes == {0, *(error.exit_code for error in classes)}


def test_the_readme_is_short():
    assert len((PROJECT_ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 250


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "README.md"], ids=lambda page: page.name)
def test_each_page_opens_with_the_reader_s_goals(page):
    _, opening = page.read_text(encoding="utf-8").split("\n\n")[:2]
    assert opening.startswith("After this page you can "), opening


def test_each_message_in_the_troubleshooting_page_is_raised_somewhere():
    """The fixed parts of a quoted message, between the variable parts."""
    page = (PROJECT_ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    sources = [
        path.read_text(encoding="utf-8")
        for folder in ("lakehouse_assets", "scripts")
        for path in (PROJECT_ROOT / folder).rglob("*.*")
        if path.suffix in {".py", ".sh"}
    ]
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(messages) > 4
    for message in messages:
        fragments = [part.strip(" ,") for part in re.split("…|found none|3000", message) if part.strip(" ,")]
        assert all(any(fragment in source for source in sources) for fragment in fragments), message


def test_the_check_kind_that_is_shown_works(spark):
    page = PROJECT_ROOT / "docs" / "development.md"
    [source] = [block for block in blocks(page, "python") if "ColumnCheck" in block]
    namespace: dict = {}
    exec(compile(source, "development.md", "exec"), namespace)
    [kind] = [
        each
        for each in namespace.values()
        if isinstance(each, type) and issubclass(each, ColumnCheck) and each is not ColumnCheck
    ]
    check = kind.model_validate(yaml.safe_load(kind.example))
    context = CheckContext((), "timestamp'2024-05-01'", "timestamp'2024-05-02'", "batch")
    frame = spark.createDataFrame([("EWR",), ("ewr",), (None,)], "origin string")
    assert [row[0] for row in frame.selectExpr(check.failing(context)).collect()] == [False, True, False]
