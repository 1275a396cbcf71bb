"""The example's real year, judged as its definition says, with a fault put into every window in turn.

Belongs here: reading the days, measuring its features without Spark, and counting. Does not: the table (drift).
"""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.baseline import Book
from lakehouse_assets.decisions.drift import DriftVerdict, judge_drift
from lakehouse_assets.decisions.profiles import Profile
from lakehouse_assets.decisions.relations import Measured, relations_of

WEATHER = Path(__file__).parents[1] / "data" / "examples" / "weather"
COLUMNS = {"pressure": "pressure_offset", "temp": "temp_offset", "humid": "humidity_offset"}
SPEC = DriftSpec.model_validate({"features": [{"name": name, "by": "origin"} for name in COLUMNS.values()]})
FIRST = 100


def days() -> dict[str, pd.DataFrame]:
    """Every day of the year as it truly was: late ones and corrections in their places."""
    files = {path.stem: path for folder in ("on_time", "late", "corrections") for path in (WEATHER / folder).glob("*.csv")}
    found = {}
    for day in sorted(files):
        rows = pd.read_csv(files[day], na_values=["NA"])
        found[day] = rows.assign(pressure=rows["pressure"] / 10, temp=(rows["temp"] - 32) / 1.8)
    return found


def measured(rows: pd.DataFrame, lga_off_by: float = 0.0) -> list[Measured]:
    """Each station's offset from the hourly mean of all three, as profiles and relations."""
    rows = rows.assign(pressure=rows["pressure"].where(rows["origin"] != "LGA", rows["pressure"] + lga_off_by))
    offsets = {
        name: (rows[column] - rows.groupby("time_hour")[column].transform("mean")).round(6) for column, name in COLUMNS.items()
    }
    found: list[Measured] = []
    for station, at in rows.groupby("origin").groups.items():
        for name, values in offsets.items():
            given = values[at].dropna()
            atoms, counts = np.unique(given.to_numpy(), return_counts=True)
            pairs = tuple(zip(atoms.tolist(), counts.tolist(), strict=True)) or None
            found.append(Profile(name, str(station), len(at), len(at) - len(given), counts=pairs))
        found.append(relations_of({name: values[at].to_numpy() for name, values in offsets.items()}, "origin", str(station)))
    return found


def year() -> tuple[int, int, int, int, int]:
    """Clean windows held, and warned of; 0.1 kPa held at once; a lasting 0.05 kPa found within 3 windows; windows judged."""
    book, given = Book(SPEC), days()
    keys, held, warned, once, within = list(given), 0, 0, 0, 0
    for i, key in enumerate(keys):
        profiles = measured(given[key])
        verdict = judge(profiles, book, key)
        if i >= FIRST:
            held, warned = held + (verdict.action == "hold"), warned + (verdict.action == "warn")
            once += judge(measured(given[key], 0.1), book, key).action == "hold"
            within += _found_within(book, {day: given[day] for day in keys[i : i + 3]})
        if verdict.action != "hold":
            book.learn(key, profiles, verdict.statistics)
    return held, warned, once, within, len(keys) - FIRST


def judge(profiles: list[Measured], book: Book, key: str) -> DriftVerdict:
    """By everything that the book knows."""
    return judge_drift(profiles, book.baseline, book.history, SPEC, window=key)


def _found_within(book: Book, rows: dict[str, pd.DataFrame]) -> bool:
    history = deepcopy(book.history)
    for key, each in rows.items():
        verdict = judge_drift(measured(each, 0.05), book.baseline, history, SPEC, window=key)
        if verdict.action != "pass":
            return True
        history.add(key, verdict.statistics)
    return False
