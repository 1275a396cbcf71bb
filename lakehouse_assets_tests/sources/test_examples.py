"""The example data: what is in it, that its fault is the one described, and that landing it is atomic and idempotent.

Belongs here: data/examples and the script that lands it. Does not: making it (`make_examples.py --check` needs the archive).
"""

import csv
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
WEATHER = PROJECT / "data" / "examples" / "weather"


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_year() -> None:
    days = [*WEATHER.glob("on_time/*.csv"), *WEATHER.glob("late/*.csv")]
    assert len({day.name for day in days}) == len(days) == 364
    assert sum(len(table(day)) for day in days) == 26_115
    for day in days:
        assert {row["time_hour"][:10] for row in table(day)} == {day.stem}


def test_the_fault_is_one_millibar_at_one_station() -> None:
    corrections = sorted(WEATHER.glob("corrections/*.csv"))
    assert [day.stem for day in corrections] == ["2013-09-09", "2013-09-10", "2013-09-11", "2013-09-12"]
    changed = 0
    for day in corrections:
        for true, faulty in zip(table(day), table(WEATHER / "on_time" / day.name), strict=True):
            if true["origin"] == "LGA" and true["pressure"] != "NA":
                assert Decimal(faulty["pressure"]) - Decimal(true["pressure"]) == 1
                changed += 1
                faulty["pressure"] = true["pressure"]
            assert faulty == true
    assert changed == 90


def land(folder: Path, only: str) -> str:
    command = [
        sys.executable,
        str(PROJECT / "scripts" / "land_example.py"),
        "--only",
        only,
        "--to",
        str(folder),
        "--table",
        "weather",
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_landing(tmp_path: Path) -> None:
    assert "3 files landed" in land(tmp_path, "late")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "weather").iterdir()}
    assert sorted(path.name for path in before) == ["2013-06-10.csv", "2013-06-11.csv", "2013-06-12.csv"]
    assert "0 files landed" in land(tmp_path, "late")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "weather").iterdir()} == before
    assert "361 files landed" in land(tmp_path, "all")
    assert "4 files landed" in land(tmp_path, "corrections")
    assert len(list((tmp_path / "weather").iterdir())) == 364
