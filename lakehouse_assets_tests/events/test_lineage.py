"""A decision's events of OpenLineage, held to the library's own classes: names, facets, versions, personal values. No JVM.

Belongs here: what an event holds, of silver, gold and guards. Does not: sending it (orchestration/test_lineage).
"""

import json
from dataclasses import replace

import pytest
from openlineage.client import event_v2, facet_v2
from openlineage.client.serde import Serde

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import ruleset, ruleset_hash, silver_schemas
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.events.lineage import FORMS, lineage_forms
from lakehouse_assets.events.lineage_tables import lineage_tables, table_of
from lakehouse_assets_tests.logbook import DECIDED, decided, outcome
from lakehouse_assets_tests.support import readings

COLUMNS = {
    "sensor": {"type": "string", "from": "Sensor Id", "description": "of the maker"},
    "value": {"type": "double"},
    "at": {"type": "timestamp"},
}
OTHER = {"path": "x", "asset": "raw/other", "columns": {"n": "int"}}
SPEC = readings(
    columns=COLUMNS,
    key=["sensor", "at"],
    last_modified="at",
    surrogate_key={"name": "sk", "from": ["sensor", "at"]},
    checks=[{"check": "not_null", "column": "value"}, {"check": "not_null", "column": "at", "where": "value > 0"}],
    gold=[{"name": "days", "sql": "days.sql", "key": ["day"], "reads": {"other": OTHER}}],
)
SQL = "SELECT CAST(at AS DATE) AS day, max(value) AS top, max(n) AS n FROM silver_readings CROSS JOIN other GROUP BY 1"
GOLD: GoldSpec = SPEC.gold[0]
QUERY = read_gold(SQL, "days.sql", silver_schemas([SPEC]) | {"other": {"n": "int"}})
GUARD = GuardSpec.model_validate(
    {"name": "orders", "path": "theirs", "columns": {"amount": "double"}, "publish": {"to": "./clean"}}
)
TABLES = lineage_tables([SPEC], {"days": QUERY}, [GUARD])
CHECKS = (
    outcome("not_null_value", kind="not_null", status="failed", effect="rows", failed_rows=2, message="2 of 3 rows fail"),
    outcome("not_null_at", kind="not_null", severity="warning", status="error", message="no such column"),
    outcome("drift", kind="drift", status="skipped"),
)


def events(decision, form: int = 0, tables=TABLES) -> dict[str, dict]:
    """The events by their jobs, as a receiver reads them; each one fits the library's classes."""
    message = [*lineage_forms(decision, table_of(decision, tables), "lake")][form]
    bodies = [json.loads(Serde.to_json(event)) for event in message.value]
    for body in bodies:
        fits_library(body)
    assert message.event_id == decision.decision_id
    return {body["job"]["name"]: body for body in bodies}


FACETS = {
    "schema": facet_v2.schema_dataset.SchemaDatasetFacet,
    "columnLineage": facet_v2.column_lineage_dataset.ColumnLineageDatasetFacet,
    "version": facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet,
    "dataQualityMetrics": facet_v2.data_quality_metrics_input_dataset.DataQualityMetricsInputDatasetFacet,
    "dataQualityAssertions": facet_v2.data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet,
    "outputStatistics": facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
    "nominalTime": facet_v2.nominal_time_run.NominalTimeRunFacet,
}


def fits_library(body: dict) -> None:
    """The library makes the same event of these values, and of each facet: it refuses unknown or missing fields."""
    run, job = event_v2.Run(**body["run"]), event_v2.Job(**body["job"])
    inputs = [event_v2.InputDataset(**each) for each in body["inputs"]]
    outputs = [event_v2.OutputDataset(**each) for each in body["outputs"]]
    own = {"run": run, "job": job, "inputs": inputs, "outputs": outputs, "eventType": event_v2.RunState(body["eventType"])}
    again = event_v2.RunEvent(eventTime=body["eventTime"], producer=body["producer"], **own)
    assert json.loads(Serde.to_json(again)) == body
    for holder in [body["run"], *body["inputs"], *body["outputs"]]:
        for kind in ("facets", "inputFacets", "outputFacets"):
            for name, values in holder.get(kind, {}).items():
                assert values["_schemaURL"] and values["_producer"] == "urn:lakehouse-assets"
                if name in FACETS:
                    FACETS[name](**{key: value for key, value in values.items() if not key.startswith("_")})
                else:
                    assert name == "lakehouse_decision"


def silver_decision(**changes):
    own = {"ruleset": SPEC.ruleset(), "checks": CHECKS, "applied_at": DECIDED, "silver_version": 7}
    return decided(2, **{**own, **changes})


def names(datasets) -> list[str]:
    return [each["name"] for each in datasets]


def test_silver_is_extracted_checked_and_written():
    by_job = events(
        silver_decision(inputs={"sensors": 4}),
        tables=TABLES | lineage_tables([readings(name="sensors"), SPEC], {"days": QUERY}, []),
    )
    assert list(by_job) == ["bronze_readings", "silver_readings__checks", "silver_readings"]
    bronze, checked, written = by_job.values()
    assert (names(bronze["inputs"]), names(bronze["outputs"])) == (["source_readings"], ["bronze_readings"])
    assert (names(checked["inputs"]), names(checked["outputs"])) == (["silver_readings"], [])
    assert (names(written["inputs"]), names(written["outputs"])) == (["bronze_readings", "silver_sensors"], ["silver_readings"])
    facets = written["outputs"][0]["facets"]
    fields = {each["name"]: each for each in facets["schema"]["fields"]}
    assert (fields["sensor"]["type"], fields["sensor"]["description"]) == ("string", "of the maker")
    assert list(fields)[:4] == ["sensor", "value", "at", "sk"]
    lineage = {name: [each["field"] for each in of["inputFields"]] for name, of in facets["columnLineage"]["fields"].items()}
    assert lineage == {"sensor": ["Sensor Id"], "value": ["value"], "at": ["at"], "sk": ["Sensor Id", "at"]}
    assert facets["version"]["datasetVersion"] == "7"
    assert written["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 2
    time = written["run"]["facets"]["nominalTime"]
    assert (time["nominalStartTime"], time["nominalEndTime"]) == ("2024-01-02T00:00:00+00:00", "2024-01-03T00:00:00+00:00")
    own = written["run"]["facets"]["lakehouse_decision"]
    assert (own["verdict"], own["rows"]["rows_quarantined"], own["dagster_run_id"]) == ("published_with_warnings", 1, "run-2")


def test_the_quality_facets_have_what_was_counted():
    facets = events(silver_decision())["silver_readings__checks"]["inputs"][0]["inputFacets"]
    metrics = facets["dataQualityMetrics"]
    assert metrics["rowCount"] == 3
    assert {name: each["nullCount"] for name, each in metrics["columnMetrics"].items()} == {"value": 2}, (
        "a check of some rows, or in error, counts no NULLs"
    )
    failed, error = facets["dataQualityAssertions"]["assertions"]
    assert (failed["assertion"], failed["name"], failed["column"], failed["success"], failed["severity"], failed["actual"]) == (
        "not_null", "not_null_value", "value", False, "error", "2 of 3 rows fail",
    )  # fmt: skip
    assert (error["success"], error["severity"], error.get("actual")) == (False, "warn", None)


def test_a_quarantined_batch_writes_no_row_and_a_superseded_one_has_no_event():
    written = events(silver_decision(verdict="quarantined"))["silver_readings"]["outputs"][0]
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 0
    assert "version" not in written["facets"]
    assert events(silver_decision(superseded_by="another")) == {}


def test_gold_has_its_inputs_at_their_versions_and_the_lineage_of_its_own_sql():
    decision = decided(
        1, "gold_days", ruleset=ruleset(GOLD, QUERY), ruleset_hash=ruleset_hash(GOLD, QUERY), applied_at=DECIDED,
        inputs={"silver_readings": 7, "other": 3}, silver_version=2,
    )  # fmt: skip
    written = events(decision)["gold_days"]
    versions = {each["name"]: each["facets"]["version"]["datasetVersion"] for each in written["inputs"]}
    assert versions == {"silver_readings": "7", "raw/other": "3"}
    lineage = written["outputs"][0]["facets"]["columnLineage"]["fields"]
    assert {name: [(f["name"], f["field"]) for f in of["inputFields"]] for name, of in lineage.items()} == {
        "day": [("silver_readings", "at")], "top": [("silver_readings", "value")], "n": [("raw/other", "n")],
    }  # fmt: skip
    assert [each["name"] for each in written["outputs"][0]["facets"]["schema"]["fields"]] == ["day", "top", "n"]
    before = events(replace(decision, ruleset_hash="of another SQL"))["gold_days"]["outputs"][0]["facets"]
    assert "columnLineage" not in before and [each["name"] for each in before["schema"]["fields"]] == ["day", "n", "top"]


def test_a_guard_is_checked_and_writes_only_what_it_publishes():
    decision = silver_decision(table="orders", ruleset=GUARD.ruleset(), bronze_version=5)
    by_job = events(decision)
    assert list(by_job) == ["guard_orders__checks", "guard_orders"]
    assert by_job["guard_orders__checks"]["inputs"][0]["facets"]["version"]["datasetVersion"] == "5"
    written = by_job["guard_orders"]
    assert (names(written["inputs"]), names(written["outputs"])) == (["guard_orders"], ["./clean"])
    alone = GuardSpec.model_validate({"name": "orders", "path": "theirs", "asset": "raw/orders"})
    assert list(events(decision, tables=lineage_tables([], {}, [alone]))) == ["raw/orders__checks"]


@pytest.mark.parametrize(
    ("decision", "jobs"),
    [
        (silver_decision(table="gone"), ["bronze_gone", "silver_gone__checks", "silver_gone"]),
        (silver_decision(table="gone", ruleset=GUARD.ruleset()), ["guard_gone__checks"]),
        (
            decided(1, "gold_gone", ruleset="{}", applied_at=DECIDED, inputs={"silver_gone": 1}),
            ["gold_gone__checks", "gold_gone"],
        ),
    ],
)
def test_a_table_that_the_project_no_longer_has_keeps_its_names(decision, jobs):
    by_job = events(decision, tables={})
    assert list(by_job) == jobs


def test_rules_that_this_version_cannot_read_cost_the_schema_only():
    older = silver_decision(ruleset='{"extraction": {"cadence": "daily"}, "checks": [{"check": "of another time"}, 3]}')
    by_job = events(older)
    assert "schema" not in by_job["silver_readings"]["outputs"][0]["facets"]
    assert len(by_job["silver_readings__checks"]["inputs"][0]["inputFacets"]["dataQualityAssertions"]["assertions"]) == 2


def test_shorter_forms_leave_out_texts_then_columns_and_passed_checks():
    checks = (*CHECKS, outcome("not_empty"))
    sizes = [len(json.dumps(events(silver_decision(checks=checks), form))) for form in range(len(FORMS))]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 3
    texts = json.dumps(events(silver_decision(checks=checks), 1))
    assert "no such column" not in texts and "of the maker" not in texts
    left = events(silver_decision(checks=checks), 2)["silver_readings__checks"]["inputs"][0]["inputFacets"]
    assert [each["name"] for each in left["dataQualityAssertions"]["assertions"]] == ["not_null_value", "not_null_at"]


def test_what_a_person_wrote_and_what_checks_observed_is_not_sent():
    secret = "a person's words"
    checks = (outcome("not_empty", observed={"largest": secret}),)
    text = json.dumps(events(silver_decision(checks=checks, because=secret, by=secret, waived=("drift",))))
    assert secret not in text
