"""`lakehouse audit-silver|audit-gold|audit-docs` as a person runs them, as far as no JVM is needed.

Belongs here: refusals, an empty lake, serving the pages. Does not: an audit (audit/test_run.py,
orchestration/jobs/test_audits.py).
"""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakehouse_assets import cli
from lakehouse_assets.errors import EnvironmentMissing, RefusedError
from lakehouse_assets.reports.audit_site import page_path
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import audit_log
from lakehouse_assets_tests.audited import firms
from lakehouse_assets_tests.support import PROJECT_ROOT


@pytest.fixture(autouse=True)
def settings(tmp_path, monkeypatch) -> Settings:
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(tmp_path / "lake"))
    monkeypatch.setenv("LAKEHOUSE_LANDING", str(tmp_path))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    return Settings.from_environment()


def run(*arguments: str):
    return CliRunner().invoke(cli.app, list(arguments))


def test_an_empty_lake_has_nothing_to_audit_but_critical_rules_of_nothing_are_no_failure(settings):
    result = run("audit-gold", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["audits"], report["stops"]) == ([], [])
    assert Path(report["pages"]).is_file()


def test_invalid_audit_requests_are_refused():
    result = run("audit-silver", "--table", "nope")
    assert isinstance(result.exception, RefusedError)
    assert "there is no Delta table silver/nope; there are none" in str(result.exception)
    assert isinstance(run("audit-silver", "--as-of", "1").exception, RefusedError)


def test_no_pages_without_an_audit():
    assert "audit-silver" in str(run("audit-docs").exception)


@pytest.mark.parametrize("value", ["0", "many", "-5"])
def test_an_invalid_number_of_rows_is_refused(monkeypatch, value):
    monkeypatch.setenv("AUDIT_TOTAL_ROWS", value)
    with pytest.raises(EnvironmentMissing, match="AUDIT_TOTAL_ROWS"):
        Settings.from_environment()


def test_the_pages_are_served_on_loopback_and_folders_are_not_listed(settings):
    audit_log.append_audit(settings, firms())
    child = subprocess.Popen(
        [sys.executable, "-u", "-m", "lakehouse_assets.cli", "audit-docs", "--port", "0"],
        cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout
        url = child.stdout.readline().split()[0]
        assert url.startswith("http://127.0.0.1:")
        for path in ("", page_path("silver/firms"), "rules/url_form.html"):
            with urllib.request.urlopen(url + path, timeout=10) as answer:
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert b"<main" in answer.read()
        for path in ("tables/", "../dagster.yaml", "%2e%2e/lake"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(url + path, timeout=10)
        result = run("audit-docs", "--port", url.rstrip("/").rpartition(":")[2])
        assert isinstance(result.exception, EnvironmentMissing)
    finally:
        child.terminate()
        child.wait(timeout=120)
