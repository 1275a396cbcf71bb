"""Which statistics are ranked together, what each family weighs, and which of them are as strange on either side.

Belongs here: that list. Does not: the statistics, or ranks.
"""

from lakehouse_assets.decisions.drift.texts import TEXT_STATISTICS

# The families, and the weight of each family in the level. A family has a p-value of its own, since one
# outlier of volume in a year would mask all smaller faults of shape otherwise.
FAMILIES = {"shape": 4, "extremes": 1, "texts": 1, "distinct": 1, "missing": 1, "volume": 1, "slice": 2}
_FAMILY_OF = {"signed": None, "low": "extremes", "high": "extremes"} | {
    name: name for name in ("distinct", "missing", "volume")
}
_FAMILY_OF |= dict.fromkeys(TEXT_STATISTICS, "texts")
# Too low is as strange as too high; of the other statistics only large values are.
TWO_SIDED = frozenset({"location", "scale", *TEXT_STATISTICS, "distinct", "volume"})


def family_of(statistic: str) -> str | None:
    """The statistics that this one is ranked with; None for `signed`, of which only moving sums are ranked."""
    return _FAMILY_OF.get(statistic, "shape")
