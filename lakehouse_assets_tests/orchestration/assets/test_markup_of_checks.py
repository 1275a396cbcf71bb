"""Hostile texts in the checks of Dagster's UI: damaged evidence, schemas, stopped windows. They show as themselves.

Belongs here: results of checks whose texts come from data, files and logs. Does not: the escaping itself (reports/test_markup).
"""

from datetime import UTC, datetime

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.evidence.findings import Finding
from lakehouse_assets.decisions.healing import WindowStatus
from lakehouse_assets.orchestration.assets import evidence_check, schema_checks, window_checks
from lakehouse_assets.orchestration.healing import retries
from lakehouse_assets.reports.markdown import CONTROLS
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.reports.test_markup import ACTIVE, HOSTILE
from lakehouse_assets_tests.support import readings


def cells(markdown: str) -> list[str]:
    """The cells of a markdown table below its header."""
    return [line.strip("| ").replace("| ", "") for line in markdown.splitlines()[2:]]


@HOSTILE
def test_findings_about_evidence(text):
    findings = [Finding("readings", "silver", "lost", text, text)]
    result = evidence_check._result(findings)
    assert not any(ACTIVE.search(cell.replace("silver/readings", "")) for cell in cells(result.metadata["evidence"].value))
    assert not CONTROLS.search(str(result.description) + str(result.metadata["evidence"].value))


def with_difference(text: str) -> Decision:
    difference = {
        "path": text, "promised": text, "arrived": text, "outcome": "quarantined", "advice": text, "kind": "type",
        "column": text, "used_by": [text],
    }  # fmt: skip
    outcome = {
        "check": "source_types", "kind": "schema", "severity": "critical", "status": "failed", "effect": "batch",
        "failed_rows": 1, "message": text, "observed": {"differences": [difference]}, "waived": False,
    }  # fmt: skip
    return logbook.decided(1, verdict="quarantined", checks=(outcome,))


@HOSTILE
def test_schema_tables_and_the_failure_of_a_rejected_schema(text):
    failure = schema_checks.schema_failure("readings", {"2024-01-01": with_difference(text)})
    shown = [str(value) for record in failure.metadata["diff"].records for value in record.data.values()]
    assert len(shown) == len(schema_checks.HEADER)
    # The UI shows a record's cells as text, not as markdown.
    assert not CONTROLS.search(" ".join([str(failure.description), *shown]))


@HOSTILE
def test_a_check_of_silver_over_windows(text):
    [spec] = [spec for spec in window_checks.window_check_specs(readings()) if spec.name == "source_columns"]
    result = window_checks.window_result(spec, "2024-01-01", with_difference(text), lambda _: [text], "")
    assert not isinstance(result, str)
    assert not CONTROLS.search(str(result.description) + str(result.metadata))
    assert not any(ACTIVE.search(cell) for cell in cells(result.metadata["failed"].value.replace("source_types", "")))


@HOSTILE
def test_windows_that_have_stopped(text):
    window = Window(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC), text)
    status = WindowStatus(window, ("failed",), "stopped", failed_tries=6, max_tries=6)
    result = retries._stopped_result(readings(), [status])
    assert not any(ACTIVE.search(cell) for cell in cells(result.metadata["windows"].value))
    assert not CONTROLS.search(str(result.description) + str(result.metadata["windows"].value))
