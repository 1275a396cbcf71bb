"""Several tables and gold across them, on three real weeks: change events, snapshots, late days, and orders of arrival.

Belongs here: flights, planes, airports and airlines through Dagster, against an oracle. Does not: the weather by itself.
"""

import gzip
import json
import math
import random
import shutil
import sys
from collections import defaultdict
from datetime import UTC, date, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from lakehouse_assets.storage import logs
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import PROJECT_ROOT, heal, readings, rows_of

sys.path.insert(0, str(PROJECT_ROOT / "scripts"))
from land_example import EXAMPLES, land_part

pytestmark = pytest.mark.exhaustive(seconds=160, story=True)

NEW_YORK = ZoneInfo("America/New_York")
DIMENSIONS = ["airlines", "airports", "planes"]
# Of two months; on one of these days there is a flight of an impossible speed, and two come late.
FIRST, LAST = "2013-06-29", "2013-07-07"
LATE = ["2013-07-04", "2013-07-05"]
# The airports that airports.csv does not have, and Puerto Rico's own.
UNKNOWN_DESTINATIONS = {"BQN", "PSE", "SJU", "STT"}


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    new_world = World(spark, tmp_path_factory.mktemp("flights"), [*DIMENSIONS, "flights", "weather"])
    for table, first in (("weather", "2013-07-01"), ("flights", FIRST)):
        folder = Path(new_world.settings.landing, table)
        folder.mkdir()
        for file in (EXAMPLES / table / "on_time").iterdir():
            if first <= file.name[: len(first)] <= LAST:
                shutil.copy(file, folder)
    return new_world


def test_1_reference_tables_go_first(world):
    land_part("on_time", world.settings.landing, DIMENSIONS)
    report = world.run()
    assert [(name, count) for name, _, _, count in report.ranges] == [
        ("airlines", 1), ("airports", 1), ("planes", 12), ("weather", 7), ("flights", 5), ("flights", 2),
    ]  # fmt: skip
    assert set(report.gold) == {"gold_daily_weather", "gold_departures_and_weather", "gold_carrier_punctuality"}
    assert len(rows_of(world.settings.path("silver", "planes"), ["tail_number"])) == 3316
    inputs = {json.dumps(d.inputs, sort_keys=True) for d in world.current_decisions("flights").values()}
    assert inputs == {'{"silver_airlines": 1, "silver_airports": 1, "silver_planes": 12}'}


def test_2_late_days_change_no_other_day_of_gold(world):
    before = gold(world)
    land_part("late", world.settings.landing, ["flights"])
    report = world.run()
    assert [(name, a, b) for name, a, b, _ in report.ranges] == [("flights", *LATE)]
    assert set(report.gold) == {"gold_departures_and_weather", "gold_carrier_punctuality"}
    newest = logs.decisions(world.settings, "gold_departures_and_weather")[-1]
    assert set(LATE) <= set(newest.recomputed) <= {"2013-07-03", *LATE, "2013-07-06"}
    assert logs.decisions(world.settings, "gold_carrier_punctuality")[-1].recomputed == ("2013-07-01",)
    after = gold(world)
    assert {key[1] for key in after if after[key] != before.get(key)} <= {date.fromisoformat(d) for d in newest.recomputed}
    assert world.run().ranges == []


# What the oracle counts in these days; pinned, so that it cannot be nothing.
FLIGHTS = 8_245


def gold(world: World) -> dict:
    return {(r["origin"], r["day"]): r for r in rows_of(world.settings.path("gold", "departures_and_weather"))}


def utc(text: str | None) -> datetime | None:
    """A time with its offset, or New York's."""
    if text is None:
        return None
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=NEW_YORK).astimezone(UTC)


def landed(world: World):
    """Every event that has landed with its day, by day."""
    for file in sorted(Path(world.settings.landing, "flights").rglob("*.json.gz"), key=lambda file: file.name):
        with gzip.open(file, "rt") as lines:
            for line in lines:
                yield datetime.fromisoformat(file.name[:10]).replace(tzinfo=UTC), json.loads(line)


def too_fast(e: dict) -> bool:
    return e.get("air_time") is not None and e["distance"] * 1.609344 * 60 > e["air_time"] * 1000


def oracle(world: World) -> dict[tuple, dict]:
    """Each flight's last event, without those that say more than 1,000 km/h: no Spark, none of the project's code."""
    newest: dict[tuple, dict] = {}
    for start, e in landed(world):
        distance = e["distance"] * 1.609344
        if too_fast(e):
            continue
        key = (e["scheduled_departure"], e["carrier"], e["flight"])
        at = utc(e["last_modified_at"])
        if key in newest and newest[key]["last_modified_at"] >= at:
            continue
        newest[key] = {
            "scheduled_departure_at": utc(e["scheduled_departure"]), "carrier": e["carrier"], "flight": e["flight"],
            "status": e["status"], "tail_number": e.get("tail_number"), "origin": e["origin"], "dest": e["dest"],
            "distance_km": distance, "departed_at": utc(e.get("departed")), "arrived_at": utc(e.get("arrived")),
            "departure_delay_min": e.get("dep_delay"), "arrival_delay_min": e.get("arr_delay"),
            "air_time_min": e.get("air_time"), "last_modified_at": at, "p_extracted_at": start,
        }  # fmt: skip
    return {(row["scheduled_departure_at"], row["carrier"], row["flight"]): row for row in newest.values()}


def test_3_silver_has_every_flight_once_in_its_last_state(world):
    expected = oracle(world)
    columns = list(next(iter(expected.values())))
    rows = rows_of(world.settings.path("silver", "flights"), columns)
    assert len(rows) == len(expected) == FLIGHTS
    for row in rows:
        want = dict(expected[(row["scheduled_departure_at"], row["carrier"], row["flight"])])
        assert math.isclose(row.pop("distance_km"), want.pop("distance_km"), rel_tol=1e-12)
        assert row == want


def test_4_unknown_references_are_counted_and_quarantine_nothing_valid(world):
    start = datetime.fromisoformat(FIRST).replace(tzinfo=UTC)
    decision = world.current_decisions("flights")[(start, 1)]
    outcomes = {c["check"]: c for c in decision.checks}
    planes = {r["tail_number"] for r in rows_of(world.settings.path("silver", "planes"), ["tail_number"])}
    first = [e for at, e in landed(world) if at == start]
    unknown = sum(e.get("tail_number") is not None and e["tail_number"] not in planes for e in first)
    assert outcomes["foreign_key_tail_number"]["failed_rows"] == unknown > 0
    assert outcomes["foreign_key_dest"]["failed_rows"] == sum(e["dest"] in UNKNOWN_DESTINATIONS for e in first) > 0
    assert outcomes["foreign_key_carrier"]["failed_rows"] == 0
    quarantined_decisions = [d for d in world.current_decisions("flights").values() if d.counts.rows_quarantined]
    fast = [at for at, e in landed(world) if too_fast(e)]
    assert [(d.batch, d.counts.rows_quarantined) for d in quarantined_decisions] == [((at, 1), 1) for at in fast]
    assert fast == [datetime(2013, 7, 2, tzinfo=UTC)]
    assert {r.check for d in quarantined_decisions for r in d.reasons if r.effect == "rows"} == {"possible_speed"}


def test_5_gold_counts_the_rows_of_silver(world):
    flights = oracle(world).values()
    weather = {(r["origin"], r["time_hour"]): r for r in rows_of(world.settings.path("silver", "weather"))}
    groups = defaultdict(list)
    for row in flights:
        groups[(row["origin"], row["scheduled_departure_at"].date())].append(row)
    gold_rows = gold(world)
    assert set(gold_rows) == set(groups)
    for key, rows in groups.items():
        assert gold_rows[key]["flights"] == len(rows)
        assert gold_rows[key]["departures"] == sum(r["departed_at"] is not None for r in rows)
        assert gold_rows[key]["cancelled"] == sum(r["status"] == "cancelled" for r in rows)
        hours = [weather.get((key[0], r["scheduled_departure_at"].replace(minute=0, second=0))) for r in rows]
        visibilities = [w["visibility_km"] for w in hours if w and w["visibility_km"] is not None]
        assert gold_rows[key]["visibility_min_km"] == (min(visibilities) if visibilities else None)
    months = defaultdict(list)
    for row in flights:
        months[(row["carrier"], row["scheduled_departure_at"].date().replace(day=1))].append(row)
    punctual = {(r["carrier"], r["month"]): r for r in rows_of(world.settings.path("gold", "carrier_punctuality"))}
    assert set(punctual) == set(months)
    for key, rows in months.items():
        on_time = sum(r["arrival_delay_min"] is not None and r["arrival_delay_min"] <= 15 for r in rows)
        assert math.isclose(punctual[key]["on_time_share"], on_time / len(rows))
        assert punctual[key]["airline"]


ORDERS, WINDOWS = 30, 4


def test_thirty_orders_of_arrival_give_the_same_table(spark, settings):
    """Each flight stands in the table thirty times, and its events arrive each time in another order of windows."""
    with gzip.open(EXAMPLES / "flights" / "on_time" / "2013-02-08.json.gz", "rt") as lines:
        all_events = [json.loads(line) for line in lines]
    by_flight = defaultdict(list)
    for event in all_events:
        by_flight[(event["carrier"], event["flight"])].append(event)
    chosen = [events for events in by_flight.values() if len(events) >= 2][:40]
    assert {e["status"] for events in chosen for e in events} == {"scheduled", "departed", "arrived", "cancelled"}
    dice = random.Random(30)
    files: dict[int, list[dict]] = defaultdict(list)
    orders = set()
    for order in range(ORDERS):
        arrivals = [(dice.randrange(1, WINDOWS + 1), event) for events in chosen for event in events]
        orders.add(tuple(day for day, _ in arrivals))
        for day, event in arrivals:
            files[day].append({**event, "arrival": order})
    assert len(orders) == ORDERS
    folder = Path(settings.landing, "arrivals")
    folder.mkdir()
    for day, rows in files.items():
        dice.shuffle(rows)
        (folder / f"2024-01-{day:02d}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = ["status", "tail_number", "departed", "arrived", "dep_delay", "arr_delay"]
    spec = readings(
        name="arrivals",
        source={"kind": "files", "path": "arrivals/{window:%Y-%m-%d}.json", "format": "json"},
        key=["arrival", "carrier", "flight"],
        last_modified="last_modified_at",
        columns={"arrival": "int", "carrier": "string", "flight": "int", "last_modified_at": "timestamp"}
        | dict.fromkeys(names, "string"),
        checks=[],
    )
    for day in (3, 1, 4, 2):
        heal(spark, settings, [day], spec)
    tables = defaultdict(list)
    for row in rows_of(settings.path("silver", "arrivals"), ["arrival", "carrier", "flight", *names]):
        tables[row.pop("arrival")].append(row)
    assert len(tables) == ORDERS
    assert len(tables[0]) == len(chosen)
    assert all(table == tables[0] for table in tables.values())
    last = {(f[-1]["carrier"], f[-1]["flight"]): f[-1]["status"] for f in chosen}
    assert {(row["carrier"], row["flight"]): row["status"] for row in tables[0]} == last
