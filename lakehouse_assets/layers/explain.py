"""What a drift decision looked like: the worst feature's distribution beside the baseline's, as a picture.

Belongs here: finding the two distributions of a decision. Does not: drawing (reports), or judging.
"""

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.baseline import shape_of
from lakehouse_assets.decisions.categories import Categories
from lakehouse_assets.decisions.distances import Steps
from lakehouse_assets.decisions.profiles import describe
from lakehouse_assets.decisions.relations import read_measured
from lakehouse_assets.reports.plots import two_distributions, two_shares
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.baseline import read_baseline

BARS = 12


def drift_plot(settings: Settings, spec: TableSpec, decision: Decision) -> str | None:
    """Markdown with a PNG of the worst feature, batch against the baseline of the decision: distributions of a number, shares
    of categories. None where nothing was compared, and of relations, which the table tells in figures.
    """
    worst = (decision.drift or {}).get("worst")
    if not worst or decision.p_extracted_at is None or spec.drift is None:
        return None
    key = (worst["feature"], worst["stratum"])
    used = next((f.columns_used for f in spec.drift.features if f.name == worst["feature"]), None)
    if used is None or used & spec.pii_columns:
        return None
    measured = {m.key: m for m in map(read_measured, decision.profiles)}
    known = logs.decisions(settings, spec.name, evidence=False)
    baseline, _ = read_baseline(settings, spec, known, decision.baseline_version or 0).without_window(decision.p_extracted_at)
    normal = baseline.shape(key)
    batch = shape_of(measured[key]) if key in measured else None
    title = f"{spec.name} {decision.p_extracted_at:%Y-%m-%d %H:%M}: {describe(key)}"
    if isinstance(normal, Steps) and isinstance(batch, Steps):
        return two_distributions(title, normal, batch)
    if isinstance(normal, Categories) and isinstance(batch, Categories):
        return two_shares(title, *_most_changed(normal, batch))
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
