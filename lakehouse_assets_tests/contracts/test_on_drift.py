"""`drift.on_drift`, and the rule set of a window that was published without the rows that drift named.

Belongs here: the key, where it is refused, rule sets there and back. Does not: which rows (decisions), or the gate.
"""

import json

import pytest
from pydantic import ValidationError

from lakehouse_assets.checks.drift_rows import DRIFT_ROWS, CategoryCondition, DriftRows
from lakehouse_assets.contracts.drift import DriftSpec, is_divided, undivided_hash
from lakehouse_assets.contracts.frame_rules import FrameRules, rules_of_table
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.stream_drift import StreamDriftSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import gate
from lakehouse_assets.decisions.decide import JudgementRequest
from lakehouse_assets_tests.support import readings

DRIFT = {"features": ["value"], "on_drift": "quarantine_rows"}
HOSTILE = f'a",\\"{DRIFT_ROWS}":{{}}\n,"{DRIFT_ROWS}":1'
CHECK = DriftRows(
    feature="value", value="value", shown="value at 1", low=0.1, high=0.30000000000000004, rows=10, usual=0.5, p_value=1e-9,
    categories=(CategoryCondition(name="sensor", expr="sensor", category=HOSTILE),), description="why",
)  # fmt: skip


def test_the_rules_of_a_divided_window_are_read_back():
    table = readings(drift=DRIFT)
    divided = table.with_drift_rows(CHECK)
    again = TableSpec.from_ruleset(divided.ruleset())
    assert again.checks == divided.checks
    assert again.ruleset() == divided.ruleset()
    assert json.loads(divided.ruleset()) == {**json.loads(table.ruleset()), DRIFT_ROWS: json.loads(CHECK.model_dump_json())}
    assert (is_divided(divided.ruleset()), is_divided(table.ruleset())) == (True, False)
    assert undivided_hash(divided.ruleset()) == undivided_hash(table.ruleset()) == table.ruleset_hash
    assert divided.ruleset_hash != table.ruleset_hash
    assert table.as_judged(divided.ruleset()).checks == divided.checks


def test_the_key_changes_no_other_rule_set():
    assert "on_drift" not in readings(drift={"features": ["value"]}).ruleset()
    assert DriftSpec.model_validate(DRIFT).divides
    assert not DriftSpec(features=DriftSpec.model_validate(DRIFT).features).divides


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"drift": {**DRIFT, "on_drift": "quarantine"}}, "quarantine_window"),
        ({"drift": DRIFT, "checks": [{"check": "not_empty", "name": "Drift_rows"}]}, "has a check of this name"),
        ({"drift": DRIFT, "checks": [{"check": "drift_rows"}]}, "not known here"),
    ],
)
def test_what_a_table_cannot_declare(changes, message):
    with pytest.raises(ValidationError, match=message):
        readings(**changes)


def test_a_name_is_free_where_drift_quarantines_windows():
    checks = [{"check": "not_empty", "name": DRIFT_ROWS}]
    assert readings(checks=checks, drift={"features": ["value"]}).checks[0].id == DRIFT_ROWS
    assert not is_divided(readings(checks=checks).ruleset())


def test_frames_and_guards_are_judged_whole():
    with pytest.raises(ValidationError, match="applies to tables only"):
        FrameRules.model_validate({"drift": DRIFT})
    with pytest.raises(ValidationError, match="applies to tables only"):
        GuardSpec.model_validate({"name": "orders", "path": "/lake/orders", "columns": {"value": "double"}, "drift": DRIFT})
    rules, left_out = rules_of_table(readings(drift=DRIFT))
    assert (rules.drift and rules.drift.divides, left_out) == (False, {})


def test_a_stream_may_divide():
    stream = readings(
        source={"kind": "kafka", "topic": "t"},
        extraction={"cadence": "hourly", "stream": {"trigger": "5s"}, "start": "2024-01-01", "mode": "upsert"},
        drift=DRIFT,
    )
    drift = stream.drift_in_units
    assert isinstance(drift, StreamDriftSpec) and drift.divides


def test_who_accepts_the_rows_accepts_the_window():
    assert gate.is_waived("drift", ["drift_rows"])
    assert gate.is_waived("drift_rows", ["drift"])
    assert not gate.is_waived("in_range_value", ["drift_rows"])
    assert not JudgementRequest(waived=("drift_rows",)).lets_join(None)
