"""The service of streams between two windows: changed tables, what it reports of a silent source. No Spark.

Belongs here: the service without its loop. Does not: windows (pipeline/test_stream_sources), its process (e2e).
"""

import logging
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse_assets.cli.stream import joined_error
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError, DiskError, EnvironmentMissing, EvidenceError, RunFailedError, SourceError
from lakehouse_assets.orchestration.assets.written_table import WrittenTable
from lakehouse_assets.orchestration.dagster_internals import write_cursors
from lakehouse_assets.orchestration.streams import report
from lakehouse_assets.orchestration.streams import service as stream_service
from lakehouse_assets.orchestration.streams.report import report_windows
from lakehouse_assets.orchestration.streams.service import StreamService
from lakehouse_assets.orchestration.streams.table_stream import TableStream
from lakehouse_assets.storage import delta, logs
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.orchestration.test_shared_partitions import START, streamed
from lakehouse_assets_tests.support import lake_settings


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def make_service(home: Path, instance: dg.DagsterInstance, loads: list[Any]) -> StreamService:
    """``loads``: what each look at the tables gives: specs, or an error."""
    looks = iter(loads)

    def load() -> list[WrittenTable]:
        result = next(looks)
        if isinstance(result, Exception):
            raise result
        return [WrittenTable(spec, home) for spec in result]

    return StreamService(lake_settings(home), instance, load, lambda spec: spec.extraction.stream is not None)


def test_streams_go_on_while_the_tables_cannot_be_read(tmp_path, instance, caplog):
    table = streamed()
    other = table.model_copy(update={"checks": ()})
    service = make_service(tmp_path, instance, [[table], ConfigError("defs.yaml:3: half written"), [table], [other], []])
    service._load_streams()
    first = service.streams["readings"]
    with caplog.at_level(logging.WARNING, "lakehouse.stream"):
        service._load_again()
    assert service.streams == {"readings": first}
    assert "the streams go on as they were: defs.yaml:3: half written" in caplog.text
    service._load_again()
    assert service.streams["readings"] is first, "nothing has changed"
    service._load_again()
    assert service.streams["readings"].spec == other
    with caplog.at_level(logging.WARNING, "lakehouse.stream"):
        service._load_again()
    assert (service.streams, service.failures) == ({}, {})
    assert "readings: its stream ends: " in caplog.text


def test_what_is_to_be_taken_once_and_ends_before_is_a_failure(tmp_path, instance):
    """A table that gets a mistake while `--available-now` runs: messages may wait, so the command does not end well."""
    service = make_service(tmp_path, instance, [[streamed()], []])
    service._load_streams()
    service.available_now = True
    service._load_again()
    assert service._is_done()
    assert str(joined_error(service.failures)).startswith("readings: its stream ends: it has a mistake")


def test_a_new_session_leaves_the_handler_of_ctrl_c(tmp_path, monkeypatch):
    """As PySpark's context does, whose handler cancels all jobs."""
    handler = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(stream_service, "build_session", lambda _: signal.signal(signal.SIGINT, signal.SIG_IGN))
    try:
        stream_service._start_spark(lake_settings(tmp_path))
        assert signal.getsignal(signal.SIGINT) == handler
    finally:
        signal.signal(signal.SIGINT, handler)


def observations(instance: dg.DagsterInstance, spec: TableSpec) -> int:
    return len(instance.fetch_observations(dg.AssetKey(f"bronze_{spec.name}"), limit=10).records)


def test_a_silent_source_is_observed_only_while_something_waits(tmp_path, instance):
    service = make_service(tmp_path, instance, [[streamed()]])
    folder = Path(service.settings.landing) / "readings"
    folder.mkdir(parents=True)
    service._load_streams()
    stream = service.streams["readings"]
    assert report_windows(instance, service.settings, stream, START) == 0
    assert observations(instance, stream.spec) == 0
    (folder / "a.csv").write_text("id,at,value\n")
    assert report_windows(instance, service.settings, stream, START) == 0
    assert observations(instance, stream.spec) == 1


def test_windows_of_another_lake_are_reported_from_the_beginning(tmp_path, instance, monkeypatch):
    """A lake that was lost, or put back as it was: its decisions have numbers that were reported of others."""
    monkeypatch.setattr(report, "report_partitions", lambda *_: None)
    service = make_service(tmp_path, instance, [[streamed()]])
    service._load_streams()
    stream = service.streams["readings"]
    decisions = [logbook.decided(number, p_extracted_at=START + timedelta(seconds=number)) for number in (1, 2)]
    logs.log_decisions(service.settings, decisions)
    write_cursors(instance, {"lakehouse_stream/readings": "50"})  # of an earlier release
    assert report_windows(instance, service.settings, stream, START) == 2
    assert report_windows(instance, service.settings, stream, START) == 0
    delta.remove_folder(service.settings.path("ops", "decisions"))
    logs.log_decisions(service.settings, [replace(decision, run_id="again") for decision in decisions])
    assert report_windows(instance, service.settings, stream, START) == 2


def test_a_clock_that_is_put_back_delays_no_stream(tmp_path, instance):
    service = make_service(tmp_path, instance, [[streamed()]])
    service._load_streams()
    stream = service.streams["readings"]
    stream.due_at = START + timedelta(hours=1)
    stream.limit_wait(START + timedelta(hours=1) - timedelta(seconds=5))
    assert stream.due_at == START + timedelta(hours=1), "it waits as long as its trigger says"
    stream.limit_wait(START)
    assert stream.due_at == START


@pytest.mark.parametrize("available_now", [False, True])
def test_a_table_that_lacks_a_variable_ends_no_other_stream(tmp_path, instance, monkeypatch, caplog, available_now):
    service = make_service(tmp_path, instance, [[streamed(), streamed().model_copy(update={"name": "others"})]])
    service.available_now = available_now
    service._load_streams()
    missing = EnvironmentMissing("the environment has no LAKEHOUSE_SECRET_A")

    def take_turn(stream: TableStream, *_: Any) -> dict[Any, Any]:
        turns.append(stream.spec.name)
        if stream.spec.name == "readings":
            raise missing
        return {}

    turns: list[str] = []
    monkeypatch.setattr(TableStream, "take_turn", take_turn)
    with caplog.at_level(logging.WARNING, "lakehouse.stream"):
        for stream in service.streams.values():
            service._take_turn(stream, lambda *_: pytest.fail("no run"))
    assert turns == ["readings", "others"]
    assert "readings: the environment has no LAKEHOUSE_SECRET_A (tried again)" in caplog.text
    assert service.failures == ({"readings": missing} if available_now else {})


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([SourceError("no answer")], SourceError.exit_code),
        ([EvidenceError("a file is gone"), EvidenceError("another")], EvidenceError.exit_code),
        ([EvidenceError("a file is gone"), SourceError("no answer")], RunFailedError.exit_code),
        ([EnvironmentMissing("no LAKEHOUSE_SECRET_A"), DiskError("full")], EnvironmentMissing.exit_code),
        ([ValueError("a mistake of ours")], RunFailedError.exit_code),
    ],
)
def test_how_the_command_ends_where_streams_fail(errors, code):
    error = joined_error({f"t{index}": each for index, each in enumerate(errors)})
    assert error.exit_code == code
    assert all(str(each) in str(error) for each in errors)
