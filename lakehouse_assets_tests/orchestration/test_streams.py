"""The service of streams between two windows: changed tables, what it reports of a silent source. No Spark.

Belongs here: the service without its loop. Does not: windows (pipeline/test_stream_sources), its process (e2e).
"""

import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse_assets.cli.stream import joined_error
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError, EvidenceError, RunFailedError, SourceError
from lakehouse_assets.orchestration.assets.written_table import WrittenTable
from lakehouse_assets.orchestration.streams import service as stream_service
from lakehouse_assets.orchestration.streams.report import report_windows
from lakehouse_assets.orchestration.streams.service import StreamService
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
    assert service.streams == {}
    assert "readings: its stream ends: " in caplog.text


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


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([SourceError("no answer")], SourceError.exit_code),
        ([EvidenceError("a file is gone"), EvidenceError("another")], EvidenceError.exit_code),
        ([EvidenceError("a file is gone"), SourceError("no answer")], RunFailedError.exit_code),
        ([ValueError("a mistake of ours")], RunFailedError.exit_code),
    ],
)
def test_how_the_command_ends_where_streams_fail(errors, code):
    error = joined_error({f"t{index}": each for index, each in enumerate(errors)})
    assert error.exit_code == code
    assert all(str(each) in str(error) for each in errors)
