"""`python -m benchmarks.drift_new_features`: clean windows beside a history that does not know all of their features.

Belongs here: features, strata and categories that are newer than the history, windows of other sizes than before, and the rates
of false alarms by each version of the method. Does not: features that are as old as the history (drift).
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import typer
from pandas.api.types import is_numeric_dtype
from rich.console import Console
from rich.table import Table

from benchmarks.rates import share_of
from lakehouse_assets.contracts.drift import DriftSpec, FeatureSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.method import FIRST_METHOD, METHOD
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.relations import Measurement

Rng = np.random.Generator
ROWS, OLD_WINDOWS = 500, 100
LEVELS = {"warning": 0.05, "quarantined": 0.01, "over windows": 0.02}


class Scene(NamedTuple):
    """``window``: the columns of one window, by how many windows came before; ``with_slices``: slices are compared, too."""

    window: Callable[[Rng, int], pd.DataFrame]
    new_windows: int = 30
    with_slices: bool = False


def _numbers(rng: Rng, count: int, rows: int = ROWS) -> dict[str, np.ndarray]:
    """Independent numbers, each with an offset of its window."""
    return {f"n{i}": rng.normal(size=rows) + 0.05 * rng.normal() for i in range(count)}


def _grow(old: int, more: int) -> Callable[[Rng, int], pd.DataFrame]:
    return lambda rng, before: pd.DataFrame(_numbers(rng, old + more * (before >= OLD_WINDOWS)))


def _rotate(rng: Rng, _: int) -> pd.DataFrame:
    """Of twelve features about half have values."""
    columns = _numbers(rng, 12)
    return pd.DataFrame({name: values for name, values in columns.items() if rng.random() < 0.5 or name == "n0"})


def _add_categories(rng: Rng, before: int) -> pd.DataFrame:
    """Two categories, and eight after some time."""
    names = np.array([f"station {i}" for i in range(8 if before >= OLD_WINDOWS else 2)])
    return pd.DataFrame({"station": rng.choice(names, 1_000), "value": rng.normal(size=1_000) + 0.1 * rng.normal()})


def _shrink(rng: Rng, before: int) -> pd.DataFrame:
    """Windows of 2,000 rows, and of 200 for the last three."""
    return pd.DataFrame(_numbers(rng, 2, 2_000 if before < OLD_WINDOWS - 2 else 200))


def _vary(rng: Rng, _: int) -> pd.DataFrame:
    """Windows of 200 to 2,000 rows."""
    return pd.DataFrame(_numbers(rng, 2, round(200 * 10 ** rng.random())))


SCENES = {
    "2 features": Scene(_grow(2, 0)),
    "8 new features beside 2": Scene(_grow(2, 8)),
    "8 new features beside 2, 60 windows": Scene(_grow(2, 8), 60),
    "1 new feature beside 2": Scene(_grow(2, 1)),
    "2 new features beside 8": Scene(_grow(8, 2)),
    "half of 12 features, others each time": Scene(_rotate, 0),
    "6 new categories beside 2, with slices": Scene(_add_categories, with_slices=True),
    "2,000 rows, then 200": Scene(_shrink, 0),
    "200 to 2,000 rows": Scene(_vary, 0),
}


def _spec(names: list[str], with_slices: bool) -> DriftSpec:
    features = tuple(FeatureSpec(name=name, expr=name) for name in names)
    return DriftSpec(features=features, slices=with_slices, relations=False, season="none", min_effect=0.0)


def _measure(rows: pd.DataFrame, with_slices: bool) -> list[Measurement]:
    kinds = {name: "number" if is_numeric_dtype(rows[name]) else "category" for name in rows}
    measured = measure_columns(rows, kinds, with_slices=with_slices)
    return [each for each in measured if with_slices or isinstance(each, Profile)]


def simulate(name: str, clean: int, seed: int) -> list[dict[int, dict[str, bool]]]:
    """Of one baseline: whether each clean window is beyond the levels, by version of the method."""
    scene, rng = SCENES[name], np.random.default_rng([17, sorted(SCENES).index(name), seed])
    history = OLD_WINDOWS + scene.new_windows
    drawn = [scene.window(rng, index) for index in range(history)]
    names = list(dict.fromkeys(column for rows in drawn for column in rows))
    state = BaselineState(_spec(names, scene.with_slices))
    for index, rows in enumerate(drawn):
        measured, spec = _measure(rows, scene.with_slices), _spec(list(rows), scene.with_slices)
        state.learn(index, measured, judge_drift(measured, state.baseline, state.history, spec, window=index).statistics)
    outcomes = []
    for _ in range(clean):
        rows = scene.window(rng, history)
        measured, spec = _measure(rows, scene.with_slices), _spec(list(rows), scene.with_slices)
        judged: dict[int, dict[str, bool]] = {}
        for method in (FIRST_METHOD, METHOD):
            verdict = judge_drift(measured, state.baseline, state.history, spec, window=history, method=method)
            p_value, of_sums = verdict.p_value or 1.0, verdict.moving_sum.p_value if verdict.moving_sum else 1.0
            judged[method] = {each: p_value <= level for each, level in LEVELS.items()} | {"over windows": of_sums <= 0.02}
        outcomes.append(judged)
    return outcomes


def _cells(outcomes: list[dict[int, dict[str, bool]]]) -> Iterator[str]:
    for level, method in ((level, method) for level in LEVELS for method in (FIRST_METHOD, METHOD)):
        yield share_of(each[method][level] for each in outcomes)


def run(
    scenes: Annotated[list[str] | None, typer.Argument(help="Some of the scenes, by name; without one, all.")] = None,
    baselines: Annotated[int, typer.Option(min=1, help="Baselines of each scene.")] = 20,
    clean: Annotated[int, typer.Option(min=1, help="Clean windows judged by each baseline.")] = 50,
    seed: Annotated[int, typer.Option(help="The first baseline's seed.")] = 0,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; without it, one for each processor.")] = None,
) -> None:
    """Print the share of clean windows beyond each level, by the first version of the method and by this one."""
    table = Table("", *(f"{level} ({method})" for level in LEVELS for method in (FIRST_METHOD, METHOD)), "windows", box=None)
    with ProcessPoolExecutor(processes) as pool:
        for name in scenes or SCENES:
            runs = list(pool.map(partial(simulate, name, clean), range(seed, seed + baselines)))
            outcomes = [each for outcomes in runs for each in outcomes]
            table.add_row(name, *_cells(outcomes), str(len(outcomes)))
    Console(width=200, highlight=False).print(table)


if __name__ == "__main__":
    typer.run(run)
