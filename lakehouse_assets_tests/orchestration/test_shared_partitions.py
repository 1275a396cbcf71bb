"""Windows of five minutes and of a stream, which share the partition of an hour: arriving, healing, and what the hour shows.

Belongs here: the mapping as a table of cases, and stories on a real instance. Does not: windows with a partition of their own.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakehouse_assets.cli.heal import stream_rows
from lakehouse_assets.contracts.extraction import ExtractionSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import LakehouseError, SourceError
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.assets.partition_checks import MOST_LOOKED_AT, count_unseen, looked_at, partition_result
from lakehouse_assets.orchestration.assets.partition_metadata import silver_partition
from lakehouse_assets.orchestration.assets.partition_report import report_partitions
from lakehouse_assets.orchestration.assets.partitions import partition_key, partitions_of, windows_by_partition
from lakehouse_assets.orchestration.dagster_internals import RANGE_END_TAG, RANGE_START_TAG
from lakehouse_assets.orchestration.healing.overdue import overdue_check, report_overdue
from lakehouse_assets.orchestration.healing.ranges import range_tags
from lakehouse_assets.orchestration.healing.retries import plan_retries
from lakehouse_assets.orchestration.healing.shared_partitions import partition_requests
from lakehouse_assets.orchestration.healing.source_state import poll_sources
from lakehouse_assets.orchestration.healing.source_versions import VERSION_TAG, recorded_versions, version_tags
from lakehouse_assets.orchestration.healing.window_state import read_statuses, window_assets
from lakehouse_assets.pipeline import extract
from lakehouse_assets.pipeline.stream import publish_next
from lakehouse_assets.queries.stream_lag import read_lag
from lakehouse_assets.reports.markdown import escape
from lakehouse_assets.sources import open_feed
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.source_positions import record_positions
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.logbook import decided
from lakehouse_assets_tests.support import lake_settings, rows_of, runner

START = datetime(2024, 5, 1, tzinfo=UTC)
SILVER = dg.AssetKey("silver_readings")


def spec(cadence: str = "5min", **changes: Any) -> TableSpec:
    attributes = {
        "name": "readings",
        "source": {"kind": "files", "path": "readings/{window:%Y-%m-%dT%H%M}.csv", "format": "csv", "settled": "rename"},
        "extraction": {"cadence": cadence, "start": START, "end": START + timedelta(hours=3), "mode": "upsert"},
        "key": ["id"],
        "last_modified": "at",
        "columns": {"id": "bigint", "at": "timestamp", "value": "double"},
        "checks": [
            {"check": "in_range", "name": "possible", "column": "value", "min": 0, "max": 100},
            {"check": "row_count_ratio", "name": "like_before", "least": 30, "min": 0.5, "severity": "warning"},
        ],
    }
    return TableSpec.model_validate(attributes | changes)


def minute(number: int) -> Window:
    return spec().extraction.window_at(START + timedelta(minutes=number))


def land(world: World, number: int, value: float, second: int = 0) -> None:
    """The file of the window that starts at this minute."""
    window = minute(number)
    path = Path(world.settings.landing) / "readings" / f"{window.start:%Y-%m-%dT%H%M}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"id,at,value\n{number},{window.start.isoformat()},{value}\n")
    os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))


@pytest.mark.parametrize(
    ("cadence", "stream", "at", "expected"),
    [
        ("1min", None, "2024-05-01T13:59", "2024-05-01-13:00"),
        ("5min", None, "2024-05-01T13:00", "2024-05-01-13:00"),
        ("15min", None, "2024-05-01T23:45", "2024-05-01"),
        ("hourly", {}, "2024-05-01T13:59:59.999", "2024-05-01-13:00"),
        ("daily", {}, "2024-05-01T13:59:59.999", "2024-05-01"),
        ("hourly", None, "2024-05-01T13:00", "2024-05-01-13:00"),
        ("daily", None, "2024-05-01T00:00", "2024-05-01"),
        ("monthly", None, "2024-05-01T00:00", "2024-05-01"),
    ],
)
def test_the_partition_of_a_window(cadence, stream, at, expected):
    extraction = ExtractionSpec.model_validate({"cadence": cadence, "start": "2024-01-01", "stream": stream})
    window = extraction.window_at(datetime.fromisoformat(at).replace(tzinfo=UTC))
    assert partition_key(extraction, window) == expected
    partitions = partitions_of(extraction)
    assert partitions.has_partition_key(expected)
    assert extraction.partition_window(expected).start <= window.start < extraction.partition_window(expected).end


@given(st.lists(st.integers(0, 59), min_size=1, unique=True))
def test_windows_are_in_one_partition_each(minutes):
    extraction = spec("1min", source={**spec().source.model_dump(), "path": "r/{window:%Y-%m-%dT%H%M}.csv"}).extraction
    windows = [extraction.window_at(START + timedelta(minutes=n)) for n in minutes]
    assert windows_by_partition(extraction, windows) == {"2024-05-01-00:00": sorted(windows)}


def test_the_hour_exists_while_its_windows_arrive():
    extraction = ExtractionSpec.model_validate({"cadence": "5min", "start": "2024-05-01"})
    now = datetime(2024, 5, 1, 7, 20, tzinfo=UTC)
    assert partitions_of(extraction).get_partition_keys(now)[-1] == "2024-05-01-07:00"
    hourly = ExtractionSpec.model_validate({"cadence": "hourly", "start": "2024-05-01"})
    assert partitions_of(hourly).get_partition_keys(now)[-1] == "2024-05-01-06:00"


def test_a_partitions_version_changes_with_each_window_and_fits_into_an_index():
    one, two = {minute(0).key: "a" * 32}, {minute(0).key: "a" * 32, minute(5).key: "b" * 32}
    assert version_tags(spec(), one) != version_tags(spec(), two) == version_tags(spec(), dict(reversed(two.items())))
    day = {spec("5min").extraction.window_at(START + timedelta(minutes=15 * n)).key: "f" * 32 for n in range(96)}
    assert len(version_tags(spec(), day)["dagster/data_version"]) < 2000


def test_a_check_of_a_partition_fails_if_it_fails_in_one_window():
    def result(passed: bool, text: str) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=passed, check_name="c", asset_key=SILVER, description=text, metadata={})

    good, bad = (minute(0), result(True, "passed")), (minute(5), result(False, "too large"))
    failed = partition_result("p", [good, bad, (minute(10), "skipped")], 3)
    assert isinstance(failed, dg.AssetCheckResult)
    assert (failed.passed, failed.metadata["windows_failed"]) == (False, 1)
    assert failed.description == "p: failed in 1 of 3 window(s); too large"
    passed = partition_result("p", [good, (minute(10), "skipped")], 2)
    assert isinstance(passed, dg.AssetCheckResult)
    assert passed.passed
    assert partition_result("p", [(minute(10), "skipped")], 1) == "skipped"
    assert partition_result("p", [], 0) == "nothing arrived"


def test_many_warned_windows_never_hide_a_quarantined_one():
    """More windows need a look than are looked at: the quarantined one is, and a check that was not seen has not passed."""
    verdicts = ["quarantined", *["published_with_warnings"] * MOST_LOOKED_AT, "published"]
    decisions = [decided(number, verdict=verdict) for number, verdict in enumerate(verdicts, 1)]
    chosen = looked_at(decisions)
    assert (len(chosen), chosen[0]) == (MOST_LOOKED_AT, decisions[0])
    assert [d.number for d in chosen[1:3]] == [MOST_LOOKED_AT + 2, MOST_LOOKED_AT + 1]
    assert count_unseen(decisions) == 2  # the oldest warned ones
    assert count_unseen(decisions[:MOST_LOOKED_AT]) == 0
    passed = dg.AssetCheckResult(passed=True, check_name="c", asset_key=SILVER, metadata={})
    result = partition_result("p", [(minute(0), passed)], len(decisions), count_unseen(decisions))
    assert result == "2 windows in which a check did not pass were too many to look at: `lakehouse verdicts` lists them"
    by_start = {d.p_extracted_at: d for d in decisions if d.p_extracted_at}
    listed = silver_partition(spec().extraction, [spec().extraction.window_at(start) for start in by_start], by_start)
    assert "quarantined" in listed["not_plainly_published"].value.splitlines()[2]


def test_the_windows_of_a_partition_link_to_their_pages():
    """The newest, and all that are not plainly published; without an address none."""
    decisions = [decided(number, verdict="quarantined" if number < 5 else "published") for number in range(1, 31)]
    by_start = {d.p_extracted_at: d for d in decisions if d.p_extracted_at}
    windows = [spec().extraction.window_at(start) for start in by_start]
    address = "https://example.com/(it|s) <here>/a_b"
    shown = silver_partition(spec().extraction, windows, by_start, lambda _: address)
    key = escape(windows[-1].key)
    assert f"| [{key}](https://example.com/%28it%7Cs%29%20%3Chere%3E/a_b) | published |" in shown["newest_windows"].value
    assert {name: shown[name].value.count("](https") for name in ("newest_windows", "not_plainly_published")} == {
        "newest_windows": 20, "not_plainly_published": 4,
    }  # fmt: skip
    assert "](" not in silver_partition(spec().extraction, windows, by_start)["newest_windows"].value


@pytest.mark.parametrize(
    ("cadence", "end", "shared"), [("5min", "2024-05-01T13:30", "an hour"), ("15min", "2024-05-02T00:30", "a day")]
)
def test_an_end_within_a_partition_is_refused(cadence, end, shared):
    with pytest.raises(ValidationError, match=f"end: {cadence} windows share the partition of {shared}; end with one"):
        ExtractionSpec.model_validate({"cadence": cadence, "start": "2024-05-01", "end": end})
    whole_partition = "2024-05-01T13:00" if cadence == "5min" else "2024-05-02"
    assert ExtractionSpec.model_validate({"cadence": cadence, "start": "2024-05-01", "end": whole_partition}).end


def materialized(world: World, layer: str = "silver") -> dict[str, Any]:
    """The last materialization's metadata by partition."""
    records = world.instance.fetch_materializations(dg.AssetKey(f"{layer}_readings"), limit=100).records
    newest: dict[str, Any] = {}
    for record in records:
        newest.setdefault(str(record.partition_key), record.asset_materialization.metadata)
    return newest


def check_of(world: World, check: str, partition: str) -> Any:
    """The last evaluation of a partition."""
    records = world.instance.event_log_storage.get_asset_check_execution_history(dg.AssetCheckKey(SILVER, check), limit=50)
    for record in records:
        evaluation = record.event.asset_check_evaluation if record.event else None
        if evaluation is not None and evaluation.partition == partition:
            return evaluation
    return None


def test_files_of_five_minutes_arrive_over_an_hour_and_a_half(spark, tmp_path):
    """One run for the hours that have something; then only for the hour that changed; each window once."""
    world = World(spark, tmp_path, [LakehouseTable(spec(), tmp_path)], pages_url="https://example.com")
    for number in (0, 5, 60):
        land(world, number, 10 + number / 10)
    assert [r[1:] for r in world.run().ranges] == [("2024-05-01-00:00", "2024-05-01-01:00", 3)]
    assert sorted(materialized(world)) == ["2024-05-01-00:00", "2024-05-01-01:00"]
    assert materialized(world)["2024-05-01-00:00"]["rows_published"].value == 2
    assert materialized(world, "bronze")["2024-05-01-00:00"]["windows_arrived"].value == 2
    assert world.run().ranges == []
    # A late window, a changed one, and one with an impossible value.
    land(world, 10, 11)
    land(world, 5, 12, second=9)
    land(world, 15, 900)
    assert [r[1:] for r in world.run().ranges] == [("2024-05-01-00:00", "2024-05-01-00:00", 3)]
    first = materialized(world)["2024-05-01-00:00"]
    assert (first["windows"].value, first["rows_quarantined"].value) == (4, 1)
    address = "https://example.com/tables/readings/windows/2024-05-01-00-15.html"
    assert f"[2024-05-01-00:15]({address})" in first["not_plainly_published"].value.replace("\\", "")
    assert "| like_before | " in first["not_checked"].value.replace("\\", "")
    evaluation = check_of(world, "possible", "2024-05-01-00:00")
    assert not evaluation.passed
    assert evaluation.description.startswith("2024-05-01-00:00: failed in 1 of 4 window(s); 2024-05-01-00:15")
    assert check_of(world, "possible", "2024-05-01-01:00").passed
    assert [(r.p_extracted_at.minute, r.extraction_seq) for r in logs.extractions(world.settings, "readings")] == [
        (0, 1), (5, 1), (5, 2), (10, 1), (15, 1), (0, 1),
    ]  # fmt: skip
    versions = recorded_versions(world.instance, spec())
    assert sorted(versions) == [minute(n).key for n in (0, 5, 10, 15, 60)]
    statuses = {s.window: s for s in read_statuses(world.instance, world.settings, spec(), datetime.now(UTC))}
    assert len(statuses) == 36
    assert not any(status.is_pending for status in statuses.values())
    assert statuses[minute(15)].is_open or statuses[minute(15)].rows_quarantined


def test_the_error_of_an_hour_counts_files_that_are_not_settled(spark, tmp_path):
    source = spec().source.model_dump() | {"settled": {"seconds": 3600}}
    world = World(spark, tmp_path, [LakehouseTable(spec(source=source), tmp_path)])
    land(world, 0, 1, second=10**10)
    job = world.definitions.resolve_implicit_global_asset_job_def()
    bronze = [dg.AssetKey("bronze_readings")]
    result = job.execute_in_process(
        instance=world.instance, asset_selection=bronze, partition_key="2024-05-01-00:00", raise_on_error=False
    )
    [failure] = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    assert "1 file is not settled yet" in str(failure)
    assert "source.settled is {seconds: 3600}: a file's time is in the future) for 2024-05-01-00:00" in str(failure)


def test_the_daemon_requests_an_hour_once_and_again_when_a_window_comes_while_it_runs(spark, tmp_path):
    world = World(spark, tmp_path, [LakehouseTable(spec(), tmp_path)])

    def tick() -> list[tuple[str, str]]:
        """A poll of the sensor: its events are stored after its requests are made."""
        now = datetime.now(UTC)
        poll = poll_sources(world.instance, world.settings, [spec()], {}, now)
        requests = partition_requests(world.instance, world.settings, spec(), poll.events, now)
        for event in poll.events:
            world.instance.report_runless_asset_event(event)
        new = [request for request in requests if request.run_key not in requested]
        requested.update(str(request.run_key) for request in new)
        return [(request.tags[RANGE_START_TAG], request.tags[RANGE_END_TAG]) for request in new]

    requested: set[str] = set()
    assert tick() == []
    for number in (0, 5, 65):
        land(world, number, 1)
    assert tick() == [("2024-05-01-00:00", "2024-05-01-01:00")]
    assert tick() == []
    world.run()
    assert tick() == []
    land(world, 10, 1)
    assert tick() == [("2024-05-01-00:00", "2024-05-01-00:00")]
    # While that run is there, another window comes: its hour is requested again once the run has ended.
    job = world.definitions.resolve_implicit_global_asset_job_def()
    tags = range_tags(spec(), [minute(10)])
    selection = frozenset(window_assets(spec()))
    run = world.instance.create_run_for_job(job, tags=tags, asset_selection=selection, status=dg.DagsterRunStatus.STARTED)
    land(world, 15, 1)
    assert tick() == []
    world.instance.delete_run(run.run_id)
    assert tick() == [("2024-05-01-00:00", "2024-05-01-00:00")]
    assert world.tick().total_requested == 0


@pytest.mark.parametrize("single_step", [False, True])
def test_windows_are_published_while_the_source_cannot_deliver_another_of_their_hour(spark, tmp_path, monkeypatch, single_step):
    """In two steps, and in one. Dagster's conditions ask for nothing."""
    world = World(spark, tmp_path, [LakehouseTable(spec(), tmp_path)], single_step=single_step)
    read, unreadable = extract._extract_settled, {minute(5)}

    def read_some(run, source, todo, seqs):
        if unreadable & set(todo):
            raise SourceError("a page of the table is damaged")
        return read(run, source, todo, seqs)

    monkeypatch.setattr(extract, "_extract_settled", read_some)

    def states() -> dict[int, str]:
        statuses = read_statuses(world.instance, world.settings, spec(), datetime.now(UTC))
        return {s.window.start.minute: s.next_step for s in statuses if s.next_step != "source"}

    def published() -> list[int]:
        return sorted(row["id"] for row in rows_of(world.settings.path("silver", "readings"), ["id"]))

    for number in (0, 5):
        land(world, number, 1)
    with pytest.raises(LakehouseError, match="a page of the table is damaged"):
        world.run()
    assert (published(), states()) == ([0], {0: "nothing", 5: "retry"})
    assert materialized(world)["2024-05-01-00:00"]["rows_published"].value == 1
    assert check_of(world, "possible", "2024-05-01-00:00").passed
    assert world.tick().total_requested == 0
    land(world, 10, 1)
    with pytest.raises(LakehouseError, match="a page of the table is damaged"):
        world.run()
    assert (published(), states()) == ([0, 10], {0: "nothing", 5: "retry", 10: "nothing"})
    unreadable.clear()
    world.run()
    assert (published(), set(states().values())) == ([0, 5, 10], {"nothing"})
    assert world.run().ranges == []


def report(instance: dg.DagsterInstance, partition: str, version: str) -> dg.AssetMaterialization:
    """Report a partition of the source."""
    event = dg.AssetMaterialization("source_readings", partition=partition, tags={VERSION_TAG: version})
    instance.report_runless_asset_event(event)
    return event


def test_a_source_that_returns_to_an_earlier_version_is_requested_again(settings):
    """Each report once, whether it is stored when it is asked for or not."""
    keys = []
    with dg.DagsterInstance.ephemeral() as instance:
        for version in ("0000:a", "0000:b", "0000:a", "0000:b"):
            hour, now = "2024-05-01-00:00", START + timedelta(hours=1)
            event = dg.AssetMaterialization("source_readings", partition=hour, tags={VERSION_TAG: version})
            [unstored] = partition_requests(instance, settings, spec(), [event], now)
            instance.report_runless_asset_event(event)
            [stored] = partition_requests(instance, settings, spec(), [], now)
            [repeated] = partition_requests(instance, settings, spec(), [event], now)
            report(instance, "2024-05-01-01:00", f"0100:{version[-1]}")  # of another hour
            [later] = partition_requests(instance, settings, spec(), [], now)
            assert unstored.run_key == stored.run_key == repeated.run_key == later.run_key
            keys.append(unstored.run_key)
    assert len(set(keys)) == 4


@pytest.mark.parametrize(
    ("cadence", "before", "partition", "own"),
    [
        ("15min", "2024-05-01-00:00", "2024-05-01", "0000:new"),
        ("5min", "2024-05-01", "2024-05-01-00:00", "0000:new"),
        ("1min", "2024-05-01", "2024-05-01-00:00", "0000:new"),
    ],
)
def test_partitions_of_an_earlier_cadence_name_no_window(cadence, before, partition, own):
    path = "readings/{window:%Y-%m-%dT%H%M}.csv"
    extraction = {"cadence": cadence, "start": START, "mode": "upsert"}
    table = spec(source={**spec().source.model_dump(), "path": path}, extraction=extraction)
    with dg.DagsterInstance.ephemeral() as instance:
        report(instance, partition, own)
        report(instance, before, "0000:old 0030:old")
        assert recorded_versions(instance, table) == {"2024-05-01-00:00": "new"}


def test_an_overlooked_partition_is_requested_again_after_another_report(settings):
    """Its other windows are done, and have no time of their own."""
    keys = []
    with dg.DagsterInstance.ephemeral() as instance:
        for version in ("a", "b"):
            report(instance, "2024-05-01-00:00", f"0005:{version}")
            [request] = plan_retries(instance, settings, [spec()], None, datetime.now(UTC) + timedelta(hours=7)).requests
            keys.append(request.run_key)
    assert len(set(keys)) == 2


def streamed() -> TableSpec:
    source = {"kind": "files", "path": "readings/*.csv", "format": "csv", "settled": "rename"}
    extraction = {"cadence": "hourly", "start": START, "mode": "upsert", "stream": {}}
    return spec(source=source, extraction=extraction)


def test_a_streams_windows_are_reported_by_the_hour_and_nothing_polls_its_source(spark, tmp_path):
    world = World(spark, tmp_path, [LakehouseTable(streamed(), tmp_path)], pages_url="https://example.com")
    feed, windows = open_feed(streamed(), world.settings), []
    for number, value in enumerate((1, 2, 500)):
        land(world, 5 * number, value)
        stream_window = publish_next(runner(spark, world.settings, streamed()), feed)
        assert stream_window
        windows.append(stream_window.window)
    assert world.tick().total_requested == 0
    report_partitions(world.instance, world.settings, streamed(), windows[-1:])
    [(part, metadata)] = materialized(world).items()
    assert part == "2024-06-01-00:00"
    assert (metadata["windows"].value, metadata["rows_published"].value, metadata["rows_quarantined"].value) == (3, 2, 1)
    assert not check_of(world, "possible", part).passed
    assert metadata["newest_windows"].value.count("](https://example.com/tables/readings/windows/2024-06-01-00-") == 3
    assert "| like_before | " in metadata["not_checked"].value.replace("\\", "")
    # Reported anew as often as windows come, for ever.
    land(world, 60, 7)
    assert publish_next(runner(spark, world.settings, streamed()), feed)
    report_partitions(world.instance, world.settings, streamed(), windows[:1])
    assert materialized(world)[part]["windows"].value == 4
    assert check_of(world, "possible", part).description.startswith("2024-06-01-00:00: failed in 1 of 4 window(s)")
    [status] = read_statuses(world.instance, world.settings, streamed(), datetime.now(UTC))
    assert (status.window, status.is_pending) == (windows[2], False), "the others are in silver"
    assert world.run().ranges == []


def test_a_stream_that_is_behind_has_a_row_and_is_overdue(tmp_path, monkeypatch):
    table = streamed()
    late = table.model_copy(update={"extraction": table.extraction.model_copy(update={"overdue_after": "10m"})})
    settings = lake_settings(tmp_path)
    folder = Path(settings.landing) / "readings"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("id,at,value\n")
    instance, now = dg.DagsterInstance.ephemeral(), START + timedelta(minutes=9)
    [row] = stream_rows(instance, settings, [late, spec()], now, full=False)
    assert row["next"] == "1 files wait, the oldest for 0 s; no window was taken yet"
    position = open_feed(late, settings).next_position({}, now)
    assert position
    record_positions(settings, late.name, {late.extraction.window_at(START): position}, "run", START)
    lag = read_lag(settings, late, now)
    assert (lag.waiting, lag.since, lag.newest) == (0, timedelta(minutes=9), late.extraction.window_at(START))
    evaluations, overdue = report_overdue(instance, settings, [late], [late], {}, now)
    assert (overdue, [e.passed for e in evaluations]) == ({"readings": ""}, [True])
    wait = timedelta(minutes=2)
    with monkeypatch.context() as patch:  # six brokers that are away would take longer than a tick may
        patch.setattr("lakehouse_assets.queries.stream_lag.open_feed", lambda *_: pytest.fail("its source is not asked"))
        evaluations, overdue = report_overdue(instance, settings, [late], [late], overdue, now + wait)
    assert [e.passed for e in evaluations] == [False]
    newest = f"nothing was taken for more than 10m: the newest window is {late.extraction.window_at(START).key}, 11 min ago"
    assert newest in str(evaluations[0].description)
    job = dg.define_asset_job("job", dg.AssetSelection.all_asset_checks())
    definitions = dg.Definitions(asset_checks=[overdue_check(settings, late)], jobs=[job])
    monkeypatch.setattr("lakehouse_assets.orchestration.healing.overdue.datetime", SimpleNamespace(now=lambda _: now + wait))
    [result] = definitions.resolve_job_def("job").execute_in_process(instance=instance).get_asset_check_evaluations()
    assert "nothing was taken for more than 10m: 0 files wait" in str(result.description)
    assert report_overdue(instance, settings, [late], [late], overdue, now + timedelta(minutes=3))[0] == []
    [full] = stream_rows(instance, settings, [late], now, full=True)
    assert (full["waiting"], full["unit"], full["seconds_since_newest_window"]) == (0, "files", 540.0)
    assert (full["seconds_waiting"], full["error"]) == (None, None)
