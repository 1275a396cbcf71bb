"""The change events of the year's flights, as gzip JSON lines, one file per UTC day in which something was learned.

Belongs here: from a row of the source to what was known of the flight at each moment. Does not: the archive
(`make_examples.py`), or what the other tables hold (`example_snapshots.py`).
"""

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

NEW_YORK = ZoneInfo("America/New_York")
# Airports that airports.csv lacks: three in Puerto Rico, one in the US Virgin Islands. Both keep UTC-4 all year.
ZONES = {
    "BQN": "America/Puerto_Rico",
    "PSE": "America/Puerto_Rico",
    "SJU": "America/Puerto_Rico",
    "STT": "America/St_Thomas",
}
LATE = ("2013-07-04", "2013-07-05")
# What the archive gives. Another number means that something here has changed.
EVENTS = {"scheduled": 336_776, "departed": 328_521, "arrived": 328_063, "cancelled": 8_255}
DAYS = 366
# Gate to gate takes as long as the flight and at most so many minutes more (taxiing, waiting): the most in the year is 235.
GROUND_MINUTES = 240

# Sort order in a file, and the line.
Event = tuple[datetime, str, str, int, str]


@cache
def zone(name: str) -> ZoneInfo:
    """The tz database's zone."""
    return ZoneInfo(name)


def scheduled_departure(row: Mapping[str, str]) -> datetime:
    """The scheduled departure, in New York's time."""
    day = (int(row["year"]), int(row["month"]), int(row["day"]))
    return datetime(*day, int(row["hour"]), int(row["minute"]), tzinfo=NEW_YORK)


def departure(row: Mapping[str, str]) -> datetime | None:
    """The real departure (UTC), or None. From the delay: it counts real minutes, so no midnight and no clock change matters."""
    if row["dep_delay"] == "NA":
        return None
    moment = scheduled_departure(row).astimezone(UTC) + timedelta(minutes=int(row["dep_delay"]))
    local = moment.astimezone(NEW_YORK)
    if local.hour * 100 + local.minute != int(row["dep_time"]) % 2400:  # 24:00 is the source's midnight
        raise SystemExit(f"the departure contradicts the delay: {row}")
    return moment


def arrival(row: Mapping[str, str], departed: datetime, zone_name: str) -> datetime | None:
    """The real arrival, on the destination's clock: the first time after the departure that it shows the source's time.

    Where the time in the air is known, it must agree. It does for every row of the year.
    """
    if row["arr_time"] == "NA":
        return None
    clock = int(row["arr_time"]) % 2400
    there = zone(zone_name)
    day = departed.astimezone(there).date()
    moment = next(
        m for m in (on_clock(day + timedelta(days=d), clock, there) for d in range(3)) if m.astimezone(UTC) > departed
    )
    if row["air_time"] != "NA":
        ground = moment.astimezone(UTC) - departed - timedelta(minutes=int(row["air_time"]))
        if not timedelta(0) <= ground <= timedelta(minutes=GROUND_MINUTES):
            raise SystemExit(f"the arrival contradicts the time in the air: {row}")
    return moment


def on_clock(day: date, clock: int, there: ZoneInfo) -> datetime:
    """The moment at which the clock shows ``clock`` (HHMM) on that day."""
    return datetime(day.year, day.month, day.day, clock // 100, clock % 100, tzinfo=there)


def events(row: Mapping[str, str], zone_name: str) -> Iterator[tuple[datetime, dict[str, str | int]]]:
    """What was known of the flight, and when (UTC), oldest first. What is not known at a moment is left out."""
    scheduled = scheduled_departure(row)
    facts: dict[str, str | int] = {"carrier": row["carrier"], "flight": int(row["flight"])}
    if row["tailnum"] != "NA":
        facts["tail_number"] = row["tailnum"]
    facts |= {"origin": row["origin"], "dest": row["dest"], "distance": int(row["distance"])}
    facts["scheduled_departure"] = local_text(scheduled)
    yield scheduled.replace(hour=0, minute=0).astimezone(UTC), {"status": "scheduled"} | facts
    departed = departure(row)
    if departed is None:
        yield scheduled.astimezone(UTC), {"status": "cancelled"} | facts
        return
    facts |= {"departed": local_text(departed.astimezone(NEW_YORK)), "dep_delay": int(row["dep_delay"])}
    yield departed, {"status": "departed"} | facts
    arrived = arrival(row, departed, zone_name)
    if arrived is not None:
        facts["arrived"] = arrived.isoformat()
        facts |= {name: int(row[name]) for name in ("arr_delay", "air_time") if row[name] != "NA"}
        yield arrived.astimezone(UTC), {"status": "arrived"} | facts


def local_text(moment: datetime) -> str:
    """New York's time without its offset, as the source has it. Such a text must mean one moment."""
    naive = moment.replace(tzinfo=None)
    if any(naive.replace(tzinfo=NEW_YORK, fold=fold).astimezone(UTC) != moment.astimezone(UTC) for fold in (0, 1)):
        raise SystemExit(f"{naive} in New York is not one moment")
    return naive.isoformat()


def by_day(text: str, zones: Mapping[str, str]) -> dict[str, list[Event]]:
    """Each UTC day's events, not yet sorted. ``zones``: the airports' tz database zones."""
    time_zones = {**zones, **ZONES}
    days: dict[str, list[Event]] = {}
    counted: Counter[str] = Counter()
    for row in csv.DictReader(io.StringIO(text)):
        before = None
        for moment, fields in events(row, time_zones[row["dest"]]):
            if before is not None and moment <= before:
                raise SystemExit(f"two events of one flight at {moment}: {row}")
            before = moment
            stamp = f"{moment.replace(tzinfo=None).isoformat()}Z"
            line = json.dumps(fields | {"last_modified_at": stamp}, separators=(",", ":"))
            key = (str(fields["scheduled_departure"]), row["carrier"], int(row["flight"]))
            days.setdefault(stamp[:10], []).append((moment, *key, line))
            counted[str(fields["status"])] += 1
    if (counted, len(days)) != (EVENTS, DAYS):
        raise SystemExit(f"expected {EVENTS} on {DAYS} days, found {dict(counted)} on {len(days)}")
    return days


def zipped(lines: Iterable[str]) -> bytes:
    """A gzip file that depends on the lines alone: no time, no name."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=0) as file:
        file.write("".join(f"{line}\n" for line in lines).encode("ascii"))
    return out.getvalue()


def flight_files(text: str, zones: Mapping[str, str]) -> dict[str, bytes]:
    """``{path below data/examples: content}``. A file's events are in the order of their moment, then of their key."""
    days = by_day(text, zones)
    return {
        f"flights/{'late' if day in LATE else 'on_time'}/{day}.json.gz": zipped(line for *_, line in sorted(days[day]))
        for day in sorted(days)
    }
