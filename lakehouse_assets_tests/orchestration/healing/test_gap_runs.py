"""Windows that arrive gap_requests are taken in few runs, and nobody asks for them again. Runs without a JVM.

Belongs here: the source sensor's requests beside the conditions. Does not: what a run does, or retries (test_retries).
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_assets.contracts.windows import contiguous
from lakehouse_assets.decisions.healing import bridge_gaps
from lakehouse_assets.decisions.retry_policy import MAX_BRIDGE, MAX_SINGLE_GAPS
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.healing import foreground
from lakehouse_assets.orchestration.healing.automation import automation_is_on
from lakehouse_assets.orchestration.healing.foreground import ForegroundRun
from lakehouse_assets.orchestration.healing.retries import window_check_keys
from lakehouse_assets.orchestration.healing.source_sensor import gap_requests, source_sensor
from lakehouse_assets.orchestration.healing.source_state import poll_sources
from lakehouse_assets_tests.orchestration.healing.test_retries import SPEC, Shop
from lakehouse_assets_tests.support import land, readings, window

YEAR = readings(extraction={"cadence": "daily", "start": "2024-01-01", "end": "2025-01-01", "mode": "upsert"}).extraction
ALL = YEAR.windows(datetime(2025, 1, 1, tzinfo=UTC))


@given(st.sets(st.integers(0, 365), min_size=1), st.sets(st.integers(0, 365)))
def test_ranges_contain_each_pending_window_once_and_bridge_settled_ones_only(wanted, others):
    pending, between = {ALL[n] for n in wanted}, {ALL[n] for n in others}
    ranges = bridge_gaps(pending, between)
    every = [each for one in ranges for each in one]
    assert len(every) == len(set(every))
    assert every == sorted(every)
    assert pending <= set(every) <= pending | between
    for one in ranges:
        assert contiguous(one) == [one]
        assert one[0] in pending and one[-1] in pending
        assert all(len(hole) <= MAX_BRIDGE for hole in contiguous(set(one) - pending))
    if len(contiguous(pending)) <= MAX_SINGLE_GAPS:
        assert ranges == contiguous(pending)
    else:
        # No two ranges could have been one.
        for one, other in zip(ranges, ranges[1:], strict=False):
            hole = [each for each in ALL if one[-1] < each < other[0]]
            assert len(hole) > MAX_BRIDGE or not set(hole) <= between


@pytest.fixture
def shop(settings, monkeypatch):
    return Shop(settings, monkeypatch)


class PolledSource:
    """The sensor on the shop's instance, two ticks at a time, and what its runs were asked for."""

    def __init__(self, shop, settings, spec=SPEC) -> None:
        self.shop, self.sensor, self.cursor = shop, source_sensor(settings, [spec]), None

    def ticks(self) -> list[dg.RunRequest]:
        requests = []
        for _ in range(2):
            context = dg.build_sensor_context(self.shop.instance, cursor=self.cursor, definitions=self.shop.definitions)
            result = self.sensor.evaluate_tick(context)
            self.cursor = result.cursor or self.cursor
            for event in result.asset_events:
                self.shop.instance.report_runless_asset_event(event)
                if isinstance(event, dg.AssetMaterialization):
                    self.shop.versions[int(event.partition[-2:])] = event.tags["dagster/data_version"]
            requests += result.run_requests or []
        return requests


LATE = (3, 9, 10, 15, 21, 27)
NOW = datetime(2024, 2, 1, tzinfo=UTC)


def changed(days: Iterable[int]) -> list[dg.AssetMaterialization]:
    """What the source sensor reports for these days."""
    tags = {"dagster/data_version": "v2"}
    return [dg.AssetMaterialization("source_readings", partition=window(day).key, tags=tags) for day in days]


def test_scattered_gaps_take_one_run_and_the_conditions_ask_for_none_of_them(shop, settings):
    sensor = PolledSource(shop, settings)
    for day in range(1, 32):
        if day not in LATE:
            land(settings, day, ["a,1,1,2024-01-01T00:00:00Z"])
    # Of a table that has nothing yet nothing lies between: the conditions ask for what has arrived.
    assert sensor.ticks() == []
    assert {len(windows) for windows in shop.tick().values()} == {31 - len(LATE)}
    for first, last in ((1, 2), (4, 8), (11, 14), (16, 20), (22, 26), (28, 31)):
        assert shop.run_days(first, last)
    assert shop.tick() == {}
    for day in LATE:
        land(settings, day, ["a,1,1,2024-01-01T00:00:00Z"])
    [request] = sensor.ticks()
    assert set(request.asset_check_keys) == set(window_check_keys(SPEC))
    assert request.tags["lakehouse/gaps"] == "5"
    job = shop.definitions.resolve_implicit_global_asset_job_def()
    waiting = shop.instance.create_run_for_job(job, tags=request.tags, asset_selection=frozenset(request.asset_selection))
    assert shop.tick() == {}, "they are on their way"
    assert shop.tick() == {}
    shop.instance.delete_run(waiting.run_id)
    shop.sizes.clear()
    shop.run(request.tags, request.asset_selection)
    assert shop.sizes == [25], "from the 3rd to the 27th"
    assert shop.tick() == {}
    assert shop.next() == {}
    assert sensor.ticks() == []


def test_events_are_reported_even_with_healing_off_or_unknown(shop, settings, monkeypatch):
    shop.arrives(range(1, 32))
    assert shop.run_days(1, 31)
    shop.tick()

    def unreadable(*_):
        raise OSError("the lake's log cannot be read")

    for name, broken in (("read_statuses", unreadable), ("automation_is_on", lambda _: False)):
        with monkeypatch.context() as patch:
            patch.setattr(f"lakehouse_assets.orchestration.healing.source_sensor.{name}", broken)
            for day in LATE:
                land(settings, day, [f"{name},1,1,2024-01-01T00:00:00Z"])
            assert PolledSource(shop, settings).ticks() == []
        requested = shop.tick()
        assert {frozenset(windows) for windows in requested.values()} == {frozenset(window(day).key for day in LATE)}
        for assets in requested:
            for day in LATE:
                shop.report([assets], window(day).key)
        shop.tick()


@pytest.mark.parametrize(("status", "heals"), [(None, True), ("STOPPED", False), ("RUNNING", True)])
def test_whether_healing_is_switched_on(status, heals):
    state = SimpleNamespace(instigator_name="heal_and_follow", is_running=status == "RUNNING")
    other = SimpleNamespace(instigator_name="retry_failed", is_running=False)
    states = [other, *([state] if status else [])]
    instance = SimpleNamespace(schedule_storage=True, all_instigator_state=lambda: states)
    assert automation_is_on(instance) is heals
    with dg.DagsterInstance.ephemeral() as without, dg.DagsterInstance.local_temp() as real:
        assert automation_is_on(without)
        assert automation_is_on(real)


def test_a_window_that_changes_during_a_bridging_run_is_requested_afterwards(shop, settings):
    shop.arrives(range(1, 32))
    shop.tick()
    assert shop.run_days(1, 31)
    shop.tick()
    # The source has another version since bronze looked, and the run's own events came after the report.
    shop.arrives([5], "v2")
    shop.report(["bronze_readings", "silver_readings", "baseline_readings"], window(5).key)
    shop.tick()
    assert shop.next() == {5: "daemon"}
    shop.later = timedelta(hours=7)
    assert shop.tick_retries() == 1
    assert shop.next() == {}


def test_a_range_never_bridges_an_unsettled_window(shop, settings):
    shop.arrives(range(1, 32))
    assert shop.run_days(1, 31)
    ranges = [
        (request.tags["dagster/asset_partition_range_start"][-2:], request.tags["dagster/asset_partition_range_end"][-2:])
        for request in gap_requests(shop.instance, settings, SPEC, changed(LATE), NOW, {window(12).key})
    ]
    assert ranges == [("03", "10"), ("15", "27")]


def test_after_a_failed_run_each_gap_is_requested_separately(shop, settings):
    sensor = PolledSource(shop, settings)
    shop.arrives(range(1, 32))
    shop.tick()
    assert shop.run_days(1, 31)
    shop.tick()
    for day in LATE:
        land(settings, day, ["a,1,1,2024-01-01T00:00:00Z"])
    [request] = sensor.ticks()
    shop.poisoned = {9}
    assert not shop.run(request.tags, request.asset_selection)
    requested = shop.tick()
    assert {frozenset(windows) for windows in requested.values()} == {frozenset(window(day).key for day in LATE)}


def test_the_command_names_a_window_that_still_changes(shop, settings, tmp_path, monkeypatch):
    """Its file grows between the two polls: it is left to the next run, and nobody is told that all is done."""
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z"])
    more = ["a,1,1,2024-01-01T00:00:00Z", "b,1,1,2024-01-01T00:00:00Z"]
    monkeypatch.setattr(foreground.time, "sleep", lambda _: land(settings, 1, more))
    report = ForegroundRun(shop.definitions, shop.instance, settings, [LakehouseTable(SPEC, tmp_path)]).run()
    assert (report.ranges, report.reported) == ([], 0)
    assert report.warnings == ["readings: 2024-01-01: its data changed a moment ago; not ingested yet, run again"]


@pytest.mark.exhaustive(seconds=10)
def test_the_command_bridges_gaps_too(shop, settings, tmp_path):
    tables = [LakehouseTable(SPEC, tmp_path)]
    for days, expected in (
        (set(range(1, 32)) - {*LATE}, [(1, 2, 2), (4, 8, 5), (11, 14, 4), (16, 20, 5), (22, 26, 5), (28, 31, 4)]),
        (LATE, [(3, 27, 6)]),
    ):
        for day in days:
            land(settings, day, ["a,1,1,2024-01-01T00:00:00Z"])
        observed = poll_sources(shop.instance, settings, [SPEC], {}, datetime.now(UTC)).unsettled["readings"]
        shop.versions |= {int(key[-2:]): print_ for key, print_ in observed.items()}
        report = ForegroundRun(shop.definitions, shop.instance, settings, tables).run()
        assert [(int(first[-2:]), int(last[-2:]), count) for _, first, last, count in report.ranges] == expected
    assert shop.next() == {}


@pytest.mark.parametrize(
    ("days", "changes", "requests"),
    [
        ((1, 2, 3, 4, 5, 6, 7), {}, 0),  # one gap
        ((1, 3, 5, 7), {}, 0),  # four
        ((1, 3, 5, 7, 9), {}, 1),
        ((1, 3, 5, 7, 9), {"extraction": {**SPEC.extraction.model_dump(), "lookback": 26}}, 0),  # from the 6th on
        ((1, 3, 5, 7, 9, 11, 13, 15, 17, 19), {"extraction": {**SPEC.extraction.model_dump(), "lookback": 26}}, 1),
        ((1, 3, 5, 7, 9), {"checks": [{"check": "foreign_key", "columns": ["sensor"], "table": "sensors", "to": ["id"]}]}, 0),
    ],
)
def test_gap_requests_follow_the_settings_of_the_table(shop, settings, days, changes, requests):
    shop.arrives(range(1, 32))
    assert shop.run_days(1, 31)
    spec = SPEC.model_validate({**SPEC.model_dump(by_alias=True), **changes})
    events = changed(days)
    gaps = gap_requests(shop.instance, settings, spec, events, NOW)
    assert len(gaps) == requests
    if requests:
        heeded = [day for day in days if "lookback" not in str(changes) or day > 31 - 26]
        assert gaps[0].tags["dagster/asset_partition_range_start"] == window(heeded[0]).key
        assert gap_requests(shop.instance, settings, spec, events[::-1], NOW)[0].run_key == gaps[0].run_key
