"""The example's flights, planes, airports and airlines: what the committed files hold, against the calendar and by hand.

`make test` proves that the files are those for which the facts of the year were proved: after a change of a file, run this file
with `-m ""` and put in the new digest.

Belongs here: facts about those files, read with the standard library. Does not: the weather (`sources/test_examples.py`),
making the files (`make_examples.py --check` needs the archive), or what the lakehouse makes of them.
"""

import csv
import gzip
import hashlib
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

PROJECT = Path(__file__).resolve().parents[1]
EXAMPLES = PROJECT / "data" / "examples"
sys.path.insert(0, str(PROJECT / "scripts"))
import demo  # noqa: E402
from land_example import land_part  # noqa: E402

NEW_YORK = ZoneInfo("America/New_York")
ALWAYS = {"status", "carrier", "flight", "origin", "dest", "distance", "scheduled_departure", "last_modified_at"}
COLUMNS = ALWAYS | {"tail_number", "departed", "dep_delay", "arrived", "arr_delay", "air_time"}
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
# The ways a flight goes, with how many went them.
COURSES = {
    ("scheduled", "departed", "arrived"): 328_063,
    ("scheduled", "departed"): 458,
    ("scheduled", "cancelled"): 8_255,
}
# Over the names and the content of all files.
DIGEST = "7d9556c63ee5ce9326c3b9b5b2a12a44c4c8b4bb999f0198bf1a16d4ea798373"
Key = tuple[str, str, int]
# A million events are read for the first of them.
OF_THE_YEAR = pytest.mark.exhaustive(seconds=35, story=True)


@dataclass
class Year:
    """A pass over the events. ``flights``: each key's statuses and stamps, in the files' order; ``newest``: the last event."""

    files: list[Path]
    flights: dict[Key, list[tuple[str, str]]] = field(default_factory=dict)
    newest: dict[Key, dict[str, Any]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    missing: Counter[str] = field(default_factory=Counter)


@pytest.fixture(scope="module")
def year() -> Year:
    files = sorted((EXAMPLES / "flights").glob("*/*.json.gz"), key=lambda path: path.name)
    read_year = Year(files)
    for path in files:
        read(path, read_year)
    return read_year


def read(path: Path, year: Year) -> None:
    columns: set[str] = set()
    before: tuple[str, Key] | None = None
    for line in gzip.decompress(path.read_bytes()).decode("ascii").splitlines():
        event = json.loads(line)
        columns |= event.keys()
        key = (event["scheduled_departure"], event["carrier"], event["flight"])
        stamp = event["last_modified_at"]
        position = (stamp, key)
        if stamp[:10] != path.name[:10] or not STAMP.fullmatch(stamp) or (before is not None and position <= before):
            year.wrong.append(f"{path.name}: {line}")
        if not event.keys() >= ALWAYS or None in event.values():
            year.wrong.append(f"{path.name}: {line}")
        before = position
        year.missing["arr_delay"] += event["status"] == "arrived" and "arr_delay" not in event
        year.missing["air_time"] += event["status"] == "arrived" and "air_time" not in event
        year.flights.setdefault(key, []).append((event["status"], stamp))
        year.newest[key] = event
    if columns != COLUMNS:
        year.wrong.append(f"{path.name}: columns {sorted(columns)}")


def instant(text: str) -> datetime:
    """As silver reads it: a text without a zone is New York's time."""
    moment = datetime.fromisoformat(text)
    return (moment.replace(tzinfo=NEW_YORK) if moment.tzinfo is None else moment).astimezone(UTC)


def files() -> list[Path]:
    return [path for path in EXAMPLES.rglob("*") if path.is_file()]


def table(path: str) -> list[dict[str, str]]:
    with (EXAMPLES / path).open(newline="", encoding="ascii") as file:
        return list(csv.DictReader(file))


def test_the_files_are_those_whose_facts_were_proved() -> None:
    digests = {path.relative_to(EXAMPLES).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files()}
    lines = "".join(f"{name} {digest}\n" for name, digest in sorted(digests.items()))
    assert hashlib.sha256(lines.encode()).hexdigest() == DIGEST


@OF_THE_YEAR
def test_a_file_for_each_day(year: Year) -> None:
    days = [date(2013, 1, 1) + timedelta(days=number) for number in range(366)]
    assert [path.name for path in year.files] == [f"{day}.json.gz" for day in days]
    assert [path.name[:10] for path in year.files if path.parent.name == "late"] == ["2013-07-04", "2013-07-05"]


@OF_THE_YEAR
def test_generated_files_are_reproducible(year: Year) -> None:
    # deflate, no flags (so no name), no time, best compression, unknown system
    assert {path.read_bytes()[:10] for path in year.files} == {b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"}


def test_size() -> None:
    assert sum(path.stat().st_size for path in files()) < 40_000_000


@OF_THE_YEAR
def test_each_line_is_an_event_of_its_day_in_order_and_each_file_has_all_columns(year: Year) -> None:
    assert year.wrong == []


@OF_THE_YEAR
def test_each_flight_goes_one_of_three_ways(year: Year) -> None:
    # The key is a flight's own: were it shared by two, their events would not make such a course.
    assert Counter(tuple(status for status, _ in events) for events in year.flights.values()) == COURSES
    assert sum(len(events) for events in year.flights.values()) == 1_001_615
    assert year.missing == {"arr_delay": 717, "air_time": 717}


@OF_THE_YEAR
def test_four_flights_are_faster_than_1000_km_an_hour(year: Year) -> None:
    """Of each flight its last event, the one that has a time in the air, is in the file of its stamp's day."""
    timed = [event for event in year.newest.values() if "air_time" in event]
    fast = [event for event in timed if event["distance"] * 1.609344 * 60 > event["air_time"] * 1000]
    assert sorted(event["last_modified_at"][5:10] for event in fast) == ["03-24", "05-14", "05-25", "07-02"]


@OF_THE_YEAR
def test_last_modified_increases(year: Year) -> None:
    for key, events in year.flights.items():
        stamps = [stamp for _, stamp in events]
        assert stamps == sorted(set(stamps)), key


@OF_THE_YEAR
def test_the_last_state_is_consistent(year: Year) -> None:
    for event in year.newest.values():
        stamp, status = instant(event["last_modified_at"]), event["status"]
        scheduled = instant(event["scheduled_departure"])
        if status == "cancelled":
            assert stamp == scheduled and not event.keys() & {"departed", "dep_delay", "arrived", "arr_delay", "air_time"}
            continue
        departed = instant(event["departed"])
        assert departed == scheduled + timedelta(minutes=event["dep_delay"])
        if status == "departed":
            assert stamp == departed and not event.keys() & {"arrived", "arr_delay", "air_time"}
            continue
        arrived = instant(event["arrived"])
        assert stamp == arrived > departed
        if "air_time" in event:
            assert timedelta(minutes=event["air_time"]) <= arrived - departed <= timedelta(minutes=event["air_time"] + 240)


# Worked out by hand from the source's row: clock times, delays, and the offsets of that day. New York has UTC-5, from
# 2013-03-10 to 2013-11-03 UTC-4; the moments are UTC: scheduled (midnight in New York), departed, arrived.
BY_HAND: list[tuple[str, Key, list[str]]] = [
    # 05:15 + 2 min; 08:30 in Houston (-6)
    ("a plain one", ("2013-01-01T05:15:00", "UA", 1545), ["01-01T05:00", "01-01T10:17", "01-01T14:30"]),
    # 22:45 + 19 min; 00:18 in Burlington (-5)
    ("over midnight", ("2013-03-09T22:45:00", "B6", 128), ["03-09T05:00", "03-10T04:04", "03-10T05:18"]),
    # 23:59 + 1 min, which the source calls 24:00; 03:27 in Aguadilla (-4)
    ("at midnight", ("2013-10-30T23:59:00", "B6", 839), ["10-30T04:00", "10-31T04:00", "10-31T07:27"]),
    # cancelled at 16:30
    ("cancelled", ("2013-01-01T16:30:00", "EV", 4308), ["01-01T05:00", "01-01T21:30"]),
    # 19:30 + 46 min, and no arrival
    ("landed elsewhere", ("2013-01-01T19:30:00", "EV", 4204), ["01-01T05:00", "01-02T01:16"]),
    # the day begins in winter (-5); 05:00 - 6 min and 06:28 in Charlotte are in summer (-4)
    ("clocks forward", ("2013-03-10T05:00:00", "US", 1113), ["03-10T05:00", "03-10T08:54", "03-10T10:28"]),
    # 21:45 + 81 min; the source says 02:03 in Palm Beach, which had no such time: it went on in winter's (-5)
    ("into the hour that was not", ("2013-03-09T21:45:00", "B6", 35), ["03-09T05:00", "03-10T04:06", "03-10T07:03"]),
    # the day begins in summer (-4); 05:20 - 1 min is in winter (-5), 07:51 in Houston too (-6)
    ("clocks back", ("2013-11-03T05:20:00", "UA", 322), ["11-03T04:00", "11-03T10:19", "11-03T13:51"]),
    # 16:55 + 322 min; 01:14 in Los Angeles, the first of two (-7): 339 minutes in the air, 18 more on the ground
    ("into the hour that was twice", ("2013-11-02T16:55:00", "VX", 413), ["11-02T04:00", "11-03T02:17", "11-03T08:14"]),
    # 09:00 - 3 min; 15:16 in Honolulu (-10)
    ("to Honolulu", ("2013-01-01T09:00:00", "HA", 51), ["01-01T05:00", "01-01T13:57", "01-02T01:16"]),
    # 23:15 + 30 min (-5); 04:06 in San Juan (-4), an hour ahead
    ("to San Juan in winter", ("2013-03-09T23:15:00", "B6", 707), ["03-09T05:00", "03-10T04:45", "03-10T08:06"]),
    # 20:45 + 5 min (-4); 00:20 in San Juan (-4), the same time
    ("to San Juan in summer", ("2013-09-30T20:45:00", "DL", 347), ["09-30T04:00", "10-01T00:50", "10-01T04:20"]),
]


@OF_THE_YEAR
@pytest.mark.parametrize(("key", "moments"), [case[1:] for case in BY_HAND], ids=[case[0] for case in BY_HAND])
def test_flights_worked_out_by_hand(year: Year, key: Key, moments: list[str]) -> None:
    assert [stamp for _, stamp in year.flights[key]] == [f"2013-{moment}:00Z" for moment in moments]


@OF_THE_YEAR
def test_planes_grow_by_those_that_flew(year: Year) -> None:
    months = [table(f"planes/on_time/2013-{month:02}.csv") for month in range(1, 13)]
    assert [len(rows) for rows in months] == [2605, 2814, 2922, 3029, 3094, 3130, 3173, 3205, 3231, 3249, 3286, 3316]
    first: dict[str, int] = {}
    for key, event in year.newest.items():
        if event["status"] != "cancelled":
            month, tail = int(key[0][5:7]), event["tail_number"]
            first[tail] = min(month, first.get(tail, month))
    for month, rows in enumerate(months, 1):
        tails = [row["tailnum"] for row in rows]
        assert len(set(tails)) == len(tails)
        assert all(first[tail] <= month for tail in tails)
        assert month == 12 or set(tails) <= {row["tailnum"] for row in months[month]}


@OF_THE_YEAR
def test_references_of_flights_match_the_dimensions(year: Year) -> None:
    airports = {row["faa"] for row in table("airports/on_time/2013-01.csv")}
    airlines = {row["carrier"] for row in table("airlines/on_time/2013-01.csv")}
    planes = {row["tailnum"] for row in table("planes/on_time/2013-12.csv")}
    assert (len(airports), len(airlines)) == (1_458, 16)
    flights = year.newest.values()
    assert {event["carrier"] for event in flights} == airlines
    assert {event["origin"] for event in flights} == {"EWR", "JFK", "LGA"}
    assert {event["dest"] for event in flights} - airports == {"BQN", "PSE", "SJU", "STT"}
    tails = [event["tail_number"] for event in flights if "tail_number" in event]
    unknown = [tail for tail in tails if tail not in planes]
    assert (len(set(unknown)), len(unknown)) == (727, 50_100)
    assert len(flights) - len(tails) == 2_512


def test_landing_of_some_tables(tmp_path: Path) -> None:
    assert land_part("on_time", str(tmp_path), ["planes", "airports"]).startswith("on_time: 13 files landed in ")
    assert land_part("late", str(tmp_path)).startswith("late: 5 files landed in ")
    again = land_part("late", str(tmp_path), ["flights", "planes"])
    assert again == f"late: 0 files landed in {tmp_path} (flights), 2 were there already"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["airports", "flights", "planes", "weather"]


def test_the_demo_runs_the_examples_table_alone(monkeypatch, tmp_path, capsys):
    """A mistake in a table of one's own does not end it halfway."""
    commands: list[tuple[str, ...]] = []
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(tmp_path / "lake"))
    monkeypatch.setenv("LAKEHOUSE_LANDING", str(tmp_path / "landing"))
    monkeypatch.setattr(demo, "command", lambda *arguments: commands.append(arguments))
    assert demo.main() == 0
    assert [each for each in commands if each[0] == "run"] == [("run", "--table", "weather")] * 2
    assert "The faulty days stay quarantined" in " ".join(capsys.readouterr().out.split())
