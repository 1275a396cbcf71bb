"""Rules of a frame and of a guard: columns in any letter case, as Spark reads them, and what a table's rules become.

Belongs here: the rules alone. Does not: judging frames (frames), or a table's own contract (test_table_contracts).
"""

import pytest
from pydantic import ValidationError

from lakehouse_assets.checks import base
from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.sql.text import parse_expression
from lakehouse_assets.contracts.frame_rules import FrameRules, frame_mistakes, rules_of_table
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.decisions import gate
from lakehouse_assets.decisions.drift.pseudonyms import name_mask
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.decisions.personal import MASKED, may_be_misplaced
from lakehouse_assets_tests.support import readings

SECRET = "ann@example.com"
COLUMNS = {"Email": {"type": "string", "pii": True}, "Age": "int"}


def rules(**changes) -> FrameRules:
    return FrameRules.model_validate({"columns": COLUMNS, **changes})


@pytest.mark.parametrize("spelling", ["Email", "email", "EMAIL"])
def test_a_personal_column_is_hidden_in_any_letter_case(spelling):
    checks = [{"check": "unique", "columns": [spelling]}, {"check": "not_null", "column": "age", "where": f"{spelling} <> ''"}]
    frame = rules(checks=checks, key=["email"])
    assert not list(frame_mistakes(frame, {"EMAIL": "string", "age": "int"}))
    metrics = {f"unique_{spelling}": {"duplicates": 1, "examples": [SECRET]}}
    numbers = BatchNumbers(rows_in=2, metrics=metrics, failed_rows={"not_null_age": 1})
    context = CheckContext((), "TIMESTAMP '2024-01-01'", "TIMESTAMP '2024-01-02'", "batch")
    unique, _ = gate.judge_checks(frame.checks, context, numbers, frame.pii_columns)
    assert unique.message == MASKED and SECRET not in str(unique)
    assert gate.is_hidden(frame.checks[1], frame.pii_columns)
    assert may_be_misplaced("matches", [spelling], frame.pii_columns)
    assert "age" not in {name.lower() for name in frame.pii_columns}


def test_the_personal_columns_of_many_checks_are_read_once_and_a_copy_has_its_own(monkeypatch):
    frame, parsed = rules(checks=[{"check": "not_null", "column": "age", "where": "EMAIL <> ''"}]), []
    assert frame.pii_columns == {"Email", "EMAIL"}
    monkeypatch.setattr(base, "parse_expression", lambda *args: parsed.append(args) or parse_expression(*args))
    assert frame.pii_columns == {"Email", "EMAIL"} and parsed == []
    checks = rules(checks=[{"check": "not_null", "column": "eMail"}]).checks
    assert frame.model_copy(update={"checks": checks}).pii_columns == {"Email", "eMail"}
    assert frame == rules(checks=[{"check": "not_null", "column": "age", "where": "EMAIL <> ''"}])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"drift": {"features": ["email"]}}, "a baseline would keep values of email, which is pii"),
        ({"drift": {"features": [{"name": "age", "by": "EMAIL"}]}}, "a baseline would keep values of EMAIL, which is pii"),
        ({"checks": [{"check": "anomaly", "sql": "avg(length(email))"}]}, "its figures are stored for later windows"),
    ],
)
def test_nothing_keeps_values_of_a_personal_column_in_another_letter_case(changes, reason):
    with pytest.raises(ValidationError, match=reason):
        rules(**changes)
    with pytest.raises(ValidationError, match=reason):
        GuardSpec.model_validate({"name": "orders", "path": "p", "columns": COLUMNS, **changes})


def test_strata_of_a_column_in_another_letter_case_have_pseudonyms():
    drift = {"features": [{"name": "age", "by": "CITY"}]}
    mask = name_mask(rules(columns={**COLUMNS, "city": "string"}, drift=drift))
    assert mask and "age" in mask.strata


@pytest.mark.parametrize(("columns", "is_key"), [(["ID", "Day"], True), (["id"], False), (["id", "day"], True)])
def test_the_key_is_the_key_in_any_letter_case(columns, is_key):
    [check] = rules(columns={"id": "int", "day": "date"}, checks=[{"check": "unique", "columns": columns}]).checks
    assert check.is_key(CheckContext(("day", "id"), "", "", "batch")) is is_key


def test_a_table_s_rules_hide_each_column_of_a_personal_source_column():
    columns = {"sensor": "string", "hour": "int", "email": {"type": "string", "pii": True}}
    spec = readings(
        columns={**columns, "email2": {"type": "string", "from": "email"}}, key=["sensor"], last_modified="hour", checks=[]
    )
    assert rules_of_table(spec)[0].pii_columns == spec.pii_columns == {"email", "email2"}
