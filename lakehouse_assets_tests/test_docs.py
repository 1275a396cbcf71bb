"""The documents, held to the code: commands parse, YAML is accepted, links lead somewhere, the reference is up to date.

Belongs here: what README and docs show. Does not: typing the README's commands (e2e/test_readme).
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

from lakehouse_assets.checks.base import CheckContext, RowCheck
from lakehouse_assets.checks.describe import described
from lakehouse_assets.checks.registry import kinds
from lakehouse_assets.cli import app
from lakehouse_assets.contracts.audit import AuditPack
from lakehouse_assets.contracts.event import DecisionEvent
from lakehouse_assets.contracts.sharing import Defaults, Pack, Shared, whole
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.settings import PROJECT_ROOT

PAGES = [PROJECT_ROOT / "README.md", *sorted((PROJECT_ROOT / "docs").glob("*.md"))]
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
    """The fenced blocks of a language, without the indentation of a list that they stand in."""
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for block in found]


def everywhere(language: str) -> list:
    return [
        pytest.param(block, id=f"{page.name}-{place}") for page in PAGES for place, block in enumerate(blocks(page, language))
    ]


def test_the_reference_is_what_the_models_give():
    done = subprocess.run(
        [sys.executable, "scripts/make_reference.py", "--check"], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_event_s_schema_is_what_the_model_gives():
    command = [sys.executable, "scripts/make_event_schema.py", "--check"]
    done = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_on_events_names_each_field():
    text = (PROJECT_ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    for name in DecisionEvent.model_fields:
        assert f"`{name}`" in text, name


@pytest.mark.parametrize("block", everywhere("yaml"))
def test_each_yaml_shown_is_accepted(block):
    shown = yaml.safe_load(block)
    if "storage" in shown:  # a piece of dagster.yaml
        schema = {"storage": dagster_instance_config_schema()["storage"]}
        assert validate_config(schema, shown).success
        return
    if block.startswith(("# lakehouse_assets/tables/packs.yaml", "# lakehouse_assets/tables/defaults.yaml")):
        assert shown
        return  # read below, for the tables that use it
    if block.startswith("# lakehouse_assets/audits/"):
        assert AuditPack.model_validate(shown)
        return
    if isinstance(shown, list):
        shown = {"checks": shown}
    given = shown.get("attributes", {**TABLE, **shown})
    assert TableSpec.model_validate(whole(given, shown_to_be_shared()).attributes)


def shown_to_be_shared() -> Shared:
    """The packs and defaults that the pages show."""
    found: dict[str, dict] = {"packs": {}, "defaults": {}}
    for page in PAGES:
        for block in blocks(page, "yaml"):
            if name := re.match(r"# lakehouse_assets/tables/(packs|defaults)\.yaml", block):
                found[name[1]] |= yaml.safe_load(block)
    packs = {name: Pack.model_validate(pack) for name, pack in found["packs"].items()}
    return Shared(Defaults.model_validate(found["defaults"]), packs)


def test_the_packs_shown_make_checks_of_the_table_shown():
    packs = [{"pack": name, "with": {"longitude": "lon"} if name == "position" else {}} for name in shown_to_be_shared().packs]
    assert len(packs) > 1
    columns = {"latitude_deg": "double", "lon": "double", "device_id": "string"}
    found = whole({"packs": packs, "columns": columns}, shown_to_be_shared()).attributes
    assert [c["column"] for c in found["checks"]] == ["latitude_deg", "lon", "device_id"]


@pytest.mark.parametrize("name", kinds())
def test_each_kind_says_what_it_makes_of_null(name):
    told = described(kinds()[name])
    assert re.search(r"NULL", told["nulls"]), told["details"]
    assert told["what"]
    assert told["example"]
    assert all(parameter["meaning"] for parameter in told["parameters"])


def said_of_lakehouse() -> list[str]:
    """Every `lakehouse …` of a shell block, or in backquotes in a text."""
    found = set()
    for page in PAGES:
        for block in blocks(page, "sh"):
            lines = re.sub(r"<<'(\w+)'.*?^\1$", "", block, flags=re.MULTILINE | re.DOTALL).splitlines()
            found |= {line.strip().removeprefix(".venv/bin/") for line in lines}
        prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        found |= {" ".join(text.split()) for text in re.findall(r"`(lakehouse [^`]+)`", prose)}
    return sorted(line for line in found if line.startswith("lakehouse "))


@pytest.mark.parametrize("line", said_of_lakehouse())
def test_each_command_shown_is_one(line):
    """Parsed with its options; run it is not."""
    command, words = get_command(app), shlex.split(line, comments=True)[1:]
    if words[-1:] == ["--help"]:
        words.pop()
    while isinstance(command, typer.core.TyperGroup):
        if not words:
            return
        name, found, words = command.resolve_command(typer.Context(command, info_name="lakehouse"), words)
        assert found is not None, f"{name} is no command"
        command = found
    # In a text a command may be named without what it takes.
    assert command.make_context(command.name, [*words], resilient_parsing=not words)


def test_there_are_commands_to_look_at():
    assert len(said_of_lakehouse()) > 10


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


def test_the_map_names_each_file_that_it_says():
    """Files in the table of the flow, below the room that its heading names."""
    text = (PROJECT_ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(
        r"`((?:orchestration|layers|measures|storage|sources|events|reports|decisions|contracts|checks)/\w+\.py)`", text
    )
    assert len(named) > 15
    for name in named:
        assert (PROJECT_ROOT / "lakehouse_assets" / name).is_file(), name


def test_the_readme_names_each_variable_that_is_read():
    read = set(re.findall(r'"(LAKEHOUSE_[A-Z_]+|DAGSTER_HOME)"', (PROJECT_ROOT / "lakehouse_assets/settings.py").read_text()))
    table = (PROJECT_ROOT / "README.md").read_text(encoding="utf-8").partition("## Configuration")[2]
    assert read
    for name in read:
        assert f"`{name}" in table, name


def test_the_check_of_ones_own_that_is_shown_works(spark):
    page = PROJECT_ROOT / "docs" / "development.md"
    [source] = [block for block in blocks(page, "python") if "RowCheck" in block]
    made: dict = {}
    exec(compile(source, "development.md", "exec"), made)
    [kind] = [each for each in made.values() if isinstance(each, type) and issubclass(each, RowCheck) and each is not RowCheck]
    check = kind.model_validate(yaml.safe_load(kind.example))
    context = CheckContext((), "timestamp'2024-05-01'", "timestamp'2024-05-02'", "batch")
    frame = spark.createDataFrame([("EWR",), ("ewr",), (None,)], "origin string")
    assert [row[0] for row in frame.selectExpr(check.failing(context)).collect()] == [False, True, False]
