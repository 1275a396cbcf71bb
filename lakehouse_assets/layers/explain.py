"""What a drift decision looked like: the worst feature's distribution beside the baseline's, as a picture.

Belongs here: finding the two distributions of a decision. Does not: drawing (reports), or judging.
"""

from lakehouse_assets.checks.sql_text import columns_of, parse_expression
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.drift import FeatureSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.distances import steps_of
from lakehouse_assets.decisions.profiles import Profile, describe
from lakehouse_assets.reports.plots import two_distributions
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.baseline import read_baseline


def drift_plot(settings: Settings, spec: TableSpec, decision: Decision) -> str | None:
    """Markdown with a PNG of the worst feature, batch against the baseline of the decision; None where nothing was compared."""
    worst = (decision.drift or {}).get("worst")
    if not worst or decision.p_extracted_at is None or spec.drift is None:
        return None
    key = (worst["feature"], worst["stratum"])
    used = next((columns_used(f) for f in spec.drift.features if f.name == worst["feature"]), set())
    if used & spec.pii_columns:
        return None
    profiles = {p.key: p for p in map(Profile.from_dict, decision.profiles)}
    known = logs.decisions(settings, spec.name, evidence=False)
    baseline, _ = read_baseline(settings, spec, known, decision.baseline_version or 0).without_window(decision.p_extracted_at)
    normal = baseline.steps(key)
    batch = steps_of(profiles[key]) if key in profiles else None
    if normal is None or batch is None:
        return None
    return two_distributions(f"{spec.name} {decision.p_extracted_at:%Y-%m-%d %H:%M}: {describe(key)}", normal, batch)


def columns_used(feature: FeatureSpec) -> set[str]:
    """The columns that a feature is made of."""
    found = columns_of(parse_expression(feature.expr, feature.name, allow_windows=True))
    return found | ({feature.by} if feature.by else set())
