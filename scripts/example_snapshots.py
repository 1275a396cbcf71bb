"""What there is besides the flights: the planes as they become known, the airports and the airlines, as the source has them.

Belongs here: which lines of the source's files stand in which snapshot. Does not: the archive (`make_examples.py`), or
flights (`example_flights.py`).
"""

import csv
import io

# What the archive gives: the planes of each month's snapshot, and the airports and airlines.
PLANES = (2_605, 2_814, 2_922, 3_029, 3_094, 3_130, 3_173, 3_205, 3_231, 3_249, 3_286, 3_316)
AIRPORTS, AIRLINES = 1_458, 16
ONCE = "2013-01"


def first_months(flights: str) -> dict[str, int]:
    """The month in which a tail number first left the ground. A flight that was cancelled moves no plane."""
    months: dict[str, int] = {}
    for row in csv.DictReader(io.StringIO(flights)):
        if row["dep_time"] != "NA":
            month = int(row["month"])
            months[row["tailnum"]] = min(month, months.get(row["tailnum"], month))
    return months


def plane_files(planes: str, flights: str) -> dict[str, bytes]:
    """A file per month: the planes that have flown by its end, in the source's order."""
    header, *lines = planes.splitlines(keepends=True)
    months = first_months(flights)
    months_and_lines = [(months.get(line.split(",")[0], 13), line) for line in lines]
    files: dict[str, bytes] = {}
    for month, expected in enumerate(PLANES, 1):
        lines = [line for first, line in months_and_lines if first <= month]
        if len(lines) != expected:
            raise SystemExit(f"expected {expected} planes by the end of month {month}, found {len(lines)}")
        files[f"planes/on_time/2013-{month:02}.csv"] = "".join([header, *lines]).encode("ascii")
    return files


def snapshot_files(planes: str, airports: str, airlines: str, flights: str) -> dict[str, bytes]:
    """``{path below data/examples: content}`` of the planes' twelve snapshots, and of one of the airports and the airlines."""
    files = plane_files(planes, flights)
    for name, text, rows in (("airports", airports, AIRPORTS), ("airlines", airlines, AIRLINES)):
        if len(text.splitlines()) != rows + 1:
            raise SystemExit(f"expected {rows} {name}, found {len(text.splitlines()) - 1}")
        files[f"{name}/on_time/{ONCE}.csv"] = text.encode("ascii")
    return files
