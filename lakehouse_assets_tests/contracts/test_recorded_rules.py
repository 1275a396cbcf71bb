"""Rules that a decision recorded stay readable, whatever a newer version refuses in the YAML.

Belongs here: tables, gold and guards. Does not: which patterns the YAML may have (checks/test_patterns), or which
names (test_check_names).
"""

import json

import pytest
from pydantic import ValidationError

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import recorded_rules, ruleset
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.lineage import GoldQuery
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
EXPRESSIONS = [r"v rlike '[\\b]'", r"v rlike '\\0'", r"v rlike '\\U0001F600'", "regexp_replace(v, '(?i)é', '') = v"]


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


@pytest.mark.parametrize("read", [of_table, of_gold, of_guard])
def test_what_was_never_accepted_is_not_read(read):
    check = {"check": "expression", "name": "e", "expr": "now() > v"}
    with pytest.raises((ValidationError, ConfigError), match="is not allowed"):
        read(check, {**check, "expr": "v = 'a'"})
