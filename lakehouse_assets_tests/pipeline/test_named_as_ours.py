"""Sources whose columns have names of quarantine's own columns."""

from lakehouse_assets.decisions.personal import MASKED
from lakehouse_assets.pipeline.evidence import findings_of
from lakehouse_assets.queries.quarantine import quarantine_sample
from lakehouse_assets.queries.row_hashes import compare_row_hashes
from lakehouse_assets_tests.support import heal, land, readings, rows_of, silver, window

COLUMNS = {"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp"}
HEADER = "sensor,hour,value,updated,outcome,Reasons,decision_id,BATCH_REASONS"


def test_a_row_in_quarantine_keeps_its_values_beside_ours(spark, settings):
    """Declared columns, an undeclared one, and a personal one; single rows and a whole window."""
    columns = COLUMNS | {"outcome": "string", "decision_id": "int", "why": {"from": "Reasons", "type": "string", "pii": True}}
    spec = readings(columns=columns)
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z,paid,because,7,x", "b,1,999,2024-01-01T00:00:00Z,open,secret,8,y"], HEADER)
    land(settings, 2, [], HEADER)
    land(settings, 3, ["a,1,NA,2024-01-03T00:00:00Z,late,none,no number,z"], HEADER)
    published = heal(spark, settings, [1, 2, 3], spec)
    assert [published.current[window(day)].counts.rows_quarantined for day in (1, 2, 3)] == [1, 0, 1]
    assert [(row["outcome"], row["decision_id"]) for row in silver(settings)] == [("paid", 7)]
    (row,) = [row for row in rows_of(settings.path("quarantine", "readings")) if row["sensor"] == "b"]
    decision = published.current[window(1)]
    assert (row["outcome"], row["decision_id"], row["reasons"][0]["check"]) == (
        "quarantined", decision.decision_id, decision.reasons[0].check,
    )  # fmt: skip
    assert (row["_source_outcome"], row["_source_decision_id"], row["_source_BATCH_REASONS"]) == ("open", "8", "y")
    assert findings_of(settings, spec) == [] and compare_row_hashes(settings, spec, spark) == []
    (shown,) = quarantine_sample(settings, spec, window(1).start, 5)
    assert (shown["_source_outcome"], shown["_source_Reasons"]) == ("open", MASKED)
