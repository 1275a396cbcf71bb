"""Connections that stay open: of files that were deleted or exchanged, of many at once, and of a watcher."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test
from sqlalchemy import text

from lakehouse_assets.orchestration import sqlite_engines
from lakehouse_assets.orchestration.dagster_storage import LakehouseEventLogStorage
from lakehouse_assets.orchestration.sqlite_engines import close_below, open_engine, transaction


def write(path: Path, value: int) -> None:
    with transaction(open_engine(f"sqlite:///{path}", 5)[0]) as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS t (x INTEGER)"))
        connection.execute(text("INSERT INTO t VALUES (:x)"), {"x": value})


def read(path: Path) -> list[int]:
    """As another program does."""
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT x FROM t ORDER BY x")]


def test_what_is_written_is_there_for_others_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    write(path, 1)
    engine = open_engine(f"sqlite:///{path}", 5)[0]
    write(path, 2)
    assert open_engine(f"sqlite:///{path}", 5) == (engine, False)
    assert read(path) == [1, 2]
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("INSERT INTO t VALUES (3)")
    with transaction(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM t")).scalar() == 3


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    write(path, 1)
    with pytest.raises(ZeroDivisionError), transaction(open_engine(f"sqlite:///{path}", 5)[0]) as connection:
        connection.execute(text("INSERT INTO t VALUES (2)"))
        raise ZeroDivisionError
    assert read(path) == [1]
    write(path, 3)
    assert read(path) == [1, 3]


def test_a_file_that_was_deleted_or_exchanged_is_opened_anew(tmp_path: Path) -> None:
    path, other = tmp_path / "a.db", tmp_path / "b.db"
    write(path, 1)
    write(path, 2)
    path.unlink()
    write(path, 3)
    assert read(path) == [3]
    write(other, 7)
    close_below(str(tmp_path))
    other.replace(path)
    write(path, 8)
    assert read(path) == [7, 8]


def test_few_stay_open_and_any_number_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_engines, "MOST_OPEN", 2)
    paths = [tmp_path / f"{name}.db" for name in "abcde"]
    for value in range(3):
        for path in paths:
            write(path, value)
    assert [read(path) for path in paths] == [[0, 1, 2]] * 5
    opened = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.exists()] if Path("/proc").exists() else []
    assert len({name for name in opened if name in paths}) <= 2
    threads = [threading.Thread(target=write, args=(paths[0], 10 + index)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(paths[0]) == [0, 1, 2, *range(10, 18)]


@pytest.fixture
def instance(tmp_path: Path):
    (tmp_path / "dagster.yaml").write_text(
        "storage: {custom: {module: lakehouse_assets.orchestration.dagster_storage, class: LakehouseStorage,"
        f" config: {{base_dir: {tmp_path}/history}}}}}}\ntelemetry: {{enabled: false}}\n"
    )
    with dg.DagsterInstance.from_config(str(tmp_path)) as opened:
        assert isinstance(opened.event_log_storage, LakehouseEventLogStorage)
        yield opened


def test_a_watched_run_shows_its_events_at_once(instance: dg.DagsterInstance) -> None:
    """Dagster's pages watch a run's file, and what is written lies in its journal."""
    run, noticed = create_run_for_test(instance), threading.Event()
    instance.report_engine_event("first", run)
    instance.watch_event_logs(run.run_id, None, lambda *_: noticed.set())
    instance.report_engine_event("second", run)
    assert noticed.wait(10)


def test_a_history_that_is_wiped_begins_anew(instance: dg.DagsterInstance) -> None:
    run = create_run_for_test(instance)
    instance.report_engine_event("before", run)
    instance.wipe()
    again = create_run_for_test(instance)
    instance.report_engine_event("after", again)
    instance.report_engine_event("after", run)
    assert [len(instance.all_logs(each.run_id)) for each in (again, run)] == [1, 1]
