"""Checks proposed from what columns had: figures of a column, of all windows together and of the worst one → proposals.

Belongs here: which checks, with which bounds. Does not: the figures (operations/suggest), or trying them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import ceil, floor, inf, log10
from typing import Any

import yaml

from lakehouse_assets.contracts.columns import Column

WINDOWS = 5  # windows below which no number of rows is proposed
# A proposal that more of the past windows fail is left out.
MOST_FLAGGED = 0.05
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


@dataclass(frozen=True)
class Proposal:
    """A check as YAML's values, and its reason. ``flagged``: past windows that it fails, of ``windows`` that it was tried on;
    None before it was tried. ``lone``: windows that it would fail, had it been proposed from the others.
    """

    check: dict[str, Any]
    because: str
    windows: int | None = None
    flagged: int = 0
    lone: int = 0

    @property
    def yaml(self) -> str:
        """The check on one line, as under `checks:`."""
        options: Any = {"default_flow_style": True, "sort_keys": False, "width": inf, "allow_unicode": True}
        text = yaml.safe_dump(self.check, **options).strip()
        if "\n" in text:  # a text with line breaks: as JSON, which is YAML, it is one line
            text = json.dumps(self.check, ensure_ascii=False, default=str)
        # A plain `${` would be read as the name of a variable.
        return text.replace("${", "$${")

    @property
    def flags_too_many(self) -> bool:
        """Whether it fails more than a twentieth of the past windows."""
        return bool(self.windows) and self.flagged / (self.windows or 1) > MOST_FLAGGED

    @property
    def reason(self) -> str:
        """Why it is proposed, and how many past windows it would have flagged."""
        if self.windows is None:
            return self.because
        effect = "warned of" if self.check.get("severity", "critical") != "critical" else "quarantined, or rows of them"
        return f"{self.because}; {self.flagged} of {self.windows} past windows {effect}"

    def tried(self, windows: int, flagged: int) -> "Proposal":
        """The proposal with its figures on past windows."""
        return replace(self, windows=windows, flagged=max(flagged, min(self.lone, windows)))


def propose_for_column(column: Column, name: str, rows: int, figures: Mapping[str, Any], *, is_key: bool) -> list[Proposal]:
    """Return the checks of one column. ``rows``: of the table, for figures without their own. ``figures``: ``nulls``, ``low``
    and ``high`` (of texts: lengths), and where known ``rows``, ``windows``, ``worst`` (the greatest share of NULL in a window),
    ``values`` (all texts, if few; ``lone``: those of a single window) and ``pattern``.
    """
    rows, nulls = figures.get("rows", rows), figures["nulls"]
    windows = figures.get("windows") or 0
    where = f" in {windows} windows" if windows > 1 else ""
    worst, proposals = figures.get("worst") or 0, []
    if not nulls and not is_key:
        proposals.append(Proposal({"check": "not_null", "column": name}, f"no NULL in {rows} rows"))
    elif 0 < nulls < rows and worst < 1:
        # Twice what is usual, and more than any window had.
        share = max(2 * nulls / rows, 1.2 * worst)
        most = min(ceil(share * 1000) / 1000, 0.999)
        check = {"check": "null_share", "column": name, "max": most, "severity": "warning"}
        proposals.append(Proposal(check, f"{nulls / rows:.2%} are NULL{where}"))
    low, high = figures["low"], figures["high"]
    if low is None or high is None:
        return proposals
    if column.type == "string":
        return proposals + _of_texts(name, low, high, figures)
    if max(abs(low), abs(high)) < 1e300:
        least, most = bounds(low, high)
        check = {"check": "in_range", "column": name, "min": least, "max": most, "severity": "warning"}
        proposals.append(Proposal(check, f"seen from {low:g} to {high:g}{where}"))
    return proposals


def _of_texts(name: str, low: int, high: int, figures: Mapping[str, Any]) -> list[Proposal]:
    """A list of texts if there are few, else their pattern, else their lengths."""
    if values := figures.get("values"):
        check = {"check": "in_set", "column": name, "values": list(values)}
        return [Proposal(check, f"{len(values)} different texts", lone=figures.get("lone") or 0)]
    if pattern := figures.get("pattern"):
        check = {"check": "matches", "column": name, "pattern": pattern, "severity": "warning"}
        return [Proposal(check, "all texts have this form")]
    if low == high and low:
        return [Proposal({"check": "length", "column": name, "min": low, "max": high}, f"all are {low} long")]
    if not high:
        return []
    check = {"check": "length", "column": name, "min": max(floor(low * 0.8), min(low, 1)), "max": ceil(high * 1.2) + 1}
    return [Proposal({**check, "severity": "warning"}, f"from {low} to {high} characters")]


def propose_for_rows(counts: Sequence[int]) -> list[Proposal]:
    """Return the check of the number of rows, from those of the accepted windows; none of fewer than five."""
    counts = sorted(counts)
    if len(counts) < WINDOWS or not counts[0]:
        return []
    usual = counts[len(counts) // 2]
    low, high = floor(counts[0] / usual * 8) / 10, ceil(counts[-1] / usual * 12) / 10
    check = {"check": "row_count_ratio", "min": low, "max": high, "severity": "warning"}
    return [Proposal(check, f"{len(counts)} windows had {counts[0]} to {counts[-1]} rows, {usual} in the middle")]


def bounds(low: float, high: float) -> tuple[float, float]:
    """Round bounds with a fifth of the range to spare; what was never below zero is not expected to be.

    >>> bounds(12.94, 100.0)
    (0, 120)
    """
    spare = (high - low) / 5 or max(abs(high) / 5, 1.0)
    power = floor(log10(spare))
    step = 10.0**power
    least = _of_steps(floor(round((low - spare) / step, 9)), power)
    most = _of_steps(ceil(round((high + spare) / step, 9)), power)
    return (0 if low >= 0 > least else least), (0 if low < 0 >= high and most > 0 else most)


def _of_steps(count: int, power: int) -> float:
    value = Decimal(count).scaleb(power)
    return int(value) if value == value.to_integral_value() and abs(value) < 10**15 else float(value)
