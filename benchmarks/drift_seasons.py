"""`python -m benchmarks.drift_seasons seasons|flights`: plain columns with a season, and the real flights by hour.

Belongs here: such columns, faults, the gate's own decision on each. Does not: columns without a season (drift_faults).
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.rates import share_of
from lakehouse_assets.contracts.drift import DriftSpec, FeatureSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.compare import measure_columns
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.verdict import DriftVerdict

EXAMPLES = Path(__file__).parents[1] / "data" / "examples"
Rng = np.random.Generator
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
KINDS = {"value": "number", "other": "number", "group": "category"}
SPEC = DriftSpec(features=tuple(FeatureSpec(name=name, expr=name) for name in KINDS))
GROUPS = np.array(["north", "south", "east", "west", "middle"])


def level_by_weekday(moment: datetime) -> float:
    """0 on workdays but for Monday, 1.5 at the weekend, in deviations of a window's values."""
    return (0.7, 0.0, 0.1, -0.1, 0.2, 1.5, 1.3)[moment.weekday()]


def level_by_hour(moment: datetime) -> float:
    """A day's wave, with a step at noon."""
    return 1.5 * float(np.sin(moment.hour * np.pi / 12)) + 0.5 * (moment.hour >= 12)


SEASONS: dict[str, tuple[timedelta, Callable[[datetime], float]]] = {
    "none": (timedelta(days=1), lambda _: 0.0),
    "weekday": (timedelta(days=1), level_by_weekday),
    "hour": (timedelta(hours=1), level_by_hour),
    "hour and weekday": (timedelta(hours=1), lambda moment: level_by_hour(moment) + level_by_weekday(moment)),
    "trend": (timedelta(days=1), lambda moment: (moment - FIRST).days / 20),
}


def window(rng: Rng, level: float, rows: int = 1_000) -> pd.DataFrame:
    """A window of three columns that all follow the season, each with an offset of its own window."""
    rows = round(rows * np.exp(0.05 * rng.normal() + 0.2 * level))
    shares = np.exp(0.4 * level * np.arange(5) / 4 + 0.05 * rng.normal(size=5))
    return pd.DataFrame(
        {
            "value": rng.normal(20 + level + 0.05 * rng.normal(), 1, rows),
            "other": np.exp(rng.normal(0.3 * level + 0.05 * rng.normal(), 1, rows)),
            "group": rng.choice(GROUPS, rows, p=shares / shares.sum()),
        }
    )


FAULTS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "value +0.5 deviations": lambda rows: rows.assign(value=rows["value"] + 0.5),
    "value -0.5 deviations": lambda rows: rows.assign(value=rows["value"] - 0.5),
    "other x 2": lambda rows: rows.assign(other=rows["other"] * 2),
    "a group gone": lambda rows: rows.loc[rows["group"] != "east"],
    "half the rows": lambda rows: rows.sample(frac=0.5, random_state=1),
}


# The features that a message may name for each fault; fewer rows move the volume, too.
FAULTY_FEATURES = {
    "value +0.5 deviations": ("value",), "value -0.5 deviations": ("value",), "other x 2": ("other",),
    "a group gone": ("group", "volume"), "half the rows": ("volume",), "EWR gone": ("origin", "volume"),
    "carrier in lower case in 10 %": ("carrier",), "JFK as LGA": ("origin",), "miles as kilometres": ("distance",),
}  # fmt: skip


class Outcome(NamedTuple):
    """The action on a window, and whether its message names the faulty feature."""

    action: str
    is_named: bool

    @classmethod
    def of(cls, verdict: DriftVerdict, fault: str) -> "Outcome":
        """Of the window with a fault."""
        return cls(verdict.action, verdict.worst is not None and verdict.worst.feature in FAULTY_FEATURES[fault])


def share_named(outcomes: Sequence[Outcome]) -> str:
    """Of the quarantined windows, those whose message names the faulty feature."""
    named = [outcome.is_named for outcome in outcomes if outcome.action == "hold"]
    return f"{float(np.mean(named)):.2f}" if named else "-"


def judge(rows: pd.DataFrame, state: BaselineState, moment: datetime) -> DriftVerdict:
    """The gate's verdict on a window."""
    return judge_drift(list(measure_columns(rows, KINDS)), state.baseline, state.history, state.spec, window=moment)


def learn(rng: Rng, season: str, windows: int) -> tuple[BaselineState, datetime]:
    """A baseline of clean windows, and the time of the next one."""
    state, (step, level) = BaselineState(SPEC), SEASONS[season]
    for index in range(windows):
        moment = FIRST + index * step
        measured = list(measure_columns(window(rng, level(moment)), KINDS))
        verdict = judge_drift(measured, state.baseline, state.history, SPEC, window=moment)
        state.learn(moment, measured, verdict.statistics)
    return state, FIRST + windows * step


def simulate(season: str, windows: int, clean: int, seed: int) -> tuple[list[str], dict[str, list[Outcome]]]:
    """Of one baseline: the actions on clean windows, one after another without being learnt, and on each with each fault."""
    rng = np.random.default_rng([5, sorted(SEASONS).index(season), windows, seed])
    state, after = learn(rng, season, windows)
    step, level = SEASONS[season]
    actions, faulty = [], defaultdict(list)
    for index in range(clean):
        moment = after + index * step
        # Of a trend only the next window is near enough.
        if season == "trend":
            moment = after
        rows = window(rng, level(moment))
        actions.append(judge(rows, state, moment).action)
        if index % 4 == 0:
            for name, change in FAULTS.items():
                faulty[name].append(Outcome.of(judge(change(rows), state, moment), name))
    return actions, dict(faulty)


FLIGHTS = {"carrier": "category", "origin": "category", "dest": "category", "distance": "number"}
FLIGHTS_SPEC = DriftSpec(features=tuple(FeatureSpec(name=name, expr=name) for name in FLIGHTS))


def _lower(rng: Rng, rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(carrier=rows["carrier"].where(rng.random(len(rows)) > 0.1, rows["carrier"].str.lower()))


FLIGHT_FAULTS: dict[str, Callable[[Rng, pd.DataFrame], pd.DataFrame]] = {
    "EWR gone": lambda _, rows: rows.loc[rows["origin"] != "EWR"],
    "half the rows": lambda _, rows: rows.sample(frac=0.5, random_state=1),
    "carrier in lower case in 10 %": _lower,
    "JFK as LGA": lambda _, rows: rows.assign(origin=rows["origin"].replace("JFK", "LGA")),
    "miles as kilometres": lambda _, rows: rows.assign(distance=rows["distance"] * 1.609344),
}


def read_flights(first: datetime, days: int) -> dict[datetime, pd.DataFrame]:
    """The example's flights by the hour of their planned departure, New York's time; hours with fewer than 20 are left out."""
    folder = EXAMPLES / "flights" / "on_time"
    names = [f"{first + timedelta(days=day):%Y-%m-%d}.json.gz" for day in range(days + 1)]
    events = pd.concat([pd.read_json(folder / name, lines=True) for name in names if (folder / name).exists()])
    flights = events.drop_duplicates(["scheduled_departure", "carrier", "flight"])
    hours = pd.to_datetime(flights["scheduled_departure"]).dt.floor("h").dt.tz_localize(UTC)
    by_hour: dict[Any, pd.DataFrame] = dict(list(flights.groupby(hours)))
    return {hour: rows for hour, rows in sorted(by_hour.items()) if len(rows) >= 20 and hour >= first}


def simulate_flights(windows: int, judged: int, month: int) -> tuple[list[str], dict[str, list[Outcome]]]:
    """Hours from a month's first day on: learnt until ``windows`` are known, then judged, learnt if they are accepted."""
    rng, state = np.random.default_rng([7, month]), BaselineState(FLIGHTS_SPEC)
    hours = read_flights(datetime(2013, month, 1, tzinfo=UTC), (windows + judged) // 16 + 2)
    actions, faulty = [], defaultdict(list)
    for index, (moment, rows) in enumerate(hours.items()):
        measured = list(measure_columns(rows, FLIGHTS))
        verdict = judge_drift(measured, *state.without_window(moment), FLIGHTS_SPEC, window=moment)
        if index >= windows:
            actions.append(verdict.action)
            if index % 5 == 0:
                for name, change in FLIGHT_FAULTS.items():
                    changed = list(measure_columns(change(rng, rows), FLIGHTS))
                    drift = judge_drift(changed, *state.without_window(moment), FLIGHTS_SPEC, window=moment)
                    faulty[name].append(Outcome.of(drift, name))
        if index >= windows + judged:
            break
        if verdict.action != "hold" or index < windows:
            state.learn(moment, measured, verdict.statistics)
    return actions, dict(faulty)


def flights(
    windows: Annotated[int, typer.Option(min=20, help="Hours of history.")] = 330,
    judged: Annotated[int, typer.Option(min=5, help="Hours judged after them.")] = 120,
    months: Annotated[str, typer.Option(help="The months that begin each history, separated by commas.")] = "2,4,6,8,10",
) -> None:
    """The real flights: clean hours quarantined, and faults found."""
    with ProcessPoolExecutor() as pool:
        runs = list(pool.map(partial(simulate_flights, windows, judged), map(int, months.split(","))))
    actions = [action for each, _ in runs for action in each]
    table = Table("", "quarantined", "warning", "named", "windows", box=None)
    table.add_row("clean", *_shares(actions), "", str(len(actions)))
    for name in FLIGHT_FAULTS:
        outcomes = [outcome for _, faulty in runs for outcome in faulty[name]]
        table.add_row(name, *_shares([each.action for each in outcomes]), share_named(outcomes), str(len(outcomes)))
    Console(width=240, highlight=False).print(table)


def _shares(actions: Sequence[str]) -> list[str]:
    return [share_of(action == each for action in actions) for each in ("hold", "warn")]


app = typer.Typer()
app.command("flights")(flights)


@app.command("seasons")
def run(
    windows: Annotated[int, typer.Option(min=20, help="Windows of history; hourly ones six times as many.")] = 56,
    baselines: Annotated[int, typer.Option(min=1, help="Baselines of each season.")] = 10,
    clean: Annotated[int, typer.Option(min=1, help="Clean windows judged by each baseline.")] = 28,
    seed: Annotated[int, typer.Option(help="The first baseline's seed.")] = 0,
) -> None:
    """Clean windows quarantined, and faults: quarantined and, of those, named."""
    table = Table("season", "clean, held", "clean, warned", *FAULTS, box=None)
    with ProcessPoolExecutor() as pool:
        for season, (step, _) in SEASONS.items():
            history = windows * (6 if step < timedelta(days=1) else 1)
            runs = list(pool.map(partial(simulate, season, history, clean), range(seed, seed + baselines)))
            actions = [action for each, _ in runs for action in each]
            outcomes = {name: [outcome for _, faulty in runs for outcome in faulty[name]] for name in FAULTS}
            shares = [f"{_shares([o.action for o in each])[0]}, {share_named(each)}" for each in outcomes.values()]
            table.add_row(f"{season} ({history})", *_shares(actions), *shares)
    Console(width=240, highlight=False).print(table)


if __name__ == "__main__":
    app()
