"""Extensions from a project's folder and from installed packages: found, and refused by name where they are wrong.

Belongs here: finding them, and their mistakes. Does not: using them (test_extensions_page), or the kinds' contracts.
"""

import sys
from pathlib import Path

import pytest

from lakehouse_assets import extensions
from lakehouse_assets.checks import registry
from lakehouse_assets.checks.sql import functions
from lakehouse_assets.contracts import alert_channel, source_kinds
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.table_contract import AlertSpec
from lakehouse_assets.errors import ConfigError, RefusedError
from lakehouse_assets.events.alerts import send_message
from lakehouse_assets.orchestration.assets.project_tables import find_tables
from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.support import readings

CACHES = (extensions.extensions, extensions._root, registry.kinds, source_kinds.source_kinds, alert_channel.own_channels,
          functions.own_functions, functions.functions)  # fmt: skip
CHECK = """
from typing import Literal
from lakehouse_assets.checks.families import ColumnCheck, RowCheck
from ._examples import EXAMPLE
class Even(ColumnCheck):
    "The number is even. NULL passes."
    summary = "the number is even"
    example = EXAMPLE
    rule = "{column} even"
    check: Literal["even"]
    column: str
    "A whole number."
    def condition(self, context):
        return f"{self.column} % 2 <> 0"
"""
EXAMPLE = 'EXAMPLE = "{check: even, column: hour}"\n'
SOURCE = """
from typing import Literal
from lakehouse_assets.contracts.source_kind import SourceKind
class Queue(SourceKind):
    "A queue."
    kind: Literal["queue"]
    nulls: tuple[str, ...] = ()
    timezone: str = "UTC"
    @property
    def medium(self):
        return "queue"
    @property
    def location(self):
        return "the queue"
    def open_source(self, opening):
        return opening
"""
ALERT = """
from lakehouse_assets.contracts.alert_channel import AlertChannel
class Pager(AlertChannel):
    key = "pagers"
    def send(self, recipient, secret, title, text):
        raise ValueError(secret(recipient))
"""
FUNCTION = """
from lakehouse_assets.checks.sql.functions import SqlFunction
EVEN = SqlFunction("is_even", returns="boolean", python=lambda value: value % 2 == 0)
"""
FILES = {"checks": CHECK, "sources": SOURCE, "alerts": ALERT, "functions": FUNCTION}
READ = {
    "checks": registry.kinds, "sources": source_kinds.source_kinds, "functions": functions.own_functions,
    "alerts": lambda: alert_channel.own_channels(tuple(AlertSpec.model_fields)),
}  # fmt: skip


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project's folder of extensions; what was found before comes back afterwards."""

    def clear():
        for each in CACHES:
            each.cache_clear()
        for name in [name for name in sys.modules if name.split(".")[0] == extensions.PACKAGE]:
            del sys.modules[name]

    clear()
    monkeypatch.setattr(extensions, "project_folder", lambda: tmp_path)

    def write(group: str, **texts: str) -> Path:
        folder = tmp_path / "lakehouse" / group
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / f"{name}.py").write_text(text)
        return folder

    yield write
    monkeypatch.undo()
    clear()


def refused(group: str) -> str:
    with pytest.raises(ConfigError) as caught:
        READ[group]()
    return str(caught.value)


def test_files_of_the_project(project):
    project("checks", even=CHECK, _examples=EXAMPLE)
    for group in ("sources", "alerts", "functions"):
        project(group, mine=FILES[group])
    assert "even" in registry.kinds() and "not_null" in registry.kinds()
    assert registry.describe_kind(registry.kinds()["even"])["example"] == "{check: even, column: hour}"
    assert list(source_kinds.source_kinds()) == ["files", "jdbc", "kafka", "delta", "table", "queue"]
    assert list(READ["alerts"]()) == ["pagers"]
    assert "is_even" in functions.functions()
    assert len(extensions.project_modules()) >= 5


def test_an_installed_package(project, tmp_path, monkeypatch):
    home = tmp_path / "site"
    (home / "even_checks-1.0.dist-info").mkdir(parents=True)
    (home / "even_checks-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: even-checks\nVersion: 1.0\n")
    points = "[lakehouse_assets.checks]\neven = even_checks\n[lakehouse_assets.functions]\nis_even = even_functions:EVEN\n"
    (home / "even_checks-1.0.dist-info" / "entry_points.txt").write_text(points)
    (home / "even_checks.py").write_text(CHECK.replace("from ._examples import EXAMPLE", EXAMPLE))
    (home / "even_functions.py").write_text(FUNCTION)
    monkeypatch.syspath_prepend(home)
    assert "even" in registry.kinds()
    assert list(functions.own_functions()) == ["is_even"]
    project("checks", other=CHECK.replace("from ._examples import EXAMPLE", EXAMPLE))
    for each in CACHES:
        each.cache_clear()
    message = refused("checks")
    assert "two kinds of checks are called 'even'" in message
    assert "even-checks (entry point even = even_checks)" in message and "lakehouse/checks/other.py" in message
    (home / "even_checks.py").unlink()
    for each in CACHES:
        each.cache_clear()
    sys.modules.pop("even_checks")
    assert "even-checks (entry point even = even_checks): the extension cannot be imported" in refused("checks")


@pytest.mark.parametrize(
    ("group", "text", "reason"),
    [
        ("checks", "import nothing_of_the_kind\n", "mine.py:1: the extension cannot be imported: ModuleNotFoundError"),
        ("checks", "x = 1\ndef f(:\n", "mine.py:2: the extension cannot be imported: SyntaxError"),
        ("checks", "def f():\n    return 1 / 0\n\nf()\n", "mine.py:2: the extension cannot be imported: ZeroDivisionError"),
        ("checks", "x = 1\n", "mine.py: it has no check kind"),
        ("checks", CHECK.replace("from ._examples import EXAMPLE", "EXAMPLE = None"), "mine.py: Even: it has no example"),
        ("checks", CHECK.replace("._examples", ".mine2").replace('"even"', '"Even"'), "mine.py: Even: 'Even': lower-case"),
        (
            "checks",
            CHECK.replace("._examples", ".mine2").replace('"even"', '"not_null"'),
            "two kinds of checks are called 'not_null'",
        ),
        ("sources", SOURCE.replace('"queue"]', '"files"]'), "two kinds of sources are called 'files'"),
        ("sources", SOURCE.replace("    timezone: str", "    zone: str"), "mine.py: Queue: it has no key timezone"),
        ("sources", SOURCE.replace("open_source", "open"), "mine.py: Queue: it defines no open_source"),
        ("sources", "x = 1\n", "mine.py: it has no source kind"),
        ("alerts", ALERT.replace('"pagers"', '"slack"'), "two alert channels have the key 'slack'"),
        ("alerts", ALERT.replace('"pagers"', '"Pagers"'), "mine.py: key 'Pagers': lower-case"),
        ("alerts", ALERT.replace("def send", "def post"), "mine.py: it has no alert channel"),
        ("functions", FUNCTION.replace('"is_even"', '"length"'), "function 'length': Spark has a function of this name"),
        ("functions", FUNCTION.replace('"is_even"', '"try_cast"'), "function 'try_cast': Spark has a function"),
        ("functions", FUNCTION.replace('"is_even"', '"is even"'), "function 'is even': lower-case"),
        ("functions", FUNCTION.replace("python=lambda value: value % 2 == 0", ""), "give it either `python` or `java`"),
        ("functions", "x = 1\n", "mine.py: it has no SQL function"),
    ],
    ids=lambda value: value[-40:].replace("\n", " "),
)
def test_a_mistake_names_the_file(project, group, text, reason):
    folder = project(group, mine=text)
    if "mine2" in text:
        (folder / "_mine2.py").write_text(EXAMPLE)
        (folder / "mine.py").write_text(text.replace(".mine2", "._mine2"))
    message = refused(group)
    assert reason in message, message
    assert "lakehouse/" in message


def test_two_files_with_one_name(project):
    project("functions", one=FUNCTION, two=FUNCTION)
    assert "two SQL functions are called 'is_even'" in refused("functions")
    project("alerts", one=ALERT, two=ALERT)
    assert "two alert channels have the key 'pagers'" in refused("alerts")


def test_a_file_name_that_is_no_module(project):
    folder = project("checks", even=CHECK, _examples=EXAMPLE)
    (folder / "even.py").rename(folder / "my-checks.py")
    assert "my-checks.py: a file of extensions is named like a Python module" in refused("checks")


def test_without_a_project_there_is_no_folder(project, monkeypatch):
    def missing():
        raise RefusedError("no project")

    monkeypatch.setattr(extensions, "project_folder", missing)
    assert "even" not in registry.kinds()


def test_extensions_of_another_project_than_the_process_has_are_refused_by_name(project, tmp_path, monkeypatch):
    other = tmp_path / "other"
    (other / "lakehouse" / "checks").mkdir(parents=True)
    (other / "tables").mkdir()
    (other / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "tables"\n')
    settings = Settings.from_environment({}, start=other)
    assert find_tables(settings).tables == ()
    (other / "lakehouse" / "checks" / "even.py").write_text(CHECK)
    with pytest.raises(ConfigError, match="other/lakehouse: these extensions are not read") as caught:
        find_tables(settings)
    assert f"set LAKEHOUSE_PROJECT={other}" in str(caught.value)


def test_nothing_else_is_loaded(project, tmp_path):
    folder = project("checks", even=CHECK, _examples=EXAMPLE)
    (folder / "even.py").rename(tmp_path / "even.py")
    (folder / "deep").mkdir()
    (folder / "deep" / "even.py").write_text("raise SystemExit")
    (folder / "__init__.py").write_text("")
    assert "even" not in registry.kinds()


def test_a_rule_set_whose_extension_is_gone(project):
    rules = readings().ruleset()
    for key in ('"check":"not_empty"', '"kind":"files"'):
        name = key.split('"')[3]
        with pytest.raises(ConfigError, match=r"table readings: .*If an extension is missing") as caught:
            TableSpec.from_ruleset(rules.replace(key, key.replace(name, "of_an_extension")))
        assert "of_an_extension" in str(caught.value)
    spelled = readings(checks=[{"check": "expression", "name": "e", "expr": "length(sensor) > 1"}]).ruleset()
    with pytest.raises(ConfigError, match="Spark has no function is_even"):
        TableSpec.from_ruleset(spelled.replace("length(sensor)", "is_even(sensor)"))


def test_a_channels_failure_shows_no_secret(project, monkeypatch):
    project("alerts", pager=ALERT)
    monkeypatch.setattr("lakehouse_assets.events.alerts.OWN_CHANNELS", READ["alerts"]())
    settings = Settings.from_environment({"LAKEHOUSE_SECRET_NIGHT": "hunter2"})
    with pytest.raises(ConnectionError, match="ValueError") as caught:
        send_message(readings(), settings, ("pagers", "NIGHT"), "title", "text")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
