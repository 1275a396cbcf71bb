"""Pairs: run two sides by turns, and say what the one costs beside the other.

Belongs here: the order of the runs, medians and ratios, the shape of the JSON (pure Python). Does not: what is run.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One run of one side. ``steps``: seconds of its parts, by name. ``cpu``: seconds of processors, where they are known."""

    seconds: float
    steps: Mapping[str, float] = field(default_factory=dict)
    cpu: float | None = None


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Side:
    """What is timed, and what is done before each run of it that is not. ``run`` says itself how long it took."""

    label: str
    run: Callable[[], Sample]
    prepare: Callable[[], None] = _nothing

    def once(self) -> Sample:
        """One run, prepared."""
        self.prepare()
        return self.run()


def timed(
    work: Callable[[Callable[[str], None]], Any],
    cpu: Callable[[], float] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Callable[[], Sample]:
    """A run that times ``work``. It is given a function to call with the name of each step that it has passed; what comes
    after the last of them is the step ``rest``. ``cpu``: seconds of processors used so far, by all that does the work.
    ``clock``: what the seconds of the run and of its steps are read from.
    """

    def run() -> Sample:
        used = cpu() if cpu else 0.0
        began = last = clock()
        steps: dict[str, float] = {}

        def passed(name: str) -> None:
            nonlocal last
            now = clock()
            steps[name] = steps.get(name, 0.0) + now - last
            last = now

        work(passed)
        ended = clock()
        return Sample(ended - began, {**steps, "rest": ended - last} if steps else {}, cpu() - used if cpu else None)

    return run


@dataclass(frozen=True)
class Result:
    """Samples of A and B, pair by pair; without B, of A alone. ``limit``: what the median ratio is not to exceed.

    ``sizes``: what was worked on. ``settings``: Spark's properties, the same for both sides. ``figures``: other numbers.
    ``note``: what else is to be known, such as why there are no samples.
    """

    name: str
    a: str
    a_samples: tuple[Sample, ...]
    b: str | None = None
    b_samples: tuple[Sample, ...] = ()
    limit: float | None = None
    sizes: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def ratios(self) -> list[float]:
        """A by B, of each pair."""
        return [a.seconds / b.seconds for a, b in zip(self.a_samples, self.b_samples, strict=True)] if self.b else []

    @property
    def cpu_ratio(self) -> float | None:
        """The same of processor seconds, which other work on the machine does not blur as much."""
        pairs = zip(self.a_samples, self.b_samples, strict=True) if self.b else ()
        ratios = [a.cpu / b.cpu for a, b in pairs if a.cpu and b.cpu]
        return median(ratios) if ratios else None

    @property
    def ratio(self) -> float | None:
        """The median of the pairs' ratios, which is not the ratio of the medians: each pair shared its minute."""
        return median(self.ratios) if self.ratios else None

    @property
    def reached(self) -> bool | None:
        """Whether the ratio is within its limit; None where there is none."""
        return None if self.limit is None or self.ratio is None else self.ratio <= self.limit

    def as_dict(self) -> dict[str, Any]:
        """JSON-safe: medians first, then every sample in the order in which its side ran."""
        return {
            "name": self.name,
            "sizes": dict(self.sizes),
            "pairs": len(self.a_samples),
            "ratio": self.ratio,
            "cpu_ratio": self.cpu_ratio,
            "limit": self.limit,
            "reached": self.reached,
            "ratios": self.ratios,
            "a": _side(self.a, self.a_samples),
            "b": _side(self.b, self.b_samples) if self.b else None,
            "figures": dict(self.figures),
            "note": self.note,
            "settings": dict(self.settings),
        }


def _side(label: str, samples: Sequence[Sample]) -> dict[str, Any]:
    return {
        "label": label,
        "median_seconds": median(s.seconds for s in samples) if samples else None,
        "seconds": [s.seconds for s in samples],
        "cpu_seconds": [s.cpu for s in samples],
        "median_steps": median_steps(samples),
    }


def median_steps(samples: Sequence[Sample]) -> dict[str, float]:
    """Each step's median, in the order of the steps; a step that a run did not have counts as nothing there."""
    names = dict.fromkeys(name for sample in samples for name in sample.steps)
    return {name: median(sample.steps.get(name, 0.0) for sample in samples) for name in names}


def run_pairs(a: Side, b: Side, pairs: int, say: Callable[[str], Any] = lambda _: None) -> tuple[list[Sample], list[Sample]]:
    """Run both sides by turns, as `run_rounds` does."""
    a_samples, b_samples = run_rounds([a, b], pairs, say, "pair")
    return a_samples, b_samples


def run_rounds(
    sides: Sequence[Side], rounds: int, say: Callable[[str], Any] = lambda _: None, word: str = "round"
) -> list[list[Sample]]:
    """Run all sides by turns: one round to warm up, which does not count, then ``rounds``, each in the other order than the
    one before, so that what drifts in the machine meets all alike. Returns the samples of each side.
    """
    results: list[list[Sample]] = [[] for _ in sides]
    for number in range(rounds + 1):
        turns = list(zip(results, sides, strict=True))
        for samples, side in turns if number % 2 == 0 else reversed(turns):
            say(f"{'warm-up' if number == 0 else f'{word} {number} of {rounds}'}: {side.label}")
            sample = side.once()
            if number:
                samples.append(sample)
    return results
