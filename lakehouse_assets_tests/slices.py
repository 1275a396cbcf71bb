"""Which of the exhaustive tests a seed draws: as many as fit into a few minutes, the same ones for the same seed.

Belongs here: the draw. Does not: the marks with their seconds (on the tests), or when a slice runs (Makefile).
"""

import hashlib
from collections.abc import Mapping

# Of one process. With two, and with what they share, a slice takes about ten minutes.
SLICE_SECONDS = 1000


def draw(seconds: Mapping[str, float], seed: str, budget: float = SLICE_SECONDS) -> set[str]:
    """Names of tests in an order that the seed gives, each that still fits into the budget."""
    chosen, left = set(), budget
    for name in sorted(seconds, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest()):
        if seconds[name] <= left:
            chosen.add(name)
            left -= seconds[name]
    return chosen
