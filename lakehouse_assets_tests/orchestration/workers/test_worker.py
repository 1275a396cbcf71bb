"""A real worker that executes runs of an instance: what they leave, how they end, and what ends it."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import pytest

from lakehouse_assets_tests.chaos.play import POINTS
from lakehouse_assets_tests.orchestration.workers.project import Project, project, until

SUCCESS, FAILURE, CANCELED = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED


@pytest.fixture
def shop(tmp_path, monkeypatch):
    with project(tmp_path / "shop", monkeypatch, cancel_seconds=2.0) as shop:
        yield shop


def started(shop: Project, run_id: str) -> int:
    """Wait until a run's step has started. Returns its worker's process."""
    until(lambda: shop.instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_START), 120, shop.logs)
    worker = shop.launcher.pool.worker_of(run_id)
    assert worker is not None
    return worker.process()["pid"]


def health(shop: Project, run_id: str) -> str:
    """What run monitoring would be told."""
    run = shop.instance.get_run_by_id(run_id)
    assert run is not None
    return shop.launcher.check_run_worker_health(run).status.value


def has_ended(pid: int) -> bool:
    """Whether a process has ended; one that nobody has collected has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.exhaustive(seconds=400)
@pytest.mark.timeout(900)
def test_nothing_of_a_run_is_left_for_the_next_one(shop):
    assert shop.wait(shop.launch_job("leave_everything")) == SUCCESS, shop.logs()
    (first,) = shop.processes()
    assert shop.wait(shop.launch_job("find_nothing")) == SUCCESS, shop.logs()
    assert shop.processes() == [first]
    # Changed YAML reaches the next run of the same process.
    shop.land(1, ["a,1,5,2024-01-01T00:00:00Z", "a,2,50,2024-01-01T00:00:00Z"])
    shop.run(1)
    assert [row["value"] for row in shop.rows()] == [5.0, 50.0]
    narrow = [{"check": "in_range", "column": "value", "min": -100, "max": 10}]
    shop.write_table("readings", checks=narrow)
    shop.land(2, ["a,3,6,2024-01-02T00:00:00Z", "a,4,60,2024-01-02T00:00:00Z"])
    shop.run(2)
    assert [row["value"] for row in shop.rows()] == [5.0, 50.0, 6.0]
    assert shop.processes() == [first]
    # A run that fails costs its process, and so does one that fills Java's heap.
    assert shop.wait(shop.launch_job("fill_heap")) == FAILURE
    until(lambda: has_ended(first), 30)
    assert shop.wait(shop.launch_job("find_nothing")) == SUCCESS, shop.logs()
    (second,) = shop.processes()
    # Changed code, or settings, are a new process: here by its start again, under the same id.
    with (shop.home / "spark.conf").open("a") as file:
        file.write("spark.sql.shuffle.partitions 3\n")
    assert shop.wait(shop.launch_job("find_nothing")) == FAILURE
    until(lambda: has_ended(second), 30)


@pytest.mark.exhaustive(seconds=300)
@pytest.mark.timeout(900)
def test_a_run_is_cancelled(shop):
    run_id = shop.launch_job("sleep")
    pid = started(shop, run_id)
    assert health(shop, run_id) == "RUNNING"
    assert shop.launcher.terminate(run_id)
    assert shop.wait(run_id, 30) == CANCELED
    until(lambda: has_ended(pid), 30)
    # Java does not hear an interrupt; the run ends nevertheless.
    run_id = shop.launch_job("sleep_in_java")
    started(shop, run_id)
    assert shop.launcher.terminate(run_id)
    assert shop.wait(run_id, 60) == CANCELED
    # One that does not stop is killed, and is cancelled.
    run_id = shop.launch_job("sleep_on")
    pid = started(shop, run_id)
    assert shop.launcher.terminate(run_id)
    until(lambda: shop.status(run_id) == CANCELED and has_ended(pid), 60, shop.logs)
    assert (shop.home / "interrupted").exists()
    assert not shop.launcher.terminate(run_id)
    assert shop.wait(shop.launch_job("find_nothing")) == SUCCESS, shop.logs()


@pytest.mark.exhaustive(seconds=300)
@pytest.mark.timeout(900)
def test_the_run_of_a_killed_or_paused_worker_is_found(shop):
    run_id = shop.launch_job("die")
    until(lambda: health(shop, run_id) == "FAILED", 120, shop.logs)
    assert shop.status(run_id) == dg.DagsterRunStatus.STARTED
    assert shop.launcher.terminate(run_id)
    assert shop.status(run_id) == CANCELED
    run_id = shop.launch_job("sleep")
    pid = started(shop, run_id)
    os.kill(pid, signal.SIGSTOP)
    assert health(shop, run_id) == "RUNNING"
    # It keeps nobody from working: the next run has a process of its own.
    other = shop.launch_job("find_nothing")
    assert shop.wait(other) == SUCCESS, shop.logs()
    os.kill(pid, signal.SIGKILL)
    until(lambda: health(shop, run_id) == "FAILED", 10)


def killed_at(shop: Project, points: Sequence[str]) -> list[str]:
    """Kill the worker at each of these points, of a run of a new window each; the next run gives the rows. Returns the points
    that were reached.
    """
    expected: list[tuple[str, int, float]] = []
    struck = []
    for day, point in enumerate(points, 1):
        shop.land(day, [f"s{day:02d},{hour},{hour},2024-01-{day:02d}T00:00:00Z" for hour in range(3)])
        (shop.home / "kill_at").write_text(point)
        run_id = shop.launch(day)
        until(lambda: health(shop, run_id) != "RUNNING" or shop.status(run_id) == SUCCESS, 240, shop.logs)  # noqa: B023
        (shop.home / "kill_at").unlink(missing_ok=True)
        if shop.status(run_id) == dg.DagsterRunStatus.STARTED:
            struck.append(point)
            run = shop.instance.get_run_by_id(run_id)
            assert run is not None
            shop.instance.report_run_failed(run, "as run monitoring does")
            shop.run(day)
        expected += [(f"s{day:02d}", hour, float(hour)) for hour in range(3)]
        assert [tuple(row.values()) for row in shop.rows()] == expected, point
    return struck


@pytest.mark.exhaustive(seconds=900)
@pytest.mark.timeout(2400)
def test_killed_at_each_step_the_next_run_gives_the_same_tables(shop):
    struck = killed_at(shop, [point for point in POINTS["run"] if not point.endswith("+")])
    assert {"bronze_committed", "stage_done", "log_done", "write_done", "mark_applied_done"} <= set(struck)


@pytest.mark.exhaustive(seconds=300)
@pytest.mark.timeout(1200)
def test_killed_within_steps_the_next_run_gives_the_same_tables(shop):
    struck = killed_at(shop, [point for point in POINTS["run"] if point.endswith("+")])
    assert {"extracting+", "before_write+"} <= set(struck), "in the middle of a read and of a write"
