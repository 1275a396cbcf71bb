"""A run's database: what Dagster would have made, by several at once, and where another has begun."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from sqlalchemy import NullPool, create_engine

from lakehouse_assets.orchestration import run_databases
from lakehouse_assets.orchestration.dagster_storage import LakehouseEventLogStorage
from lakehouse_assets.orchestration.run_databases import is_made, make_database


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [*connection.iterdump(), *connection.execute("PRAGMA journal_mode").fetchone()]


def open_run(storage: SqliteEventLogStorage, run_id: str) -> Path:
    with storage.run_connection(run_id):
        pass
    return Path(storage.path_for_shard(run_id))


def test_a_runs_database_is_the_one_that_dagster_makes(tmp_path: Path) -> None:
    ours, theirs = LakehouseEventLogStorage(str(tmp_path / "a")), SqliteEventLogStorage(str(tmp_path / "b"))
    run_id = str(uuid4())
    expected = dump(open_run(theirs, run_id))
    assert any("event_logs" in line for line in expected)
    assert any("INSERT INTO" in line and "alembic_version" in line for line in expected)
    assert dump(open_run(ours, run_id)) == expected


def test_dagsters_migrations_are_read_once_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LakehouseEventLogStorage(str(tmp_path))
    open_run(storage, str(uuid4()))
    monkeypatch.setattr(SqliteEventLogStorage, "_initdb", lambda *_: pytest.fail("asked again"))
    paths = [open_run(storage, str(uuid4())), open_run(LakehouseEventLogStorage(str(tmp_path)), str(uuid4()))]
    assert all("event_logs" in " ".join(dump(path)) for path in paths)


def test_a_database_that_another_version_of_dagster_began_is_left_to_dagster(tmp_path: Path) -> None:
    storage, run_id = LakehouseEventLogStorage(str(tmp_path)), str(uuid4())
    with closing(sqlite3.connect(storage.path_for_shard(run_id))) as connection, connection:
        connection.execute("CREATE TABLE event_logs (id INTEGER PRIMARY KEY, run_id TEXT, event TEXT)")
    text = " ".join(dump(open_run(storage, run_id)))
    assert "event TEXT)" in text and 'INSERT INTO "alembic_version"' in text


def test_many_make_a_database_at_once(tmp_path: Path) -> None:
    calls, errors, barrier = [], [], threading.Barrier(8)

    def make(engine) -> None:
        calls.append(1)
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE alembic_version (version_num TEXT)")
            connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('x')")

    def one() -> None:
        engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}", poolclass=NullPool)
        barrier.wait()
        try:
            make_database(engine, make)
            assert is_made(engine)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        assert connection.execute("SELECT * FROM alembic_version").fetchall() == [("x",)]


def test_a_refused_journal_is_tried_again(tmp_path: Path) -> None:
    """SQLite does not wait where two connections turn the journal on at once: one holds what the other waits for."""
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as other:
        other.execute("CREATE TABLE alembic_version (version_num TEXT)")
        other.execute("INSERT INTO alembic_version VALUES ('x')")
        other.commit()
        other.execute("BEGIN IMMEDIATE")
        engine = create_engine(f"sqlite:///{path}", poolclass=NullPool, connect_args={"timeout": 0})
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            make_database(engine, lambda _: None)
        threading.Timer(0.3, other.rollback).start()
        patient = create_engine(f"sqlite:///{path}", poolclass=NullPool, connect_args={"timeout": 60})
        assert make_database(patient, lambda _: None)


def test_a_database_with_other_tables_stays_as_it_is(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")

    def make(other) -> None:
        with other.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE t (x INTEGER UNIQUE)")

    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE mine (x INTEGER)")
    assert not make_database(engine, make)
    assert "mine" in " ".join(dump(tmp_path / "a.db")) and "t (" not in " ".join(dump(tmp_path / "a.db"))
    assert not is_made(engine)


def test_an_error_leaves_an_empty_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    monkeypatch.setattr(run_databases, "_statements_of", lambda _: ["CREATE TABLE t (x INTEGER)", "CREATE NOTHING"])
    with pytest.raises(sqlite3.OperationalError):
        make_database(engine, lambda _: None)
    assert "CREATE TABLE" not in " ".join(dump(tmp_path / "a.db")) and not is_made(engine)
