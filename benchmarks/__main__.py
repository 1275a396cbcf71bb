"""`python -m benchmarks [NAME …]`: run benchmarks, print the table, keep the JSON.

Belongs here: arguments and the list of benchmarks. Does not: any measurement.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import (
    audit,
    catch_up,
    demo,
    end_to_end,
    frames,
    gate,
    incremental,
    profiling,
    rehearsal,
    rules,
    scattered,
    schema,
    streams,
)
from benchmarks.harness import Result
from benchmarks.lab import Lab
from benchmarks.machine import machine
from benchmarks.report import as_json, draw

# Those in processes of their own come first: no other JVM then holds memory beside theirs.
BENCHMARKS: dict[str, Callable[[Lab], Iterator[Result]]] = {
    "demo": demo.benchmark,
    "incremental": incremental.benchmark,
    "gate": gate.benchmark,
    "end-to-end": end_to_end.benchmark,
    "frame": frames.benchmark,
    "catch-up": catch_up.benchmark,
    "scattered": scattered.benchmark,
    "rules": rules.benchmark,
    "rules-gate": rules.gate_benchmark,
    "rules-many": rules.many_benchmark,
    "profiling": profiling.benchmark,
    "audit": audit.benchmark,
    "audit-memory": audit.memory_benchmark,
    "schema": schema.benchmark,
    "rehearsal": rehearsal.benchmark,
    "stream": streams.benchmark,
}
out, err = Console(width=None if sys.stdout.isatty() else 240, highlight=False), Console(stderr=True, highlight=False)


def run(
    names: Annotated[list[str] | None, typer.Argument(help=f"Any of {', '.join(BENCHMARKS)}; without one, all.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the results there as JSON as well.")] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Pairs that count, after one to warm up.")] = 5,
    scale: Annotated[
        float, typer.Option(min=0.0001, help="What the stated sizes are multiplied by; 0.01 for a quick try.")
    ] = 1.0,
    memory: Annotated[str, typer.Option(help="Heap of the JVM that gate, catch-up and rules share; of each peer's.")] = "6g",
    conf: Annotated[
        Path | None, typer.Option(exists=True, help="More Spark properties for that JVM, `key value` lines.")
    ] = None,
    work: Annotated[Path | None, typer.Option(help="Where the scratch folder is made: 10 GB at full size.")] = None,
) -> None:
    """What parts of the project cost, beside the least that would do the same work."""
    for name in names or ():
        if name not in BENCHMARKS:
            raise typer.BadParameter(f"there is no {name!r}; there are {', '.join(BENCHMARKS)}")
    machine_facts = machine()
    if machine_facts["load_average"] > machine_facts["cores"] / 2:
        err.print(f"load average {machine_facts['load_average']}: other work is running, which blurs the times", style="yellow")
    folder = Path(tempfile.mkdtemp(prefix="lakehouse-bench-", dir=work))
    lab = Lab(folder, pairs, scale, memory, conf, lambda text: err.print(text, style="dim", markup=False))
    results: list[Result] = []
    try:
        for name, benchmark in BENCHMARKS.items():
            if not names or name in names:
                for result in benchmark(lab):
                    results.append(result)
                    if json_file:  # after each: a long run that is stopped leaves what it has found
                        outcomes = as_json(machine_facts, {"pairs": pairs, "scale": scale}, results)
                        json_file.write_text(json.dumps(outcomes, indent=2) + "\n")
    finally:
        lab.close()
    draw(out, machine_facts, results)


if __name__ == "__main__":
    typer.run(run)
