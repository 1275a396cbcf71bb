"""The example's real year, judged as its definition says, with a fault put into every third window in turn.

Belongs here: reading the days, measuring its features without Spark, and counting. Does not: the table (drift).
"""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
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
FIRST = 30
EVERY = 3  # window from then on has a fault


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


@dataclass(frozen=True)
class Year:
    """Clean windows after the first 30, and windows with a fault. ``namings``: those of which LGA's pressure was the farthest
    off. ``detections``: a lasting 0.05 kPa held or warned of within 3 windows. ``first_warnings``: of the first 20 windows.
    ``first_holds``: of the first 30.
    """

    clean_windows: int = 0
    holds: int = 0
    warnings: int = 0
    faulty_windows: int = 0
    holds_at_once: int = 0
    namings: int = 0
    detections: int = 0
    first_warnings: int = 0
    first_holds: int = 0


def year(seed: int = 0) -> Year:
    """Judge all days, oldest first; what is held is not learnt. ``seed``: 0 to 2, which third of the windows has faults."""
    state, inputs, counts = BaselineState(SPEC), days(), Counter()
    keys = list(inputs)
    for i, key in enumerate(keys):
        profiles = measure_profiles(inputs[key])
        verdict = judge(profiles, state, key)
        if i >= FIRST:
            counts += Counter(clean_windows=1, holds=verdict.action == "hold", warnings=verdict.action == "warn")
        else:
            counts += Counter(first_holds=verdict.action == "hold", first_warnings=i < 20 and verdict.action == "warn")
        if i >= FIRST and (i - FIRST - seed) % EVERY == 0:
            fault = judge(measure_profiles(inputs[key], 0.1), state, key)
            named = fault.worst is not None and fault.worst.key == ("pressure_offset", "LGA")
            counts += Counter(faulty_windows=1, holds_at_once=fault.action == "hold", namings=named)
            counts += Counter(detections=_detects_within(state, {day: inputs[day] for day in keys[i : i + 3]}))
        if verdict.action != "hold":
            state.learn(key, profiles, verdict.statistics, doubtful=_is_doubtful(verdict))
    return Year(**counts)


def judge(profiles: list[Measurement], state: BaselineState, key: str) -> DriftVerdict:
    """By everything that the baseline state knows."""
    return judge_drift(profiles, state.baseline, state.history, SPEC, window=key)


def _is_doubtful(verdict: DriftVerdict) -> bool:
    """As of an accepted decision: by its p-value."""
    return verdict.p_value is not None and verdict.p_value <= SPEC.warn_at


def _detects_within(state: BaselineState, rows: dict[str, pd.DataFrame]) -> bool:
    history = deepcopy(state.history)
    for key, each in rows.items():
        verdict = judge_drift(measure_profiles(each, 0.05), state.baseline, history, SPEC, window=key)
        if verdict.action != "pass":
            return True
        history.add(key, verdict.statistics)
    return False
