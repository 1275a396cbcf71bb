"""`python -m benchmarks.drift_slices`: faults in a known part of the rows, named and found, and clean windows.

Belongs here: tables with categories, faults in one or two of them, the gate's own decision on each. Does not: whole windows
(drift_faults).
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from time import perf_counter
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.rates import share_of_count
from lakehouse_assets.contracts.drift import DriftSpec, FeatureSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.verdict import DriftVerdict

Rng = np.random.Generator
CleanWindows = Annotated[int, typer.Option(min=5, help="Clean windows of each baseline; a fifth of them with each fault, too.")]
FirstSeed = Annotated[int, typer.Option(help="The first baseline's seed.")]
KINDS = {"value": "number", "other": "number", "origin": "category", "carrier": "category", "kind": "category"}
FEATURES = tuple(FeatureSpec(name=name, expr=name) for name in KINDS)
WITH, WITHOUT = (DriftSpec(features=FEATURES, slices=slices) for slices in (True, False))
ORIGINS, CARRIERS, TYPES = ["EWR", "JFK", "LGA"], ["AA", "B6", "DL", "EV", "UA", "WN"], ["day", "night"]
# One condition or two, and a shift of the value there in standard deviations.
FAULTS = {(("origin", "LGA"),): 0.6, (("carrier", "UA"), ("origin", "EWR")): 1.25, (("carrier", "B6"), ("kind", "night")): 1.25}


def window(rng: Rng, rows: int = 1_000) -> pd.DataFrame:
    """A window of about so many rows whose levels, in all and by category, are its own."""
    rows = round(rows * np.exp(0.1 * rng.normal()))
    frame = pd.DataFrame(
        {
            "origin": rng.choice(ORIGINS, rows, p=[0.4, 0.35, 0.25]),
            "carrier": rng.choice(CARRIERS, rows, p=[0.1, 0.2, 0.15, 0.2, 0.25, 0.1]),
            "kind": rng.choice(TYPES, rows, p=[0.7, 0.3]),
        }
    )
    levels = 0.5 * (frame["origin"] == "JFK") - 0.3 * (frame["origin"] == "LGA") + 0.4 * (frame["kind"] == "night")
    value = levels + 0.2 * rng.normal() + rng.normal(size=rows)
    return frame.assign(value=value, other=np.exp(0.5 * rng.normal(size=rows) + 0.1 * rng.normal()))


def put_fault(rows: pd.DataFrame, conditions: Sequence[tuple[str, str]], shift: float) -> pd.DataFrame:
    """The same rows, with the value shifted where all conditions hold."""
    affected = np.logical_and.reduce([rows[column] == name for column, name in conditions])
    return rows.assign(value=rows["value"] + shift * affected)


def judge(rows: pd.DataFrame, state: BaselineState, spec: DriftSpec) -> DriftVerdict:
    """The gate's verdict on a window."""
    return judge_drift(list(measure_columns(rows, KINDS, with_slices=True)), state.baseline, state.history, spec)


class Outcome(NamedTuple):
    """The action on a window, and whether its message names the exact slice."""

    action: str
    is_named: bool


def simulate(windows: int, clean: int, seed: int) -> tuple[dict[str, list[str]], dict[str, list[Outcome]], dict[str, float]]:
    """Of one baseline: actions on clean windows with and without slices, outcomes by fault, milliseconds of a decision."""
    rng, state = np.random.default_rng([11, windows, seed]), BaselineState(WITH)
    for index in range(windows):
        measured = list(measure_columns(window(rng), KINDS, with_slices=True))
        state.learn(index, measured, judge_drift(measured, state.baseline, state.history, WITHOUT).statistics)
    actions: dict[str, list[str]] = {"with": [], "without": [], "named": []}
    outcomes: dict[str, list[Outcome]] = {}
    times = {"with": 0.0, "without": 0.0}
    for index in range(clean):
        rows = window(rng)
        for name, spec in (("with", WITH), ("without", WITHOUT)):
            began = perf_counter()
            verdict = judge(rows, state, spec)
            times[name] += 1000 * (perf_counter() - began) / clean
            actions[name].append(verdict.action)
            if name == "with" and verdict.worst and verdict.worst.slice:
                actions["named"].append(verdict.action)
        if index % 5 == 0:
            for conditions, shift in FAULTS.items():
                for name, spec in (("with", WITH), ("without", WITHOUT)):
                    drift = judge(put_fault(rows, conditions, shift), state, spec)
                    named = drift.worst.slice.conditions if drift.worst and drift.worst.slice else ()
                    key = f"{' and '.join(f'{column} = {value}' for column, value in conditions)}, {name} slices"
                    outcomes.setdefault(key, []).append(Outcome(drift.action, set(named) == set(conditions)))
    return actions, outcomes, times


def _add_row(table: Table, name: str, windows: int, counts: Sequence[int]) -> None:
    table.add_row(name, *(share_of_count(count, windows) for count in counts))


def run(
    windows: Annotated[int, typer.Option(min=28, help="Windows of history.")] = 30,
    baselines: Annotated[int, typer.Option(min=1)] = 4,
    clean: CleanWindows = 50,
    seed: FirstSeed = 0,
) -> None:
    """Clean windows that are quarantined, and faults: quarantined, noticed, and their exact slice named."""
    with ProcessPoolExecutor(2) as pool:
        runs = list(pool.map(partial(simulate, windows, clean), range(seed, seed + baselines)))
    table = Table(f"{windows} windows of history", "quarantined", "noticed", "slice named", box=None)
    for name in ("with", "without"):
        actions = [action for each, _, _ in runs for action in each[name]]
        named = sum(len(each["named"]) for each, _, _ in runs) if name == "with" else 0
        noticed = sum(action != "pass" for action in actions)
        _add_row(table, f"clean, {name} slices", len(actions), (actions.count("hold"), noticed, named))
    for key in runs[0][1]:
        outcomes = [outcome for _, each, _ in runs for outcome in each[key]]
        quarantined, noticed = (sum(o.action in kinds for o in outcomes) for kinds in (("hold",), ("hold", "warn")))
        _add_row(table, key, len(outcomes), (quarantined, noticed, sum(o.is_named for o in outcomes)))
    console = Console(width=160, highlight=False)
    console.print(table)
    for name in ("with", "without"):
        console.print(f"a decision {name} slices: {float(np.mean([times[name] for _, _, times in runs])):.0f} ms")


if __name__ == "__main__":
    typer.run(run)
