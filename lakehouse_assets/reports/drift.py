"""A drift verdict for a reader: how far it is calibrated, and every feature beside the baseline, as markdown.

Belongs here: a decision's stored `drift` → text. Does not: judging, plots, or where it is shown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse_assets.contracts.drift import VOLUME
from lakehouse_assets.decisions.drift.messages import list_categories
from lakehouse_assets.reports.markdown import table

HEADER = (
    *("feature", "stratum", "statistic", "distance", "p", "p over all features", "p if rows were independent"),
    *("shift", "before → now", "missing"),
)
SHOWN = 50
_STATUSES = {
    "cold_start": "cold start: there was nothing to compare with",
    "uncalibrated": "uncalibrated: p-values are of chance alone, and only warn",
    "calibrated_warn_only": "calibrated, but only warns",
    "calibrated": "calibrated: p is a rank among the windows before, and extrapolated beyond all of them",
    "error": "error",
}


def describe_status(drift: Mapping[str, Any]) -> str:
    """How far the verdict is calibrated, and how many windows are missing until more can follow."""
    parts = [_STATUSES[drift["status"]], f"{drift['windows_known']} windows known"]
    for action, name in (("warned of", "windows_until_warn"), ("quarantined for", "windows_until_hold")):
        if missing := drift[name]:
            parts.append(f"{missing} more until a window can be {action} drift by its rank")
    if not drift["learns"]:
        parts.append("the baseline has left its pinned reference, and has stopped learning")
    return "; ".join(parts)


def feature_table(drift: Mapping[str, Any]) -> str:
    """Every feature and stratum that was compared, the strangest first."""
    return table(HEADER, feature_rows(drift), SHOWN)


def feature_rows(drift: Mapping[str, Any]) -> list[Sequence[Any]]:
    """The cells below `HEADER`, the strangest feature first."""

    def order(result: Mapping[str, Any]) -> tuple[float, float]:
        # While history is too short, by chance.
        p = result["p_value"] if result["p_value"] is not None else result["corrected"]
        return (2.0 if p is None else p, -(result["effect"] or result["tail"] or 0.0))

    return [_row(result) for result in sorted(drift.get("results", ()), key=order)]


def _row(result: Mapping[str, Any]) -> Sequence[Any]:
    name, unit = result["statistic"], f" {result['unit']}" if result["unit"] else ""
    statistics = result["statistics"]
    names = [str(name)] if name in statistics else [one for one in statistics if one != "signed"]
    shift, missing, before = result["median_shift"], result["missing"], result["baseline_missing"]
    return (
        result["feature"],
        result["stratum"],
        ", ".join(f"{each} {statistics[each]:.3g}" for each in names[:4]),
        _figure(result["effect"]),
        _figure(result["p_value"]),
        _figure(result["corrected"]),
        _figure(result["naive_p_value"]),
        "" if shift is None else f"{shift:+.3g}{unit}",
        _before_and_now(result),
        "" if missing is None else f"{missing:.2%}" + ("" if before is None else f" (before: {before:.2%})"),
    )


def _before_and_now(result: Mapping[str, Any]) -> str:
    """Quantiles at 5, 50 and 95 %; of categories the shares that changed most; of relations the correlations."""
    if result["silent"]:
        return "no value in any row"
    if changed := result["changed"]:
        return list_categories(changed, result["new"], result["vanished"])
    if pairs := result["correlations"]:
        ranked = sorted(pairs, key=lambda pair: -abs(pair[3] - pair[2]))[:3]
        return "; ".join(f"correlation of {a} and {b} {before:.2f} → {now:.2f}" for a, b, before, now in ranked)
    now, before = result["quantiles"], result["baseline_quantiles"]
    if not now:
        return ""
    if result["feature"] == VOLUME:
        return f"{before[2]:,.0f} → {now[2]:,.0f}" if before else f"{now[2]:,.0f}"
    return " → ".join(" / ".join(f"{each[index]:.4g}" for index in (0, 2, 4)) for each in (before, now) if each)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
