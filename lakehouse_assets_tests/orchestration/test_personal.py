"""Columns marked `pii`: what is never shown of them, wherever it is kept. On real Delta.

Belongs here: what check results and quarantine tell. Does not: gold's columns (test_bad_config), or examples (test_wall_where).
"""

import json

from lakehouse_assets.orchestration.assets import silver_check_results
from lakehouse_assets_tests.support import heal, land, readings, rows_of, window


def test_what_was_told_of_a_column_before_it_was_marked_is_not_shown_any_more(spark, settings):
    land(settings, 1, ["private,1,5,2024-01-01T00:00:00Z"] * 2 + ["private,x,5,2024-01-01T00:00:00Z", "private,2"])
    checks = [{"check": "unique", "columns": ["sensor"], "severity": "warning"}]
    open_, columns = readings(checks=checks), {"hour": "int", "value": "double", "updated": "timestamp"}
    heal(spark, settings, [1], open_)

    def shown(spec) -> str:
        results = silver_check_results(spec, settings, [window(1)], {})
        return json.dumps([{name: value.value for name, value in result.metadata.items()} for result in results])

    assert "(private)" in shown(open_)
    assert "private,2" in shown(open_)
    assert "private" not in shown(readings(checks=checks, columns={"sensor": {"type": "string", "pii": True}, **columns}))


def test_another_column_of_the_same_source_column_is_personal_too(spark, settings):
    land(settings, 1, ["555-secret,1,5,2024-01-01T00:00:00Z"])
    columns = {"phone": {"type": "string", "from": "sensor", "pii": True}, "digits": {"type": "bigint", "from": "SENSOR"}}
    columns |= {"hour": "int", "value": "double", "updated": "timestamp"}
    spec = readings(columns=columns, key=["phone", "hour"], checks=[])
    assert spec.pii_columns == {"phone", "digits"}
    decision = heal(spark, settings, [1], spec).standing[window(1)]
    found = {outcome["check"]: outcome for outcome in decision.checks}
    assert found["cast_digits"]["failed_rows"] == 1
    (reasons,) = [row["reasons"] for row in rows_of(settings.path("quarantine", "readings"))]
    assert [(reason["check"], reason["value"]) for reason in reasons] == [("cast_digits", "(masked: pii)")]
