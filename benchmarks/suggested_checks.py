"""`python -m benchmarks.suggested_checks`: clean windows flagged by suggested checks and drift, beside what is stated.

Belongs here: tables of many kinds of columns, `check suggest` from the first windows, then clean windows that are judged by
what it writes and by drift. Does not: drift alone (drift_clean_windows), or Spark: figures and checks are those of pandas here.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import median
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import typer
from pandas.api.types import is_numeric_dtype
from rich.console import Console
from rich.table import Table

from benchmarks.rates import share_of
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.contracts.sharing import CHECK
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.proposals import Proposal, count_together, extremes, propose_for_column, propose_for_rows
from lakehouse_assets.decisions.shapes import FROM, TO, count_unexpected, pattern_of
from lakehouse_assets.operations.suggest import FEW, MOST_SHAPES, TRIED

Rng = np.random.Generator
Frame = pd.DataFrame
ROWS, SHAPES = 1_000, str.maketrans(FROM, TO)
KINDS = ("clean: quarantined by checks", "a warning of checks", "quarantined by drift", "a warning of drift", "flagged by any")


def _texts(rng: Rng, rows: int) -> list[str]:
    """Texts whose lengths have no bound."""
    ends = np.cumsum(rng.geometric(0.1, rows)).tolist()
    letters = "".join(rng.choice(list("abcdefghij "), ends[-1]))
    return [letters[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _zipf(rng: Rng, rows: int, kinds: int, exponent: float) -> np.ndarray:
    shares = np.arange(1, kinds + 1) ** -exponent
    return np.array([f"kind {index}" for index in range(kinds)])[rng.choice(kinds, rows, p=shares / shares.sum())]


def _usual(rng: Rng, rows: int) -> dict[str, Any]:
    return {
        "normal": rng.normal(size=rows) + 0.1 * rng.normal(),
        "rounded": np.round(rng.normal(20, 3, rows), 1),
        "count": rng.poisson(6, rows).astype(float),
        "station": _zipf(rng, rows, 12, 0.5),
        "code": [f"{'ABC'[number % 3]}{number}" for number in rng.integers(1e3, 1e6, rows).tolist()],
        "level": np.where(rng.random(rows) < 0.01, np.nan, rng.normal(size=rows)),
    }


def _heavy(rng: Rng, rows: int) -> dict[str, Any]:
    """Columns whose next window may well be beyond all before it."""
    return {
        "lognormal": np.exp(rng.normal(size=rows)),
        "student": rng.standard_t(3, rows),
        "pareto": rng.pareto(1.5, rows),
        "rare_null": np.where(rng.random(rows) < 5e-5, np.nan, rng.normal(size=rows)),
        "rare_kind": _zipf(rng, rows, 20, 3.0),
        "text": _texts(rng, rows),
    }


class Scene(NamedTuple):
    """``columns``: of one window; ``spread``: the deviation of the logarithm of its rows."""

    columns: Callable[[Rng, int], dict[str, Any]]
    spread: float = 0.05


SCENES = {
    "light tails": Scene(_usual),
    "heavy tails": Scene(_heavy),
    "both, rows vary by a half": Scene(lambda rng, rows: _usual(rng, rows) | _heavy(rng, rows), 0.5),
}


def _window(rng: Rng, scene: Scene) -> Frame:
    return Frame(scene.columns(rng, round(ROWS * np.exp(scene.spread * rng.normal()))))


def _figures(parts: Sequence[pd.Series]) -> dict[str, Any]:
    """Figures of a column as `check suggest` measures them in silver."""
    worst = sorted(((float(part.isna().mean()), len(part)) for part in parts), reverse=True)
    filled = [part.dropna() for part in parts]
    if is_numeric_dtype(parts[0]):
        low, high = (
            sorted(part.min() for part in filled),
            sorted((part.max() for part in filled), reverse=True),
        )
    else:
        low, high = (sorted((f(part.str.len()) for part in filled), reverse=f is max) for f in (min, max))
    figures = {"rows": sum(map(len, parts)), "nulls": int(sum(part.isna().sum() for part in parts)), "windows": len(parts)}
    figures |= extremes(worst[:2], low[:2], high[:2])
    if not is_numeric_dtype(parts[0]):
        of_windows = [set(part) for part in filled]
        counts = Counter(text for texts in of_windows for text in texts)
        if len(counts) <= FEW:
            return figures | {"values": sorted(counts), "lone": sum(n == 1 for n in counts.values())}
        shapes = Counter(shape for texts in of_windows for shape in {text.translate(SHAPES) for text in texts})
        if len(shapes) <= MOST_SHAPES:
            lone = [shape for shape, n in shapes.items() if n == 1]
            figures |= {"pattern": pattern_of(sorted(shapes)), "lone_shapes": count_unexpected(shapes, lone)}
    return figures


def suggest(windows: Sequence[Frame]) -> list[Proposal]:
    """What `check suggest --apply` writes: proposals that flag at most one past window in twenty."""
    proposals = propose_for_rows([len(window) for window in windows])
    for name in windows[0]:
        parts = [window[name] for window in windows]
        column = Column(type="double" if is_numeric_dtype(parts[0]) else "string")
        proposals += propose_for_column(column, name, 0, _figures(parts), is_key=False)
    tried = [each.tried(min(len(windows), TRIED), 0) for each in proposals]
    return [each for each in tried if not each.flags_too_many]


def fails(check: Mapping[str, Any], window: Frame, past_rows: Sequence[int]) -> bool:
    """Whether a window fails a suggested check, by the rule of its kind."""
    kind = check["check"]
    if kind == "row_count_ratio":
        usual = median(past_rows[-CHECK.validate_python(dict(check)).windows :])
        return not check["min"] <= len(window) / usual <= check["max"]
    values = window[check["column"]]
    if kind in ("not_null", "null_share"):
        return bool(values.isna().mean() > check.get("max", 0.0))
    filled = values.dropna()
    if kind == "in_set":
        return not filled.isin(check["values"]).all()
    if kind == "matches":
        return not filled.map(lambda text: bool(re.search(check["pattern"], text))).all()
    measured = filled.str.len() if kind == "length" else filled
    return not measured.between(check["min"], check["max"]).all()


def simulate(name: str, history: int, clean: int, seed: int) -> tuple[float, list[dict[str, bool]]]:
    """Of one history: the share of flagged windows that checks state, and of clean windows what flagged each."""
    rng = np.random.default_rng([37, sorted(SCENES).index(name), history, seed])
    windows = [_window(rng, SCENES[name]) for _ in range(history)]
    proposals = suggest(windows)
    kinds = {column: "number" if is_numeric_dtype(windows[0][column]) else "category" for column in windows[0]}
    spec = DriftSpec(features=tuple(kinds), slices=False)
    state = BaselineState(spec)
    for index, window in enumerate(windows):
        measured = list(measure_columns(window, kinds))
        # The first are measured again against each other, whatever was found when they came.
        is_judged = index >= spec.warn_from
        statistics = judge_drift(measured, state.baseline, state.history, spec).statistics if is_judged else {}
        state.learn(index, measured, statistics)
    rows, outcomes = [len(window) for window in windows], []
    for _ in range(clean):
        window = _window(rng, SCENES[name])
        failed = [p.check.get("severity", "critical") for p in proposals if fails(p.check, window, rows)]
        action = judge_drift(list(measure_columns(window, kinds)), state.baseline, state.history, spec).action
        flags = ("critical" in failed, "warning" in failed, action in ("hold", "error"), action == "warn")
        outcomes.append(dict(zip(KINDS, (*flags, any(flags)), strict=True)))
    flagged, of = count_together(proposals)
    return flagged / of if of else 0.0, outcomes


def _cells(runs: Sequence[tuple[float, list[dict[str, bool]]]]) -> Iterator[str]:
    outcomes = [outcome for _, each in runs for outcome in each]
    for kind in KINDS:
        yield share_of(outcome[kind] for outcome in outcomes)
    by_checks = share_of(outcome[KINDS[0]] or outcome[KINDS[1]] for outcome in outcomes)
    stated = float(np.mean([each for each, _ in runs]))
    spec = DriftSpec(features=("a",))
    yield from (by_checks, f"{stated:.3f}", f"{stated + spec.warn_at + spec.lasting_at:.3f}")


def run(
    scenes: Annotated[list[str] | None, typer.Argument(help=f"Any of {', '.join(SCENES)}; without one, all.")] = None,
    histories: Annotated[list[int] | None, typer.Option("--history", help="Windows that checks are suggested from.")] = None,
    baselines: Annotated[int, typer.Option(min=1, help="Histories of each scene.")] = 40,
    clean: Annotated[int, typer.Option(min=1, help="Clean windows judged by each.")] = 50,
    seed: Annotated[int, typer.Option(help="The first history's seed.")] = 0,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; without it, one for each processor.")] = None,
) -> None:
    """Clean windows flagged by suggested checks, by drift, and by both, beside what both state."""
    table = Table("", "windows", *KINDS, "by checks", "stated by checks", "stated by both", "of", box=None)
    with ProcessPoolExecutor(processes) as pool:
        for name in scenes or SCENES:
            for history in histories or (30, 100):
                runs = list(pool.map(partial(simulate, name, history, clean), range(seed, seed + baselines)))
                table.add_row(name, str(history), *_cells(runs), str(clean * baselines))
    Console(width=220, highlight=False).print(table)


if __name__ == "__main__":
    typer.run(run)
