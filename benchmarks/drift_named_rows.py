"""`python -m benchmarks.drift_named_rows`: how often the rows that drift names are quarantined alone, and which rows those are.

Belongs here: faults in known rows, the gate's judgement of the window and of its rest, in memory. Does not: whether a slice is
named rightly (drift_slices).
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.drift_slices import FEATURES, KINDS, CleanWindows, FirstSeed, put_fault, window
from benchmarks.rates import share_of_count
from lakehouse_assets.checks.drift_rows import DriftRows
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift import named_rows
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.decisions.drift.verdict import DriftVerdict

Mask = NDArray[np.bool_]
SPEC = DriftSpec(features=FEATURES, on_drift="quarantine_rows")
LGA, UA_EWR, B6_NIGHT = (("origin", "LGA"),), (("carrier", "UA"), ("origin", "EWR")), (("carrier", "B6"), ("kind", "night"))


def some_rows(rows: pd.DataFrame) -> Mask:
    """One of twenty."""
    return np.arange(len(rows)) % 20 == 7


FAULTS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "origin = LGA: + 4 sd": partial(put_fault, conditions=LGA, shift=4.0),
    "carrier = UA and origin = EWR: + 4 sd": partial(put_fault, conditions=UA_EWR, shift=4.0),
    "carrier = B6 and kind = night: + 4 sd": partial(put_fault, conditions=B6_NIGHT, shift=4.0),
    "carrier = UA and origin = EWR: + 2.5 sd": partial(put_fault, conditions=UA_EWR, shift=2.5),
    "carrier = UA and origin = EWR: + 1.25 sd": partial(put_fault, conditions=UA_EWR, shift=1.25),
    "a twentieth of the rows: × 1,000": lambda rows: rows.assign(other=rows["other"] * np.where(some_rows(rows), 1000, 1)),
    "a twentieth of the rows: stuck": lambda rows: rows.assign(other=np.where(some_rows(rows), 1.0, rows["other"])),
    "a twentieth of the rows: a new carrier": lambda rows: rows.assign(
        carrier=np.where(some_rows(rows), "zz", rows["carrier"])
    ),
}


class Outcome(NamedTuple):
    """What becomes of a window: published, its rows alone quarantined, or all of it. Of its rows: how many are faulty, how many
    are quarantined alone, and how many of those are faulty.
    """

    fate: str
    faulty: int
    named: int
    hits: int


def measure(rows: pd.DataFrame) -> list[Measurement]:
    """What the gate measures of a window."""
    return list(measure_columns(rows, KINDS, with_slices=True))


def name_rows(rows: pd.DataFrame, verdict: DriftVerdict, state: BaselineState) -> DriftRows | None:
    """The check that the gate makes."""
    worst = named_rows.find_worst(verdict, SPEC)
    if worst is None:
        return None
    checks = [named_rows.name_excess(verdict, SPEC)]
    if conditions := named_rows.slice_conditions(worst, SPEC):
        inside = np.logical_and.reduce([rows[each.name] == each.category for each in conditions])
        of_slice, rest = (profile_of(rows.loc[chosen], worst.feature) for chosen in (inside, ~inside))
        checks.insert(0, named_rows.name_slice(verdict, SPEC, of_slice, rest, state.history.slices))
    return named_rows.choose_check(checks)


def profile_of(rows: pd.DataFrame, feature: str) -> Profile:
    """The profile of a number."""
    return next(m for m in measure_columns(rows, {feature: "number"}) if isinstance(m, Profile))


def fails(check: DriftRows, rows: pd.DataFrame) -> Mask:
    """The rows of a check."""
    chosen = [(rows[each.name] == each.category).to_numpy() for each in check.categories]
    if check.low is not None:
        chosen.append(rows[check.feature].between(check.low, check.high).to_numpy())
    return np.logical_and.reduce(chosen)


def judge_window(rows: pd.DataFrame, faulty: Mask, state: BaselineState) -> Outcome:
    """The gate's two judgements."""
    measured, count = measure(rows), int(faulty.sum())
    verdict = judge_drift(measured, state.baseline, state.history, SPEC)
    if verdict.action != "hold":
        return Outcome("published", count, 0, 0)
    check = name_rows(rows, verdict, state)
    if check is None:
        return Outcome("window", count, 0, 0)
    failing, unchanged = fails(check, rows), named_rows.unchanged_features(check, SPEC)
    rest = [each for each in measure(rows.loc[~failing]) if each.key[0] not in unchanged]
    rest += [each for each in measured if each.key[0] in unchanged]
    apart = named_rows.count_apart(check, SPEC, {check.id: int(failing.sum())})
    if judge_drift(rest, state.baseline, state.history, SPEC, rows_apart=apart).action == "hold":
        return Outcome("window", count, 0, 0)
    return Outcome("rows", count, int(failing.sum()), int((failing & faulty).sum()))


def simulate(windows: int, clean: int, seed: int) -> dict[str, list[Outcome]]:
    """Of one baseline: outcomes of clean windows, and of a fifth of them with each fault."""
    rng, state = np.random.default_rng([13, windows, seed]), BaselineState(SPEC)
    for index in range(windows):
        measured = measure(window(rng))
        state.learn(index, measured, judge_drift(measured, state.baseline, state.history, SPEC).statistics)
    outcomes: dict[str, list[Outcome]] = {}
    for index in range(clean):
        rows = window(rng)
        outcomes.setdefault("clean", []).append(judge_window(rows, np.zeros(len(rows), dtype=bool), state))
        for name, put in FAULTS.items() if index % 5 == 0 else ():
            changed = put(rows)
            faulty = (changed != rows).any(axis=1).to_numpy()
            outcomes.setdefault(name, []).append(judge_window(changed, faulty, state))
    return outcomes


def run(
    windows: Annotated[int, typer.Option(min=28, help="Windows of history.")] = 60,
    baselines: Annotated[int, typer.Option(min=1)] = 8,
    clean: CleanWindows = 50,
    seed: FirstSeed = 0,
) -> None:
    """Windows by what becomes of them, and the rows that are quarantined alone beside those that were made faulty."""
    with ProcessPoolExecutor(2) as pool:
        runs = list(pool.map(partial(simulate, windows, clean), range(seed, seed + baselines)))
    heads = ("published", "rows alone", "window", "precision", "recall", "good rows named")
    table = Table(f"{windows} windows of history", *heads, box=None)
    for name in runs[0]:
        outcomes = [outcome for each in runs for outcome in each[name]]
        fates = [sum(o.fate == fate for o in outcomes) for fate in ("published", "rows", "window")]
        divided = [o for o in outcomes if o.fate == "rows"]
        named, hits, faulty = (sum(getattr(o, field) for o in divided) for field in ("named", "hits", "faulty"))
        shares = [f"{hits / of:.3f}" if of else "" for of in (named, faulty)]
        table.add_row(name, *(share_of_count(count, len(outcomes)) for count in fates), *shares, str(named - hits))
    Console(width=160, highlight=False).print(table)


if __name__ == "__main__":
    typer.run(run)
