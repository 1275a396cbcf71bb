"""An audit's judgement: rules into answers, answers into a verdict, and what nobody covers, by tables of cases.

Belongs here: decisions/audit/verdict.py. Does not: shares (test_audit_share.py), packs (contracts/test_audit.py).
"""

import pytest

from lakehouse_assets.contracts.audit import AuditRule
from lakehouse_assets.contracts.audit_binding import bind
from lakehouse_assets.decisions.audit.share import exact_share, uniform_share
from lakehouse_assets.decisions.audit.verdict import (
    decide_verdict,
    exception_result,
    find_lost_columns,
    find_unmatched,
    format_percent,
    judge_share,
    judge_unique,
)


def rule(name="present", severity="critical", columns=("*name*",), **more) -> AuditRule:
    check = {"check": "not_null", "severity": severity, "threshold": 0.9, **more.pop("check", {})}
    return AuditRule.model_validate({"name": name, "columns": list(columns), "check": check, **more})


def bound(**changes):
    (bound_rule,) = bind([rule(**changes)], "silver/a", {"name": "string"}, (), 2026).bound
    return bound_rule


def result(severity: str, status: str):
    share = {"pass": exact_share(10, 0), "fail": exact_share(10, 5), "inconclusive": uniform_share(10, 1, 1000)}
    bound_rule = bound(severity=severity)
    judged = exception_result(bound_rule, "it broke") if status == "exception" else judge_share(bound_rule, share[status])
    assert judged.status == status
    return judged


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ([("critical", "pass")], "passed"),
        ([("info", "fail")], "passed_with_infos"),
        ([("info", "inconclusive")], "passed_with_infos"),
        ([("warning", "fail"), ("info", "fail")], "passed_with_warnings"),
        ([("critical", "inconclusive")], "passed_with_warnings"),
        ([("critical", "fail"), ("critical", "pass")], "stopped"),
        ([("info", "exception")], "stopped"),
        ([], "passed_with_warnings"),
    ],
)
def test_the_verdict(results, verdict):
    assert decide_verdict([result(*each) for each in results]) == verdict


def test_a_lost_column_is_a_warning():
    assert decide_verdict([result("critical", "pass")], [("present", "name")]) == "passed_with_warnings"


def test_the_message_states_rate_and_interval():
    assert judge_share(bound(), exact_share(10, 5)).message == "5 of 10 rows fail: 50.00% pass, 90.00% promised"
    assert "the sample cannot tell" in judge_share(bound(), uniform_share(10, 1, 1000)).message
    twice = judge_unique(bound(check={"check": "unique", "threshold": None}), 10, 2)
    assert (twice.status, twice.message) == ("fail", "2 value(s) of (name) stand on more than one of 10 rows")
    assert judge_unique(bound(), 10, 0).status == "pass"


@pytest.mark.parametrize(
    ("share", "text"), [(1.0, "100.00%"), (0.999999, "just under 100%"), (1e-9, "just over 0%"), (0, "0.00%")]
)
def test_a_share_below_one_never_reads_as_100_percent(share, text):
    assert format_percent(share) == text


def test_rules_without_a_column_are_listed_and_critical_ones_fail():
    rules = [rule("a"), rule("b", columns=["*iso2*"]), rule("c", columns=["*iso2*"], allow_unmatched=True)]
    rules += [rule("d", "warning", ["*url*"]), rule("e", columns=["name", "*naem*"])]
    columns = {"silver/x": ["name"], "gold/y": ["id"]}
    unmatched = find_unmatched(rules, columns, {"a", "e"})
    assert [(u.rule, u.pattern, u.fails) for u in unmatched] == [
        ("b", None, True), ("c", None, False), ("d", None, False), ("e", "*naem*", False),
    ]  # fmt: skip


def test_a_rule_that_lost_its_column_is_reported_and_a_deleted_rule_is_not():
    before = (("a", "x"), ("a", "y"), ("gone", "x"))
    assert find_lost_columns(before, (("a", "x"),), {"a"}) == [("a", "y")]
