"""The projection of checks' results: what the log says, once, whoever writes it, whenever that is killed.

Belongs here: the table's rows and their bookkeeping. Does not: what a check finds (checks), kills of a whole run (laws).
"""

import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from lakehouse_assets.operations.release import release
from lakehouse_assets.orchestration.notify import complete_check_results
from lakehouse_assets.storage import log_table, logs
from lakehouse_assets.storage.check_results import CHECK_RESULTS, find_lagging_tables, project_check_results
from lakehouse_assets_tests.logbook import apply, decided, write
from lakehouse_assets_tests.support import heal, land, readings, rows_of, runner, window


def projected(settings) -> list[dict]:
    rows = rows_of(settings.path("ops", "check_results"), CHECK_RESULTS.schema.names)
    return sorted(rows, key=lambda row: (row["table"], row["number"], row["check"]))


def test_real_decisions_have_a_row_for_each_check_passes_included(spark, settings):
    spec = readings(
        columns={"sensor": {"type": "string", "pii": True}, "hour": "int", "value": "double", "updated": "timestamp"}
    )
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z", "anna@example.com,1,500,2024-01-01T00:00:00Z"])
    land(settings, 2, [])
    heal(spark, settings, [1, 2], spec)
    land(settings, 1, ["a,1,2,2024-01-01T00:00:00Z"])
    heal(spark, settings, [1], spec)
    decisions = logs.decisions(settings, "readings", evidence=True)
    assert [d.superseded_by is not None for d in decisions] == [False, False, False, True]
    rows = projected(settings)
    expected = {(d.number, d.extraction_seq, c["check"], c["status"]) for d in decisions for c in d.checks}
    assert {(r["number"], r["extraction_seq"], r["check"], r["status"]) for r in rows} == expected
    assert len(rows) == len(expected)
    (blocking,) = [r for r in rows if r["status"] == "failed" and r["effect"] == "batch"]
    assert (blocking["check"], blocking["p_extracted_at"], blocking["kind"]) == ("not_empty", window(2).start, "not_empty")
    (bad,) = [r for r in rows if r["effect"] == "rows"]
    assert (bad["check"], bad["failed_rows"], bad["waived"]) == ("in_range_value", 1, False)
    assert '"failed": 1' in bad["observed"]
    assert all(r["applied_at"] > r["decided_at"] or r["applied_at"] == r["decided_at"] for r in rows)
    assert "anna" not in str(rows)


@pytest.mark.exhaustive(seconds=8)
def test_a_release_is_projected_with_its_waived_checks(spark, settings):
    land(settings, 1, ["a,1,500,2024-01-01T00:00:00Z"])
    heal(spark, settings, [1])
    released = release(runner(spark, settings), window(1).start, None, waived=["in_range_value"], by="me", because="so")
    (row,) = [r for r in projected(settings) if r["waived"]]
    assert (row["decision_id"], row["check"], row["effect"]) == (released.decision_id, "in_range_value", "none")


def test_repetition_adds_nothing_and_a_deleted_table_is_recreated(settings):
    write(settings, [decided(n) for n in (1, 2)])
    write(settings, [decided(1, "gold_days")])
    assert find_lagging_tables(settings) == ["gold_days", "readings"]
    assert (project_check_results(settings, "readings"), project_check_results(settings, "gold_days")) == (4, 2)
    assert (
        project_check_results(settings, "readings"),
        project_check_results(settings, "gold_days"),
        find_lagging_tables(settings),
    ) == (0, 0, [])
    before = projected(settings)
    assert before[0]["table"] == "gold_days"
    assert before[0]["p_extracted_at"] is None
    shutil.rmtree(settings.path("ops", "check_results"))
    project_check_results(settings, "gold_days")
    project_check_results(settings, "readings")
    assert projected(settings) == before


def test_decisions_applied_out_of_order_are_not_missed(settings):
    early, late = decided(1), decided(2)
    write(settings, [early], applied=False)
    write(settings, [late])
    assert project_check_results(settings, "readings") == 2
    assert {row["number"] for row in projected(settings)} == {2}
    apply(settings, [early])
    assert find_lagging_tables(settings) == ["readings"]
    assert project_check_results(settings, "readings") == 2
    assert {row["number"] for row in projected(settings)} == {1, 2}


def test_a_record_of_supersession_and_a_decision_without_checks_have_no_rows_and_do_not_lag(settings):
    old = decided(1)
    new = decided(2, extraction_seq=2, p_extracted_at=old.p_extracted_at)
    write(settings, [old])
    write(settings, [new, replace(old, number=2, superseded_by=new.decision_id, checks=())])
    write(settings, [decided(1, "gold_days", checks=())])
    assert (project_check_results(settings, "readings"), project_check_results(settings, "gold_days")) == (4, 0)
    assert {row["decision_id"] for row in projected(settings)} == {old.decision_id, new.decision_id}
    assert find_lagging_tables(settings) == []


CHILD = """
import os, signal, sys
from pathlib import Path
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import check_results, delta
place, kill = sys.argv[1:]
settings = Settings(root=place, landing=place, dagster_home=Path(place))
append = delta.append_arrow
def killed(*arguments, **named):
    if kill == "after":
        append(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
if kill != "never":
    delta.append_arrow = killed
for _ in range(3):
    check_results.project_check_results(settings, "readings")
"""


@pytest.mark.exhaustive(seconds=10)
def test_processes_at_once_add_each_decision_once(settings):
    write(settings, [decided(n) for n in range(1, 30)])
    children = [subprocess.Popen([sys.executable, "-c", CHILD, settings.root, "never"]) for _ in range(4)]
    assert [child.wait(300) for child in children] == [0] * 4
    rows = projected(settings)
    assert len({(r["number"], r["check"]) for r in rows}) == len(rows) == 58


@pytest.mark.parametrize(("kill", "there"), [("before", 0), ("after", 4)])
def test_killed_at_the_commit_the_next_call_completes_it(settings, kill, there):
    write(settings, [decided(n) for n in (1, 2)])
    child = subprocess.run([sys.executable, "-c", CHILD, settings.root, kill], capture_output=True, check=False)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert len(projected(settings)) == there
    assert project_check_results(settings, "readings") == 4 - there
    assert len(projected(settings)) == 4


def test_a_failed_projection_fails_no_step_and_the_sensor_completes_it(spark, settings, monkeypatch):
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z"])

    def full(*_, **__):
        raise OSError("no space left on device")

    messages: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(log_table.delta, "append_arrow", _only("check_results", full))
        run = runner(spark, settings, step=messages.append)
        from lakehouse_assets.pipeline.extract import extract
        from lakehouse_assets.pipeline.publish import publish

        extract(run, [window(1)])
        assert publish(run, [window(1)]).current[window(1)].verdict == "published"
        full_disk = "No space left on device. Make room, and run again"
        assert any(step.startswith(f"check results are left to the next run: {full_disk}") for step in messages)
        (trouble,) = complete_check_results(settings)
        assert trouble.startswith(f"readings: check results are not complete: {full_disk}")
    assert projected(settings) == []
    assert complete_check_results(settings) == []
    assert len(projected(settings)) == len(logs.decisions(settings, "readings", evidence=True)[0].checks) > 3


def _only(table: str, broken):
    """The real append, but for one table."""
    real = log_table.delta.append_arrow
    return lambda rows, path, **named: (broken if path.endswith(table) else real)(rows, path, **named)
