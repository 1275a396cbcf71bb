"""The picture of a drift decision: its worst feature beside the baseline's.

Belongs here: finding the decision's measurement and baseline. Does not: choosing or drawing (reports), or judging.
"""

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.drift.profiles import describe_key
from lakehouse_assets.decisions.drift.relations import Relations, read_measurement
from lakehouse_assets.reports.plots import draw_drift
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.baseline_state import read_baseline


def plot_drift(settings: Settings, spec: TableSpec, decision: Decision) -> str | None:
    """Markdown with a PNG of the worst feature beside its baseline; None without a comparison, and for personal data."""
    worst = (decision.drift or {}).get("worst")
    if not worst or decision.p_extracted_at is None or spec.drift is None:
        return None
    key = (worst["feature"], worst["stratum"])
    now = next((m for m in map(read_measurement, decision.profiles) if m.key == key), None)
    names = now.features if isinstance(now, Relations) else key[:1]
    if any(f.columns_used & spec.pii_columns for f in spec.drift.features if f.name in names):
        return None
    state = read_baseline(settings, spec, logs.decisions(settings, spec.name), decision.baseline_version or 0)
    baseline, _ = state.without_window(decision.p_extracted_at)
    title = f"{spec.name} {decision.p_extracted_at:%Y-%m-%d %H:%M}: {describe_key(key)}"
    return draw_drift(title, worst, now, baseline)
