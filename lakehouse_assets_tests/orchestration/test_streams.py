"""The service of streams between two windows: changed tables, what it reports of a silent source. No Spark.

Belongs here: the service without its loop. Does not: windows (pipeline/test_stream_sources), its process (e2e).
"""

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from lakehouse_assets.cli.heal import stream_rows
from lakehouse_assets.cli.stream import joined_error
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.stream_report import StreamReport
from lakehouse_assets.errors import ConfigError, DiskError, EnvironmentMissing, EvidenceError, RunFailedError, SourceError
from lakehouse_assets.orchestration.assets.written_table import WrittenTable
from lakehouse_assets.orchestration.dagster_internals import write_cursors
from lakehouse_assets.orchestration.healing.overdue import report_overdue
from lakehouse_assets.orchestration.healing.overdue_streams import FINE
from lakehouse_assets.orchestration.streams import report
from lakehouse_assets.orchestration.streams.recorded_report import read_report, record_error, record_lag
from lakehouse_assets.orchestration.streams.report import report_windows
from lakehouse_assets.orchestration.streams.service import StreamService
from lakehouse_assets.orchestration.streams.table_stream import TableStream
from lakehouse_assets.queries.stream_lag import recorded_lag
from lakehouse_assets.sources.files_feed import position_to_text
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.source_positions import record_positions
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


def limited() -> TableSpec:
    table = streamed()
    return table.model_copy(update={"extraction": table.extraction.model_copy(update={"overdue_after": "10m"})})


def loaded_stream(home: Path, instance: dg.DagsterInstance, spec: TableSpec) -> tuple[StreamService, TableStream]:
    service = make_service(home, instance, [[spec]])
    (Path(service.settings.landing) / "readings").mkdir(parents=True)
    service._load_streams()
    return service, service.streams["readings"]


def check_result(instance: dg.DagsterInstance, service: StreamService, spec: TableSpec, now: datetime) -> tuple[bool, str]:
    """The check as the sensor reports it."""
    [evaluation], _ = report_overdue(instance, service.settings, [spec], [spec], {}, now)
    return evaluation.passed, str(evaluation.description)


def take_position(service: StreamService, spec: TableSpec, start: datetime) -> None:
    """Put a window on record that takes nothing."""
    record_positions(service.settings, spec.name, {spec.extraction.window_at(start): position_to_text([])}, "run", start)


def test_a_stream_that_falls_behind_is_overdue_and_a_silent_source_is_not(tmp_path, instance, monkeypatch):
    spec, now = limited(), START + timedelta(hours=5)
    service, stream = loaded_stream(tmp_path, instance, spec)
    file = Path(service.settings.landing) / "readings" / "a.csv"
    file.write_text("id,at,value\n")
    os.utime(file, (START.timestamp(), START.timestamp()))
    take_position(service, spec, now)  # windows begin, and take others
    report_windows(instance, service.settings, stream, now)
    with monkeypatch.context() as patch:
        patch.setattr("lakehouse_assets.queries.stream_lag.open_feed", lambda *_: pytest.fail("its source is not asked"))
        passed, text = check_result(instance, service, spec, now)
    assert not passed
    assert text.startswith("something waits for more than 10m: 1 files wait, the oldest for 5 h; the newest window is ")
    file.unlink()
    later = now + timedelta(hours=3)
    report_windows(instance, service.settings, stream, later)
    assert check_result(instance, service, spec, later + timedelta(minutes=1))[0], "no window for hours, and none is due"
    assert check_result(instance, service, spec, later + timedelta(minutes=9))[0]
    passed, text = check_result(instance, service, spec, later + timedelta(minutes=11))
    assert not passed and text.endswith("no running `lakehouse stream` reports what waits")


@pytest.mark.parametrize(
    ("oldest", "expected"),
    [
        (lambda now: START, [1, 0, 1, 1, 0, 1, 0]),  # nothing takes it: after 1, 2 and 4 hours
        (lambda now: now - timedelta(hours=3), [1, 0, 0, 0, 0, 0, 0]),  # windows come, and each has what is as old
    ],
)
def test_a_lag_is_reported_again_when_it_has_doubled(tmp_path, instance, oldest, expected):
    spec = limited()
    service, _ = loaded_stream(tmp_path, instance, spec)
    report, before, counts = partial(report_overdue, instance, service.settings, [spec], [spec]), {}, []
    for minutes in (20, 59, 61, 121, 239, 241, 400):
        now = START + timedelta(minutes=minutes)
        lag = recorded_lag(spec, {now: position_to_text([])}, now)
        record_lag(instance, spec, lag.with_waiting(5, "files", oldest(now), now), now)
        evaluations, before = report(before, now)
        counts.append(len(evaluations))
    assert counts == expected


def test_damaged_positions_of_a_table_stop_no_other_check(tmp_path, instance):
    damaged, other = (limited().model_copy(update={"name": name}) for name in ("damaged", "other"))
    service = make_service(tmp_path, instance, [[damaged, other]])
    now = START + timedelta(hours=5)
    for spec in (damaged, other):
        take_position(service, spec, now)
    [file] = Path(service.settings.path("ops", "positions")).glob("table=damaged/*.parquet")
    file.unlink()
    specs = [damaged, other]
    evaluations, overdue = report_overdue(instance, service.settings, specs, specs, {}, now)
    assert [(each.passed, each.asset_key.path[-1]) for each in evaluations] == [
        (False, "source_damaged"),
        (True, "source_other"),
    ]
    assert str(evaluations[0].description).startswith("this cannot be checked: ")
    assert "ops/positions" in str(evaluations[0].description), evaluations[0].description
    assert overdue == {"damaged": "error: FileNotFoundError", "other": ""}
    assert report_overdue(instance, service.settings, specs, specs, overdue, now) == ([], overdue), "it is reported once"


def test_windows_are_reported_whatever_the_source_answers(tmp_path, instance, monkeypatch):
    service, stream = loaded_stream(tmp_path, instance, streamed())
    reported: list[Any] = []
    monkeypatch.setattr(report, "report_partitions", lambda *arguments: reported.append(arguments[3]))
    monkeypatch.setattr(stream.feed, "waiting", lambda *_: int("a mistake of ours"))
    logs.log_decisions(service.settings, [logbook.decided(1, p_extracted_at=START)])
    for _ in range(2):
        with pytest.raises(ValueError, match="a mistake of ours"):
            report_windows(instance, service.settings, stream, START)
    assert len(reported) == 1


def test_what_a_stream_fails_with_is_recorded_until_a_window_can_be_taken(tmp_path, instance, caplog):
    """That nothing is left to finish shows nothing: the next window's messages are lost all the same."""
    spec, now = streamed(), START
    service, stream = loaded_stream(tmp_path, instance, spec)
    service.clock = lambda: now
    run: Any = SimpleNamespace(settings=service.settings, spec=spec, table=spec.name, clock=service.clock)
    feed: Any = SimpleNamespace(close=lambda: None, next_position=lambda *_: answers.pop(0)())

    def lost() -> None:
        raise SourceError("offsets 3 to 9 are lost")

    stream.feed, stream.due_at, answers, delays = feed, now, [lost] * 4, []
    with caplog.at_level(logging.WARNING, "lakehouse.stream"):
        while answers:
            service._take_turn(stream, lambda *_: run)
            if stream.due_at > now:
                delays.append((stream.due_at - now).total_seconds())
                now = stream.due_at
    assert delays == [1, 2, 4, 8]
    assert caplog.text.count("offsets 3 to 9 are lost") == 1
    assert check_result(instance, service, spec, now)[0]
    late = START + timedelta(minutes=2)
    passed, text = check_result(instance, service, spec, late)
    assert (passed, text) == (False, "the stream fails since 2024-05-01 00:00 UTC: SourceError: offsets 3 to 9 are lost")
    [row] = stream_rows(instance, service.settings, [spec], late, full=False)
    assert row["next"].startswith("fails since 2024-05-01 00:00 UTC: SourceError: offsets 3 to 9 are lost; 0 files wait")
    answers += [lambda: None]
    while answers:
        service._take_turn(stream, lambda *_: run)
    assert check_result(instance, service, spec, late) == (True, FINE)


def test_an_error_of_an_earlier_process_is_over_once_a_try_succeeds(tmp_path, instance):
    spec, late = streamed(), START + timedelta(minutes=2)
    service, stream = loaded_stream(tmp_path, instance, spec)
    record_error(instance, spec, "DiskError: full", START)
    service._report([stream])
    assert not check_result(instance, service, spec, late)[0], "nothing was tried yet"
    stream.is_complete = True
    service._report([stream])
    assert check_result(instance, service, spec, late)[0]


def test_a_changed_contract_ends_no_failure(tmp_path, instance):
    """No try has shown that it is over: the check stays red, no second alert is sent, and the delay stays."""
    spec = streamed()
    other = spec.model_copy(update={"checks": ()})
    service = make_service(tmp_path, instance, [[spec], [other]])
    (Path(service.settings.landing) / "readings").mkdir(parents=True)
    service._load_streams()
    stream, now = service.streams["readings"], START
    service.clock = lambda: now
    stream.failures = 3
    service._note_error(stream, SourceError("offsets 3 to 9 are lost"))
    now = START + timedelta(minutes=2)
    service._load_streams()
    stream = service.streams["readings"]
    assert (stream.spec, stream.failures, stream.due_at) == (other, 3, now), "it is tried at once"
    run: Any = SimpleNamespace(settings=service.settings, spec=other, table=other.name, clock=service.clock)
    service._take_turn(stream, lambda *_: run)
    service._report([stream])
    assert not check_result(instance, service, other, now)[0], "nothing was left to finish, which shows nothing"
    report = read_report(instance, other)
    assert report and report.fails_since == START
    service._take_turn(stream, lambda *_: run)
    assert check_result(instance, service, other, now) == (True, FINE)


def test_a_new_process_goes_on_with_a_failure(tmp_path, instance):
    spec, now = streamed(), START
    service, stream = loaded_stream(tmp_path, instance, spec)
    service.clock = lambda: now
    for stream.failures in (1, 2, 3):
        service._note_error(stream, SourceError("away"))
    assert read_report(instance, spec) == StreamReport(START).with_error("SourceError: away", START, failures=3)
    loads = [WrittenTable(spec, tmp_path)]
    for seconds, due_after in ((1, 4), (30, 30)):
        now = START + timedelta(seconds=seconds)
        following = StreamService(service.settings, instance, lambda: loads, service.is_served, clock=service.clock)
        following._load_streams()
        resumed = following.streams["readings"]
        assert (resumed.failures, resumed.due_at) == (3, START + timedelta(seconds=due_after))
        resumed.is_complete = True
        following._report([resumed])
        assert read_report(instance, spec).error, "no try has shown that it is over"  # type: ignore[union-attr]


def test_a_source_that_is_back_and_silent_ends_a_failure_of_an_earlier_start(tmp_path, instance):
    """With `--available-now` no window shows that: the source has answered that nothing waits."""
    spec = streamed()
    service, stream = loaded_stream(tmp_path, instance, spec)
    stream.failures = 1
    service._note_error(stream, SourceError("away"))
    loads = [WrittenTable(spec, tmp_path)]
    following = StreamService(service.settings, instance, lambda: loads, service.is_served, available_now=True)
    following._load_streams()
    resumed = following.streams["readings"]
    assert (resumed.failures, resumed.left) == (1, 0)
    following._report([resumed])
    assert read_report(instance, spec).error, "a recorded window may have to be finished"  # type: ignore[union-attr]
    resumed.is_complete = True
    following._report([resumed])
    assert read_report(instance, spec).error is None  # type: ignore[union-attr]


def test_a_recorded_error_has_no_personal_value(tmp_path, instance):
    table = streamed()
    columns = {name: column.model_copy(update={"pii": True}) for name, column in table.columns.items()}
    spec = table.model_copy(update={"columns": columns})
    service, stream = loaded_stream(tmp_path, instance, spec)
    service._note_error(stream, ValueError("Ada Lovelace"))
    report = read_report(instance, spec)
    assert report and report.error and report.error.startswith("ValueError: ") and "Ada" not in report.error


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
