"""Shares with their exact intervals, as the tables of docs/drift.md have them.

Belongs here: hits of tries, and how they are printed. Does not: what is counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor

from rich.table import Table
from scipy import stats


@dataclass(frozen=True)
class Rate:
    """``hits`` of ``tries``, with the exact 95 % interval; ``least`` and ``most``: what was to be reached."""

    name: str
    hits: int
    tries: int
    least: float | None = None
    most: float | None = None
    note: str = ""

    @property
    def share(self) -> float:
        """hits / tries."""
        return self.hits / self.tries

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's, 95 %; tries that share a baseline are counted as if independent."""
        outcomes = stats.binomtest(self.hits, self.tries).proportion_ci(method="exact")
        return float(outcomes.low), float(outcomes.high)

    @property
    def reached(self) -> bool | None:
        """Whether the share is within its bounds; None where none are stated."""
        if self.least is None and self.most is None:
            return None
        return (self.least is None or self.share >= self.least) and (self.most is None or self.share <= self.most)

    @property
    def text(self) -> str:
        """The share and its interval, outwards to three digits.

        >>> Rate("", 0, 300).text
        '0.000 (0.000-0.013)'
        """
        low, high = self.interval
        return f"{self.share:.3f} ({floor(1000 * low) / 1000:.3f}-{ceil(1000 * high) / 1000:.3f})"


def share_of(hits: Iterable[bool]) -> str:
    """Return the share of hits with its interval; empty of no tries."""
    tried = list(hits)
    return Rate("", sum(tried), len(tried)).text if tried else ""


def share_of_count(hits: int, tries: int) -> str:
    """Return ``hits of tries`` with the interval."""
    return f"{hits} of {tries}, {Rate('', hits, tries).text}" if tries else ""


def table_of_faults(hits: Mapping[str, Sequence[bool]]) -> Table:
    """Return how many windows with each fault were quarantined."""
    table = Table("fault", "quarantined", box=None)
    for fault, outcomes in hits.items():
        table.add_row(fault, share_of_count(sum(outcomes), len(outcomes)))
    return table
