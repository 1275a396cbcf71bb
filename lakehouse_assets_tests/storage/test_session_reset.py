"""A session of one run in a process that stays: what it leaves in Spark is not there for the next one."""

import signal
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection, JavaClient, JavaParameters, PythonParameters

from lakehouse_assets.storage.session_reset import close_interrupted_calls, give_memory_back, session_of_one_run
from lakehouse_assets_tests.support import FOR_THREE_ROWS

PROPERTY = "spark.sql.shuffle.partitions"


def leave_everything(session):
    session.conf.set(PROPERTY, "77")
    frame = session.range(10).selectExpr("id AS left_over")
    frame.createOrReplaceTempView("left_over")
    frame.createOrReplaceGlobalTempView("left_over")
    frame.cache().count()
    session.udf.register("left_over", lambda: 1)
    session.sparkContext.setJobGroup("left_over", "left_over")


def test_each_block_has_a_session_of_its_own_and_leaves_nothing(spark):
    before = spark.conf.get(PROPERTY)
    java = spark.sparkContext._jsc
    cached_before = java.getPersistentRDDs().size()
    with session_of_one_run(spark) as first:
        assert type(spark).builder.getOrCreate() is first
        assert type(spark).getActiveSession() is first
        leave_everything(first)
        assert first.conf.get(PROPERTY) == "77"
    with session_of_one_run(spark) as second:
        assert second.conf.get(PROPERTY) == "2"
        assert second.conf.get("spark.sql.codegen.wholeStage") == "false"
        assert f"spark.sql.codegen.wholeStage {second.conf.get('spark.sql.codegen.wholeStage')}" in FOR_THREE_ROWS
        assert second.catalog.listTables() == []
        assert second.sql("SHOW VIEWS IN global_temp").collect() == []
        assert not second.catalog.functionExists("left_over")
        assert second._jsparkSession.sharedState().cacheManager().isEmpty()
        assert second.sparkContext.getLocalProperty("spark.jobGroup.id") is None
    assert java.getPersistentRDDs().size() <= cached_before
    assert spark.conf.get(PROPERTY) == before
    assert type(spark).getActiveSession()._jsparkSession.equals(spark._jsparkSession)
    assert spark.range(3).count() == 3
    give_memory_back(spark)


def test_an_error_in_the_block_gives_the_process_its_own_session_back(spark):
    try:
        with session_of_one_run(spark) as session:
            session.conf.set(PROPERTY, "77")
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert type(spark).builder.getOrCreate()._jsparkSession.equals(spark._jsparkSession)
    assert spark.conf.get(PROPERTY) == "2"


def test_a_table_that_was_replaced_by_other_files_is_read_anew(spark, tmp_path):
    table, other = str(tmp_path / "table"), tmp_path / "other"
    for value in (1, 2):
        spark.range(value).write.format("delta").save(str(tmp_path / "other" / str(value)))
    (other / "1").rename(table)
    with session_of_one_run(spark) as first:
        assert first.read.format("delta").load(table).count() == 1
    (tmp_path / "table").rename(tmp_path / "gone")
    (other / "2").rename(table)
    with session_of_one_run(spark) as second:
        assert second.read.format("delta").load(table).count() == 2


class Interrupted(BaseException):
    """Dagster's interrupt: no KeyboardInterrupt."""


@pytest.mark.parametrize("error", [Interrupted, KeyboardInterrupt])
def test_an_interrupted_call_closes_its_connection_and_is_no_logged_error(error, monkeypatch, caplog):
    """Of a Java that never answers. The call after it has a connection of its own."""
    monkeypatch.setattr(ClientServerConnection, "send_command", ClientServerConnection.send_command)
    close_interrupted_calls()

    def interrupt(*_: object) -> None:
        raise error

    before, main_thread = signal.signal(signal.SIGINT, interrupt), threading.get_ident()
    try:
        with socket.create_server(("127.0.0.1", 0)) as java:
            properties: Any = SimpleNamespace(pool=None)
            client = JavaClient(JavaParameters(port=java.getsockname()[1]), PythonParameters(), properties)
            connections: list[socket.socket] = []
            errors: list[object] = []
            for _ in range(2):
                threading.Timer(0.2, signal.pthread_kill, (main_thread, signal.SIGINT)).start()
                with pytest.raises(error) as raised:
                    client.send_command("x\n")
                errors.append(raised)  # while it is handled, the connection is in its frames
                java.settimeout(5)
                connections.append(java.accept()[0])
            assert [each.recv(100) for each in connections] == [b"x\n", b"x\n"]
            assert connections[0].recv(100) == b"", "closed"
    finally:
        signal.signal(signal.SIGINT, before)
    assert not caplog.records
