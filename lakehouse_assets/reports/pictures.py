"""Which plot tells a drift decision: the worst feature of the batch beside the baseline's.

Belongs here: choosing what is drawn. Does not: drawing (plots), or finding the decision and its baseline (layers).
"""

from collections.abc import Mapping
from typing import Any

from lakehouse_assets.contracts.drift import VOLUME
from lakehouse_assets.decisions.baseline import Baseline, shape_of
from lakehouse_assets.decisions.categories import Categories
from lakehouse_assets.decisions.distances import Steps
from lakehouse_assets.decisions.relations import Measured, Relations, farthest_pair
from lakehouse_assets.reports.plots import two_distributions, two_ellipses, two_shares, volumes

BARS = 12
WINDOWS = 200


def drift_picture(title: str, worst: Mapping[str, Any], now: Measured | None, baseline: Baseline) -> str | None:
    """Markdown with a PNG: distributions of a number, shares of categories or of missing values, two features that no longer go
    together, rows of the windows. None where there is nothing to draw.

    ``worst``: the decision's farthest feature, as kept; ``now``: the batch's measurement of it, which volume has none of.
    """
    if worst["feature"] == VOLUME:
        return volumes(title, baseline.volumes()[-WINDOWS:], worst["rows"]) if baseline.volumes() else None
    if worst.get("statistic") == "missing":
        before, share = worst["baseline_missing"], worst["missing"]
        return two_shares(title, *({"no value": each, "a value": 1.0 - each} for each in (before, share)))
    normal, batch = baseline.shape((worst["feature"], worst["stratum"])), shape_of(now) if now else None
    if isinstance(normal, Steps) and isinstance(batch, Steps):
        return two_distributions(title, normal, batch)
    if isinstance(normal, Categories) and isinstance(batch, Categories):
        return two_shares(title, *_most_changed(normal, batch))
    if isinstance(normal, Relations) and isinstance(batch, Relations) and normal.features == batch.features:
        pair = farthest_pair(batch, normal, worst.get("statistic"))
        return two_ellipses(title, pair[1], pair[0]) if pair else None
    return None


def _most_changed(baseline: Categories, batch: Categories) -> tuple[dict[str, float], dict[str, float]]:
    """Shares of the categories that changed most, and of all others together."""
    before = {name: rows / baseline.total for name, rows in baseline.counts.items()}
    now = {name: rows / batch.total for name, rows in batch.counts.items()}
    names = sorted({*before, *now}, key=lambda name: (-abs(now.get(name, 0.0) - before.get(name, 0.0)), name))[:BARS]
    found = [{name: shares.get(name, 0.0) for name in names} for shares in (before, now)]
    if len(names) < len({*before, *now}) or baseline.others or batch.others:
        for shares in found:
            shares["all others"] = max(0.0, 1.0 - sum(shares.values()))
    return found[0], found[1]
