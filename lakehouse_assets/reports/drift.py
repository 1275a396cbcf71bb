"""A drift decision for a reader: how far it can be believed, and every feature beside the baseline, as markdown.

Belongs here: a decision's kept `drift` → text. Does not: judging, plots, or where it is shown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse_assets.reports.markdown import table

HEADER = (
    *("feature", "stratum", "statistic", "distance", "p", "p over all features", "p if rows were independent"),
    *("shift", "before → now", "missing"),
)
SHOWN = 50
_WORDS = {
    "cold_start": "cold start: there was nothing to compare with",
    "learning": "learning",
    "uncalibrated": "uncalibrated: p-values are of chance alone, and only warn",
    "calibrated_warn_only": "calibrated, but only warns",
    "calibrated": "calibrated: p is a rank among the windows before",
    "error": "error",
}


def status_of(drift: Mapping[str, Any]) -> str:
    """How far the decision can be believed, and how many windows are missing until more can be said."""
    told = [_WORDS.get(drift["status"], drift["status"]), f"{drift.get('windows_known', 0)} windows known"]
    for what, name in (("warned of", "windows_until_warn"), ("held for", "windows_until_hold")):
        if missing := drift.get(name):
            told.append(f"{missing} more until a window can be {what} drift by its rank")
    if drift.get("learns") is False:
        told.append("the baseline has left its pinned reference, and has stopped learning")
    return "; ".join(told)


def feature_table(drift: Mapping[str, Any]) -> str:
    """Every feature and stratum that was compared, the strangest first."""
    return table(HEADER, feature_rows(drift), SHOWN)


def feature_rows(drift: Mapping[str, Any]) -> list[Sequence[Any]]:
    """The cells below `HEADER`, the strangest feature first."""

    def order(result: Mapping[str, Any]) -> tuple[float, float]:
        p = _p_value(result)
        return (2.0 if p is None else p, -(result.get("effect") or result.get("tail") or 0.0))

    return [_row(result) for result in sorted(drift.get("results", ()), key=order)]


def _row(result: Mapping[str, Any]) -> Sequence[Any]:
    name, unit = result.get("statistic"), f" {result['unit']}" if result.get("unit") else ""
    statistics = result.get("statistics") or {key: result[key] for key in ("ks", "tail") if result.get(key) is not None}
    shown = [str(name)] if name in statistics else list(statistics)
    shift, missing = result.get("median_shift"), result.get("missing")
    before = result.get("baseline_missing")
    return (
        result["feature"],
        result["stratum"],
        ", ".join(f"{each} {statistics[each]:.3g}" for each in [one for one in shown if one != "signed"][:4]),
        _figure(result.get("effect", result.get("tail"))),
        _figure(result.get("p_value")),
        _figure(result.get("corrected")),
        _figure(result.get("naive_p_value")),
        "" if shift is None else f"{shift:+.3g}{unit}",
        _before_and_now(result),
        "" if missing is None else f"{missing:.2%}" + ("" if before is None else f" (before: {before:.2%})"),
    )


def _p_value(result: Mapping[str, Any]) -> float | None:
    """Of a rank; while history is too short, of chance."""
    return result["p_value"] if result.get("p_value") is not None else result.get("corrected")


def _before_and_now(result: Mapping[str, Any]) -> str:
    """Quantiles at 5, 50 and 95 %; of categories the shares that changed most; of relations the correlations."""
    if result.get("silent"):
        return "no value in any row"
    if changed := result.get("changed"):
        told = [f"{name} {before:.1%} → {now:.1%}" for name, before, now in changed[:3]]
        told += [
            f"{word}: {', '.join(result[key][:3])}" for key, word in (("new", "new"), ("vanished", "gone")) if result.get(key)
        ]
        return "; ".join(told)
    if pairs := result.get("correlations"):
        ranked = sorted(pairs, key=lambda pair: -abs(pair[3] - pair[2]))[:3]
        return "; ".join(f"correlation of {a} and {b} {before:.2f} → {now:.2f}" for a, b, before, now in ranked)
    now, before = result.get("quantiles"), result.get("baseline_quantiles")
    if not now:
        return ""
    if result["feature"] == "volume":
        return f"{before[2]:,.0f} → {now[2]:,.0f}" if before else f"{now[2]:,.0f}"
    middle = [" / ".join(f"{each[place]:.4g}" for place in (0, 2, 4)) for each in (before, now) if each]
    return " → ".join(middle)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
