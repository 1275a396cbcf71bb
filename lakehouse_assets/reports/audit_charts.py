"""What the audits' charts are drawn from: numbers → places in a small SVG. The SVG itself stands in the templates.

Belongs here: scales. Does not: text, colours, HTML.
"""

from collections.abc import Sequence
from typing import Any

WIDTH, BAR_WIDTH, BAR_HEIGHT = 160.0, 420.0, 26


def interval(low: float, estimate: float, high: float, threshold: float) -> dict[str, float]:
    """Places of a share, its interval and what was promised on a line of ``WIDTH``, which ends at 100 %."""
    start = max(min(low, threshold) - 0.05, 0.0)

    def place(share: float) -> float:
        return round((share - start) / max(1.0 - start, 1e-9) * (WIDTH - 8) + 4, 1)

    return {"low": place(low), "high": max(place(high), place(low) + 1), "at": place(estimate), "promised": place(threshold)}


def bars(groups: Sequence[tuple[str, float, float]]) -> dict[str, Any]:
    """Two bars for each group (share of the table, share of the sample), as wide as the greatest of all is ``BAR_WIDTH``."""
    most = max((share for _, *shares in groups for share in shares), default=0.0) or 1.0
    rows = [
        {"name": name if len(name) <= 24 else name[:23] + "…", "y": n * BAR_HEIGHT, "raw": a, "sampled": b,
         "raw_width": round(a / most * BAR_WIDTH, 1), "sampled_width": round(b / most * BAR_WIDTH, 1)}
        for n, (name, a, b) in enumerate(groups)
    ]  # fmt: skip
    return {"rows": rows, "height": len(groups) * BAR_HEIGHT + 4}
