"""Tries after a failed one, on an instance and with real runs: when they come, in which ranges, when they end, who is notified.

The flow is played by two functions that write the real logs: it is Dagster's side that is tested, and no JVM is started.
"""

import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test
from typer.testing import CliRunner

from lakehouse_assets import cli
from lakehouse_assets.contracts.decision import Counts, ExtractionRecord
from lakehouse_assets.decisions import retry_policy
from lakehouse_assets.errors import RunFailedError
from lakehouse_assets.orchestration.assets import window_steps as assets
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.healing import retries, window_state
from lakehouse_assets.orchestration.healing.foreground import ForegroundRun, execute_assets
from lakehouse_assets.orchestration.healing.ranges import range_tags
from lakehouse_assets.orchestration.healing.retries import CHECK, RetryPlan, plan_retries, window_check_keys
from lakehouse_assets.orchestration.healing.run_keys import RUN_KEY
from lakehouse_assets.orchestration.healing.source_versions import VERSION_TAG
from lakehouse_assets.orchestration.healing.window_state import read_statuses
from lakehouse_assets.orchestration.own_process import PROCESS_TAG
from lakehouse_assets.pipeline.publish import Published
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.leases.process_identity import own_identity
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.orchestration.healing.test_conditions import Clockwork
from lakehouse_assets_tests.orchestration.test_own_process import ended
from lakehouse_assets_tests.support import land, readings, window

SPEC = readings(
    extraction={"cadence": "daily", "start": "2024-01-01", "end": "2024-02-01", "mode": "upsert", "retries": 4}, checks=[]
)
OWN = ("bronze_readings", "silver_readings", "baseline_readings")


class Shop(Clockwork):
    """Windows that can be taken, but for those that are poisoned. ``sizes``: the windows of each try."""

    def __init__(self, settings, monkeypatch) -> None:
        super().__init__(settings, (SPEC,))
        self.settings, self.poisoned, self.sizes = settings, set(), []
        self.versions: dict[int, str] = {}
        self.retry_cursor: str | None = None
        self.later = timedelta()
        monkeypatch.setattr(assets, "extract", self.extract)
        monkeypatch.setattr(assets, "publish", self.publish)

    def seq(self, day: int) -> int:
        return int(self.versions[day].removeprefix("v")) if self.versions[day].startswith("v") else 1

    def extract(self, run, windows):
        self.sizes.append(len(windows))
        if bad := [w.key for w in windows if w.start.day in self.poisoned]:
            raise RuntimeError(f"cannot take {bad}")
        at = datetime.now(UTC)
        records = [
            ExtractionRecord("readings", w.start, self.seq(w.start.day), self.versions[w.start.day], 1, (), 1, "r", at)
            for w in windows
        ]
        logs.record_extractions(self.settings, records)
        return dict(zip(windows, records, strict=True))

    def publish(self, run, windows, unread=()):
        windows = [window for window in windows if window.start not in unread]
        last = max((d.number for d in logs.decisions(self.settings, "readings")), default=0)
        plain = {"verdict": "published", "counts": Counts(3, 3), "reasons": (), "checks": ()}
        decisions = [
            logbook.decided(last + n, p_extracted_at=w.start, extraction_seq=self.seq(w.start.day), **plain)
            for n, w in enumerate(windows, 1)
        ]
        if decisions:
            logbook.write(self.settings, decisions)
        return Published({}, [], {})

    def arrives(self, days, version: str = "v1") -> None:
        for day in days:
            self.versions[day] = version
            event = dg.AssetMaterialization("source_readings", partition=window(day).key, tags={VERSION_TAG: version})
            self.instance.report_runless_asset_event(event)

    def run(self, tags, selection=tuple(dg.AssetKey(name) for name in OWN)) -> bool:
        return execute_assets(self.definitions, self.instance, set(selection), tags) is None

    def run_days(self, first: int, last: int) -> bool:
        return self.run(range_tags(readings(), [window(day) for day in range(first, last + 1)]))

    def tick_retries(self) -> int:
        """One tick of the sensor, and the runs that it asks for. Returns how many."""
        plan = plan_retries(self.instance, self.settings, [SPEC], self.retry_cursor, datetime.now(UTC) + self.later)
        self.retry_cursor = plan.cursor
        for event in plan.evaluations:
            self.instance.report_runless_asset_event(event)
        for request in plan.requests:
            assert set(request.asset_check_keys) == set(window_check_keys(SPEC))
            self.run(request.tags, request.asset_selection)
        return len(plan.requests)

    def next(self) -> dict[int, str]:
        statuses = read_statuses(self.instance, self.settings, SPEC, datetime.now(UTC) + self.later)
        return {h.window.start.day: h.next_step for h in statuses if h.next_step not in ("source", "nothing")}

    def check(self) -> bool:
        key = dg.AssetCheckKey(dg.AssetKey("silver_readings"), CHECK)
        record = self.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
        return record.event.dagster_event.asset_check_evaluation_data.passed


@pytest.fixture
def shop(settings, monkeypatch):
    return Shop(settings, monkeypatch)


def of(*days: int) -> dict[str, set[str]]:
    return {name: {window(day).key for day in days} for name in OWN}


def test_one_bad_window_stops_in_the_end_and_the_others_are_published(shop):
    shop.arrives(range(1, 21))
    shop.poisoned = {7}
    assert shop.tick() == of(*range(1, 21))
    assert not shop.run_days(1, 20)
    assert shop.tick_retries() == 0, "ten minutes first"
    assert set(shop.next().values()) == {"retry"}
    assert shop.tick(timedelta(hours=7)) == {}, "what failed is the sensor's"
    pending_counts = []
    for hours in (1, 3, 10, 30, 100):
        shop.later = timedelta(hours=hours)
        pending_counts.append(shop.tick_retries())
    assert pending_counts == [4, 3, 2, 1, 0]
    assert shop.sizes == [20, 5, 5, 5, 5, 2, 2, 1, 1, 1, 1]
    assert shop.next() == {7: "stopped"}
    assert shop.check() is False
    assert shop.tick(timedelta(days=8)) == {}
    # The source has another file: it starts afresh, and it is the condition that asks.
    shop.poisoned = set()
    shop.arrives([7], "v2")
    assert shop.next() == {7: "daemon"}
    assert shop.tick(timedelta(days=8)) == of(7)
    assert shop.run_days(7, 7)
    assert shop.next() == {}
    shop.tick_retries()
    assert shop.check() is True
    assert json.loads(shop.retry_cursor)["left"] == {}


def test_failed_windows_wait_while_healing_is_switched_off(shop, monkeypatch):
    """The check of windows whose tries are used up follows all the same."""
    shop.arrives([7])
    shop.poisoned = {7}
    shop.tick()
    assert not shop.run_days(7, 7)
    shop.later = timedelta(hours=1)
    with monkeypatch.context() as patch:
        patch.setattr(retries, "automation_is_on", lambda _: False)
        assert shop.tick_retries() == 0
        assert shop.next() == {7: "retry"}
    for hours in (1, 3, 10, 30):
        shop.later = timedelta(hours=hours)
        assert shop.tick_retries() == 1
    monkeypatch.setattr(retries, "automation_is_on", lambda _: False)
    assert shop.tick_retries() == 0
    assert shop.check() is False


@pytest.mark.parametrize(
    ("waiting", "is_on", "reason"),
    [
        (0, True, "nothing to try again"),
        (0, False, "nothing to try again"),
        (2, True, "2 failed windows wait for their next try"),
        (2, False, "2 failed windows wait for their next try; heal_and_follow is off"),
    ],
)
def test_a_tick_without_requests_gives_its_reason(waiting, is_on, reason):
    assert RetryPlan(waiting=waiting, requests_windows=is_on).why_nothing_is_requested == reason


def test_a_changed_window_that_fails_is_tried_again(shop):
    """It is not missing: what is in silver stays, until the new version is in."""
    shop.arrives([3])
    assert shop.tick() == of(3)
    assert shop.run_days(3, 3)
    assert shop.tick() == {}
    shop.poisoned = {3}
    shop.arrives([3], "v2")
    assert shop.tick() == of(3)
    assert not shop.run_days(3, 3)
    assert shop.next() == {3: "retry"}
    shop.poisoned, shop.later = set(), timedelta(hours=1)
    assert shop.tick_retries() == 1
    assert shop.next() == {}


def test_a_window_that_the_condition_missed_is_requested_six_hours_later(shop):
    """A change in the seconds in which a run of the window ends: to a condition both happened at once."""
    shop.arrives([3, 4])
    shop.tick()
    assert shop.run_days(3, 4)
    shop.arrives([3], "v2")
    assert shop.tick() == {}
    assert shop.next() == {3: "daemon"}
    assert shop.tick_retries() == 0
    shop.later = timedelta(hours=7)
    assert shop.tick_retries() == 1
    assert (shop.sizes, shop.next()) == ([2, 1], {})
    shop.later = timedelta(hours=20)
    assert shop.tick_retries() == 0


def test_a_quarantined_window_that_is_to_be_read_otherwise_is_requested(shop):
    shop.arrives([3, 4])
    assert shop.run_days(3, 4)
    otherwise = SPEC.model_copy(update={"source": SPEC.source.model_copy(update={"delimiter": ";"})})
    counts = {"verdict": "quarantined", "counts": Counts(3, 0, 0, 3), "ruleset": otherwise.ruleset()}
    logbook.write(shop.settings, [logbook.decided(3, p_extracted_at=window(3).start, kind="rejudged", **counts)])
    assert shop.next() == {3: "person"}, "it was read by the rules of the first decision"
    shop.later = timedelta(hours=7)
    assert shop.tick_retries() == 0
    record = ExtractionRecord("readings", window(3).start, 2, "v1", 3, (), 2, "r", datetime.now(UTC))
    logs.record_extractions(shop.settings, [record])
    logbook.write(shop.settings, [logbook.decided(4, p_extracted_at=window(3).start, extraction_seq=2, **counts)])
    assert shop.next() == {3: "daemon"}
    shop.versions[3] = "v3"  # the number of the extraction that comes
    shop.later = timedelta(hours=9)
    assert shop.tick_retries() == 1


def test_a_quarantined_window_whose_file_is_gone_is_requested_once(shop, monkeypatch):
    shop.arrives([3])
    assert shop.run_days(3, 3)
    otherwise = SPEC.model_copy(update={"source": SPEC.source.model_copy(update={"delimiter": ";"})})
    counts = {"verdict": "quarantined", "counts": Counts(3, 0, 0, 3), "ruleset": otherwise.ruleset()}
    record = ExtractionRecord("readings", window(3).start, 2, "v1", 3, (), 2, "r", datetime.now(UTC))
    logs.record_extractions(shop.settings, [record])
    logbook.write(shop.settings, [logbook.decided(2, p_extracted_at=window(3).start, extraction_seq=2, **counts)])
    monkeypatch.setattr(assets, "extract", lambda run, windows: dict.fromkeys(windows, record))
    monkeypatch.setattr(assets, "publish", lambda run, windows, unread: Published({}, [], {}))
    assert shop.next() == {3: "daemon"}
    shop.later = timedelta(hours=9)
    assert (shop.tick_retries(), shop.next()) == (1, {3: "person"})
    shop.later = timedelta(hours=20)
    assert (shop.tick_retries(), shop.next()) == (0, {3: "person"})


def test_tries_before_a_window_was_read_do_not_count_against_reading_it_otherwise(shop):
    shop.arrives([3])
    shop.poisoned = {3}
    for _ in range(5):
        assert not shop.run_days(3, 3)
    assert shop.next() == {3: "stopped"}
    otherwise = SPEC.model_copy(update={"source": SPEC.source.model_copy(update={"delimiter": ";"})})
    counts = {"verdict": "quarantined", "counts": Counts(3, 0, 0, 3), "ruleset": otherwise.ruleset()}
    record = ExtractionRecord("readings", window(3).start, 1, "v1", 3, (), 2, "r", datetime.now(UTC))
    logs.record_extractions(shop.settings, [record])
    logbook.write(shop.settings, [logbook.decided(1, p_extracted_at=window(3).start, **counts)])
    assert shop.next() == {3: "daemon"}


def test_a_run_that_has_the_window_is_waited_for_and_one_that_was_ended_counts(shop):
    shop.arrives([1, 2])
    job = shop.definitions.resolve_implicit_global_asset_job_def()
    selection = frozenset(dg.AssetKey(name) for name in OWN)
    run = shop.instance.create_run_for_job(job, tags=range_tags(readings(), [window(1)]), asset_selection=selection)
    assert shop.next() == {1: "running", 2: "daemon"}
    shop.instance.report_run_canceled(run)
    assert shop.next() == {1: "retry", 2: "daemon"}


def test_a_command_skips_stopped_windows_unless_named(shop, settings, tmp_path):
    """`lakehouse run` tries what waits for its time, and a range that fails at once again in parts, as one try; then it goes
    on with the next.
    """
    for day in (1, 2, 3, 9):
        land(settings, day, ["a,1,10,2024-01-01T01:00:00Z"])
        shop.versions[day] = ""
    shop.poisoned = {2}
    tables = [LakehouseTable(SPEC, tmp_path)]

    def command(chosen=None):
        from lakehouse_assets.orchestration.healing.source_state import poll_sources

        now = datetime.now(UTC)
        observed = poll_sources(shop.instance, settings, [SPEC], {}, now).unsettled
        shop.versions |= {int(key[-2:]): print_ for key, print_ in observed.get("readings", {}).items()}
        return ForegroundRun(shop.definitions, shop.instance, settings, tables, chosen).run()

    with pytest.raises(RunFailedError, match="cannot take"):
        command()
    assert shop.next() == {2: "retry"}, "the others are in, by the same command"
    assert shop.sizes == [3, 1, 1, 1, 1]
    statuses = read_statuses(shop.instance, settings, SPEC, datetime.now(UTC))
    assert [status.failed_tries for status in statuses if status.window == window(2)] == [1]
    assert shop.check() is True
    for _ in range(4):
        with pytest.raises(RunFailedError):
            command()
    assert shop.next() == {2: "stopped"}
    assert shop.check() is False
    tried = len(shop.sizes)
    report = command()
    assert (report.ranges, len(shop.sizes)) == ([], tried)
    assert report.skipped == ["2024-01-02"]
    assert any("skipped after failed tries" in trouble and "2024-01-02" in trouble for trouble in report.warnings)
    shop.poisoned = set()
    assert len(command(lambda w: w.start.day == 2).ranges) == 1
    assert shop.next() == {}
    assert shop.check() is True


def test_where_nothing_failed_the_lake_is_read_once_an_hour(shop, monkeypatch):
    shop.arrives([1])
    assert shop.run_days(1, 1)
    read = []
    for name in ("decisions", "extractions"):
        real = getattr(logs, name)
        monkeypatch.setattr(
            logs, name, lambda *arguments, name=name, real=real, **more: read.append(name) or real(*arguments, **more)
        )
    shop.later = timedelta(hours=1) - timedelta(minutes=datetime.now(UTC).minute)  # an hour's beginning
    assert shop.tick_retries() == 0
    assert sorted(read) == ["decisions", "extractions"]
    assert shop.tick_retries() == 0
    assert len(read) == 2
    shop.later += timedelta(hours=1)
    assert shop.tick_retries() == 0
    assert len(read) == 4


def test_the_sensor_requests_contiguous_ranges(shop, monkeypatch):
    shop.arrives([1, 2, 3, 4, 5, 9])
    shop.poisoned = {1, 9}
    assert not shop.run_days(1, 5)
    assert not shop.run_days(9, 9)
    plan = plan_retries(shop.instance, shop.settings, [SPEC], None, datetime.now(UTC) + timedelta(hours=1))
    ranges = [(r.partition_key_range.start, r.partition_key_range.end) for r in plan.requests]
    expected = [(1, 2), (3, 4), (5, 5), (9, 9)]
    assert ranges == [(window(first).key, window(last).key) for first, last in expected]
    assert all({key.to_user_string() for key in r.asset_selection} == set(OWN) for r in plan.requests)
    monkeypatch.setattr(retry_policy, "FIRST_DELAY", timedelta())
    sensor = next(s for s in shop.definitions.sensors if s.name == "retry_failed")
    tick = sensor.evaluate_tick(dg.build_sensor_context(shop.instance, definitions=shop.definitions))
    assert [r.tags["lakehouse/try"] for r in tick.run_requests] == ["2"] * 4
    assert not tick.asset_events, "nothing is left alone yet"
    monkeypatch.undo()
    again = plan_retries(shop.instance, shop.settings, [SPEC], None, datetime.now(UTC) + timedelta(hours=1))
    assert [r.run_key for r in again.requests] == [r.run_key for r in plan.requests], "one run a try"


def test_heal_status(shop, monkeypatch):
    shop.arrives([1, 2, 5])
    shop.poisoned = {5}
    assert shop.run_days(1, 2)
    assert not shop.run_days(5, 5)
    monkeypatch.setenv("LAKEHOUSE_ROOT", shop.settings.root)
    monkeypatch.setattr("lakehouse_assets.cli.heal.select_tables", lambda *_: [LakehouseTable(SPEC, None)])
    monkeypatch.setattr(dg.DagsterInstance, "get", staticmethod(lambda: nullcontext(shop.instance)))
    result = CliRunner().invoke(cli.app, ["heal", "status", "--table", "readings", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert len(rows) == 29
    (row,) = [row for row in rows if row["window"] == "2024-01-05"]
    assert (row["states"], row["next"], row["tries"], row["most_tries"]) == (["missing", "failing"], "retry", 1, 5)
    shown = CliRunner().invoke(cli.app, ["heal", "status"], env={"COLUMNS": "200"}).output
    assert "try 1 of 5 failed; next try" in shown
    assert "2024-01-06..2024-01-31" in shown


def test_a_killed_command_ingests_nothing(shop):
    """Its run is unfinished until another command or the daemon's monitoring reports it as failed."""
    shop.arrives([1, 2])
    for day, identity in ((1, ended()), (2, own_identity())):
        tags = {**range_tags(SPEC, [window(day)]), PROCESS_TAG: json.dumps(identity)}
        assets = frozenset(dg.AssetKey(name) for name in OWN)
        create_run_for_test(shop.instance, status=dg.DagsterRunStatus.STARTED, tags=tags, asset_selection=assets)
    assert shop.next() == {1: "daemon", 2: "running"}


def test_heal_status_lists_a_half_applied_release(shop):
    shop.arrives([1, 2])
    assert shop.run_days(1, 2)
    assert (shop.next(), shop.tick_retries()) == ({}, 0)
    same = {"p_extracted_at": window(1).start, "verdict": "published", "counts": Counts(3, 3), "reasons": (), "checks": ()}
    logbook.write(shop.settings, [logbook.decided(3, kind="released", **same)], applied=False)
    assert shop.next() == {1: "daemon"}
    shop.later = timedelta(hours=7)
    assert shop.tick_retries() == 1
    assert shop.next() == {}


def test_a_lake_that_is_lost_twice_is_requested_twice(shop):
    shop.arrives([1])
    assert shop.run_days(1, 1)
    keys = []
    for _ in range(2):
        for log in ("decisions", "extractions"):
            delta.remove_folder(shop.settings.path("ops", log))
        later = datetime.now(UTC) + timedelta(hours=7)
        [request] = plan_retries(shop.instance, shop.settings, [SPEC], None, later).requests
        keys.append(request.run_key)
        assert shop.run({**request.tags, RUN_KEY: request.run_key}, request.asset_selection)
        assert plan_retries(shop.instance, shop.settings, [SPEC], None, later).requests == []
    assert keys[0] != keys[1]


def test_a_table_that_cannot_be_read_stops_no_other_table(shop, monkeypatch):
    other, read = SPEC.model_copy(update={"name": "others"}), window_state.read_statuses
    shop.arrives([1, 2])
    shop.poisoned = {2}
    assert not shop.run_days(2, 2)
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    before = json.dumps({"since": None, "hour": None, "left": {"others": ["2024-01-09"]}})

    def read_one(*arguments):
        if other in arguments:
            raise OSError("a part of its log is not there")
        return read(*arguments)

    monkeypatch.setattr(window_state, "read_statuses", read_one)
    plan = plan_retries(shop.instance, shop.settings, [other, SPEC], before, in_an_hour)
    assert [request.tags["lakehouse/try"] for request in plan.requests] == ["2"]
    assert "others: " in plan.warnings[0]
    assert json.loads(plan.cursor)["left"] == {"others": ["2024-01-09"], "readings": []}, "what is known of it stays"
    monkeypatch.undo()
    again = plan_retries(shop.instance, shop.settings, [other, SPEC], plan.cursor, in_an_hour)
    assert again.warnings == []
    assert [str(event.asset_key.path[-1]) for event in again.evaluations] == ["silver_others"], "it has no failed window"
