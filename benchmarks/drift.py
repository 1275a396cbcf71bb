"""`python -m benchmarks.drift`: false alarms, power, evidence over windows, the real year; the table of docs/drift.md.

Belongs here: what is counted, and its intervals. Does not: drawing (drift_simulation), or other methods (drift_peers).
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from datasketches import kll_doubles_sketch  # pyright: ignore[reportAttributeAccessIssue] (a compiled module)
from rich.console import Console
from rich.table import Table

from benchmarks.drift_categories import FAULTS as CATEGORY_FAULTS
from benchmarks.drift_categories import SCENES, simulate
from benchmarks.drift_simulation import (
    FAMILIES,
    FAULTS,
    HISTORY,
    JUDGED,
    ROWS,
    Floats,
    as_history,
    as_results,
    correlated,
    learn,
    measure,
    p_value,
    ranked,
)  # fmt: skip
from benchmarks.drift_weather import EVERY, year
from benchmarks.rates import Rate
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.moving_sum import find_largest_sum
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.relations import compute_relations

SPEC = DriftSpec(features=("a", "b", "c"))
MANY = 100
out, err = Console(width=None if sys.stdout.isatty() else 160, highlight=False), Console(stderr=True, highlight=False)


def _clean_one(name: str, seed: int) -> tuple[list[tuple[int, str]], Floats, Floats, Floats]:
    rng = np.random.default_rng([11, sorted(FAMILIES).index(name), seed])
    draw = FAMILIES[name]
    learnt = learn([draw(rng, rng.normal(size=(ROWS, 3))) for _ in range(HISTORY)])
    outcomes = [measure(draw(rng, rng.normal(size=(ROWS, 3))), learnt) for _ in range(JUDGED)]
    return learnt.names, learnt.statistics, np.array([f[0] for f in outcomes]), np.array([f[1] for f in outcomes])


def false_alarms(baselines: int, pool: ProcessPoolExecutor, families: Sequence[str], seed: int) -> Iterator[Rate]:
    """Clean windows that are warned of and held, without the effect floor: the ranks alone must keep the rate."""
    for name in families:
        runs = list(pool.map(partial(_clean_one, name), range(seed, seed + baselines)))
        independent = name in list(FAMILIES)[:5]
        # Below the nominal rate is right for values that repeat: ties count against strangeness.
        least = 0.5 if independent and name not in ("rounded to 0.1", "mixture with atoms") else None
        few, many = _three(runs), _many(runs, seed)
        # Tables of many columns share them: they tell no more than as many as have none in common.
        apart = min(len(many), 3 * len(runs) // MANY * JUDGED) or JUDGED
        for alpha in (0.05, 0.01):
            for label, outcomes, tries in (("3 columns", few, len(few)), (f"{MANY} columns", many, apart)):
                bounds = (least * alpha if least else None, 1.5 * alpha)
                hits = round(tries * sum(p <= alpha for p in outcomes) / len(outcomes))
                yield Rate(f"false alarms, {name}, {label}, α {alpha:g}", hits, tries, *bounds)


def _three(runs) -> list[float]:
    outcomes = []
    for names, history, now, effects in runs:
        at = ranked(names)
        outcomes += [p_value(history[:, at], row[at], e[at], -1.0) for row, e in zip(now, effects, strict=True)]
    return outcomes


def _many(runs, seed: int) -> list[float]:
    """A hundred columns drawn from those that were simulated: they are independent, so that any hundred are a table."""
    rng, outcomes = np.random.default_rng(5 + seed), []
    columns = [(run, i) for run in range(len(runs)) for i in range(3)]
    for _ in range(len(runs)):
        chosen = [columns[k] for k in rng.choice(len(columns), min(MANY, len(columns)), replace=False)]
        parts = [(runs[run], ranked(runs[run][0], [i])) for run, i in chosen]
        history, now = (np.hstack([part[k][:, at] for part, at in parts]) for k in (1, 2))
        outcomes += [p_value(history, row, np.ones(row.size), -1.0) for row in now]
    return outcomes


def _faults_one(seed: int) -> dict[str, list[float]]:
    rng = np.random.default_rng([13, seed])
    learnt = learn([correlated(rng, ROWS) for _ in range(HISTORY)])
    at, outcomes = ranked(learnt.names), {}
    for name, fault in FAULTS.items():
        outcomes[name] = []
        for _ in range(5):
            now, effects = measure(fault(rng, correlated(rng, ROWS)), learnt)
            outcomes[name].append(p_value(learnt.statistics[:, at], now[at], effects[at], SPEC.min_effect))
    return outcomes


def power(baselines: int, pool: ProcessPoolExecutor, seed: int) -> Iterator[Rate]:
    """Faults in one column of three, five windows for each baseline, the effect floor on."""
    runs = list(pool.map(_faults_one, range(seed, seed + baselines)))
    for name in FAULTS:
        for alpha in (0.05, 0.01):
            hits = sum(p <= alpha for run in runs for p in run[name])
            yield Rate(f"power, {name}, α {alpha:g}", hits, 5 * baselines, 0.95 if "correlation" in name else 0.99)


def categories(baselines: int, pool: ProcessPoolExecutor, seed: int) -> Iterator[Rate]:
    """Texts of many categories, by the gate's own decision: clean windows without the effect floor, faults with it."""
    for windows, scenes in ((HISTORY, SCENES), (3 * HISTORY, SCENES[1:2]), (30, SCENES[3:5])):
        for scene in scenes:
            runs = list(pool.map(partial(simulate, scene, windows, JUDGED), range(seed, seed + baselines)))
            name = f"{scene}, {windows} windows of history"
            outcomes = [p for p_values, _ in runs for p in p_values]
            for alpha in (0.05, 0.01):
                hits = sum(p <= alpha for p in outcomes)
                yield Rate(f"false alarms, {name}, α {alpha:g}", hits, len(outcomes), 0.5 * alpha, 1.5 * alpha)
            for fault in CATEGORY_FAULTS:
                found_faults = [p for _, by_fault in runs for p in by_fault[fault]]
                hits = sum(p <= SPEC.hold_at for p in found_faults)
                yield Rate(f"power, {fault}, {name}, α {SPEC.hold_at:g}", hits, len(found_faults))


def _sketched(rng: np.random.Generator, rows: int, shift: float = 0.0) -> Profile:
    sketch = kll_doubles_sketch(SPEC.sketch_k)
    sketch.update(rng.normal(shift, 1.0, rows))
    return Profile("a", None, rows, sketch=bytes(sketch.serialize()))


def large(pool: ProcessPoolExecutor, rows: int) -> Iterator[Rate]:
    """Windows so large that only the sketch's rank error is left of chance: that error is the same at any number of rows."""
    counts_by_run = list(pool.map(partial(_large_one, rows), range(4)))
    for shift, bounds in ((0.02, (None, 0.0)), (0.1, (1.0, None))):
        hits = sum(outcomes[shift] for outcomes in counts_by_run)
        note = f"sketches of {rows:,} rows, whose error is that of 10⁸"
        yield Rate(f"held, shift of {shift:g} sd in very large windows", hits, 10 * len(counts_by_run), *bounds, note)


def _large_one(rows: int, seed: int) -> dict[float, int]:
    rng, spec = np.random.default_rng([17, seed]), DriftSpec(features=("a",))
    state = BaselineState(spec)
    for i in range(spec.hold_from):
        measured = [_sketched(rng, rows)]
        state.learn(i, measured, judge_drift(measured, state.baseline, state.history, spec).statistics)
    judged = {
        shift: [judge_drift([_sketched(rng, rows, shift)], state.baseline, state.history, spec) for _ in range(10)]
        for shift in (0.02, 0.1)
    }
    return {shift: sum(verdict.action == "hold" for verdict in outcomes) for shift, outcomes in judged.items()}


def _lasting_one(windows: int, seed: int) -> tuple[int, int]:
    rng = np.random.default_rng([19, seed])
    learnt = learn([correlated(rng, ROWS) for _ in range(HISTORY)])
    signed = [k for k, (_, name) in enumerate(learnt.names) if name == "signed"]
    names, rows, alarms = [learnt.names[k] for k in signed], learnt.statistics[:, signed], 0
    for _ in range(windows):
        now, _ = measure(correlated(rng, ROWS), learnt)
        outcomes = find_largest_sum(
            as_results(names, now[signed]), as_history(names, rows), SPEC.model_copy(update={"min_effect": 0.0})
        )
        alarms += outcomes is not None and outcomes.p_value <= SPEC.lasting_at
        rows = np.vstack([rows, now[signed]])[-SPEC.remember :]
    return alarms, windows


def evidence(runs: int, windows: int, pool: ProcessPoolExecutor) -> Iterator[Rate]:
    """How often what adds up alarms in a long clean time, and how far a slow drift comes."""
    outcomes = list(pool.map(partial(_lasting_one, windows), range(runs)))
    name = f"evidence over windows, {windows:,} clean windows, α {SPEC.lasting_at:g}"
    yield Rate(name, sum(f[0] for f in outcomes), sum(f[1] for f in outcomes), None, SPEC.lasting_at * 1.1)
    shifts = list(pool.map(_slow_one, range(2 * runs)))
    detected_shifts = [shift for shift in shifts if shift is not None]
    note = (
        f"found at {min(detected_shifts):.2f} to {max(detected_shifts):.2f} sd, median {np.median(detected_shifts):.2f}"
        if detected_shifts
        else ""
    )
    hits = sum(shift is not None and shift < 0.35 for shift in shifts)
    yield Rate("slow drift of 0.005 sd a window, found before 0.35 sd", hits, len(shifts), 1.0, None, note)


def _slow_one(seed: int) -> float | None:
    """The shift at which two windows in a row are warned of or held, for the first time: one alone may be a false alarm."""
    rng, spec = np.random.default_rng([23, seed]), DriftSpec(features=("a",))
    state, before = BaselineState(spec), False
    for i in range(HISTORY + 120):
        shift = max(0.0, 0.005 * (i - HISTORY))
        values = np.sort(rng.normal(shift, 1.0, ROWS))
        measured = [Profile("a", None, ROWS, counts=tuple(zip(values.tolist(), [1] * ROWS, strict=True)))]
        verdict = judge_drift(measured, state.baseline, state.history, spec, window=i)
        off = i >= HISTORY and verdict.action != "pass"
        if off and before:
            return shift
        before = off
        if verdict.action != "hold":
            state.learn(i, measured, verdict.statistics)
    return None


def weather(seed: int) -> Iterator[Rate]:
    """The example's features and the defaults on the real year: all windows after the first 30, a fault in every third."""
    counts = year(seed % EVERY)
    early = f"of the first 20 days {counts.first_warnings} raise a warning; of the first 30, {counts.first_holds} held"
    yield Rate("real weather, clean windows held", counts.holds, counts.clean_windows, None, 0.01, early)
    yield Rate("real weather, clean windows warned of", counts.warnings, counts.clean_windows)
    yield Rate("real weather, LGA 0.1 kPa too high, held at once", counts.holds_at_once, counts.faulty_windows, 0.99)
    yield Rate("real weather, LGA 0.1 kPa too high, LGA's pressure named", counts.namings, counts.faulty_windows)
    yield Rate("real weather, LGA 0.05 kPa too high, found within 3 windows", counts.detections, counts.faulty_windows, 0.94)


def cost() -> Iterator[str]:
    """What a decision takes of the processor: 20 features, 400 hourly windows of history, no Spark."""
    rng, names = np.random.default_rng(0), [f"f{i}" for i in range(20)]
    spec = DriftSpec(features=tuple(names))
    state = BaselineState(spec)
    hours = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=hour) for hour in range(401)]

    def window() -> list:
        values = {name: rng.normal(size=ROWS) for name in names}
        outcomes = []
        for name, column in values.items():
            sketch = kll_doubles_sketch(spec.sketch_k)
            sketch.update(column)
            outcomes.append(Profile(name, None, ROWS, sketch=bytes(sketch.serialize())))
        return [*outcomes, compute_relations(values)]

    for i, hour in enumerate(hours[:-1]):
        measured = window()
        outcomes = judge_drift(measured, state.baseline, state.history, spec, window=hour) if i > spec.warn_from else None
        state.learn(hour, measured, outcomes.statistics if outcomes else {})
    for name, judged_by in (("with seasons", spec), ("without", spec.model_copy(update={"season": "none"}))):
        durations = []
        for _ in range(20):
            measured = window()
            start = time.process_time()
            judge_drift(measured, state.baseline, state.history, judged_by, window=hours[-1])
            durations.append(time.process_time() - start)
        figures = f"median {1000 * np.median(durations):.0f} ms, least {1000 * min(durations):.0f} ms"
        yield f"a decision on 20 features and their relations, 400 windows of history, {name}: {figures}"


def draw(rates: list[Rate], lines: list[str]) -> None:
    """The table, as Markdown."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("what", "share", "95 % interval", "of", "asked", "", "note"):
        table.add_column(name)
    for rate in rates:
        requirement = " ".join(
            text
            for text in (
                f"≥ {rate.least:g}" if rate.least is not None else "",
                f"≤ {rate.most:g}" if rate.most is not None else "",
            )
            if text
        )
        output = {True: "reached", False: "not reached", None: ""}[rate.reached]
        low, high = rate.interval
        table.add_row(
            rate.name, f"{rate.share:.4f}", f"{low:.4f}–{high:.4f}", f"{rate.tries:,}", requirement, output, rate.note
        )
    out.print(table)
    for line in lines:
        out.print(line, markup=False)


def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Any of alarms, categories, power, large, evidence, weather, cost; without one, all."),
    ] = None,
    baselines: Annotated[int, typer.Option(min=2, help="Baselines for false alarms and power; each judges 200 windows.")] = 100,
    rows: Annotated[int, typer.Option(min=10_000, help="Rows of a very large window.")] = 1_000_000,
    family: Annotated[
        list[str] | None, typer.Option(help=f"False alarms of these rows alone; again for more: {', '.join(FAMILIES)}.")
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0, help="The first baseline's seed of alarms, categories and power; of weather, which third has faults."
        ),
    ] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there as JSON as well.")] = None,
) -> None:
    """False alarms, power and cost of the statistical gate, on seeded draws and on the example's real year."""
    wanted = names or ["alarms", "categories", "power", "large", "evidence", "weather", "cost"]
    if unknown := set(family or ()) - set(FAMILIES):
        raise typer.BadParameter(f"there is no family {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    rates: list[Rate] = []
    lines: list[str] = []
    with ProcessPoolExecutor() as pool:
        parts = {
            "alarms": lambda: false_alarms(baselines, pool, family or list(FAMILIES), seed),
            "categories": lambda: categories(max(2, baselines // 5), pool, seed),
            "power": lambda: power(baselines, pool, seed),
            "large": lambda: large(pool, rows),
            "evidence": lambda: evidence(max(2, baselines // 10), 1000, pool),
            "weather": lambda: weather(seed),
        }
        for name in wanted:
            if name not in (*parts, "cost"):
                raise typer.BadParameter(f"there is no {name!r}; there are {', '.join((*parts, 'cost'))}")
            for rate in parts[name]() if name in parts else ():
                err.print(f"{rate.name}: {rate.share:.4f}", style="dim", markup=False)
                rates.append(rate)
        if "cost" in wanted:
            lines += cost()
    draw(rates, lines)
    if json_file:
        outcomes = [asdict(r) | {"share": r.share, "interval": r.interval, "reached": r.reached} for r in rates]
        json_file.write_text(json.dumps({"rates": outcomes, "lines": lines}, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    typer.run(run)
