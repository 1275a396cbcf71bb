"""`python -m benchmarks.drift_faults`: single columns with few windows of history, and the kinds of faults of
Auto-Validate-by-History (Tu et al., KDD 2023): schema, units, case, nulls, volume, biased samples, characters.

Belongs here: columns, faults, the gate's own decision on each, the shares. Does not: several columns (drift).
"""

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.rates import share_of_count, table_of_faults
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.feature_result import compare_features
from lakehouse_assets.decisions.drift.judge import judge_drift

Rng = np.random.Generator
Values = pd.Series
ROWS, SIZE_SPREAD = 2_000, 0.05  # rows of a window, and the deviation of their logarithm
LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz0123456789"))
SPEC = DriftSpec(features=("value",))


class Kind(NamedTuple):
    """A kind of column: draws ``rows`` values of a window whose own offset is ``level``."""

    kind: str
    draw: Callable[[Rng, int, float], Any]


def _ids(rng: Rng, rows: int, _: float) -> list[str]:
    return ["AB-" + "".join(row) for row in rng.choice(LETTERS[26:], (rows, 8))]


def _zipf(names: int) -> Callable[[Rng, int, float], Any]:
    shares = 1.0 / np.arange(1, names + 1)
    labels = np.array([f"Name {index}" for index in range(names)])

    def draw(rng: Rng, rows: int, level: float) -> Any:
        tilted = shares ** (1.0 + 0.1 * level)
        return labels[rng.choice(names, rows, p=tilted / tilted.sum())]

    return draw


COLUMNS = {
    "normal": Kind("number", lambda rng, n, a: rng.normal(50 + 0.5 * a, 5, n)),
    "lognormal": Kind("number", lambda rng, n, a: np.exp(rng.normal(2 + 0.05 * a, 1, n))),
    "counts": Kind("number", lambda rng, n, a: rng.poisson(6 * np.exp(0.03 * a), n)),
    "rounded": Kind("number", lambda rng, n, a: np.round(rng.normal(20 + 0.2 * a, 3, n), 1)),
    "20 categories": Kind("category", _zipf(20)),
    "300 categories": Kind("category", _zipf(300)),
    "keys": Kind("category", _ids),
}


def _of_some(rng: Rng, values: Values, share: float, change: Callable[[Values], Values]) -> Values:
    chosen = rng.random(len(values)) < share
    changed = values.copy().astype(object)
    changed[chosen] = change(values[chosen])
    return changed.infer_objects()


def _perturb(rng: Rng, value: Any, share: float, how: str) -> Any:
    """Some of a value's characters replaced, inserted or left out."""
    text = list(str(value))
    for index in np.flatnonzero(rng.random(len(text)) < share)[::-1].tolist():
        letters = LETTERS[26:] if text[index].isdigit() else LETTERS[:26]
        if text[index] in ".-e" or (how != "delete" and not text[index].isalnum()):
            continue
        text[index : index + 1] = (
            [] if how == "delete" else [*text[index : index + (how == "insert")], str(rng.choice(letters))]
        )
    return "".join(text) or None


def _characters(how: str, share: float) -> Callable[[Rng, Values, Values], Values]:
    def fault(rng: Rng, values: Values, _: Values) -> Values:
        changed = values.map(lambda value: _perturb(rng, value, share, how))
        return pd.to_numeric(changed, errors="coerce") if pd.api.types.is_numeric_dtype(values) else changed

    return fault


Fault = Callable[[Rng, Values, Values], Values]  # of a window's values and those of another column of the kind
NUMBERS: dict[str, Fault] = {
    f"unit: ×{factor} in {share:.0%}": (lambda rng, x, _, f=factor, s=share: _of_some(rng, x, s, lambda v: v * f))
    for factor in (10, 100, 1000)
    for share in (0.1, 1.0)
}
TEXTS: dict[str, Fault] = {
    f"case: {how} in {share:.0%}": (lambda rng, x, _, h=how, s=share: _of_some(rng, x, s, lambda v: getattr(v.str, h)()))
    for how in ("upper", "lower")
    for share in (0.1, 1.0)
}
BOTH: dict[str, Fault] = {
    **{
        f"schema: other column in {share:.0%}": (
            lambda rng, x, other, s=share: _of_some(
                rng, x, s, lambda v: other.sample(len(v), replace=True, random_state=1).to_numpy()
            )
        )
        for share in (0.1, 1.0)
    },
    **{f"nulls: {share:.0%}": (lambda rng, x, _, s=share: x.mask(rng.random(len(x)) < s)) for share in (0.01, 0.1, 1.0)},
    "rows: doubled": lambda rng, x, _: pd.concat([x, x], ignore_index=True),
    "rows: ten times": lambda rng, x, _: pd.concat([x] * 10, ignore_index=True),
    "rows: half": lambda rng, x, _: x.sample(frac=0.5, random_state=1),
    "rows: a tenth": lambda rng, x, _: x.sample(frac=0.1, random_state=1),
    **{
        f"biased: the {end} {share:.0%}": (
            lambda rng, x, _, e=end, s=share: (x.sort_values() if e == "first" else x.sort_values(ascending=False)).iloc[
                : int(len(x) * s)
            ]
        )
        for end in ("first", "last")
        for share in (0.1, 0.5)
    },
    **{
        f"characters: {how}, {share:.0%}": _characters(how, share)
        for how in ("replace", "insert", "delete")
        for share in (0.1, 0.5)
    },
}


def faults_of(kind: str) -> dict[str, Fault]:
    """The faults that a kind of column can have."""
    return BOTH | (NUMBERS if kind == "number" else TEXTS)


def window(rng: Rng, name: str) -> Values:
    """The values of one clean window."""
    rows = round(ROWS * np.exp(SIZE_SPREAD * rng.normal()))
    return pd.Series(COLUMNS[name].draw(rng, rows, rng.normal()), name="value")


def learn(rng: Rng, name: str, windows: int, spec: DriftSpec = SPEC) -> BaselineState:
    """A baseline of clean windows."""
    state = BaselineState(spec)
    for index in range(windows):
        measured = list(measure_columns(window(rng, name).to_frame(), {"value": COLUMNS[name].kind}))
        statistics = {r.key: r.statistics for r in compare_features(measured, state.baseline, spec)} if index else {}
        state.learn(index, measured, statistics)
    return state


def judge(values: Values, kind: str, state: BaselineState, spec: DriftSpec = SPEC) -> str:
    """The gate's action on a window."""
    return judge_drift(
        list(measure_columns(values.to_frame("value"), {"value": kind})), state.baseline, state.history, spec
    ).action


def simulate(name: str, windows: int, clean: int, seed: int) -> tuple[list[str], dict[str, str]]:
    """Of one baseline: the actions on ``clean`` clean windows, and on one window with each fault."""
    rng = np.random.default_rng([29, sorted(COLUMNS).index(name), windows, seed])
    kind = COLUMNS[name].kind
    state = learn(rng, name, windows)
    actions = [judge(window(rng, name), kind, state) for _ in range(clean)]
    others = [other for other in COLUMNS if COLUMNS[other].kind == kind and other != name]
    faulty = {}
    for fault, change in faults_of(kind).items():
        values, other = window(rng, name), window(rng, str(rng.choice(others)))
        changed = change(rng, values, other)
        # Upper case changes nothing in keys that are upper case.
        if not changed.reset_index(drop=True).equals(values):
            faulty[fault] = judge(changed, kind, state)
    return actions, faulty


def run(
    windows: Annotated[int, typer.Option(min=20, help="Windows of history.")] = 29,
    baselines: Annotated[int, typer.Option(min=1, help="Baselines of each kind of column.")] = 20,
    clean: Annotated[int, typer.Option(min=1, help="Clean windows judged by each baseline.")] = 30,
    seed: Annotated[int, typer.Option(help="The first baseline's seed.")] = 0,
) -> None:
    """Clean windows quarantined, and faults found, by kind of column and by fault."""
    table = Table("column", "clean, quarantined", "clean, warning", "faults, quarantined", "precision", box=None)
    by_fault: dict[str, list[bool]] = defaultdict(list)
    with ProcessPoolExecutor() as pool:
        for name in COLUMNS:
            runs = list(pool.map(partial(simulate, name, windows, clean), range(seed, seed + baselines)))
            actions = [action for each, _ in runs for action in each]
            for _, faulty in runs:
                for fault, action in faulty.items():
                    by_fault[fault].append(action == "hold")
            hits = [action == "hold" for _, faulty in runs for action in faulty.values()]
            clean_held, recall = actions.count("hold") / len(actions), float(np.mean(hits))
            precision = recall / (recall + clean_held) if recall else 0.0
            counts = [
                (actions.count("hold"), len(actions)),
                (actions.count("warn"), len(actions)),
                (sum(hits), len(hits)),
            ]
            table.add_row(name, *(share_of_count(*each) for each in counts), f"{precision:.3f}")
    out = Console(width=160, highlight=False)
    out.print(table)
    out.print(table_of_faults(by_fault))


if __name__ == "__main__":
    typer.run(run)
