"""What a drift decision looked like: the worst feature beside the baseline's, as a picture.

Belongs here: finding the decision's measurement and baseline. Does not: choosing or drawing (reports), or judging.
"""

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.profiles import describe
from lakehouse_assets.decisions.relations import Relations, read_measured
from lakehouse_assets.reports.pictures import drift_picture
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.book import read_baseline


def drift_plot(settings: Settings, spec: TableSpec, decision: Decision) -> str | None:
    """Markdown with a PNG of the worst feature, batch against the baseline of the decision. None where nothing was compared,
    and of personal data.
    """
    worst = (decision.drift or {}).get("worst")
    if not worst or decision.p_extracted_at is None or spec.drift is None:
        return None
    key = (worst["feature"], worst["stratum"])
    now = next((m for m in map(read_measured, decision.profiles) if m.key == key), None)
    names = now.features if isinstance(now, Relations) else key[:1]
    if any(f.columns_used & spec.pii_columns for f in spec.drift.features if f.name in names):
        return None
    known = logs.decisions(settings, spec.name, evidence=False)
    baseline, _ = read_baseline(settings, spec, known, decision.baseline_version or 0).without_window(decision.p_extracted_at)
    title = f"{spec.name} {decision.p_extracted_at:%Y-%m-%d %H:%M}: {describe(key)}"
    return drift_picture(title, worst, now, baseline)
