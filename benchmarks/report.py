"""Results as a table and as JSON. Belongs here: how they look. Does not: running, or computing anything."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness import Result, Sample, median_steps


def as_json(machine: Mapping[str, Any], options: Mapping[str, Any], results: Sequence[Result]) -> dict[str, Any]:
    """Everything that is known of this run, JSON-safe."""
    return {"machine": dict(machine), "options": dict(options), "results": [result.as_dict() for result in results]}


def draw(console: Console, machine: Mapping[str, Any], results: Sequence[Result]) -> None:
    """The table, where the time went, the settings, the machine."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("benchmark", "size", "A", "B"):
        table.add_column(name)
    for name in ("A, s", "B, s", "A/B", "from–to", "at most", "A/B, CPU"):
        table.add_column(name, justify="right")
    table.add_column("")
    for result in results:
        table.add_row(*_cells(result))
    console.print(table)
    console.print("\nmedians; A/B is the median of the pairs' ratios, from–to their least and greatest", style="dim")
    for result in results:
        for label, samples in ((result.a, result.a_samples), (result.b, result.b_samples)):
            if label and any(sample.steps for sample in samples):
                console.print(f"\n{result.name}: {label}, s", style="bold", markup=False)
                console.print("  " + _steps(samples), markup=False)
    console.print("\nSpark's settings, both sides alike", style="bold")
    for names, settings in _grouped(results):
        console.print(f"  {', '.join(names)}: " + ", ".join(f"{k}={v}" for k, v in settings.items()), markup=False)
    console.print("\nmachine", style="bold")
    console.print("  " + ", ".join(f"{key} {value}" for key, value in machine.items()), markup=False)


def _cells(result: Result) -> list[str]:
    size = ", ".join(f"{value:,} {name}" for name, value in result.sizes.items())
    a, b = (_median(samples) for samples in (result.a_samples, result.b_samples))
    if result.ratio is None:
        more = [f"{value:,} {name.replace('_', ' ')}" for name, value in result.figures.items() if value is not None]
        output = ", ".join([*more, *([result.note] if result.note else [])])
        return [result.name, size, result.a, result.b or "", a, b, "", "", "", "", output]
    spread = f"{min(result.ratios):.2f}–{max(result.ratios):.2f}"
    limit = "" if result.limit is None else f"{result.limit:g}"
    reached = {True: "reached", False: "not reached", None: ""}[result.reached]
    cpu = "" if result.cpu_ratio is None else f"{result.cpu_ratio:.2f}"
    return [result.name, size, result.a, result.b or "", a, b, f"{result.ratio:.2f}", spread, limit, cpu, reached]


def _median(samples: Sequence[Sample]) -> str:
    return f"{median(s.seconds for s in samples):.2f}" if samples else ""


def _steps(samples: Sequence[Sample]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {seconds:.2f}" for name, seconds in median_steps(samples).items())


def _grouped(results: Sequence[Result]) -> list[tuple[list[str], Mapping[str, str]]]:
    names_by_settings: list[tuple[list[str], Mapping[str, str]]] = []
    for result in results:
        same = next((names for names, settings in names_by_settings if settings == result.settings), None)
        if same is None:
            names_by_settings.append(([result.name], result.settings))
        else:
            same.append(result.name)
    return names_by_settings
