"""Audit packs: what may be written, where a mistake is reported, and which columns the patterns find.

Belongs here: contracts/audit.py and audit_binding.py. Does not: judging.
"""

import pytest

from lakehouse_assets.contracts.audit import AuditRules, AuditSetting, read_rules
from lakehouse_assets.contracts.audit_binding import bind
from lakehouse_assets.errors import ConfigError

FIRMS = {
    "id": "bigint", "iso2_country_code": "string", "address.country_name": "string", "web.url": "string", "URL_count": "int",
    "employees": "int", "founded": "smallint", "revenue_eur": "decimal(20,2)", "revenue_note": "string",
    "long_description": "string", "extra": "map<string,string>", "p_extracted_at": "timestamp", "_content_hash": "string",
}  # fmt: skip


def test_the_default_pack_contains_every_rule():
    binding = bind(read_rules().rules, "silver/firms", FIRMS, ("id",), 2026)
    bound_rules = {(b.rule.name, b.columns, b.check.check, b.rule.severity, b.rule.threshold) for b in binding.bound}
    assert bound_rules == {
        ("key_not_null", ("id",), "not_null", "critical", 1.0),
        ("key_unique", ("id",), "unique", "critical", 1.0),
        ("country_code_length", ("iso2_country_code",), "length", "critical", 1.0),
        ("country_code_present", ("iso2_country_code",), "not_null", "critical", 0.98),
        ("country_name_present", ("address.country_name",), "not_null", "warning", 0.95),
        ("url_form", ("web.url",), "url", "warning", 0.95),
        ("url_present", ("web.url",), "not_null", "warning", 0.5),
        ("url_present", ("URL_count",), "not_null", "warning", 0.5),
        ("employee_count", ("employees",), "in_range", "warning", 1.0),
        ("founded_year", ("founded",), "in_range", "warning", 1.0),
        ("revenue", ("revenue_eur",), "in_range", "warning", 1.0),
        ("description_present", ("long_description",), "not_null", "info", 0.35),
    }
    bounds = {b.rule.name: (b.check.min, b.check.max) for b in binding.bound if b.check.check == "in_range"}
    assert bounds == {"employee_count": (0, 10**7), "founded_year": (1000, 2027), "revenue": (0, 10**15)}
    assert binding.uncovered == ("revenue_note", "extra")
    assert {(rule, column) for rule, column, _ in binding.unfit} == {("url_form", "URL_count"), ("revenue", "revenue_note")}


def test_a_key_of_several_columns_is_unique_together_and_missing_columns_are_listed():
    rules = read_rules().rules
    binding = bind(rules, "silver/a", {"a": "int", "b": "int"}, ("a", "b"), 2026)
    assert [b.columns for b in binding.bound] == [("a",), ("b",), ("a", "b")]
    binding = bind(rules, "silver/a", {"a": "int"}, ("a", "b"), 2026)
    assert ([b.columns for b in binding.bound], binding.lacking) == ([("a",)], ("b",))


def test_rules_of_one_table_and_settings_that_win_key_by_key(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "rules:\n  - {name: r, columns: ['*'], tables: ['gold/*'], check: {check: not_null}}\n"
        "settings:\n  - {tables: ['*'], rows: 50, weight: kind}\n  - {tables: ['silver/b*'], rows: 70}\n"
    )
    rules = read_rules(tmp_path)
    assert not bind(rules.rules, "silver/x", {"a": "int"}, (), 2026).bound
    assert bind(rules.rules, "gold/x", {"a": "int"}, (), 2026).bound
    assert rules.setting("silver/a") == AuditSetting(tables=("silver/a",), rows=50, weight="kind")
    assert rules.setting("silver/big") == AuditSetting(tables=("silver/big",), rows=70, weight="kind")


def test_the_hash_covers_the_rules_without_descriptions():
    rules = read_rules().rules
    described = [rule.model_copy(update={"description": "x"}) for rule in rules]
    assert AuditRules(tuple(described)).ruleset_hash == AuditRules(rules).ruleset_hash
    assert AuditRules(rules[1:]).ruleset_hash != AuditRules(rules).ruleset_hash


RULE = "rules:\n  - name: r\n    columns: ['*a*']\n    check: "


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (f"{RULE}{{check: lenght, min: 2}}\n", 4, "lenght"),
        (f"{RULE}\n      check: length\n      min: 3\n      max: 2\n", 4, "min 3 is above max 2"),
        (f"{RULE}\n      check: not_null\n      threshold: 2\n", 6, "threshold: Input should be less than or equal to 1"),
        (f"{RULE}{{check: not_null, column: b}}\n", 4, "column is not for audits"),
        (f"{RULE}{{check: row_count, min: 1}}\n", 4, "row_count is no check of one column"),
        ("rules:\n  - name: r\n    check: {check: not_null}\n", 2, "either columns (patterns) or key: true"),
        ("rules:\n  - name: R 1\n    columns: [a]\n    check: {check: not_null}\n", 2, "lower-case letters"),
        ("rules:\n  - {name: r, columns: [a], check: {check: not_null}}\n  - {name: r, key: true, check: {check: not_null}}\n",
        3,  "is already a rule in"),
        ("rules:\n  - {name: r, colums: [a], check: {check: not_null}}\n", 2, "colums"),
        ("rules: []\n", 0, "no *.yaml there has a rule"),
    ],
)  # fmt: skip
def test_a_mistake_names_its_file_and_line(tmp_path, text, line, message):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(ConfigError) as error:
        read_rules(tmp_path)
    assert message in str(error.value)
    assert not line or f"mine.yaml:{line}: " in str(error.value)
