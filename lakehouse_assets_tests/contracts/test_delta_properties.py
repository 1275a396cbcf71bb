"""Properties and constraints in the YAML: what is refused, and the changes from what a table has. Pure.

Belongs here: names, values, implied checks and the plan. Does not: changing a table (pipeline/test_declarations).
"""

import pytest
from pydantic import ValidationError

from lakehouse_assets.contracts.declarations import DeclarationChange, Declarations, changes_between, declarations_of
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.gate import is_waived
from lakehouse_assets_tests.support import readings


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("lakehouse.meaning", "the project records its own state there"),
        ("delta.enableChangeDataFeed", "gold reads it"),
        ("delta.appendOnly", "silver is updated by MERGE"),
        ("delta.columnMapping.mode", "readers without Spark would see NULL"),
        ("DELTA.enableDeletionVectors", "readers without Spark cannot open"),
        ("delta.feature.v2Checkpoint", "a feature would shut out"),
        ("delta.minReaderVersion", "a protocol version would shut out"),
        ("delta.constraints.positive", "declare it under constraints:"),
        ("delta.deletedFileRetentionDuration", "set maintenance.vacuum_days"),
        ("delta.nope", "of Delta's own properties there are delta.auto"),
        ("owner", "is no name of a property"),
        ("a b", "is no name of a property"),
    ],
)
def test_properties_that_the_project_depends_on_are_refused(name, reason):
    with pytest.raises(ValidationError, match=reason) as error:
        readings(properties={name: "1"})
    assert "properties" in str(error.value) and name in str(error.value)


@pytest.mark.parametrize(
    ("constraints", "reason"),
    [
        ({"Positive": "value > 0"}, "is no name of a constraint"),
        ({"positive": "value >"}, "is not SQL"),
        ({"positive": "value > 0; drop table x"}, "comments and `;`"),
        ({"positive": "(select max(value) from batch) > 0"}, "a subquery is not allowed"),
        ({"positive": "sum(value) over () > 0"}, "window"),
        ({"positive": "nope > 0"}, "no column 'nope' is declared"),
    ],
)
def test_constraints_are_validated_as_other_expressions(constraints, reason):
    with pytest.raises(ValidationError, match=reason):
        readings(constraints=constraints)


def test_a_constraint_is_a_check_too_that_no_override_waives():
    spec = readings(constraints={"positive": "value > 0"})
    assert [check.id for check in spec.checks if check.id.startswith("constraint_")] == ["constraint_positive"]
    assert not is_waived("constraint_positive", ["*", "constraint_positive"])
    again = TableSpec.from_ruleset(spec.ruleset())
    assert (again.checks, again.constraints) == (spec.checks, spec.constraints)
    with pytest.raises(ValidationError, match=r"constraints\.positive: another check is called constraint_positive"):
        readings(
            constraints={"positive": "value > 0"},
            checks=[{"check": "expression", "name": "constraint_positive", "expr": "1 = 1"}],
        )


def test_no_declared_check_takes_the_place_of_a_constraint_s_own_unless_it_means_the_same():
    plain = {"check": "expression", "name": "constraint_positive", "expr": "value > 0"}
    for same in ({}, {"description": "no debts"}, {"severity": "critical", "where": None}):
        spec = readings(constraints={"positive": "value > 0"}, checks=[plain | same])
        assert [check.id for check in spec.checks] == ["constraint_positive"]
    later = {"check": "not_null", "column": "value", "name": "first"}
    effects = [
        {"severity": "warning"},
        {"where": "hour > 1"},
        {"on_fail": "warn"},
        {"on_fail": "quarantine_batch", "threshold": 0.5},
    ]
    for effect in [*effects, {"depends_on": ["first"]}, {"check": "metric", "sql": "sum(value)"}]:
        with pytest.raises(ValidationError, match=r"constraints\.positive: another check is called constraint_positive"):
            readings(constraints={"positive": "value > 0"}, checks=[later, plain | effect])
    ruleset = readings(constraints={"positive": "value > 0"}, checks=[]).ruleset()
    recorded = TableSpec.from_ruleset(ruleset.replace('"severity":"critical"', '"severity":"warning"'))
    assert [check.severity for check in recorded.checks] == ["warning"], "a decision was made by it"


def test_the_rule_set_is_the_same_without_constraints_and_with_other_properties():
    assert '"constraints"' not in readings().ruleset()
    assert readings(properties={"team": "x"}).ruleset() == readings().ruleset()
    assert readings(properties={"team": "x"}).meaning == readings(constraints={"a": "value > 0"}).meaning == readings().meaning


def test_changes_remove_only_what_the_yaml_declared_before():
    columns = {"a": "int", "b": "int"}
    declared = Declarations({"a": "new", "c": "waits"}, {"team": "x"}, {"waits": "c > 0", "kept": "a > 0"})
    recorded = Declarations({"a": "old", "b": "of the YAML"}, {"tier": "1", "gone": "1"}, {"former": "b > 0", "kept": "a > 0"})
    actual = Declarations(
        {"a": "old", "b": "by hand"},
        {"tier": "1", "gone": "changed", "theirs": "1"},
        {"former": "b > 0", "kept": "a > 0", "own": "1"},
    )
    assert changes_between(declared, recorded, actual, columns, {**columns, "c": "int"}) == [
        DeclarationChange("comments", "a", "old", "new"),
        DeclarationChange("properties", "team", "", "x"),
        DeclarationChange("properties", "tier", "1", ""),
        DeclarationChange("constraints", "former", "b > 0", ""),
    ]


def test_null_satisfies_a_constraint_and_units_are_in_comments():
    columns = {"sensor": "string", "hour": "int", "updated": "timestamp"}
    columns |= {"value": {"type": "double", "description": "Net.", "unit": "kPa"}}
    declared = declarations_of(readings(columns=columns, properties={"on": True}, constraints={"positive": "value > 0"}))
    assert declared == Declarations({"value": "Net. [kPa]"}, {"on": "true"}, {"positive": "coalesce(value > 0, TRUE)"})
