"""Columns marked `pii`: what is never shown of them, wherever it is kept; and the boundary that no step is without.

Belongs here: what check results and quarantine show. Does not: gold (test_bad_gold), examples (test_gate_checks_where).
"""

import json
from pathlib import Path

import dagster as dg

from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.orchestration import step_boundary
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.assets.project_tables import load_tables
from lakehouse_assets.orchestration.assets.window_checks import window_results
from lakehouse_assets_tests.support import heal, land, readings, rows_of, window


def test_values_logged_before_a_column_became_personal_are_hidden(spark, settings):
    land(settings, 1, ["private,1,5,2024-01-01T00:00:00Z"] * 2 + ["private,x,5,2024-01-01T00:00:00Z", "private,2"])
    checks = [{"check": "unique", "columns": ["sensor"], "severity": "warning"}]
    open_, columns = readings(checks=checks), {"hour": "int", "value": "double", "updated": "timestamp"}
    heal(spark, settings, [1], open_)

    def shown(spec) -> str:
        results = [each.result for each in window_results(spec, settings, [window(1)], {}).results if each.result]
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
    decision = heal(spark, settings, [1], spec).current[window(1)]
    outcomes = {outcome["check"]: outcome for outcome in decision.checks}
    assert outcomes["cast_digits"]["failed_rows"] == 1
    (reasons,) = [row["reasons"] for row in rows_of(settings.path("quarantine", "readings"))]
    assert [(reason["check"], reason["value"]) for reason in reasons] == [("cast_digits", "(masked: pii)")]


def test_every_op_asset_and_check_has_the_step_boundary(settings):
    """So that no error of a table with personal columns leaves a step with a value in it."""
    calendar = {"cadence": "daily", "start": "2024-01-01", "end": "2024-02-01", "mode": "upsert", "overdue_after": "1d"}
    tables = [*load_tables(), LakehouseTable(readings(extraction=calendar), Path("nowhere"))]
    definitions = build_definitions(settings, tables)
    ops = [op for job in definitions.jobs or () if isinstance(job, dg.JobDefinition) for op in job.all_node_defs]
    ops += [each.op for each in [*(definitions.assets or ()), *(definitions.asset_checks or ())] if hasattr(each, "op")]
    functions = {op.name: op.compute_fn.decorated_fn for op in ops}
    outside = {name for name, function in functions.items() if function.__code__.co_filename != step_boundary.__file__}
    assert len(functions) > 30
    assert outside == set()


def test_a_check_is_one_of_the_newest_materialization_and_lists_no_partitions(monkeypatch):
    """An hourly table has tens of thousands."""
    hours = dg.HourlyPartitionsDefinition("2024-01-01-00:00")

    @dg.asset(partitions_def=hours)
    def table() -> None: ...

    check = step_boundary.masked_check(
        table.key, "fine", "", False, lambda: dg.AssetCheckResult(passed=True, description="yes")
    )
    with dg.DagsterInstance.ephemeral() as instance:
        for key in ("2024-01-01-00:00", "2024-01-01-01:00"):
            assert dg.materialize([table], instance=instance, partition_key=key).success

        def refuse(*_, **__):
            raise AssertionError("listed")

        monkeypatch.setattr(dg.TimeWindowPartitionsDefinition, "get_partition_keys", refuse)
        job = dg.define_asset_job("checks", dg.AssetSelection.checks(check))
        definitions = dg.Definitions([table], asset_checks=[check], jobs=[job])
        assert definitions.resolve_job_def("checks").execute_in_process(instance=instance).success
        (record,) = instance.event_log_storage.get_asset_check_execution_history(next(iter(check.check_keys)), limit=5)
        newest = instance.fetch_materializations(table.key, limit=1).records[0]
        evaluation = record.event.dagster_event.event_specific_data
        assert (evaluation.description, evaluation.target_materialization_data.storage_id) == ("yes", newest.storage_id)
