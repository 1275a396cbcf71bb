"""What was checked before a version: from real commits of silver and gold, and through the command as a person types it.

Belongs here: finding the decisions of a version. Does not: the command's other listings (test_cli).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.queries.provenance import find_checked_decisions
from lakehouse_assets.storage import delta, logs
from lakehouse_assets_tests.pipeline.test_gold import Gold
from lakehouse_assets_tests.support import PROJECT_ROOT, copy_lake, heal, lake_settings, land, readings, runner, window


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """Two windows in one exchange, then a third with a bad row, then one that is held whole."""
    settings = lake_settings(tmp_path_factory.mktemp("provenance") / "lake")
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z"])
    land(settings, 2, ["a,2,1,2024-01-02T00:00:00Z"])
    heal(spark, settings, [1, 2])
    land(settings, 3, ["a,3,1,2024-01-03T00:00:00Z", "b,3,500,2024-01-03T00:00:00Z"])
    heal(spark, settings, [3])
    land(settings, 4, [])
    heal(spark, settings, [4])
    return settings


@pytest.fixture
def lake(template, tmp_path):
    return copy_lake(template, tmp_path)


def version_of(settings, day: int) -> int:
    (decision,) = [d for d in logs.decisions(settings, "readings", evidence=True) if d.p_extracted_at == window(day).start]
    assert decision.silver_version is not None
    return decision.silver_version


def numbers(settings, version: int, table: str = "readings") -> list[int]:
    return [d.number for d in find_checked_decisions(settings, table, version).decisions]


def test_a_version_has_the_decisions_of_its_commit_with_every_check(lake):
    assert numbers(lake, version_of(lake, 1)) == [1, 2]
    result = find_checked_decisions(lake, "readings", version_of(lake, 3))
    (decision,) = result.decisions
    assert (decision.number, result.note) == (3, "")
    assert {(c["check"], c["status"]) for c in decision.checks} >= {("not_empty", "passed"), ("in_range_value", "failed")}


def test_a_version_without_decisions_is_described(lake, spark):
    path = lake.path("silver", "readings")
    with pytest.raises(RefusedError, match=r"version 0 of silver readings applied no decision: it is WRITE"):
        find_checked_decisions(lake, "readings", 0)
    # A held window publishes nothing: no commit of silver is its.
    newest = version_of(lake, 3)
    assert version_of(lake, 4) == newest == delta.version(path)
    spark.sql(f"OPTIMIZE delta.`{path}`")
    with pytest.raises(RefusedError, match=rf"it is OPTIMIZE; decisions were applied up to version {newest} before it"):
        find_checked_decisions(lake, "readings", newest + 1)
    with pytest.raises(RefusedError, match=rf"has no version 99; the newest is {newest + 1}"):
        find_checked_decisions(lake, "readings", 99)
    with pytest.raises(RefusedError, match="there is no silver nothing yet"):
        find_checked_decisions(lake, "nothing", 0)


@pytest.mark.exhaustive(seconds=15)
def test_a_rebuild_has_all_that_it_was_folded_from(lake, spark):
    run = runner(spark, lake, readings(columns={"sensor": "string", "hour": "int", "updated": "timestamp"}, checks=[]))
    version = rebuild(run).version
    result = find_checked_decisions(lake, "readings", version)
    assert [d.number for d in result.decisions] == [1, 2, 3]
    assert "is a rebuild" in result.note


def test_after_log_cleanup_the_marks_name_the_decisions(lake):
    path = lake.path("silver", "readings")
    version = version_of(lake, 1)
    DeltaTable(path).create_checkpoint()
    for entry in sorted(Path(path, "_delta_log").glob("*.json"))[: version + 1]:
        entry.unlink()
    result = find_checked_decisions(lake, "readings", version)
    assert [d.number for d in result.decisions] == [1, 2]
    assert "no longer in the Delta log" in result.note
    with pytest.raises(
        RefusedError, match="version 0 of silver readings is no longer in its Delta log, and no decision's mark"
    ):
        find_checked_decisions(lake, "readings", 0)


def test_gold_has_versions_too(lake, spark):
    gold = Gold(spark, lake)
    decision = gold.publish()
    assert [d.decision_id for d in find_checked_decisions(lake, "gold_days", 0).decisions] == [decision.decision_id]


def command(settings, *arguments: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "LAKEHOUSE_ROOT": settings.root, "PYTHONPATH": str(PROJECT_ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "lakehouse_assets.cli", "verdicts", *arguments],
        capture_output=True, text=True, check=False, cwd=PROJECT_ROOT, env=environment,
    )  # fmt: skip


def test_the_command(lake):
    version = str(version_of(lake, 3))
    shown = command(lake, "--table", "readings", "--silver-version", version, "--json")
    assert (shown.returncode, shown.stderr) == (0, "")
    (row,) = json.loads(shown.stdout)
    assert (row["verdict"], row["silver_version"]) == ("published_with_warnings", int(version))
    assert {"passed", "failed"} == {check["status"] for check in row["checks"]}
    table = command(lake, "--table", "readings", "--silver-version", version)
    assert table.returncode == 0
    lines = [line.split() for line in table.stdout.splitlines()]
    assert lines[0][:6] == ["table", "window", "seq", "verdict", "check", "severity"]
    assert len(lines) == 1 + len(row["checks"])
    assert ["not_empty", "critical", "passed", "0"] in [line[4:8] for line in lines]
    for wrong in (["--silver-version", "99", "--table", "readings"], ["--silver-version", version]):
        refused = command(lake, *wrong)
        assert (refused.returncode, refused.stdout) == (5, "")
        assert refused.stderr.startswith("error: ")
