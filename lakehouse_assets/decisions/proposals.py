"""Checks proposed from what columns had: figures of a column, of all windows together and of the worst one → proposals.

Belongs here: which checks, with which bounds. Does not: the figures (operations/suggest), or trying them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
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
    """A check as YAML's values, and its reason. ``flagged``: past windows that fail it, of ``windows`` that it was tried on;
    None before it was tried. ``lone``: windows that would fail it, had it been proposed from the others (leave one out).
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
        """Why it is proposed, and how many past windows it would have flagged, had it been proposed from the others."""
        if self.windows is None:
            return self.because
        effect = "warned of" if self.check.get("severity", "critical") != "critical" else "quarantined, or rows of them"
        held_out = ", by what the others had" if self.lone and self.flagged else ""
        return f"{self.because}; {self.flagged} of {self.windows} past windows {effect}{held_out}"

    def tried(self, windows: int, flagged: int) -> "Proposal":
        """The proposal with its figures on past windows."""
        return replace(self, windows=windows, flagged=max(flagged, min(self.lone, windows)))


def count_together(proposals: Sequence[Proposal]) -> tuple[int, int]:
    """Return the most past windows that all these together would have flagged, and of how many windows."""
    windows = max((p.windows or 0 for p in proposals), default=0)
    return min(sum(p.flagged for p in proposals), windows), windows


def extremes(worst: Sequence[tuple[float, int]], low: Sequence[Any], high: Sequence[Any]) -> dict[str, Any]:
    """Return figures of a column from its two farthest windows. ``worst``: shares of NULL, with the window's rows."""
    (share, rows), (next_share, _), *_ = [*worst, (None, None), (None, None)]
    figures = {"worst": share, "worst_rows": rows, "next_worst": next_share}
    for name, values in (("low", low), ("high", high)):
        figures[name], figures[f"next_{name}"], *_ = [*values, None, None]
    return figures


def propose_for_column(column: Column, name: str, rows: int, figures: Mapping[str, Any], *, is_key: bool) -> list[Proposal]:
    """Return the checks of one column. ``rows``: of the table, for figures without their own. ``figures``: ``nulls``, ``low``
    and ``high`` (of texts: lengths), and where known ``rows``, ``windows``, ``worst`` (the greatest share of NULL in a window),
    ``values`` (all texts, if few; ``lone``: those of a single window), ``pattern`` (``lone_shapes``: what it would not match,
    had it been made from the other windows). To leave one window out: ``worst_rows`` (of the worst window), ``next_worst``,
    ``next_low`` and ``next_high`` (of all windows but the farthest).
    """
    rows, nulls = figures.get("rows", rows), figures["nulls"]
    windows = figures.get("windows") or 0
    where = f" in {windows} windows" if windows > 1 else ""
    worst, proposals = figures.get("worst") or 0, []
    if not nulls and not is_key:
        proposals.append(Proposal({"check": "not_null", "column": name}, f"no NULL in {rows} rows"))
    elif 0 < nulls < rows and worst < 1:
        check = {"check": "null_share", "column": name, "max": _most_nulls(nulls / rows, worst), "severity": "warning"}
        proposals.append(Proposal(check, f"{nulls / rows:.2%} are NULL{where}", lone=_lone_nulls(nulls, rows, worst, figures)))
    low, high = figures["low"], figures["high"]
    if low is None or high is None:
        return proposals
    if column.type == "string":
        return proposals + _of_texts(name, low, high, figures)
    if max(abs(low), abs(high)) < 1e300:
        least, most = bounds(low, high)
        check = {"check": "in_range", "column": name, "min": least, "max": most, "severity": "warning"}
        proposals.append(Proposal(check, f"seen from {low:g} to {high:g}{where}", lone=_lone_bounds(figures, bounds)))
    return proposals


def _most_nulls(share: float, worst: float) -> float:
    """Twice what is usual, and more than any window had."""
    return min(ceil(max(2 * share, 1.2 * worst) * 1000) / 1000, 0.999)


def _lone_nulls(nulls: int, rows: int, worst: float, figures: Mapping[str, Any]) -> int:
    """Whether the worst window has more than the others would allow: without it they may have had none at all."""
    of_worst, next_worst = figures.get("worst_rows"), figures.get("next_worst")
    if not of_worst or next_worst is None or rows <= of_worst:
        return 0
    others = max(0, nulls - round(worst * of_worst))
    return int(not others or worst > _most_nulls(others / (rows - of_worst), next_worst))


def _lone_bounds(figures: Mapping[str, Any], make: Callable[[Any, Any], tuple[float, float]]) -> int:
    """How many windows are beyond the bounds that the others would give: only those with the extremes can be. Both extremes
    are left out, since they may be one window's.
    """
    low, high = figures.get("next_low"), figures.get("next_high")
    if low is None or high is None:
        return 0
    least, most = make(low, high)
    return int(figures["low"] < least) + int(figures["high"] > most)


def _of_texts(name: str, low: int, high: int, figures: Mapping[str, Any]) -> list[Proposal]:
    """A list of texts if there are few, else their pattern, else their lengths."""
    if values := figures.get("values"):
        check = {"check": "in_set", "column": name, "values": list(values)}
        return [Proposal(check, f"{len(values)} different texts", lone=figures.get("lone") or 0)]
    if pattern := figures.get("pattern"):
        check = {"check": "matches", "column": name, "pattern": pattern, "severity": "warning"}
        return [Proposal(check, "all texts have this form", lone=figures.get("lone_shapes") or 0)]
    least, most = _lengths(low, high)
    check = {"check": "length", "column": name, "min": least, "max": most}
    if low == high and low:
        return [Proposal(check, f"all are {low} long")]
    if not high:
        return []
    lone = _lone_bounds(figures, _lengths)
    return [Proposal({**check, "severity": "warning"}, f"from {low} to {high} characters", lone=lone)]


def _lengths(low: int, high: int) -> tuple[int, int]:
    """The one length that all have, or a fifth to spare."""
    return (low, high) if low == high and low else (max(floor(low * 0.8), min(low, 1)), ceil(high * 1.2) + 1)


def propose_for_rows(counts: Sequence[int]) -> list[Proposal]:
    """Return the check of the number of rows, from those of the accepted windows; none of fewer than five."""
    counts = sorted(counts)
    if len(counts) < WINDOWS or not counts[0]:
        return []
    usual, low, high = _ratios(counts)
    check = {"check": "row_count_ratio", "min": low, "max": high, "severity": "warning"}
    because = f"{len(counts)} windows had {counts[0]} to {counts[-1]} rows, {usual} in the middle"
    without_least, without_most = _ratios(counts[1:]), _ratios(counts[:-1])
    is_less = counts[0] / without_least[0] < without_least[1]
    return [Proposal(check, because, lone=int(is_less) + int(counts[-1] / without_most[0] > without_most[2]))]


def _ratios(counts: Sequence[int]) -> tuple[int, float, float]:
    """The middle one of ascending counts, and how far the others may be from it."""
    usual = counts[len(counts) // 2]
    return usual, floor(counts[0] / usual * 8) / 10, ceil(counts[-1] / usual * 12) / 10


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
