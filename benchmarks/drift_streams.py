"""`python -m benchmarks.drift_streams`: a stream's windows, five seconds each: false quarantines a week, and faults found.

Belongs here: such windows, their baseline of one window a slot, the gate's own judgement. Does not: tables of days (drift).
"""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.rates import share_of
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.contracts.stream_drift import StreamDriftSpec
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.feature_result import compare_features
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.stream_baseline import StreamBaselineState

Rng = np.random.Generator
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
TRIGGER, DAYS = 5.0, 15
PER_WEEK = 604_800 / TRIGGER
LEVELS = (1e-2, 1e-3, 1e-4, 1 / PER_WEEK)
GROUPS = np.array([f"group {index}" for index in range(8)])


class Scene(NamedTuple):
    """The rows of a window, from their number and its own standard normal. ``least``, ``most``: rows, evenly on a log scale."""

    draw: Callable[[Rng, int, float, datetime], pd.DataFrame]
    kind: str = "number"
    least: int = 50
    most: int = 500


def _value(values: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"value": values})


def _shares(rng: Rng, rows: int, level: float) -> pd.DataFrame:
    shares = np.exp(0.1 * level * np.linspace(-1, 1, GROUPS.size)) / np.arange(1, GROUPS.size + 1)
    return pd.DataFrame({"value": rng.choice(GROUPS, rows, p=shares / shares.sum())})


def _wave(moment: datetime) -> float:
    return float(np.sin((moment.hour + moment.minute / 60) * np.pi / 12))


SCENES = {
    "normal": Scene(lambda rng, n, _, __: _value(rng.normal(size=n))),
    "normal, windows' own levels": Scene(lambda rng, n, a, _: _value(rng.normal(0.1 * a, 1.0, n))),
    "the same, 1 to 5,000 rows": Scene(lambda rng, n, a, _: _value(rng.normal(0.1 * a, 1.0, n)), least=1, most=5000),
    "lognormal": Scene(lambda rng, n, a, _: _value(np.exp(rng.normal(0.1 * a, 1.0, n)))),
    "8 categories": Scene(lambda rng, n, a, _: _shares(rng, n, a), "category"),
    "8 categories, 1 to 5,000 rows": Scene(lambda rng, n, a, _: _shares(rng, n, a), "category", 1, 5000),
    "levels that wander (AR(1), six hours)": Scene(lambda rng, n, a, _: _value(rng.normal(0.3 * a, 1.0, n))),
    "a daily wave": Scene(lambda rng, n, a, t: _value(rng.normal(_wave(t) + 0.1 * a, 1.0, n))),
}
WANDERS = "levels that wander (AR(1), six hours)"
FAULTS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "+0.5 sd": lambda rows: rows + 0.5,
    "+1 sd": lambda rows: rows + 1.0,
    "unit × 1.8": lambda rows: (rows + 10) * 1.8 - 10,
}
SPEC = StreamDriftSpec.of(DriftSpec.model_validate({"features": ["value"]}), timedelta(seconds=TRIGGER))


class Levels:
    """The windows' own levels in the order of time: independent, or an autoregression of six hours."""

    def __init__(self, rng: Rng, *, wanders: bool) -> None:
        self._rng, self._wanders, self._last, self._at = rng, wanders, rng.normal(), FIRST

    def at(self, moment: datetime) -> float:
        """Return the level of the window that starts then."""
        if self._wanders:
            keep = float(np.exp(-(moment - self._at).total_seconds() / (6 * 3600)))
            self._last = keep * self._last + np.sqrt(1 - keep**2) * self._rng.normal()
            self._at = moment
            return float(self._last)
        return float(self._rng.normal())


def simulate(name: str, judged: int, faulty: int, seed: int) -> tuple[list[float], dict[str, list[bool]], float]:
    """p-values of clean windows of the week after 15 days; of each fault, which windows are quarantined; seconds a decision."""
    rng, scene = np.random.default_rng([31, sorted(SCENES).index(name), seed]), SCENES[name]
    state, levels = StreamBaselineState(SPEC), Levels(rng, wanders=name == WANDERS)

    def draw(moment: datetime) -> pd.DataFrame:
        rows = round(float(np.exp(rng.uniform(np.log(scene.least), np.log(scene.most)))))
        return scene.draw(rng, rows, levels.at(moment), moment)

    kinds = {"value": scene.kind}
    for index in range(int(DAYS * 86_400 / SPEC.longest_slot)):
        moment = FIRST + timedelta(seconds=index * SPEC.longest_slot + float(rng.uniform(0, TRIGGER)))
        measured = list(measure_columns(draw(moment), kinds))
        statistics = {r.key: dict(r.statistics) for r in compare_features(measured, state.baseline, SPEC) if r.statistics}
        state.learn(moment, measured, statistics)
    outcomes: dict[str, list[bool]] = {fault: [] for fault in FAULTS if scene.kind == "number"}
    p_values, durations, spec = [], [], SPEC.at_rate(PER_WEEK)
    for moment in sorted(FIRST + timedelta(days=DAYS + float(day)) for day in rng.uniform(0, 7, judged)):
        rows, start = draw(moment), time.perf_counter()
        verdict = judge_drift(list(measure_columns(rows, kinds)), state.baseline, state.history, spec, window=moment)
        durations.append(time.perf_counter() - start)
        p_values.append(1.0 if verdict.p_value is None else verdict.p_value)
        for fault in outcomes if len(p_values) <= faulty else ():
            changed = list(measure_columns(FAULTS[fault](rows), kinds))
            after = judge_drift(changed, state.baseline, state.history, spec, window=moment)
            outcomes[fault].append(after.action == "hold")
    return p_values, outcomes, float(np.median(durations))


def run(
    names: Annotated[list[str] | None, typer.Argument(help="Scenes; without one, all.")] = None,
    baselines: Annotated[int, typer.Option(min=1)] = 4,
    judged: Annotated[int, typer.Option(min=1, help="Clean windows of each baseline.")] = 1000,
    faulty: Annotated[int, typer.Option(min=0, help="How many of them are judged with each fault, too.")] = 50,
    workers: Annotated[int, typer.Option(min=1)] = 2,
) -> None:
    """Clean windows beyond levels, the last of which is one a week; and the share of faults that is quarantined at it."""
    table = Table("windows", *(f"≤ {level:.2g}" for level in LEVELS), *FAULTS, "ms", box=None)
    console = Console(width=None if sys.stdout.isatty() else 170, highlight=False)
    with ProcessPoolExecutor(workers) as pool:
        for name in names or SCENES:
            runs = list(pool.map(partial(simulate, name, judged, faulty), range(baselines)))
            p_values = np.array([p for own, _, _ in runs for p in own])
            shares = [f"{(p_values <= level).mean() / level:.2f}" for level in LEVELS]
            power = [share_of([hit for _, own, _ in runs for hit in own.get(fault, [])]) for fault in FAULTS]
            table.add_row(f"{name} ({p_values.size})", *shares, *power, f"{1000 * np.median([ms for _, _, ms in runs]):.0f}")
            console.print(name, *shares, *power, np.sort(p_values)[:5])
    console.print(table)


if __name__ == "__main__":
    typer.run(run)
