"""A table's file for a later version of the package: its mistakes name this version, and the other tables go on.

Belongs here: keys, parameters and check kinds that this version does not know. Does not: any other mistake (test_bad_config).
"""

from importlib.metadata import version

from typer.testing import CliRunner

from lakehouse_assets import cli
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.assets.project_tables import find_tables
from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.test_project import TABLE, make_project

CHECKS = """\
  jigsaw: 3
  checks:
    - {check: from_the_future, column: id}
    - {check: not_null, column: id, tolerates: 2}
"""


def test_it_stops_alone_and_this_version_is_named(tmp_path, monkeypatch):
    project = make_project(tmp_path / "one", orders="", newer=TABLE.format(name="newer") + CHECKS)
    loaded = find_tables(Settings.from_environment({}, start=project))
    assert [table.spec.name for table in loaded.tables] == ["orders"]
    text = "\n".join(loaded.mistakes)
    assert "newer/defs.yaml:8: jigsaw: not known here; there are name, description" in text
    assert "newer/defs.yaml:10: checks.0: 'from_the_future' is not known here; there are " in text
    assert "newer/defs.yaml:11: checks.1.not_null.tolerates: not known here; there are name, severity" in text
    assert text.count(f"(in lakehouse_assets {version('lakehouse_assets')}; a later version may know it)") == 3
    monkeypatch.chdir(project)
    monkeypatch.delenv("LAKEHOUSE_PROJECT", raising=False)
    refused = CliRunner().invoke(cli.app, ["check", "validate"]).exception
    assert isinstance(refused, ConfigError)
    assert refused.exit_code == 2


def test_a_name_that_is_nearly_one_is_a_typing_error(tmp_path):
    text = TABLE.format(name="typo") + "  checks: [{check: not_nul, column: id}]\n"
    loaded = find_tables(Settings.from_environment({}, start=make_project(tmp_path / "one", orders="", typo=text)))
    (mistake,) = loaded.mistakes
    assert "'not_nul' is not known here; did you mean not_null? There are " in mistake
    assert "a later version" not in mistake
