"""An audit's judgement: rules into answers, answers into a verdict, and what nobody covers, by tables of cases.

Belongs here: decisions/audit.py. Does not: shares (test_audit_share.py), packs (contracts/test_audit.py).
"""

import pytest

from lakehouse_assets.contracts.audit import AuditRule
from lakehouse_assets.contracts.audit_binding import bind
from lakehouse_assets.decisions.audit import (
    in_exception,
    judge,
    judge_unique,
    lost_columns,
    percent,
    unmatched,
    verdict_of,
    worst,
)
from lakehouse_assets.decisions.audit_share import counted, of_uniform


def rule(name="present", severity="critical", columns=("*name*",), **more) -> AuditRule:
    check = {"check": "not_null", "severity": severity, "threshold": 0.9, **more.pop("check", {})}
    return AuditRule.model_validate({"name": name, "columns": list(columns), "check": check, **more})


def bound(**given):
    (found,) = bind([rule(**given)], "silver/a", {"name": "string"}, (), 2026).bound
    return found


def result(severity: str, status: str):
    share = {"pass": counted(10, 0), "fail": counted(10, 5), "inconclusive": of_uniform(10, 1, 1000)}
    given = bound(severity=severity)
    found = in_exception(given, "it broke") if status == "exception" else judge(given, share[status])
    assert found.status == status
    return found


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
    assert verdict_of([result(*each) for each in results]) == verdict


def test_an_exception_of_the_table_stops_and_a_lost_column_is_warned_of():
    assert verdict_of([result("critical", "pass")], "the log is torn") == "stopped"
    assert verdict_of([result("critical", "pass")], None, [("present", "name")]) == "passed_with_warnings"
    assert worst(["passed", "stopped", "passed_with_infos"]) == "stopped"


def test_what_is_said():
    assert judge(bound(), counted(10, 5)).message == "5 of 10 rows fail: 50.00% pass, 90.00% promised"
    assert "the sample cannot tell" in judge(bound(), of_uniform(10, 1, 1000)).message
    twice = judge_unique(bound(check={"check": "unique", "threshold": None}), 10, 2)
    assert (twice.status, twice.message) == ("fail", "2 value(s) of (name) stand on more than one of 10 rows")
    assert judge_unique(bound(), 10, 0).status == "pass"


@pytest.mark.parametrize(
    ("share", "text"), [(1.0, "100.00%"), (0.999999, "just under 100%"), (1e-9, "just over 0%"), (0, "0.00%")]
)
def test_a_share_that_is_not_whole_does_not_read_so(share, text):
    assert percent(share) == text


def test_what_fits_no_column_is_told_and_a_critical_rule_of_nothing_fails():
    rules = [rule("a"), rule("b", columns=["*iso2*"]), rule("c", columns=["*iso2*"], allow_unmatched=True)]
    rules += [rule("d", "warning", ["*url*"]), rule("e", columns=["name", "*naem*"])]
    columns = {"silver/x": ["name"], "gold/y": ["id"]}
    found = unmatched(rules, columns, {"a", "e"})
    assert [(u.rule, u.pattern, u.fails) for u in found] == [
        ("b", None, True), ("c", None, False), ("d", None, False), ("e", "*naem*", False),
    ]  # fmt: skip


def test_a_rule_that_lost_its_column_is_told_but_not_one_that_was_taken_away():
    before = (("a", "x"), ("a", "y"), ("gone", "x"))
    assert lost_columns(before, (("a", "x"),), {"a"}) == [("a", "y")]
