"""`python -m benchmarks.drift_example_faults`: the kinds of faults of Auto-Validate-by-History in the example's tables.

Belongs here: real days as windows, one column at a time, with no expression; and the example's own feature. Does not: the
faults, or columns that are drawn (drift_faults).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.drift_faults import faults_of
from benchmarks.drift_seasons import EXAMPLES
from benchmarks.drift_weather import COLUMNS, days
from benchmarks.rates import share_of_count, table_of_faults
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.relations import Measurement

Frame = pd.DataFrame
OFFSET = "weather: pressure, by its offset at each station"
JUDGED, EVERY, STEP = 10, 5, 30  # windows after the history, those that get faults, and windows between two histories


class Subject(NamedTuple):
    """``column``: what faults are put into; ``other``: a column of the same kind, whose values one of the faults takes."""

    table: str
    column: str
    other: str
    kind: str = "number"
    is_offset: bool = False

    def __str__(self) -> str:
        return OFFSET if self.is_offset else f"{self.table}: {self.column}"

    def spec(self) -> DriftSpec:
        """The column as it is, in New York's time; or the example's own declaration."""
        if self.is_offset:
            return DriftSpec.model_validate({"features": [{"name": COLUMNS[self.column], "by": "origin"}]})
        return DriftSpec(features=(self.column,), timezone="America/New_York")

    def measure(self, rows: Frame) -> list[Measurement]:
        """Profiles of the feature."""
        if not self.is_offset:
            return list(measure_columns(rows[[self.column]], {self.column: self.kind}))
        name = COLUMNS[self.column]
        usual = rows.groupby("time_hour")[self.column].transform("mean")
        rows = rows.assign(**{name: (rows[self.column] - usual).round(6)})
        each = [(station, next(measure_columns(of, {name: "number"}))) for station, of in rows.groupby("origin")]
        return [replace(profile, stratum=str(station)) for station, profile in each if isinstance(profile, Profile)]


SUBJECTS = (
    *(
        Subject("weather", *pair)
        for pair in (("temp", "dewp"), ("humid", "visib"), ("wind_speed", "temp"), ("pressure", "temp"))
    ),
    Subject("weather", "pressure", "dewp", is_offset=True),
    *(Subject("flights", *pair, "category") for pair in (("carrier", "origin"), ("origin", "dest"), ("dest", "origin"))),
    Subject("flights", "tail_number", "dest", "category"),
    *(Subject("flights", *pair) for pair in (("distance", "air_time"), ("dep_delay", "arr_delay"))),
)


@cache
def windows_of(table: str) -> dict[datetime, Frame]:
    """Every day of a table, as it arrived."""
    if table == "weather":
        by_day = days()
    else:
        files = sorted((EXAMPLES / table / "on_time").glob("*.json.gz"))
        by_day = {file.name[:10]: pd.read_json(file, lines=True) for file in files}
    return {datetime.fromisoformat(day).replace(tzinfo=UTC): rows for day, rows in by_day.items()}


def _put(rng: np.random.Generator, fault: Callable[..., pd.Series], rows: Frame, subject: Subject) -> Frame | None:
    """A window with a fault in the column; None where it changes nothing."""
    rows = rows.reset_index(drop=True)
    changed = fault(rng, rows[subject.column], rows[subject.other])
    if changed.reset_index(drop=True).equals(rows[subject.column]):
        return None
    # Rows that are doubled have new numbers.
    return rows.iloc[changed.index.to_numpy() % len(rows)].assign(**{subject.column: changed.to_numpy()})


def simulate(subject: Subject, history: int, start: int) -> tuple[list[str], dict[str, list[bool]]]:
    """Learn ``history`` days; then judge ten days, two of them with each fault as well. Days that are accepted are learnt."""
    rng, spec = np.random.default_rng([43, start]), subject.spec()
    chosen = list(windows_of(subject.table).items())[start : start + history + JUDGED]
    state, actions, faulty = BaselineState(spec), [], defaultdict(list)
    for index, (moment, rows) in enumerate(chosen):
        measured = subject.measure(rows)
        # The first are measured again against each other, whatever was found when they came.
        verdict = judge_drift(measured, state.baseline, state.history, spec, window=moment) if index >= spec.warn_from else None
        if index >= history and verdict:
            actions.append(verdict.action)
            for name, fault in faults_of(subject.kind).items() if (index - history) % EVERY == 0 else ():
                changed = _put(rng, fault, rows, subject)
                if changed is not None:
                    of_fault = subject.measure(changed)
                    action = judge_drift(of_fault, state.baseline, state.history, spec, window=moment).action
                    faulty[name].append(action in ("hold", "error"))
        if verdict is None or verdict.action != "hold" or index < history:
            state.learn(moment, measured, verdict.statistics if verdict else {})
    return actions, dict(faulty)


def _row(actions: Sequence[str], hits: Sequence[bool]) -> Iterator[str]:
    yield share_of_count(actions.count("hold"), len(actions))
    yield share_of_count(sum(action == "warn" for action in actions), len(actions))
    yield share_of_count(sum(hits), len(hits))
    recall, clean = float(np.mean(hits)), actions.count("hold") / len(actions)
    yield f"{recall / (recall + clean):.3f}" if recall else "0"


def run(
    windows: Annotated[int, typer.Option(min=20, help="Days of history.")] = 29,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; without it, one for each processor.")] = None,
) -> None:
    """Clean days quarantined, and faults found, by column and by fault."""
    table = Table("column", "clean, quarantined", "a warning", "faults, quarantined", "precision", box=None)
    by_fault: dict[str, list[bool]] = defaultdict(list)
    all_actions: list[str] = []
    with ProcessPoolExecutor(processes) as pool:
        for subject in SUBJECTS:
            starts = range(0, len(windows_of(subject.table)) - windows - JUDGED, STEP)
            runs = list(pool.map(partial(simulate, subject, windows), starts))
            actions = [action for each, _ in runs for action in each]
            for _, faulty in runs:
                for fault, hits in faulty.items():
                    by_fault[fault] += hits
            all_actions += actions
            table.add_row(str(subject), *_row(actions, [hit for _, faulty in runs for hits in faulty.values() for hit in hits]))
    table.add_row("all", *_row(all_actions, [hit for hits in by_fault.values() for hit in hits]))
    out = Console(width=160, highlight=False)
    out.print(table)
    out.print(table_of_faults(by_fault))


if __name__ == "__main__":
    typer.run(run)
