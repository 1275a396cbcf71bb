"""The source sensor over several sources: one that cannot be reached delays no other; one that stops is reported of.

Belongs here: looks at sources, and the sensor. Does not: what a source's fingerprints are (sources).
"""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from pydantic import ValidationError

from lakehouse_assets.decisions.healing import overdue_windows
from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.healing import foreground
from lakehouse_assets.orchestration.healing import source_sensor as sensors
from lakehouse_assets.orchestration.healing import source_state as polls
from lakehouse_assets.orchestration.healing.foreground import ForegroundRun
from lakehouse_assets.orchestration.healing.overdue import CHECK
from lakehouse_assets.orchestration.healing.source_state import poll_sources, time_budget
from lakehouse_assets.orchestration.healing.source_versions import VERSION_TAG, source_key
from lakehouse_assets.pipeline.table_source import source_of
from lakehouse_assets.sources.base import AnswerPending
from lakehouse_assets_tests.support import land, readings, window

NOW = datetime(2024, 1, 3, tzinfo=UTC)


def test_a_source_without_a_connection_is_reported_and_skipped(settings):
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z"])
    shop = {"kind": "jdbc", "connection": "SHOP", "table": "t", "modified": "at"}
    specs = [
        readings(name="by_jdbc", source=shop),
        readings(name="by_kafka", source={"kind": "kafka", "topic": "t"}),
        readings(),
    ]
    with dg.DagsterInstance.ephemeral() as instance:
        first = poll_sources(instance, settings, specs, {}, NOW)
        events = poll_sources(instance, settings, specs, first.unsettled, NOW).events
    assert [event.asset_key.to_user_string() for event in events] == ["source_readings"]
    assert [text.partition(":")[0] for text in first.warnings] == ["by_jdbc", "by_kafka"]
    assert "LAKEHOUSE_JDBC_SHOP_URL" in first.warnings[0] and "LAKEHOUSE_KAFKA_BOOTSTRAP" in first.warnings[1]


def test_an_unexpected_source_error_is_skipped_and_its_text_hidden(settings, monkeypatch):
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z"])
    specs = [readings(name="odd"), readings()]

    def opened(spec, *arguments):
        if spec.name == "odd":
            raise ValueError("jdbc:postgresql://10.0.0.7/secret")
        return source_of(spec, *arguments)

    monkeypatch.setattr(polls, "source_of", opened)
    with dg.DagsterInstance.ephemeral() as instance:
        poll = poll_sources(instance, settings, specs, {}, NOW)
    assert list(poll.unsettled) == ["readings"]
    assert poll.warnings == ["odd: its source could not be polled (ValueError)"]


@pytest.mark.parametrize("version", ["0a1b2c3d4e5f60718293a4b5c6d7e8f9", "12345678901234567890123456789012", "9960:ab 2400:cd"])
def test_a_cadence_that_becomes_shorter_stops_no_table(settings, version):
    """The versions that the windows of before were reported with name none of today's."""
    path = "readings/{window:%Y-%m-%dT%H-%M}.csv"
    extraction = {"cadence": "15min", "start": "2024-01-01"}
    spec = readings(source=readings().source.model_dump() | {"path": path, "settled": "rename"}, extraction=extraction)
    file = Path(settings.landing, "readings", "2024-01-01T07-15.csv")
    file.parent.mkdir(parents=True)
    file.write_text("sensor,hour,value,updated\na,1,1,2024-01-01T00:00:00Z\n")
    with dg.DagsterInstance.ephemeral() as instance:
        tags = {VERSION_TAG: version}
        instance.report_runless_asset_event(dg.AssetMaterialization(source_key(spec), partition="2024-01-01", tags=tags))
        poll = poll_sources(instance, settings, [spec, readings(name="other")], {}, NOW)
    assert [event.partition for event in poll.events] == ["2024-01-01"]
    assert poll.warnings == []


def test_a_source_that_shows_what_is_whole_needs_one_poll(settings):
    """The same fingerprint in two polls is not enough where a window waits, and not needed where it is whole."""
    row = ["a,1,1,2024-01-01T00:00:00Z"]
    land(settings, 1, row)
    at_once = land(settings, 2, row)
    path, marker = "readings/{window:%Y-%m-%d}.csv", "readings/{window:%Y-%m-%d}.done"
    source = readings().source.model_dump() | {"path": path}
    by_marker = readings(name="by_marker", source=source | {"settled": {"marker": marker}})
    by_seconds = readings(name="by_seconds", source=source | {"settled": {"seconds": 60}})
    os.utime(at_once, (NOW.timestamp() - 60, NOW.timestamp() - 60))
    Path(settings.landing, "readings", "2024-01-01.done").touch()
    with dg.DagsterInstance.ephemeral() as instance:
        before: dict = {}
        for _ in range(3):
            poll = poll_sources(instance, settings, [by_marker, by_seconds], before, NOW)
            before = poll.unsettled
        assert [(e.asset_key.to_user_string(), e.partition) for e in poll.events] == [
            ("source_by_marker", "2024-01-01"),
            ("source_by_seconds", "2024-01-02"),
        ]
        assert {name: list(keys) for name, keys in before.items()} == {
            "by_marker": ["2024-01-02"],
            "by_seconds": ["2024-01-01"],
        }
        assert poll.waiting == [
            f"by_marker: 2024-01-02: there is no marker {marker}",
            "by_seconds: 2024-01-01: a file's time is in the future",
        ]
        assert poll.warnings == []


def test_a_command_warns_of_windows_that_wait(settings, monkeypatch):
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z"])
    source = readings().source.model_dump() | {"path": "readings/{window:%Y-%m-%d}.csv"}
    rounds: list[int] = []
    monkeypatch.setattr(foreground, "SETTLING_SECONDS", 0)
    monkeypatch.setattr(foreground, "poll_sources", lambda *values: rounds.append(1) or poll_sources(*values))
    with dg.DagsterInstance.ephemeral() as instance:

        def report(settled):
            run = ForegroundRun(None, instance, settings, [], None, lambda text: None, {})
            assert run.report_sources([readings(source=source | {"settled": settled})]).keys() == (
                set() if settled == "rename" else {"readings"}
            )
            return run.report.reported, run.report.warnings, len(rounds)

        marker = "readings/{window:%Y-%m-%d}.done"
        warning = f"readings: 2024-01-01: there is no marker {marker}; not ingested yet"
        assert report({"marker": marker}) == (0, [warning], 2)
        assert report("rename") == (1, [], 3), "one poll is enough"


def test_a_source_that_answers_in_a_later_poll_keeps_what_was_observed_and_delays_no_other(settings, monkeypatch):
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z"])
    specs = [readings(name="asked", source=readings().source), readings()]
    is_pending = iter([False, True, False])

    def opened(spec, *arguments):
        if spec.name == "asked" and next(is_pending):
            raise AnswerPending("Spark is asked")
        return source_of(spec, *arguments)

    monkeypatch.setattr(polls, "source_of", opened)
    observed, reported, waiting = {}, [], []
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in range(3):
            poll = poll_sources(instance, settings, specs, observed, NOW)
            observed = poll.unsettled
            reported.append([event.asset_key.to_user_string() for event in poll.events])
            waiting.append(poll.waiting)
            assert poll.warnings == []
            for event in poll.events:
                instance.report_runless_asset_event(event)
    assert reported == [[], ["source_readings"], ["source_asked"]]
    assert waiting == [[], ["asked: Spark is asked"], []]


def test_a_poll_that_takes_too_long_continues_at_the_next_tick(settings):
    """Each source is looked at in its turn, and a window is reported at the second look at its own source."""
    here = readings().source.model_dump()
    specs = [readings(name=name, source={**here, "path": "readings/{window:%Y-%m-%d}.csv"}) for name in ("a", "b", "c")]
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z"])
    observed, start, messages = {}, None, []
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in range(6):
            spent = iter([False, True])  # two sources, then no more
            looked = poll_sources(instance, settings, specs, observed, NOW, spent.__next__, start)
            observed, start = looked.unsettled, looked.next_table
            messages.append(
                ("".join(spec.name for spec in looked.tables), [e.asset_key.to_user_string() for e in looked.events])
            )
            for event in looked.events:
                instance.report_runless_asset_event(event)
        assert messages == [
            ("ab", []),
            ("ca", ["source_a"]),
            ("bc", ["source_b", "source_c"]),
            ("ab", []),
            ("ca", []),
            ("bc", []),
        ]
        assert observed == {}
        # The table that was next is no more: from the first one on.
        assert poll_sources(instance, settings, specs[:1], {}, NOW, first_table="c").tables == specs[:1]


def test_a_slow_source_delays_the_others_once(settings, monkeypatch):
    """Dagster gives a tick up after a minute, with its cursor; so the next one leaves out what has taken so long."""
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z"])
    specs = [readings(name="fast"), readings(name="slow")]
    definitions = build_definitions(settings, [LakehouseTable(spec, Path("nowhere")) for spec in specs])
    sensor = definitions.resolve_sensor_def("watch_sources")
    spent = {"fast": 1.0, "slow": 60.0}
    clock = [0.0]

    def opened(spec, *arguments):
        clock[0] += spent[spec.name]
        return source_of(spec, *arguments)

    monkeypatch.setattr(polls, "source_of", opened)
    monkeypatch.setattr(polls.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(polls.time, "thread_time", lambda: 0.0)  # on a busy machine a poll would end early
    with dg.DagsterInstance.ephemeral() as instance:

        def tick(cursor):
            evaluations = sensor.evaluate_tick(dg.build_sensor_context(instance, cursor=cursor, definitions=definitions))
            return (
                list(json.loads(evaluations.cursor)["seen"]),
                evaluations.cursor,
                [e.asset_key.to_user_string() for e in evaluations.asset_events],
            )

        assert tick(None)[0] == ["fast", "slow"], "which comes too late"
        observed, cursor, _ = tick(None)
        assert observed == ["fast"]
        # Then it is looked at again, too late.
        assert tick(cursor)[2] == ["source_fast"]
        spent["slow"] = 2.0
        observed, cursor, events = tick(cursor)
        assert (observed, events) == ([], ["source_fast"]), "left out once more"
        assert tick(cursor)[0] == ["fast", "slow"]


def test_a_tick_ends_when_its_processor_time_is_spent_or_its_time():
    assert not time_budget(cpu_seconds=60, seconds=60)()
    assert time_budget(cpu_seconds=-1, seconds=60)() and time_budget(cpu_seconds=60, seconds=-1)()


DAYS = [window(day) for day in range(1, 6)]


@pytest.mark.parametrize(
    ("arrived", "hours", "expected"),
    [
        ([1, 2, 3, 4, 5], 100, []),
        ([1, 2, 3, 4], 6, []),  # on the hour it is still in time
        ([1, 2, 3, 4], 6.01, [5]),
        ([1, 2, 4], 6.01, [5]),  # the third is a gap
        ([1], 6.01, [2, 3, 4, 5]),
        ([1], -20, [2, 3]),  # the fourth is over for four hours, the fifth not yet
        ([], 6.01, [1, 2, 3, 4, 5]),
    ],
)
def test_overdue_windows_are_listed(arrived, hours, expected):
    now = DAYS[-1].end + timedelta(hours=hours)
    over = [each for each in DAYS if each.end <= now]
    overdue = overdue_windows(over, {window(day).key for day in arrived}, now, timedelta(hours=6))
    assert [each.start.day for each in overdue] == expected


def extraction(**more):
    return {"cadence": "daily", "start": datetime(2024, 1, 1, tzinfo=UTC), "mode": "upsert", **more}


def test_a_stopped_source_is_reported_until_it_continues(settings, monkeypatch):
    """Reported once when it stops, again when more is overdue, and once when it goes on. Never without the setting."""
    now = datetime(2024, 1, 3, 5, tzinfo=UTC)

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return now

    monkeypatch.setattr(sensors, "datetime", Clock)
    with_check = readings(extraction=extraction(overdue_after="6h"))
    other = readings(name="quiet", source={**readings().source.model_dump(), "path": "quiet/{window:%Y-%m-%d}.csv"})
    sensor = sensors.source_sensor(settings, [with_check, other])
    definitions = build_definitions(settings, [LakehouseTable(spec, Path("nowhere")) for spec in (with_check, other)])
    cursor, source = None, source_key(with_check)

    def tick() -> list[tuple[bool, str]]:
        nonlocal cursor
        result = sensor.evaluate_tick(dg.build_sensor_context(instance, cursor=cursor, definitions=definitions))
        cursor = result.cursor
        for event in result.asset_events:
            instance.report_runless_asset_event(event)
        evaluations = [event for event in result.asset_events if isinstance(event, dg.AssetCheckEvaluation)]
        assert {event.asset_key.to_user_string() for event in evaluations} <= {"source_readings"}
        return [(event.passed, event.description or "") for event in evaluations]

    with dg.DagsterInstance.ephemeral() as instance:
        for day in (1, 2):
            land(settings, day, ["a,1,1,2024-01-01T00:00:00Z"])
        late = "not at the source 6h after the end"
        assert tick() == [(False, f"2024-01-01: {late}")], "it has to settle: nothing has arrived yet"
        tick()
        assert tick() == [(True, "every window that is due has arrived at the source")]
        assert tick() == []
        now = datetime(2024, 1, 4, 7, tzinfo=UTC)
        assert tick() == [(False, f"2024-01-03: {late}")]
        assert tick() == []
        now = datetime(2024, 1, 5, 7, tzinfo=UTC)
        assert tick() == [(False, f"2024-01-03, 2024-01-04: {late}")]
        land(settings, 4, ["a,1,1,2024-01-04T00:00:00Z"])
        assert [passed for _ in range(4) for passed, _ in tick()] == [True]
        # A window in time changes no result, and the UI shows one of an earlier materialization as "Not Evaluated".
        now = datetime(2024, 1, 6, 5, tzinfo=UTC)
        land(settings, 5, ["a,1,1,2024-01-05T00:00:00Z"])
        assert [passed for _ in range(4) for passed, _ in tick()] == [True]
        shown = instance.event_log_storage.get_latest_asset_check_execution_by_key([key := dg.AssetCheckKey(source, CHECK)])
        (newest,) = instance.fetch_materializations(source, limit=1).records
        assert shown[key].evaluation.target_materialization_data.storage_id == newest.storage_id


def test_only_a_table_with_overdue_after_has_the_check(settings, tmp_path):
    def checks(spec) -> set[str]:
        graph = build_definitions(settings, [LakehouseTable(spec, tmp_path)]).resolve_asset_graph()
        return {key.name for key in graph.asset_check_keys if key.asset_key.to_user_string() == "source_readings"}

    assert checks(readings()) == set()
    with_check = readings(extraction=extraction(overdue_after="6h"))
    assert checks(with_check) == {CHECK}
    # The alerting rule changes no judgement.
    assert with_check.ruleset_hash == readings().ruleset_hash
    with pytest.raises(ValidationError, match="'soon' is not a duration such as 30s, 90m, 6h or 2d"):
        readings(extraction=extraction(overdue_after="soon"))
