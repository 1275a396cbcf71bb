"""What a plain word of a `defs.yaml` is: booleans, numbers and times where they look so, else a text. Pure.

Belongs here: YAML as it is read. Does not: anchors, tags and keys given twice, with their lines (test_bad_config).
"""

from datetime import date

import numpy as np
import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.checks.strict_model import RECORDED
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.document import read_component, read_text
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets_tests.support import readings


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, word) for word in ("NO", "no", "yes", "Off", "on", "y", "N")),
        ("true", True),
        ("False", False),
        ("12:30:45", "12:30:45"),
        ("1:30.5", "1:30.5"),
        ("010", "010"),
        ("-010", "-010"),
        ("0o17", "0o17"),
        ("0b1", "0b1"),
        ("1_000", "1_000"),
        ("=", "="),
        ("0", 0),
        ("-12", -12),
        ("0x1F", 31),
        ("1.50", 1.5),
        ("010.5", 10.5),
        ("-.5e+3", -500.0),
        ("1e5", "1e5"),
        ("-.inf", float("-inf")),
        ("~", None),
        ("2024-01-02", date(2024, 1, 2)),
        ("'010'", "010"),
    ],
)
def test_a_plain_word(text, value):
    (document,) = read_text(f"values: [{text}]", "x.yaml")
    plain = document.data["values"][0]
    assert (plain, type(plain)) == (value, type(value))


@pytest.mark.parametrize(
    "value", ["NO", "010", "12:30:45", "1e5", "0x1F", "true", "1.0", "", "=", "~", 1e300, 5e-324, -1, True]
)
def test_values_read_back_as_written(value):
    text = yaml.safe_dump({"value": value})
    assert read_text(text, "x.yaml")[0].data == {"value": value}


@pytest.mark.parametrize(
    "check",
    [
        "{check: row_count, min: yes}",
        "{check: in_range, column: x, min: 'nan'}",
        "{check: in_range, column: x, max: ' -Infinity'}",
        "{check: in_range, column: x, min: .nan}",
        "{check: in_set, column: x, values: [NO, 1]}",
    ],
)
def test_a_bound_that_is_none(check):
    with pytest.raises(ValidationError):
        TypeAdapter(AnyCheck).validate_python(read_text(check, "x.yaml")[0].data)


@pytest.mark.parametrize("value", [True, False, "true", "FALSE"])
def test_booleans_and_the_texts_of_variables_are_booleans(value):
    assert Column.model_validate({"type": "string", "pii": value}).pii == (str(value).lower() == "true")


@pytest.mark.parametrize("value", [True, False])
def test_booleans_of_numpy_are_booleans(value):
    assert Column.model_validate({"type": "string", "pii": np.bool_(value)}).pii is value
    for other in (np.int64(value), np.array([value]), np.str_("yes")):
        with pytest.raises(ValidationError, match="is no boolean; write true or false"):
            Column.model_validate({"type": "string", "pii": other})


def test_a_boolean_of_a_recorded_rule_set_is_read_as_it_was_accepted():
    with pytest.raises(ValidationError, match="'yes' is no boolean; write true or false"):
        Column.model_validate({"type": "string", "pii": "yes"})
    assert Column.model_validate({"type": "string", "pii": "yes"}, context={RECORDED: True}).pii


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_contract_is_read_back_from_the_rules_that_a_decision_keeps(form):
    source = {"kind": "files", "path": "readings/{window:%Y-%m-%d}.file", "format": form}
    spec = readings(source=source, schema={"new_columns": "evolve"})
    assert TableSpec.from_ruleset(spec.ruleset()) == spec


def test_a_component_is_chosen_by_its_type_and_name(tmp_path):
    file = tmp_path / "defs.yaml"
    kinds = [("Table", "orders"), ("Guard", "orders"), ("Guard", "refunds")]
    file.write_text("\n---\n".join(f"type: {kind}\nattributes: {{name: {name}}}" for kind, name in kinds) + "\n---\ntext\n")
    chosen = [read_component(file, types, name) for types, name in [(("Guard",), "orders"), (("Guard",), "refunds")]]
    assert [(each.data["type"], each.data["attributes"]["name"]) for each in chosen] == kinds[1:]
    assert read_component(file, ("Guard",), "unknown").data["attributes"] == {"name": "orders"}
    assert read_component(file, ("Own",), "refunds").data["attributes"] == {"name": "refunds"}
