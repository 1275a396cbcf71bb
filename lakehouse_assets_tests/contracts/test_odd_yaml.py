"""Plain words that YAML reads otherwise than they are meant, merge keys, and numbers without end: each with its line. Pure.

Belongs here: what the strict loader and the models refuse or read. Does not: what a plain word is (test_document).
"""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.contracts.audit import AuditSetting
from lakehouse_assets.contracts.document import read_text
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.contracts.extraction import ExtractionSpec
from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.sharing import Shared
from lakehouse_assets.contracts.source_map import table_mistakes
from lakehouse_assets.contracts.table_contract import MaintenanceSpec
from lakehouse_assets.errors import ConfigError

TABLE = """type: lakehouse_assets.LakehouseTable
attributes:
  name: t
  source: {kind: files, path: "t/{window:%Y-%m-%d}.csv", format: csv}
  extraction: {cadence: daily, start: 2024-01-01, mode: append}
  columns: {v: int}
"""


def mistakes(more):
    (document,) = read_text(TABLE + more, "defs.yaml")
    return list(table_mistakes(document, Shared()))


@pytest.mark.parametrize("written", ["null", "'null'", "keep"])
def test_a_mode_that_is_called_null_needs_no_quotes(written):
    assert mistakes(f"  schema: {{missing_columns: {written}}}\n") == []
    (document,) = read_text(f"schema:\n  missing_columns: {written}\n  other: null", "defs.yaml")
    assert document.data == {"schema": {"missing_columns": written.strip("'"), "other": None}}


@pytest.mark.parametrize("more", ["  schema:\n    missing_columns:\n", "  schema:\n    missing_columns: ~\n"])
def test_no_value_is_not_that_mode(more):
    (mistake,) = mistakes(more)
    assert mistake.startswith("defs.yaml:8: schema.missing_columns: ")
    assert "'null'" in mistake


def test_null_is_no_name_elsewhere():
    (mistake,) = mistakes("  schema:\n    new_columns: null\n")
    assert mistake.startswith("defs.yaml:8: schema.new_columns: Input should be 'evolve'")


@pytest.mark.parametrize(
    ("more", "mistake"),
    [("  owners: me\n", "owners: a list is wanted: [a, b]"),
     ("  maintenance: 5\n", "maintenance: keys with values are wanted: {key: value}"),
     ("  description: 5\n", "description: a text is wanted; put a number or a date between quotes")],
)  # fmt: skip
def test_a_value_of_another_type_is_reported_in_words_of_yaml(more, mistake):
    assert mistakes(more) == [f"defs.yaml:7: {mistake}"]


@pytest.mark.parametrize(
    ("check", "expected"),
    [("{check: in_range, column: v, max: lots}",
      ["checks.0.in_range.max: 'lots' is not allowed; a date or a number or a time is wanted"]),
     ("{check: in_range, colum: v, max: 4}", ["checks.0.in_range.colum: not known here; did you mean column?"]),
     ("{check: matches, column: v, patern: x}", ["checks.0.matches.patern: not known here; did you mean pattern?"]),
     ("{check: matches, column: v}", ["checks.0.matches.pattern: Field required"]),
     ("{check: matches, columnist: v}",
      ["checks.0.matches.pattern: Field required", "checks.0.matches.columnist: not known here; did you mean column?"])],
)  # fmt: skip
def test_one_mistake_is_one_line(check, expected):
    lines = mistakes(f"  checks:\n  - {check}\n")
    assert len(lines) == len(expected), lines
    for line, text in zip(lines, expected, strict=True):
        assert line.startswith(f"defs.yaml:8: {text}")


@pytest.mark.parametrize("more", ["  schema:\n    <<: {missing_columns: keep}\n", "  schema: {\n    <<: [{a: 1}]}\n"])
def test_a_merge_key_is_refused_with_its_line(more):
    with pytest.raises(ConfigError, match=r"^defs\.yaml:8: merge key << is not allowed"):
        read_text(TABLE + more, "defs.yaml")
    assert read_text("'<<': 1", "x.yaml")[0].data == {"<<": 1}


@pytest.mark.parametrize("digits", [39, 401, 5000])
@pytest.mark.parametrize("sign", ["", "-", "+"])
def test_a_number_without_end_is_refused_with_its_line(digits, sign):
    more = f"  checks:\n    - check: in_range\n      column: v\n      min: {sign}{'9' * digits}\n"
    with pytest.raises(ConfigError, match=rf"^defs\.yaml:10: a whole number of {digits} digits is not allowed; at most 38"):
        read_text(TABLE + more, "defs.yaml")
    assert read_text(f"v: {'9' * 38}", "x.yaml")[0].data == {"v": int("9" * 38)}


def test_a_number_too_large_for_its_key_is_reported_with_the_key():
    (mistake,) = mistakes("  maintenance:\n    vacuum_days: 99999999\n")
    assert mistake == "defs.yaml:8: maintenance.vacuum_days: Input should be less than or equal to 36500"
    (document,) = read_text(TABLE.replace("mode: append", "mode: append, retries: 100001"), "defs.yaml")
    assert list(table_mistakes(document, Shared())) == [
        "defs.yaml:5: extraction.retries: Input should be less than or equal to 1000"
    ]


def _kinds() -> list[type[BaseModel]]:
    return [DriftSpec, ExtractionSpec, MaintenanceSpec, JdbcSource, AuditSetting, *_leaves(AnyCheck)]


def _leaves(kind: Any) -> list[type[BaseModel]]:
    arguments = getattr(kind, "__args__", ())
    if arguments:
        return [leaf for each in arguments for leaf in _leaves(each)]
    return [kind] if isinstance(kind, type) and issubclass(kind, BaseModel) else []


WHOLE_NUMBERS = [
    pytest.param(model, name, id=f"{model.__name__}.{name}")
    for model in _kinds()
    for name, field in model.model_fields.items()
    if field.annotation in (int, int | None)
]


def test_the_models_have_integer_keys():
    assert len(WHOLE_NUMBERS) >= 15


@pytest.mark.parametrize(("model", "key"), WHOLE_NUMBERS)
@pytest.mark.parametrize("value", [10**37, "9" * 401, 10**400])
def test_every_integer_key_has_an_upper_bound(model, key, value):
    with pytest.raises(ValidationError) as raised:
        model.model_validate({key: value})
    [mistake] = [m for m in raised.value.errors() if m["loc"][-1:] == (key,)]
    assert mistake["type"] != "missing"
