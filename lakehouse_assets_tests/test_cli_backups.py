"""`lakehouse backup` and `lakehouse restore`: what they print, and the codes that they end with.

Belongs here: the commands. Does not: what they do (operations/test_backup).
"""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakehouse_assets import cli
from lakehouse_assets.errors import EnvironmentMissing, EvidenceError, LakehouseError, RefusedError
from lakehouse_assets_tests import logbook


@pytest.fixture
def lake(settings, monkeypatch):
    logbook.write(settings, [logbook.decided(1), logbook.decided(2)])
    monkeypatch.setenv("LAKEHOUSE_ROOT", settings.root)
    return settings


def run(*arguments: str):
    result = CliRunner().invoke(cli.app, list(arguments))
    if isinstance(result.exception, LakehouseError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_backup_is_made_listed_checked_and_restored(lake, tmp_path, monkeypatch):
    folder = str(tmp_path / "backups")
    rows = json.loads(run("backup", folder, "--name", "friday", "--json"))
    assert rows[0]["name"] == "friday" and rows[0]["tables"] == 1 and rows[0]["copied_bytes"] == rows[0]["bytes"] > 0
    assert "friday" in run("backup", folder, "--list")
    assert run("backup", folder, "--check").strip() == f"friday: {rows[0]['files']} file(s) as on record"
    assert json.loads(run("backup", folder, "--name", "monday", "--keep", "1", "--json"))[0]["copied_bytes"] == 0
    assert [each["name"] for each in json.loads(run("backup", folder, "--list", "--json"))] == ["monday"]
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(tmp_path / "restored"))
    report = json.loads(run("restore", folder, "--json"))
    assert report[0]["files_written"] == rows[0]["files"] and report[0]["bytes_written"] == rows[0]["bytes"]
    assert len(json.loads(run("verdicts", "--json"))) == 2
    shutil.rmtree(tmp_path / "restored" / "ops" / "decisions")
    assert "lakehouse verify" in run("restore", folder, "--only", "ops/decisions")
    assert len(json.loads(run("verdicts", "--json"))) == 2


def test_what_is_damaged_ends_with_code_9(lake, tmp_path, monkeypatch):
    folder = str(tmp_path / "backups")
    run("backup", folder)
    content = next(path for path in (tmp_path / "backups" / "contents").rglob("*") if path.is_file())
    content.write_bytes(b"?" * content.stat().st_size)
    with pytest.raises(EvidenceError, match=r"1 file\(s\) are missing or differ"):
        run("backup", folder, "--check")
    next(Path(lake.path("ops", "decisions")).rglob("*.parquet")).unlink()
    with pytest.raises(EvidenceError, match=r"1 table\(s\) cannot be read and are not in x:\nops/decisions: .* is missing"):
        run("backup", folder, "--name", "x")
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(tmp_path / "restored"))
    with pytest.raises(EvidenceError, match="lacks 1 table"):
        run("restore", folder, "--name", "x")


def test_a_lake_that_is_gone_is_not_as_on_record(lake, tmp_path):
    folder = str(tmp_path / "backups")
    run("backup", folder, "--name", "x")
    assert "file(s) as on record" in run("backup", folder, "--check", "--lake")
    next(Path(lake.path("ops", "decisions")).rglob("*.parquet")).unlink()
    assert "; 1 skipped, which the lake has no longer" in run("backup", folder, "--check", "--lake")
    shutil.rmtree(lake.root)
    with pytest.raises(EnvironmentMissing, match=r"has none of the \d+ file\(s\) of x"):
        run("backup", folder, "--check", "--lake")


def test_a_manifest_that_cannot_be_read_is_named(lake, tmp_path):
    folder = str(tmp_path / "backups")
    run("backup", folder, "--name", "x")
    (tmp_path / "backups" / "manifests" / "z.json").write_text("{}")
    result = CliRunner().invoke(cli.app, ["backup", folder, "--name", "y", "--keep", "1"])
    assert result.exit_code == 0
    assert "z.json: name: Field required" in result.stderr and "no backup was removed" in result.stderr
    with pytest.raises(EvidenceError, match=r"z\.json: name: Field required"):
        run("backup", folder, "--list")


def test_what_is_refused(lake, tmp_path):
    folder = str(tmp_path / "backups")
    with pytest.raises(RefusedError, match="has no backup"):
        run("restore", folder)
    with pytest.raises(RefusedError, match="--check"):
        run("backup", folder, "--lake")
    run("backup", folder)
    append = logbook.write(lake, [logbook.decided(3)])
    assert append
    with pytest.raises(RefusedError, match="has other files than this backup: ops/decisions"):
        run("restore", folder)


def test_a_folder_that_cannot_be_written_or_reached(lake, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    with pytest.raises(EnvironmentMissing, match=r"file/backups or the lake cannot be reached"):
        run("backup", str(tmp_path / "file" / "backups"))
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "nobody-sees-it", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(EnvironmentMissing, match="cannot be reached") as raised:
        run("backup", "s3a://bucket/backups")
    assert "nobody-sees-it" not in str(raised.value)
