"""A data file of silver that is gone: each reader of silver names the table and the way out, instead of Spark's text.

Belongs here: an audit, a dry run, and a check that looks into another table. Does not: runs of the table (test_silver_gone).
"""

from pathlib import Path

import pytest

from lakehouse_assets.audit.run import AuditRun, DeclaredTable, audit_layer
from lakehouse_assets.contracts.audit import read_rules
from lakehouse_assets.errors import EvidenceError
from lakehouse_assets.operations.dry_run import try_checks
from lakehouse_assets.orchestration.step_boundary import mask_errors
from lakehouse_assets_tests.support import heal, land, readings, runner, window

WAY_OUT = "silver/readings lacks a data file that its log names: `lakehouse rebuild readings` writes it anew"


def other(**more):
    looks_up = {"check": "foreign_key", "columns": ["sensor"], "table": "readings", "name": "known"}
    return readings(name="other", checks=[looks_up], **more)


@pytest.fixture(params=[pytest.param(False, marks=pytest.mark.exhaustive(seconds=6)), True], ids=["plain", "personal"])
def spec(spark, settings, request):
    """A table whose silver has lost its files, with and without a personal column."""
    sensor = {"type": "string", "pii": request.param}
    spec = readings(columns={"sensor": sensor, "hour": "int", "value": "double", "updated": "timestamp"})
    land(settings, 1, ["a,1,10,2024-01-01T00:00:00Z", "b,1,20,2024-01-01T00:00:00Z"])
    heal(spark, settings, [1], spec)
    for file in Path(settings.path("silver", "readings")).rglob("*.parquet"):
        file.unlink()
    return spec


def test_a_dry_run_on_silver(spark, settings, spec):
    with pytest.raises(EvidenceError) as raised, mask_errors(bool(spec.pii_columns)):
        try_checks(runner(spark, settings, spec), [spec.checks[1]], [window(1)], "silver")
    assert str(raised.value) == WAY_OUT


def test_a_check_that_looks_into_another_table(spark, settings, spec):
    columns = {"sensor": spec.columns["sensor"].model_dump(by_alias=True, exclude_unset=True)}
    columns |= {"hour": "int", "value": "double", "updated": "timestamp"}
    with pytest.raises(EvidenceError, match="lakehouse rebuild readings"):
        heal(spark, settings, [1], other(columns=columns))


def test_an_audit(spark, settings, spec):
    declared = {"silver/readings": DeclaredTable(("sensor",), spec.pii_columns)}
    [record] = audit_layer(AuditRun(settings, read_rules(), lambda: spark, "run-1", declared), "silver", ["readings"]).audits
    assert record.verdict == "stopped"
    assert WAY_OUT in str(record)
