"""`python -m benchmarks.drift_peers`: the gate beside other ways to find drift, on the same batches; a table of docs/drift.md.

Belongs here: the batches, our verdicts, rates of all sides. Does not: how a peer is asked (peers/drift_…), the draws themselves
(drift_simulation). Each side is taken at the threshold that gives it 5 % false alarms on the same clean draws, and as it is.
"""

import json
import math
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.drift import SPEC
from benchmarks.drift_simulation import FAMILIES, FAULTS, HISTORY, ROWS, Floats, correlated, learn, measure, p_value, ranked
from benchmarks.peers import drift_naive
from benchmarks.peers.drift_environments import DRIFT_PEERS, ask
from benchmarks.peers.drift_peer_server import PeerAnswer
from benchmarks.peers.peer_client import PeerFailed
from benchmarks.rates import Rate
from lakehouse_assets.decisions.drift.statistic_history import row_maxima, standardize

OURS, FALSE_ALARMS, ALLOWANCE = "ours", 0.05, 0.02
THRESHOLD, CLEAN, DEPENDENT = "clean, for the threshold", "clean", ("AR(1) 0.9", "batch effect 0.1 sd")
Judged = dict[str, dict[str, PeerAnswer]]  # by method and kind of batch
Rates = dict[tuple[str, str], Rate]  # by kind of batch and method
out, err = Console(width=None if sys.stdout.isatty() else 200, highlight=False), Console(stderr=True, highlight=False)


@dataclass(frozen=True)
class Case:
    """One baseline and what is judged by it. ``batches``: how many of each kind; ``family``: None for correlated normals."""

    seed: int
    batches: Mapping[str, int]
    family: str | None = None

    @property
    def name(self) -> str:
        """Of its file; it tells no peer what a batch is."""
        return f"{'correlated' if self.family is None else f'family{sorted(FAMILIES).index(self.family)}'}-{self.seed}"

    @property
    def kinds(self) -> list[str]:
        """Of each batch, in their order."""
        return [kind for kind, count in self.batches.items() for _ in range(count)]

    def draw(self) -> tuple[list[Floats], list[Floats]]:
        """Windows of the baseline, and batches; with the seeds of `benchmarks.drift`, so that the baselines are the same."""
        if self.family is None:
            rng = np.random.default_rng([13, self.seed])
            windows = [correlated(rng, ROWS) for _ in range(HISTORY)]
            faults = {**dict.fromkeys((THRESHOLD, CLEAN), lambda _, x: x), **FAULTS}
            return windows, [faults[kind](rng, correlated(rng, ROWS)) for kind in self.kinds]
        rng = np.random.default_rng([11, sorted(FAMILIES).index(self.family), self.seed])
        drawn = [FAMILIES[self.family](rng, rng.normal(size=(ROWS, 3))) for _ in range(HISTORY + len(self.kinds))]
        return drawn[:HISTORY], drawn[HISTORY:]


def cases(baselines: int, threshold_draws: int, clean: int, each: int) -> list[Case]:
    """So many batches of each kind at least, spread evenly over so many baselines."""
    share = partial(_spread, baselines)
    normal = {**dict.fromkeys(FAULTS, share(each)), THRESHOLD: share(threshold_draws), CLEAN: share(clean)}
    return [
        *(Case(seed, normal) for seed in range(baselines)),
        *(Case(seed, {family: share(clean)}, family) for family in DEPENDENT for seed in range(baselines)),
    ]


def _spread(baselines: int, count: int) -> int:
    return math.ceil(count / baselines)


def ours(windows: list[Floats], batches: list[Floats]) -> PeerAnswer:
    """The score is the largest standardized statistic, without the effect floor; the decision a warning, with it."""
    learnt, output = learn(windows), PeerAnswer([], [])
    at = ranked(learnt.names)
    history = learnt.statistics[:, at]
    for batch in batches:
        now, effects = measure(batch, learnt)
        output.scores.append(float(row_maxima(standardize(history, now[at]))[-1]))
        output.alarms.append(p_value(history, now[at], effects[at], SPEC.min_effect) <= SPEC.warn_at)
    return output


def _one(folder: Path, case: Case) -> tuple[str, dict[str, PeerAnswer]]:
    windows, batches = case.draw()
    np.savez(folder / f"{case.name}.npz", baseline=np.array(windows), batches=np.array(batches))
    return case.name, {OURS: ours(windows, batches), **drift_naive.judge(np.array(windows), np.array(batches))}


def gather(drawn_cases: Iterable[Case], answers: Iterable[tuple[str, Mapping[str, PeerAnswer]]]) -> Judged:
    """What each method said, by the kind of batch, over all baselines."""
    kinds, results = (
        {case.name: case.kinds for case in drawn_cases},
        defaultdict(lambda: defaultdict(lambda: PeerAnswer([], []))),
    )
    for name, methods in answers:
        for method, output in methods.items():
            for i, (kind, alarm) in enumerate(zip(kinds[name], output.alarms, strict=True)):
                results[method][kind].alarms.append(alarm)
                results[method][kind].scores.extend(output.scores[i : i + 1])
    return {method: dict(by_kind) for method, by_kind in results.items()}


def threshold(clean: Sequence[float], share: float) -> float:
    """What another clean score exceeds with a probability of at most ``share``: infinite where there are too few to say."""
    rank = math.ceil(round((len(clean) + 1) * (1 - share), 9))
    return sorted(clean)[rank - 1] if rank <= len(clean) else math.inf


def at_threshold(judged: Judged) -> Rates:
    """Alarms at 5 % false alarms; of ours is asked the best peer's power, less an allowance."""
    results: Rates = {}
    for method, output in judged.items():
        if output[THRESHOLD].scores:
            limit = threshold(output[THRESHOLD].scores, FALSE_ALARMS)
            for kind in (CLEAN, *FAULTS):
                hits = sum(score > limit for score in output[kind].scores)
                results[kind, method] = Rate(f"{kind}, {method}, 5 % false alarms", hits, len(output[kind].scores))
    for kind in FAULTS:
        peers = [rate.share for (of, method), rate in results.items() if of == kind and method != OURS]
        if peers:
            results[kind, OURS] = replace(results[kind, OURS], least=round(max(0.0, max(peers) - ALLOWANCE), 9))
    return results


def at_defaults(judged: Judged) -> Rates:
    """Each method's own decisions; all clean draws count, since nothing was chosen by them."""
    results: Rates = {}
    for method, output in judged.items():
        alarms = {kind: one.alarms for kind, one in output.items() if kind != THRESHOLD}
        alarms[CLEAN] = output[CLEAN].alarms + output[THRESHOLD].alarms
        for kind in (CLEAN, *DEPENDENT, *FAULTS):
            results[kind, method] = Rate(f"{kind}, {method}, defaults", sum(alarms[kind]), len(alarms[kind]))
    return results


def drawn(title: str, rates: Rates) -> Table:
    """Kinds of batches as rows, methods as columns."""
    kinds, methods = (list(dict.fromkeys(key[i] for key in rates)) for i in (0, 1))
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in (*methods, *(["asked of ours"] if any(rate.reached is not None for rate in rates.values()) else [])):
        table.add_column(name)
    for kind in kinds:
        cells = [kind if kind in FAULTS else f"false alarms, {kind} ({rates[kind, OURS].tries})"]
        for method in methods:
            low, high = rates[kind, method].interval
            cells.append(f"{rates[kind, method].share:.2f} ({low:.2f}–{high:.2f})")
        if (ours_here := rates[kind, OURS]).reached is not None:
            cells.append(f"≥ {ours_here.least:.2f} {'reached' if ours_here.reached else 'not reached'}")
        table.add_row(*cells)
    return table


def _peers(folder: Path, drawn_cases: list[Case], set_up: bool, left_out: dict[str, str]) -> Iterator[Judged]:
    for peer in DRIFT_PEERS.values():
        try:
            if set_up and not peer.ready:
                err.print(f"{peer.title}: making its environment", style="dim")
                peer.set_up()
            if not peer.ready:
                left_out[peer.title] = "python -m benchmarks.drift_peers --set-up makes its environment"
                continue
            err.print(f"{peer.title}: judging", style="dim")
            yield gather(drawn_cases, ask(peer, folder, folder / f"{peer.name}.log"))
        except (PeerFailed, subprocess.CalledProcessError) as error:
            left_out[peer.title] = str(error)


def run(
    baselines: Annotated[int, typer.Option(min=1, help="Baselines of correlated columns, and of each dependence.")] = 4,
    threshold_draws: Annotated[int, typer.Option(min=19, help="Clean batches that say each method's threshold.")] = 60,
    clean: Annotated[int, typer.Option(min=1, help="Clean batches besides, and of each dependence.")] = 40,
    each: Annotated[int, typer.Option(min=1, help="Batches of each fault.")] = 40,
    set_up: Annotated[bool, typer.Option("--set-up", help="Make the peers' environments that are not there: 4 GB.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there as JSON as well.")] = None,
) -> None:
    """False alarms and power of the gate, of the naive method, and of the peers whose environments are there."""
    drawn_cases, left_out = cases(baselines, threshold_draws, clean, each), {}
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor() as pool:
        err.print(
            f"ours and naive: {len(drawn_cases)} baselines, {sum(len(case.kinds) for case in drawn_cases):,} batches",
            style="dim",
        )
        judged = gather(drawn_cases, pool.map(partial(_one, Path(scratch)), drawn_cases))
        for results in _peers(Path(scratch), drawn_cases, set_up, left_out):
            judged |= results
    settings = {"5 % false alarms": at_threshold(judged), "defaults": at_defaults(judged)}
    for title, rates in settings.items():
        out.print(drawn(f"At {title}" if title != "defaults" else "At their own defaults", rates), "")
    for title, why in left_out.items():
        out.print(f"{title} is left out: {why}", markup=False)
    if json_file:
        report = [
            asdict(rate) | {"at": at, "kind": kind, "method": method, "share": rate.share, "interval": rate.interval}
            for at, rates in settings.items()
            for (kind, method), rate in rates.items()
        ]
        reached = {kind: rate.reached for (kind, _), rate in settings["5 % false alarms"].items() if rate.reached is not None}
        results = {"rates": report, "reached": reached, "left_out": left_out}
        json_file.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    typer.run(run)
