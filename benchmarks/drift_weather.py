"""The example's real year, judged as its definition says, with a fault put into every window in turn.

Belongs here: reading the days, measuring its features without Spark, and counting. Does not: the table (drift).
"""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.relations import Measurement, compute_relations
from lakehouse_assets.decisions.drift.verdict import DriftVerdict

WEATHER = Path(__file__).parents[1] / "data" / "examples" / "weather"
COLUMNS = {"pressure": "pressure_offset", "temp": "temp_offset", "humid": "humidity_offset"}
SPEC = DriftSpec.model_validate({"features": [{"name": name, "by": "origin"} for name in COLUMNS.values()]})
FIRST = 100


def days() -> dict[str, pd.DataFrame]:
    """Every day of the year as it truly was: late ones and corrections in their places."""
    files = {path.stem: path for folder in ("on_time", "late", "corrections") for path in (WEATHER / folder).glob("*.csv")}
    results = {}
    for day in sorted(files):
        rows = pd.read_csv(files[day], na_values=["NA"])
        results[day] = rows.assign(pressure=rows["pressure"] / 10, temp=(rows["temp"] - 32) / 1.8)
    return results


def measure_profiles(rows: pd.DataFrame, lga_off_by: float = 0.0) -> list[Measurement]:
    """Each station's offset from the hourly mean of all three, as profiles and relations."""
    rows = rows.assign(pressure=rows["pressure"].where(rows["origin"] != "LGA", rows["pressure"] + lga_off_by))
    offsets = {
        name: (rows[column] - rows.groupby("time_hour")[column].transform("mean")).round(6) for column, name in COLUMNS.items()
    }
    results: list[Measurement] = []
    for station, at in rows.groupby("origin").groups.items():
        for name, values in offsets.items():
            inputs = values[at].dropna()
            atoms, counts = np.unique(inputs.to_numpy(), return_counts=True)
            pairs = tuple(zip(atoms.tolist(), counts.tolist(), strict=True)) or None
            results.append(Profile(name, str(station), len(at), len(at) - len(inputs), counts=pairs))
        results.append(
            compute_relations({name: values[at].to_numpy() for name, values in offsets.items()}, "origin", str(station))
        )
    return results


def year() -> tuple[int, int, int, int, int]:
    """Clean windows held, and warned of; 0.1 kPa held at once; a lasting 0.05 kPa found within 3 windows; windows judged."""
    state, inputs = BaselineState(SPEC), days()
    keys, quarantined_count, warned, once, within = list(inputs), 0, 0, 0, 0
    for i, key in enumerate(keys):
        profiles = measure_profiles(inputs[key])
        verdict = judge(profiles, state, key)
        if i >= FIRST:
            quarantined_count, warned = quarantined_count + (verdict.action == "hold"), warned + (verdict.action == "warn")
            once += judge(measure_profiles(inputs[key], 0.1), state, key).action == "hold"
            within += _detects_within(state, {day: inputs[day] for day in keys[i : i + 3]})
        if verdict.action != "hold":
            state.learn(key, profiles, verdict.statistics)
    return quarantined_count, warned, once, within, len(keys) - FIRST


def judge(profiles: list[Measurement], state: BaselineState, key: str) -> DriftVerdict:
    """By everything that the baseline state knows."""
    return judge_drift(profiles, state.baseline, state.history, SPEC, window=key)


def _detects_within(state: BaselineState, rows: dict[str, pd.DataFrame]) -> bool:
    history = deepcopy(state.history)
    for key, each in rows.items():
        verdict = judge_drift(measure_profiles(each, 0.05), state.baseline, history, SPEC, window=key)
        if verdict.action != "pass":
            return True
        history.add(key, verdict.statistics)
    return False
