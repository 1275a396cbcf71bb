"""The JSON schema of a table agrees with the loader: it accepts what loads, and names the same lines.

Belongs here: schema beside loader, without a process. Does not: `dg` itself (orchestration/test_dg_tools).
"""

import json
import re
import subprocess
import sys

import pytest
import yaml
from dagster_dg_core.utils.check_utils import error_dict_to_formatted_error
from dagster_shared.yaml_utils import parse_yamls_with_source_position
from jsonschema import Draft202012Validator

from lakehouse_assets.checks.registry import kinds
from lakehouse_assets.contracts.document import read_text
from lakehouse_assets.contracts.schema_file import SCHEMA_FILE, is_current, schema_line, write_schema
from lakehouse_assets.contracts.sharing import Defaults, Pack, Shared
from lakehouse_assets.contracts.source_map import table_mistakes
from lakehouse_assets.contracts.table_schema import file_schema, table_schema
from lakehouse_assets_tests.orchestration import table_text
from lakehouse_assets_tests.orchestration import test_bad_config as bad_config
from lakehouse_assets_tests.support import PROJECT_ROOT

GOOD = table_text.GOOD

SHARED = Shared(
    packs={"checked": Pack(checks=({"check": "not_null", "column": "value"},))}, variables={"ONE": "1", "OF": "mean"}
)


WITHOUT_DEFAULTS = Draft202012Validator(table_schema())


def lines_of_schema(text: str, defaults: Defaults | None = None) -> set[int]:
    """The lines that `dg check yaml` prints."""
    validator = Draft202012Validator(table_schema(defaults)) if defaults else WITHOUT_DEFAULTS
    (tree,) = parse_yamls_with_source_position(text, filename="<string>")
    errors = validator.iter_errors(tree.value["attributes"])
    shown = [error_dict_to_formatted_error(None, e, tree.source_position_tree, ["attributes"]) for e in errors]
    return {int(re.match(r"<string>:(\d+)", re.sub(r"\x1b\[\d+m", "", text))[1]) for text in shown}


def lines_of_loader(text: str, shared: Shared = SHARED) -> set[int]:
    (document,) = read_text(text, "defs.yaml")
    return {int(re.match(r"defs\.yaml:(\d+)", line)[1]) for line in table_mistakes(document, shared)}


@pytest.mark.parametrize("schema", [table_schema(), file_schema()], ids=["attributes", "file"])
def test_it_is_a_schema(schema):
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    "file", sorted((PROJECT_ROOT / "lakehouse_assets" / "tables").glob("*/defs.yaml")), ids=lambda f: f.parent.name
)
def test_the_example_tables(file):
    text = file.read_text()
    assert lines_of_schema(text) == lines_of_loader(text) == set()
    data = json.loads(json.dumps(yaml.safe_load(text), default=str))
    assert not list(Draft202012Validator(file_schema()).iter_errors(data))
    assert text.startswith(schema_line(file.parent, file.parent.parent))
    assert (file.parent / "../table.schema.json").is_file()


@pytest.mark.parametrize("name", kinds())
def test_the_example_of_each_kind(name):
    examples = yaml.safe_load(f"- {kinds()[name].example}")
    errors = WITHOUT_DEFAULTS.iter_errors({"checks": examples})
    assert [error.message for error in errors if error.path] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max: 10", 'max: "${ONE}", threshold: "0.5", severity: warning'),
        ("max: 10", "max: 10, depends_on: [not_empty], description: null, where: value > 0"),
        ("not_empty}", "statistic, column: value, of: '${OF}', min: 2024}"),
        ("not_empty}", "in_range, name: t, column: value, min: '${ONE}'}"),
        ("not_empty}", "no_gaps, column: value, step: 1}\n    - {check: no_gaps, name: n, column: value, step: 0.5}"),
        ("not_empty}", "in_set, column: sensor, values: [a, NA, '1']}"),
        ("value: double", "value: {type: 'Decimal(5, 2)', from: V, pii: 'true'}"),
        ("value: double", "value: 'struct<a: int>'\n    other: ' Double '\n    third: {type: string}"),
        ("  checks:", "  packs: [{pack: checked, without: [], override: {}, with: {}}]\n  checks:"),
        ("  checks:", "  packs: [checked]\n  drift: null\n  last_modified: null\n  checks:"),
        ("  checks:", "  drift: {features: [value, {name: value2, expr: value * 2}], lasting_over: [3, 7]}\n  checks:"),
        ("  checks:", "  supersede: any\n  checks:"),
        ("  checks:", "  supersede: {max_loss: 1}\n  checks:"),
        ("  checks:", "  schema: {missing_columns: null, new_columns: evolve}\n  checks:"),
        ("  checks:", "  maintenance: {vacuum_days: 7, quarantine_days: '${ONE}'}\n  checks:"),
        ("start: 2024-01-01", "start: 2024-01-01T00:00:00Z, end: null, overdue_after: 6h"),
        ("name: readings", "name: readings\n  tags: {a: b}\n  owners: ['team:x']"),
    ],
)  # fmt: skip
def test_what_loads_is_accepted(old, new):
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    assert lines_of_loader(text) == set(), "the case itself"
    assert lines_of_schema(text) == set()


# What only the loader knows, since it is no matter of one key.
BEYOND = ("wind speed: double", "_value: double", "{window:%B}", "min: 10, max: 0", "severity: info", "sensor, sensor]",
          "end: 2023-01-01", "drop table x", "data", "/data/{", "../{", "[a, a]",
          # `dg` reads YAML 1.1, where these are booleans.
          "pii: yes", "multiline: off", "relations: no}")  # fmt: skip


@pytest.mark.parametrize("case", bad_config.test_a_key_or_its_value.pytestmark[0].args[1], ids=lambda case: case[1][:40])
def test_a_mistake_of_a_key_is_on_the_same_line(case):
    old, new, line, *_ = case
    text = GOOD.replace(old, new, 1)
    assert lines_of_loader(text) == {line}
    assert lines_of_schema(text) == (set() if any(part in new for part in BEYOND) else {line})


def test_all_mistakes_at_once():
    text = (
        GOOD.replace("double", "duoble")
        .replace("max: 10", "maximum: 10")
        .replace("daily", "dayly")
        .replace("readings\n", "R\n")
    )
    text = text.replace("[sensor]", "sensor") + "    - {check: freshness, column: value, max_age: 6 hours}\n  extra: 1\n"
    assert lines_of_schema(text) == lines_of_loader(text) == {4, 6, 7, 10, 13, 14, 15}


def test_keys_that_defaults_give_are_not_required():
    defaults = Defaults(
        tables={"source": {"kind": "files", "format": "csv"}, "extraction": {"cadence": "daily", "start": "2024-01-01"}},
        checks={"in_range": {"column": "value"}},
    )
    text = GOOD.replace(", format: csv", "").replace("kind: files, ", "").replace("column: value, ", "")
    text = "".join(line for line in text.splitlines(keepends=True) if "extraction:" not in line)
    assert lines_of_loader(text, Shared(defaults)) == set()
    assert lines_of_schema(text, defaults) == set()
    assert lines_of_schema(text) == lines_of_loader(text) == {3, 5, 12}


def test_gold_and_its_packs():
    gold = (
        GOOD + "  gold:\n    - {name: means, sql: means.sql, key: [sensor], packs: [checked], schema: {new_columns: ignore}}\n"
    )
    assert lines_of_schema(gold) == set()
    assert lines_of_schema(gold.replace("key: [sensor], packs", "packs")) == {15}
    assert lines_of_schema(gold.replace("new_columns: ignore", "new_columns: keep")) == {15}


def test_the_file_beside_the_tables(tmp_path):
    assert is_current(tmp_path), "no file, no editor"
    path = write_schema(tmp_path)
    assert path == tmp_path / SCHEMA_FILE and is_current(tmp_path)
    (tmp_path / "defaults.yaml").write_text("tables: {key: [id], source: {kind: files}}\n")
    assert not is_current(tmp_path)
    write_schema(tmp_path)
    assert "source" not in json.loads(path.read_text())["$defs"]["Table"]["required"]
    assert schema_line(tmp_path / "a" / "b", tmp_path) == "# yaml-language-server: $schema=../../table.schema.json\n"


def test_the_packages_own_file_is_up_to_date():
    command = [sys.executable, "scripts/make_table_schema.py", "--check"]
    process = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def test_a_guard_has_a_schema_of_its_own():
    attributes = {"name": "orders", "path": "s3a://shop/orders", "checks": [{"check": "not_null", "column": "id"}]}
    document = {"type": "lakehouse_assets.GuardedTable", "attributes": attributes}
    validator = Draft202012Validator(file_schema())
    assert not list(validator.iter_errors(document))
    for wrong in ({"source": {}}, {"rewrites": "ignore"}, {"start": -1}, {"path": None}):
        assert list(validator.iter_errors({**document, "attributes": {**attributes, **wrong}})), wrong
