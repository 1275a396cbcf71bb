"""`python -m benchmarks.drift_clean_windows`: clean windows beyond the levels, and faults found, by the gate's own verdict.

Belongs here: rows of many kinds, windows of unequal sizes, 30 and 100 windows of history, exact intervals. Does not: drawing
rows (drift_simulation), texts of many categories (drift_categories), or features newer than the history (drift_new_features).
"""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.table import Table
from scipy import stats

from benchmarks.drift_simulation import FAMILIES, FAULTS, correlated
from benchmarks.rates import Rate
from lakehouse_assets.contracts.drift import DriftSpec, FeatureSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.judge import judge_drift

Rng = np.random.Generator
Sizes = Callable[[Rng], int]
ROWS, HISTORIES = 1_000, (30, 100)
ALPHAS = (0.05, 0.01)
NAMES = ("a", "b", "c")
KINDS = dict.fromkeys(NAMES, "number")
FEATURES = tuple(FeatureSpec(name=name, expr=name) for name in NAMES)
SPEC = DriftSpec(features=FEATURES)
# Clean windows are judged without the effect floor: ranks and tail alone must keep the level.
WITHOUT_FLOOR = DriftSpec(features=FEATURES, min_effect=0.0, min_volume_change=0.0)


def _equal(_: Rng) -> int:
    return ROWS


def _about_equal(rng: Rng) -> int:
    return round(ROWS * np.exp(0.1 * rng.normal()))


def _ten_fold(rng: Rng) -> int:
    return round(200 * 10 ** rng.random())


def _lognormal(rng: Rng) -> int:
    return max(50, round(ROWS * np.exp(rng.normal())))


class Scene(NamedTuple):
    """``draw``: standard normals (n, 3) of one window to its values; ``size``: the rows of a window. With faults, the first two
    columns correlate.
    """

    draw: Callable[[Rng, Any], Any]
    size: Sizes = _equal
    has_faults: bool = False


SCENES = {name: Scene(draw) for name, draw in FAMILIES.items()} | {
    "normal, 5,000 rows": Scene(FAMILIES["normal"], lambda _: 5_000, has_faults=True),
    "rows vary by a tenth": Scene(FAMILIES["normal"], _about_equal),
    "200 to 2,000 rows": Scene(FAMILIES["normal"], _ten_fold),
    "200 to 2,000 rows, batch effect 0.1 sd": Scene(FAMILIES["batch effect 0.1 sd"], _ten_fold),
    "lognormal volume": Scene(FAMILIES["normal"], _lognormal),
    "lognormal volume, batch effect 0.1 sd": Scene(FAMILIES["batch effect 0.1 sd"], _lognormal),
}


class Outcomes(NamedTuple):
    """Of one baseline, by windows of history: the p-values of clean windows, and by fault those of faulty ones."""

    clean: dict[int, list[float]]
    faulty: dict[int, dict[str, list[float]]]


def _measure(values: Any) -> list:
    return list(measure_columns(pd.DataFrame(dict(zip(NAMES, values.T, strict=True))), KINDS))


def _p_value(values: Any, state: BaselineState, spec: DriftSpec) -> float:
    verdict = judge_drift(_measure(values), state.baseline, state.history, spec)
    return 1.0 if verdict.p_value is None else verdict.p_value


def simulate(name: str, clean: int, seed: int) -> Outcomes:
    """Learn one baseline; judge ``clean`` windows by its first 30, and by all 100, and some with faults, where it has them."""
    scene, rng = SCENES[name], np.random.default_rng([29, sorted(SCENES).index(name), seed])

    def draw() -> Any:
        rows = scene.size(rng)
        return correlated(rng, rows) if scene.has_faults else scene.draw(rng, rng.normal(size=(rows, 3)))

    state, outcomes = BaselineState(SPEC), Outcomes({}, {})
    for index in range(max(HISTORIES)):
        measured = _measure(draw())
        state.learn(index, measured, judge_drift(measured, state.baseline, state.history, SPEC).statistics)
        if index + 1 in HISTORIES:
            outcomes.clean[index + 1] = [_p_value(draw(), state, WITHOUT_FLOOR) for _ in range(clean)]
            if scene.has_faults:
                faulty = {fault: [_p_value(put(rng, draw()), state, SPEC) for _ in range(5)] for fault, put in FAULTS.items()}
                outcomes.faulty[index + 1] = faulty
    return outcomes


def _rate(p_values: Sequence[Sequence[float]], alpha: float) -> dict[str, float]:
    """The share beyond a level. ``low``, ``high``: over baselines, whose own rates vary, by Student's t; where none differs
    from the others, and in ``exact``, Clopper and Pearson's: windows of one baseline count as if independent.
    """
    shares = np.array([np.mean(np.array(each) <= alpha) for each in p_values])
    share, count = float(shares.mean()), sum(map(len, p_values))
    half = float(stats.t.ppf(0.975, shares.size - 1) * shares.std(ddof=1) / np.sqrt(shares.size)) if shares.size > 1 else 0.0
    exact = Rate("", round(share * count), count).interval
    low, high = (share - half, share + half) if half else exact
    return {"share": share, "low": max(0.0, low), "high": min(1.0, high), "exact": exact, "windows": count}


def _rows(name: str, runs: Sequence[Outcomes]) -> Iterator[dict[str, Any]]:
    for history in HISTORIES:
        for alpha in ALPHAS:
            rate = _rate([each.clean[history] for each in runs], alpha)
            yield {"what": f"clean: {name}", "history": history, "alpha": alpha, **rate}
    for history in HISTORIES:
        for fault in FAULTS if runs[0].faulty else ():
            for alpha in ALPHAS:
                rate = _rate([each.faulty[history][fault] for each in runs], alpha)
                yield {"what": f"fault: {fault}", "history": history, "alpha": alpha, **rate}


def run(
    scenes: Annotated[list[str] | None, typer.Argument(help=f"Any of {', '.join(SCENES)}; without one, all.")] = None,
    baselines: Annotated[int, typer.Option(min=2, help="Baselines of each kind of rows.")] = 100,
    clean: Annotated[int, typer.Option(min=1, help="Clean windows judged by each baseline.")] = 100,
    seed: Annotated[int, typer.Option(help="The first baseline's seed.")] = 0,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; without it, one for each processor.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there as JSON as well.")] = None,
) -> None:
    """Clean windows beyond the levels without the effect floor, and faults found with it."""
    if unknown := set(scenes or ()) - set(SCENES):
        raise typer.BadParameter(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(SCENES)}")
    figures = []
    with ProcessPoolExecutor(processes) as pool:
        for name in scenes or SCENES:
            figures += _rows(name, list(pool.map(partial(simulate, name, clean), range(seed, seed + baselines))))
            if json_file:
                json_file.write_text(json.dumps(figures, indent=1))
    heads = ("", "windows known", "level", "beyond it", "95 %, over baselines", "95 %, exact", "windows")
    table = Table(*heads, box=None)
    for row in figures:
        intervals = [f"{low:.4f}-{high:.4f}" for low, high in ((row["low"], row["high"]), row["exact"])]
        cells = (row["history"], f"{row['alpha']:g}", f"{row['share']:.4f}", *intervals, row["windows"])
        table.add_row(row["what"], *map(str, cells))
    Console(width=160, highlight=False).print(table)


if __name__ == "__main__":
    typer.run(run)
