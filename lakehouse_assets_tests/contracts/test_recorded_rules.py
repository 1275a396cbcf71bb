"""Rules that a decision recorded stay readable, whatever a newer version refuses in the YAML.

Belongs here: tables, gold and guards. Does not: which patterns the YAML may have (checks/test_patterns), or which
names (test_check_names).
"""

import json

import pytest
from pydantic import ValidationError

from lakehouse_assets.checks.strict_model import RECORDED
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import recorded_rules, ruleset
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.lineage import GoldQuery, read_gold
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.guards.recorded_version import rules_without

TABLE = {
    "name": "orders",
    "source": {"kind": "files", "path": "orders/{window:%Y-%m-%d}.csv", "format": "csv"},
    "extraction": {"cadence": "daily", "start": "2024-05-01", "mode": "append"},
    "columns": {"v": "string"},
}
GOLD = {"name": "totals", "sql": "totals.sql", "key": ["v"]}
GUARD = {"name": "deliveries", "path": "./deliveries", "columns": {"v": "string"}}
REFUSED_PATTERNS = ["(?i)^é$", r"a\vb", r"(?<=a+)d", r"[\b]", r"[a\b]", r"\0", r"\08", r"\U0001F600", r"\101"]
# What was accepted once: a check, and the same as the YAML may have it now.
ONCE_ACCEPTED = [
    *[({"check": "matches", "column": "v", "pattern": pattern}, {"pattern": "a"}) for pattern in REFUSED_PATTERNS],
    ({"check": "not_null", "column": "v", "name": "Schema_Matches_Contract"}, {"name": "other"}),
    ({"check": "not_null", "column": "v", "name": "table_Columns"}, {"name": "other"}),
]
NOT_OF_JAVA = [
    r"v rlike '[\\b]'", r"v rlike '\\0'", r"v rlike '\\U0001F600'", "v rlike '(?<=a+)b'", r"v rlike '(a)(?<=\\1)b'",
    "v rlike '(?<=a{0,120}a{0,120}b)c'", r"size(split(v, '[\\b]')) = 1",
]  # fmt: skip
EXPRESSIONS = [*NOT_OF_JAVA, "regexp_replace(v, '(?i)é', '') = v"]


def of_table(check, accepted):
    return TableSpec.from_ruleset(with_check(TableSpec.model_validate({**TABLE, "checks": [accepted]}).ruleset(), check)).checks


def of_gold(check, accepted):
    query = GoldQuery("SELECT v FROM silver_orders", ("silver_orders",), {"v": "string"}, {})
    rules = ruleset(GoldSpec.model_validate({**GOLD, "checks": [accepted]}), query)
    spec, sql, types = recorded_rules(with_check(rules, check), "of_today.sql")
    assert (spec.sql, sql, types) == ("of_today.sql", query.sql, query.types)
    return spec.checks


def of_guard(check, accepted):
    rules = GuardSpec.model_validate({**GUARD, "checks": [accepted]}).ruleset()
    return rules_without(GuardSpec.model_validate(GUARD), with_check(rules, check), ()).checks


def with_check(rules, check):
    values = json.loads(rules)
    return json.dumps({**values, "checks": [{**values["checks"][0], **check}]})


@pytest.mark.parametrize("read", [of_table, of_gold, of_guard])
@pytest.mark.parametrize(("check", "accepted"), ONCE_ACCEPTED, ids=lambda values: str(list(values.values())[-1]))
def test_recorded_checks_that_the_yaml_may_have_no_more_are_read(check, accepted, read):
    (checked,) = read(check, {**check, **accepted})
    assert checked.model_dump().items() >= check.items()


@pytest.mark.parametrize("read", [of_table, of_gold, of_guard])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_recorded_expressions_are_read(expression, read):
    check = {"check": "expression", "name": "e", "expr": expression}
    (checked,) = read(check, {**check, "expr": "v = 'a'"})
    assert checked.expr == expression


@pytest.mark.parametrize("expression", NOT_OF_JAVA)
def test_no_sql_of_the_yaml_may_have_a_pattern_that_java_cannot_compile_unless_a_decision_has_it(expression):
    fields = [
        {"checks": [{"check": "expression", "name": "e", "expr": expression}]},
        {"checks": [{"check": "not_null", "column": "v", "where": expression}]},
        {"checks": [{"check": "sql", "name": "s", "sql": f"select * from batch where {expression}"}]},
        {"checks": [{"check": "metric", "name": "m", "sql": f"count_if({expression})", "max": 0}]},
        {
            "checks": [
                {"check": "reconcile", "table": "t", "measure": "count(*)", "against": "count(*)", "by": {expression: "v"}}
            ]
        },
        {
            "checks": [
                {"check": "reconcile", "table": "t", "measure": "count(*)", "against": "count(*)", "against_where": expression}
            ]
        },
        {"columns": {"v": {"type": "string", "expr": expression.replace("v ", "value ").replace("(v,", "(value,")}}},
        {"extraction": {**TABLE["extraction"], "mode": "upsert", "delete_when": expression}, "key": ["v"]},
        {"layout": {"partition_by": ["g"], "derived": {"g": {"type": "string", "expr": f"string({expression})"}}}},
        {"drift": {"features": [{"name": "f", "expr": f"cast({expression} as int)"}]}},
        {"constraints": {"c": expression}},
    ]
    for field in fields:
        with pytest.raises(ValidationError, match=r"the pattern .* (has|looks back)"):
            TableSpec.model_validate({**TABLE, **field})
        TableSpec.model_validate({**TABLE, **field}, context={RECORDED: True})


def test_the_sql_of_gold_may_have_no_pattern_that_java_cannot_compile_unless_a_decision_has_it():
    sql, schema = "SELECT v\nFROM silver_orders\nWHERE v RLIKE '(?<=a+)b'", {"silver_orders": {"v": "string"}}
    with pytest.raises(ConfigError, match=r"^totals.sql:3: gold: the pattern .* looks back"):
        read_gold(sql, "totals.sql", schema)
    assert read_gold(sql, "totals.sql", schema, is_recorded=True).inputs == ("silver_orders",)


@pytest.mark.parametrize("read", [of_table, of_gold, of_guard])
def test_what_was_never_accepted_is_not_read(read):
    check = {"check": "expression", "name": "e", "expr": "now() > v"}
    with pytest.raises((ValidationError, ConfigError), match="is not allowed"):
        read(check, {**check, "expr": "v = 'a'"})
