"""Damaged evidence as people meet it: the red check, the alert, the command's exit code. No JVM.

Belongs here: Dagster and the command around findings. Does not: what a finding is (decisions), or damaged lakes (layers).
"""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
from typer.testing import CliRunner

from lakehouse_assets import cli
from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.contracts.table_contract import AlertSpec
from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.errors import ConfigError, EvidenceError, RefusedError
from lakehouse_assets.orchestration.assets import evidence_check as evidence
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.healing.foreground import _joined_error
from lakehouse_assets.orchestration.spark import table_run
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.support import readings, window

AT = datetime(2024, 7, 1, tzinfo=UTC)
CHECK = dg.AssetCheckKey(dg.AssetKey("silver_readings"), "evidence_complete")
SPEC = readings(alerts=AlertSpec(webhooks=("HOOK",), emails=("ann@example.com",)))


@pytest.fixture
def sent(monkeypatch) -> list[tuple[str, str]]:
    """What was sent, instead of sending it; the mail server refuses."""
    messages: list[tuple[str, str]] = []

    def send_or_refuse(spec, settings, channel, title, body):
        if channel[0] == "e-mail":
            raise ConfigError("no mail today")
        messages.append((channel[1], body))

    monkeypatch.setattr(evidence, "send_message", send_or_refuse)
    return messages


def damage(settings, table="readings") -> None:
    """An extraction on record, and no bronze."""
    logs.record_extractions(settings, [ExtractionRecord(table, window(1).start, 1, "f", 3, ("a",), 0, "run", AT)])


def verify(definitions, instance) -> dg.AssetCheckEvaluation:
    job = definitions.resolve_job_def("verify_evidence")
    assert job.execute_in_process(instance=instance).success
    (record,) = instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=1)
    return record.event.dagster_event.event_specific_data


def test_the_nightly_check_lists_missing_evidence_and_alerts_once(settings, sent):
    definitions = build_definitions(settings, [LakehouseTable(SPEC, Path("nowhere"))])
    assert "verify_nightly" in {schedule.name for schedule in definitions.schedules}
    with dg.DagsterInstance.ephemeral() as instance:
        assert verify(definitions, instance).passed and not sent
        damage(settings)
        for _ in range(2):
            evaluation = verify(definitions, instance)
            assert (evaluation.passed, evaluation.severity, evaluation.metadata["findings"].value) == (
                False,
                dg.AssetCheckSeverity.ERROR,
                1,
            )
            assert "bronze/readings 2024-01-01 00:00 #1: 0 rows are there, 3 are on record" in evaluation.description
            assert [name for name, _ in sent] == ["HOOK"]
        assert "lakehouse verify --table readings --mend" in sent[0][1]


def test_a_run_that_is_refused_turns_the_check_red(settings, sent):
    damage(settings)
    with dg.DagsterInstance.ephemeral() as instance:
        context = SimpleNamespace(instance=instance, run=SimpleNamespace(run_id="run", tags={}), log=logging.getLogger("test"))
        with pytest.raises(EvidenceError, match="readings stops"):
            publish(table_run(SPEC, settings, context), [window(1)])
        (record,) = instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=1)
        assert not record.event.dagster_event.event_specific_data.passed
        assert len(sent) == 1


def test_the_command_lists_findings_and_ends_with_nine(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("LAKEHOUSE_ROOT", settings.root)
    monkeypatch.setenv("LAKEHOUSE_LANDING", settings.landing)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    all_tables = CliRunner().invoke(cli.app, ["verify", "--json"])
    assert (all_tables.exit_code, json.loads(all_tables.stdout)) == (0, [])
    damage(settings, "weather")
    one_table = CliRunner().invoke(cli.app, ["verify", "--table", "weather", "--json"])
    assert isinstance(one_table.exception, EvidenceError) and one_table.exception.exit_code == 9
    (row,) = json.loads(one_table.stdout)
    assert (row["table"], row["layer"], row["kind"], row["window"][:10]) == ("weather", "bronze", "lost", "2024-01-01")
    other = CliRunner().invoke(cli.app, ["verify", "--table", "flights"])
    assert other.exit_code == 0, "other tables are whole"
    assert isinstance(CliRunner().invoke(cli.app, ["verify", "--mend"]).exception, RefusedError)


def test_a_run_of_many_tables_ends_with_nine_where_nothing_else_failed():
    failed = [("readings 2024-01-01", EvidenceError("readings stops"))]
    assert _joined_error(failed, []).exit_code == 9
    assert _joined_error([*failed, ("other", ValueError("no"))], []).exit_code == 7
    damage = [
        ("readings", EvidenceError("readings stops\nsilver/readings: 1 file is gone\nMend: `lakehouse rebuild readings`"))
    ]
    assert "Mend: `lakehouse rebuild readings`" in str(_joined_error(damage, []))
