"""Comparing schemas, pure: the whole matrix, columns that come and go to any depth, names, and what is advised."""

import pytest

from lakehouse_assets.contracts.spark_types import common_type, join_types, parse_type, sql_type, type_of_json
from lakehouse_assets.contracts.table_contract import SchemaPolicy
from lakehouse_assets.decisions.schema.comparison import compare
from lakehouse_assets_tests.decisions.schema.cases import Case, cases

MODES = dict.fromkeys(("new_columns", "missing_columns", "type_changes"), "quarantine")


def compare_columns(promised: dict[str, str], arrived: dict[str, str], layer="silver", **modes):
    trees = [{name: parse_type(kind) for name, kind in columns.items()} for columns in (promised, arrived)]
    return compare(*trees, SchemaPolicy.model_validate(MODES | modes), layer)


def outcomes_by_path(comparison):
    return {d.path: d.outcome for d in comparison.differences}


def test_the_matrix_of_old_new_layer_and_mode():
    wrong: list[tuple[Case, str]] = []
    for case in cases():
        differences = compare_columns({"c": case.old}, {"c": case.new}, case.layer, type_changes=case.mode)
        if differences.outcome != case.outcome:
            wrong.append((case, differences.outcome))
        # What it becomes: the new type where it is widened, the old one else.
        wanted = case.new if case.outcome == "widened" else case.old
        if case.layer != "bronze" and sql_type(differences.result["c"]) != sql_type(parse_type(wanted)):
            wrong.append((case, sql_type(differences.result["c"])))
    assert not wrong, (len(wrong), wrong[:5])
    assert len(cases()) > 5_000
    assert {case.outcome for case in cases()} == {"same", "accepted", "widened", "quarantined", "rejected"}


@pytest.mark.parametrize(
    ("layer", "mode", "outcome"),
    [("silver", "evolve", "widened"), ("silver", "ignore", "accepted"), ("silver", "quarantine", "quarantined"),
     ("silver", "reject", "rejected"), ("gold", "evolve", "widened"), ("gold", "quarantine", "quarantined"),
     ("gold", "reject", "rejected"), ("bronze", "reject", "accepted")],
)  # fmt: skip
@pytest.mark.parametrize("shape", ["{}", "struct<s: {}>", "array<{}>", "map<string, {}>"])
def test_a_new_column_at_any_depth(layer, mode, outcome, shape):
    within = {"{}": "c.", "struct<s: {}>": "c.s.", "array<{}>": "c.element.", "map<string, {}>": "c.value."}[shape]
    old, new = shape.format("struct<a: int>"), shape.format("struct<b: string, a: int>")
    differences = compare_columns({"c": old}, {"c": new, "d": "date"}, layer, new_columns=mode)
    assert outcomes_by_path(differences) == {f"{within}b": outcome, "d": outcome}
    assert {d.column for d in differences.differences} == {"c", "d"}
    grown = sql_type(parse_type(shape.format("struct<a: int, b: string>")))
    assert {name: sql_type(kind) for name, kind in differences.result.items()} == (
        {"c": grown, "d": "date"} if outcome == "widened" else {"c": sql_type(parse_type(old))}
    )


@pytest.mark.parametrize(
    ("mode", "outcome"), [("keep", "accepted"), ("null", "accepted"), ("quarantine", "quarantined"), ("reject", "rejected")]
)
def test_a_column_that_lacks_at_any_depth(mode, outcome):
    differences = compare_columns(
        {"c": "array<struct<a: int, b: int>>", "d": "date"}, {"c": "array<struct<a: int>>"}, missing_columns=mode
    )
    assert outcomes_by_path(differences) == {"c.element.b": outcome, "d": outcome}


@pytest.mark.parametrize("modes", [{"new_columns": "evolve", "missing_columns": "keep", "type_changes": "cast"}, {}])
def test_names_that_differ_in_case_only_are_rejected_whatever_the_modes_and_both_are_named(modes):
    differences = compare_columns({"value": "int", "s": "struct<a: int>"}, {"Value": "int", "s": "struct<A: int>"}, **modes)
    assert outcomes_by_path(differences) == {"Value": "rejected", "s.A": "rejected"}
    assert [(d.promised, d.path, d.kind) for d in differences.differences] == [("value", "Value", "case"), ("a", "s.A", "case")]
    twins = compare_columns({}, {"note": "int", "Note": "int"}, new_columns="evolve")
    assert outcomes_by_path(twins) == {"note": "widened", "Note": "rejected"}


def test_a_difference_names_both_types_and_the_advice():
    differences = compare_columns({"a": "int", "b": "string"}, {"a": "string", "c": "date"})
    assert [(d.path, d.promised, d.arrived) for d in differences.differences] == [
        ("a", "int", "string"), ("c", "", "date"), ("b", "string", ""),
    ]  # fmt: skip
    advice = {d.path: d.advice for d in differences.differences}
    assert "declare the new type" in advice["a"]
    assert "new_columns: evolve" in advice["c"]
    assert "missing_columns: keep" in advice["b"]


def test_an_unknown_type_never_differs():
    differences = compare({"a": parse_type("int"), "b": None}, {"a": None, "b": parse_type("date")}, SchemaPolicy())
    assert differences.differences == ()


@pytest.mark.parametrize(
    "text",
    ["struct<a: int", "array<>", "", "struct<a: int, A: int>", "int>", "map<int>", "struct<a:>", "struct<`a: int>", "1x"],
)
def test_an_invalid_type_is_refused(text):
    with pytest.raises(ValueError, match=r"no type|letter case apart"):
        parse_type(text)


@pytest.mark.parametrize("text", ["time(6)", "geography(ogc:crs84, spherical)", "interval day to second"])
def test_a_type_of_a_later_spark_is_a_type_of_its_own(text):
    assert sql_type(type_of_json(text)) == text
    nested = f"struct<`first name`: {text}, n: map<string, {text}>>"
    assert sql_type(parse_type(nested)) == nested


def test_a_type_is_the_same_read_from_text_and_from_a_schemas_json():
    json = {"type": "struct", "fields": [
        {"name": "a b", "type": "long", "nullable": True, "metadata": {}},
        {"name": "m", "type": {"type": "map", "keyType": "string", "valueType": {"type": "array", "elementType": "byte"}}},
        {"name": "d", "type": "decimal(4,1)"}, {"name": "n", "type": "timestamp_ntz"},
    ]}  # fmt: skip
    text = "struct<`a b`: bigint, m: map<string, array<tinyint>>, d: decimal(4,1), n: timestamp_ntz>"
    assert type_of_json(json) == parse_type(text)
    assert sql_type(type_of_json(json)) == text


def test_types_of_several_files_are_joined_or_are_text():
    assert common_type(["int", "tinyint", "bigint"]) == "bigint"
    assert common_type(["int", "string"]) == "string"
    assert common_type(["struct<a: int>", "struct<b: date, a: bigint>"]) == "struct<a: bigint, b: date>"
    assert join_types(parse_type("struct<a: int>"), parse_type("struct<A: int>")) is None
