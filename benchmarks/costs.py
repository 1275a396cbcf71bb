"""`python -m benchmarks.costs`: what a window costs by its size and its rules: a model fitted to runs, shown on others.

Belongs here: runs of stated size, and the fit. Does not: what a long history (long_history) or a tick (tick) costs.

A run brings its windows from CSV files to silver by the project's own steps, in one warm session. The processor seconds are
those of Python and Java. They are modelled as a sum of what a run, a window, a rule and a cell take, none of it negative
(Lawson & Hanson, *Solving Least Squares Problems*, 1974, chapter 23), relative to what was measured.
"""

import json
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from pyarrow import csv
from scipy.optimize import nnls

from benchmarks.harness import timed
from benchmarks.lab import Lab
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.settings import Settings

START, REPEATED = datetime(2024, 1, 1, tzinfo=UTC), 0.1
WARMING = 20  # runs, until Java has compiled itself
# The part of the cost that each of the gate's steps belongs to.
PARTS = {
    "extracting": "bronze", "bronze_committed": "bronze", "extraction_recorded": "bronze",
    "stage_done": "staging", "rules_measured": "measures", "measure_done": "measures", "decide_done": "decision",
    "before_write": "silver", "write_done": "silver",
}  # fmt: skip


@dataclass(frozen=True)
class Size:
    """One run's: rows of a window, columns, checks, drift features and windows."""

    rows: int
    columns: int
    checks: int
    features: int
    windows: int = 1

    @property
    def terms(self) -> dict[str, float]:
        """What the cost is a sum of, each with its amount."""
        total = self.rows * self.windows
        return {
            "a run": 1,
            "a window": self.windows,
            "a column or check": self.columns + self.checks,
            "a feature of a window": self.features * self.windows,
            "1 million rows": total / 1e6,
            "1 million cells": total * self.columns / 1e6,
            "1 million rows and a check": total * self.checks / 1e6,
            "1 million rows and a feature": total * self.features / 1e6,
        }


SIZES_TO_FIT = (
    Size(100, 5, 3, 0), Size(100, 40, 3, 0), Size(100, 5, 40, 0), Size(100, 5, 3, 3), Size(100, 5, 3, 0, 20),
    Size(100, 5, 3, 3, 20), Size(200_000, 5, 3, 0), Size(200_000, 40, 3, 0), Size(200_000, 5, 40, 0), Size(200_000, 5, 3, 3),
    Size(1_000_000, 5, 3, 0), Size(1_000_000, 8, 10, 3), Size(50_000, 10, 10, 2, 10),
)  # fmt: skip
SIZES_TO_PREDICT = (
    Size(1_000, 12, 8, 1), Size(30_000, 20, 10, 1), Size(500_000, 12, 15, 2), Size(2_000_000, 9, 11, 3),
    Size(10_000, 10, 10, 3, 20), Size(100_000, 25, 25, 0, 4),
)  # fmt: skip


def table(size: Size) -> TableSpec:
    """Return a table of an id, a moment and numbers, with ranges that nothing leaves."""
    numbers = [f"c{i}" for i in range(size.columns - 2)]
    ranges = [{"column": numbers[i % len(numbers)], "min": -1000 - i, "max": 1000} for i in range(size.checks)]
    attributes: dict[str, Any] = {
        "name": "readings",
        "source": {"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv"},
        "extraction": {"cadence": "daily", "start": START, "mode": "upsert"},
        "key": ["id"],
        "last_modified": "at",
        "columns": {"id": "bigint", "at": "timestamp", **dict.fromkeys(numbers, "double")},
        "checks": [{"check": "in_range", "name": f"range_{i}", **values} for i, values in enumerate(ranges)],
    }
    if size.features:
        attributes["drift"] = {"features": numbers[: size.features], "cold_start": "learn"}
    return TableSpec.model_validate(attributes)


def land(settings: Settings, spec: TableSpec, size: Size, number: int) -> Window:
    """Write the file of a window, a tenth of whose keys the window before had."""
    rng = np.random.default_rng(number)
    window = spec.extraction.window_at(START + timedelta(days=number))
    first = int(number * size.rows * (1 - REPEATED))
    at = pa.array(np.datetime64(window.start.replace(tzinfo=None), "ms") + rng.integers(86_400_000, size=size.rows))
    values = {name: np.round(rng.normal(20, 3, size.rows), 3) for name in spec.columns if name.startswith("c")}
    path = Path(settings.landing, "readings", f"{window.start:%Y-%m-%d}.csv")
    path.parent.mkdir(parents=True, exist_ok=True)
    csv.write_csv(pa.table({"id": np.arange(first, first + size.rows), "at": at, **values}), path)
    return window


def measure(lab: Lab, size: Size, rounds: int) -> dict[str, Any]:
    """Return the processor seconds of a run of this size, in all and by part, and the bytes that it wrote: the medians of
    ``rounds`` runs, after one that compiles what it needs.
    """
    spec, settings = table(size), lab.settings("-".join(str(part) for part in vars(size).values()))
    samples, sizes, number = [], [], 0
    for _ in range(1 + rounds):
        windows = [land(settings, spec, size, number + i) for i in range(size.windows)]
        number += size.windows
        before = _bytes(settings)
        samples.append(timed(partial(_publish, lab, settings, spec, windows), clock=lab.cpu)())
        sizes.append({name: count - before.get(name, 0) for name, count in _bytes(settings).items()})
    lab.clear(settings.root, settings.landing)
    by_part = [_sum_parts(sample.steps) for sample in samples[1:]]
    return {
        "seconds": statistics.median(sample.seconds for sample in samples[1:]),
        "parts": {name: statistics.median(each[name] for each in by_part) for name in by_part[0]},
        "bytes": {name: statistics.median(each[name] for each in sizes[1:]) for name in sizes[-1]},
    }


def _publish(lab: Lab, settings: Settings, spec: TableSpec, windows: Sequence[Window], step: Callable[[str], None]) -> None:
    run = lab.run(settings, spec, step)
    extract(run, windows)
    publish(run, windows)


def _sum_parts(steps: Mapping[str, float]) -> dict[str, float]:
    parts = dict.fromkeys([*PARTS.values(), "the rest"], 0.0)
    for name, seconds in steps.items():
        parts[PARTS.get(name, "the rest")] += seconds
    return parts


def _bytes(settings: Settings) -> dict[str, int]:
    """Return the bytes of each layer's files that are on the disk, with the Delta logs."""
    layers = [path for path in Path(settings.root).glob("*") if path.is_dir()]
    return {layer.name: sum(file.stat().st_size for file in layer.rglob("*") if file.is_file()) for layer in layers}


def fit(sizes: Sequence[Size], seconds: Sequence[float]) -> dict[str, float]:
    """Return the seconds that each term takes: least squares of the relative error, none negative."""
    rows = np.array([list(size.terms.values()) for size in sizes]) / np.array(seconds)[:, None]
    values, _ = nnls(rows, np.ones(len(sizes)))
    return dict(zip(sizes[0].terms, values.tolist(), strict=True))


def predict(model: Mapping[str, float], size: Size) -> float:
    """Return the seconds by a model."""
    return sum(model[name] * amount for name, amount in size.terms.items())


def lines(lab: Lab, rounds: int) -> Iterator[dict[str, Any]]:
    """Measure all runs; yield each, then the model, then how far it is off where it was not fitted."""
    seconds: list[float] = []
    measure(lab, Size(20_000, 10, 10, 2), WARMING)
    for size in SIZES_TO_FIT:
        result = measure(lab, size, rounds)
        seconds.append(result["seconds"])
        yield {"run": size.__dict__, **result}
    model = fit(SIZES_TO_FIT, seconds)
    yield {"model": model, "off": _errors(model, SIZES_TO_FIT, seconds)}
    seconds = []
    for size in SIZES_TO_PREDICT:
        result = measure(lab, size, rounds)
        seconds.append(result["seconds"])
        yield {"run": size.__dict__, **result, "by the model": predict(model, size)}
    yield {"off where it was not fitted": _errors(model, SIZES_TO_PREDICT, seconds)}


def _errors(model: Mapping[str, float], sizes: Iterable[Size], seconds: Iterable[float]) -> list[float]:
    return [round(predict(model, size) / spent - 1, 3) for size, spent in zip(sizes, seconds, strict=True)]


def main(
    rounds: Annotated[int, typer.Option(help="Runs of each size that count.")] = 2,
    memory: Annotated[str, typer.Option(help="Java's heap.")] = "4g",
) -> None:
    """Print a line of JSON for each run, the model, and its errors."""
    with tempfile.TemporaryDirectory(prefix="lakehouse-costs-") as folder:
        lab = Lab(Path(folder), memory=memory)
        try:
            for line in lines(lab, rounds):
                print(json.dumps(_rounded(line)), flush=True)  # noqa: T201
        finally:
            lab.close()


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return round(value, 3) if isinstance(value, float) else value


if __name__ == "__main__":
    typer.run(main)
