"""The messages of a drift verdict: sentences that a person understands without knowing the method.

Belongs here: the wording. Does not: any judgement.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from lakehouse_assets.contracts.drift import VOLUME, DriftSpec
from lakehouse_assets.decisions.drift.baseline import BaselineShift
from lakehouse_assets.decisions.drift.feature_result import QUANTILE_LEVELS, FeatureResult
from lakehouse_assets.decisions.drift.moving_sum import MovingSum
from lakehouse_assets.decisions.drift.profiles import Key, describe_key
from lakehouse_assets.decisions.drift.seasons import SeasonChoice
from lakehouse_assets.decisions.drift.slice_messages import describe_excess, describe_slice, describe_slice_more
from lakehouse_assets.decisions.drift.slice_scores import SLICE
from lakehouse_assets.decisions.drift.verdict import DriftVerdict
from lakehouse_assets.decisions.naming import first_of

MOST_NAMED = 5
NOT_WATCHED = "; not watched: "
WHY_NOT_WATCHED = "windows differ by so much that no shift up to a standard deviation would be noticed"


def describe_learning_time(rest: timedelta, learn_for: str) -> str:
    """What a verdict says while the baseline of a stream spans too short a time."""
    return f"learning: drift is judged once the baseline spans {learn_for} (learn_for), in {rest} of arriving windows"


def describe_cold_start(spec: DriftSpec) -> str:
    """The message of a batch without a baseline."""
    if spec.cold_start == "stop":
        way = "seed one (`lakehouse baseline seed`), or release this window over the check drift with --teach"
        return f"there is no baseline to compare with, and cold_start is stop: {way}"
    return f"the first window: there is no baseline to compare with; {spec.warn_from} windows until drift can be warned of"


def describe_finding(verdict: DriftVerdict) -> str:
    """The message of a batch compared with the windows before it or, uncalibrated, with chance."""
    worst, p_value, known_windows = verdict.worst, verdict.p_value, verdict.windows_known
    change = describe_change(worst, verdict.since) + _describe_rows(worst) if worst and verdict.action != "pass" else ""
    if not verdict.calibrated:
        windows = f"{known_windows} window{'' if known_windows == 1 else 's'} known"
        windows += f", {verdict.windows_until_warn} more until that can be believed"
        if not change:
            return f"uncalibrated: nothing differs by more than chance allows ({windows})"
        return f"uncalibrated: {change}, by more than chance allows (p = {p_value:.3g}); {windows}"
    if worst is None or worst.p_value is None:
        return f"nothing differs from the baseline by enough to matter ({known_windows} windows known)"
    if not change:
        return f"like the {known_windows} windows before (p = {p_value:.3g}); farthest off is {describe_key(worst.key)}"
    beyond = round(worst.p_value * (worst.windows + 1)) - 1
    rank = f"every one of the {worst.windows}" if beyond <= 0 else f"all but {beyond} of the {worst.windows}"
    naive = ""
    if worst.naive_p_value is not None and worst.statistic in ("ks", "tail"):
        naive = f"; {worst.naive_p_value:.2g} if rows were independent"
    return f"{change}; beyond {rank} windows before (p = {p_value:.3g}{naive})"


def describe_moving_sum(largest: MovingSum, result: FeatureResult) -> str:
    """The message of a small shift that lasts."""
    side = "higher" if largest.mean > 0 else "lower"
    shift = abs(result.median_shift or 0.0)
    now = f" (this window's median by {_amount(shift, result.unit)})" if shift else ""
    since = f"for {largest.windows} windows, since {format_moment(largest.since)}"
    return (
        f"{describe_key(result.key)} has been {side} than the baseline {since}{now}: "
        f"no one of them stands out, together they do (p = {largest.p_value:.3g})"
    )


def describe_young(young: Sequence[tuple[Key, int]], spec: DriftSpec) -> str:
    """Features too new to be judged, with their known windows; empty for none. Follows a sentence."""
    names = [f"{describe_key(key)} ({known_windows} of {spec.warn_from} windows known)" for key, known_windows in young]
    return f"; not judged yet: {first_of(names, MOST_NAMED)}" if names else ""


def describe_unwatched(unwatched: Sequence[Key]) -> str:
    """Features whose windows differ too much for anything to be found; empty for none. Follows a sentence."""
    if not unwatched:
        return ""
    names = first_of([describe_key(key) for key in unwatched], MOST_NAMED)
    return f"{NOT_WATCHED}{names}, whose {WHY_NOT_WATCHED}"


def finding_of(message: str) -> str:
    """Return a verdict's message without the features that are not watched, which say nothing of its own window."""
    return message.partition(NOT_WATCHED)[0]


def unwatched_of(message: str) -> str:
    """Return the part of a verdict's message about features that are not watched; empty for none."""
    return message.partition(NOT_WATCHED)[2]


def describe_absent(absent: Sequence[Key]) -> str:
    """Strata of the baseline that the batch has no row of; empty for none. Follows a sentence."""
    strata = list(dict.fromkeys(stratum for _, stratum in absent if stratum is not None))
    return f"; no row of {first_of(strata, MOST_NAMED)}, which the baseline knows" if strata else ""


def describe_shift(shift: BaselineShift, spec: DriftSpec) -> str:
    """The message of a baseline that has moved too far from its reference."""
    far = f"the baseline of {describe_key(shift.key)} is {shift.distance:.2g} (KS) from the pinned one"
    way = "look at it, then pin it anew (`lakehouse baseline pin`), or let go of what is pinned (`--clear`)"
    return f"{far}, and {spec.max_shift:g} is allowed: it no longer learns; {way}"


def _describe_rows(result: FeatureResult) -> str:
    """Which rows are off, where that is known and the sentence has not said it."""
    more = describe_slice_more(result.slice, result.unit) if result.slice and result.statistic != SLICE else ""
    return more + (f", {describe_excess(result.feature, result.excess)}" if result.excess else "")


def describe_change(result: FeatureResult, since: Any = None) -> str:
    """`pressure_offset is 0.1 kPa higher at LGA since 2013-09-09`."""
    if result.slice is not None and result.statistic == SLICE:
        return describe_slice(result.slice, result.unit) + (f", since {format_moment(since)}" if since is not None else "")
    where = f" at {result.stratum}" if result.stratum is not None else ""
    where += f" since {format_moment(since)}" if since is not None else ""
    if result.season is None or result.usual is None:
        return _describe_difference(result, where)
    usual = f"usual {describe_season(result.season)}"
    if result.feature == VOLUME and result.baseline_quantiles:
        return f"{result.rows:,} rows{where}, where {result.baseline_quantiles[2] * 10**result.usual:,.0f} are {usual}"
    if result.statistic == "location" and result.deviation is not None:
        change = (result.statistics["location"] - result.usual) * result.deviation
        return (
            f"{result.feature} is {_amount(abs(change), result.unit)} {'higher' if change > 0 else 'lower'}{where} than {usual}"
        )
    return f"{_describe_difference(result, where)}, which is not {usual}"


_SEASONS = {
    "hour": "at this hour of the day",
    "weekday": "on this day of the week",
    "weekend": "in this part of the week",
    "hour_and_weekday": "at this hour of this day of the week",
    "hour_by_weekend": "at this hour of workdays or weekends",
    "day": "on this day of the month",
    "month": "in this month of the year",
}


def describe_season(season: SeasonChoice) -> str:
    """`on this day of the week`, `after the window before`."""
    phrases = [_SEASONS[season.season]] if season.season in _SEASONS else []
    return " and ".join(phrases + ["after the window before"] * (season.pull > 0))


def _describe_difference(result: FeatureResult, where: str) -> str:
    """How a batch differs from the whole baseline."""
    if result.feature == VOLUME:
        before = result.baseline_quantiles[2] if result.baseline_quantiles else 0.0
        return f"{result.rows:,} rows{where}, where a window usually has {before:,.0f}"
    if result.silent:
        return f"every value of {result.feature} is missing{where}"
    if result.statistic == "missing" or (result.statistic is None and _is_mostly_missing(result)):
        shares = f"{(result.missing or 0):.2%} of {result.feature} are missing{where}"
        return f"{shares}, where {(result.baseline_missing or 0):.2%} were"
    if result.statistic in result.figures:
        return _describe_figures(result, where)
    if result.correlations or result.statistic in ("means", "scatter"):
        return _describe_relations(result, where)
    if result.changed:
        changes = list_categories(result.changed, result.new, result.vanished)
        return f"{result.feature} has other shares{where}: {changes}"
    return _describe_number(result, where)


def format_moment(label: Any) -> str:
    """A window's label: a date where it begins at midnight."""
    if hasattr(label, "strftime"):
        return label.strftime("%Y-%m-%d" if (label.hour, label.minute) == (0, 0) else "%Y-%m-%d %H:%M")
    return str(label)


_FIGURES = {
    "low": "the smallest value of {feature} is {now}{where}, and was {before}",
    "high": "the largest value of {feature} is {now}{where}, and was {before}",
    "distinct": "{now:.1%} of the values of {feature} are distinct{where}, where {before:.1%} were",
    "length": "the texts of {feature} have {now:.3g} characters on average{where}, and had {before:.3g}",
    "lower": "{now:.1%} of the texts of {feature} have lower-case letters{where}, where {before:.1%} had",
    "upper": "{now:.1%} of the texts of {feature} have upper-case letters{where}, where {before:.1%} had",
    "digits": "{now:.1%} of the texts of {feature} have digits{where}, where {before:.1%} had",
    "spaces": "{now:.1%} of the texts of {feature} have white space{where}, where {before:.1%} had",
    "beyond_ascii": "{now:.1%} of the texts of {feature} have characters beyond ASCII{where}, where {before:.1%} had",
}


def _describe_figures(result: FeatureResult, where: str) -> str:
    statistic = str(result.statistic)
    before, now = result.figures[statistic]
    amounts: dict[str, Any] = {"before": before, "now": now}
    if statistic in ("low", "high"):
        amounts = {name: _amount(value, result.unit) for name, value in amounts.items()}
    return _FIGURES[statistic].format(feature=result.feature, where=where, **amounts)


def _describe_number(result: FeatureResult, where: str) -> str:
    shift = result.median_shift or 0.0
    if result.quantiles and result.baseline_quantiles:
        quantiles = zip(result.quantiles, result.baseline_quantiles, QUANTILE_LEVELS, strict=True)
        now, before, level = max(quantiles, key=lambda pair: abs(pair[0] - pair[1]))
        # Where the middle has hardly moved, the change is one of spread or shape.
        if abs(shift) <= 0.5 * abs(now - before):
            quantile = f"the {level:.0%} quantile is {_amount(now, result.unit)}, and was {_amount(before, result.unit)}"
            return f"{result.feature} has another spread or shape{where}: {quantile}"
    if abs(shift) <= 1e-9:
        return f"{result.feature} has another spread or shape{where} (KS {result.ks or 0:.2g})"
    return f"{result.feature} is {_amount(abs(shift), result.unit)} {'higher' if shift > 0 else 'lower'}{where}"


def _describe_relations(result: FeatureResult, where: str) -> str:
    kind, _, of = (result.statistic or "").partition(" ")
    if kind == "spread":
        return f"{of} varies more or less than before{where}"
    if kind == "means":
        return f"the features' means together are not as before{where}"
    pairs = [pair for pair in result.correlations if kind == "scatter" or of == f"{pair[0]} ~ {pair[1]}"]
    if not pairs:
        return f"the features do not vary together as before{where}"
    one, other, before, now = max(pairs, key=lambda pair: abs(pair[3] - pair[2]))
    return f"{one} and {other} no longer go together as before{where}: correlation {before:.2f}, now {now:.2f}"


def list_categories(changed: Sequence[tuple[str, float, float]], new: Sequence[str], vanished: Sequence[str]) -> str:
    """The three largest changes of shares, and the first three new and vanished categories."""
    changes = [f"{name} {before:.1%} → {now:.1%}" for name, before, now in changed[:3]]
    changes += [f"{kind}: {', '.join(names[:3])}" for kind, names in (("new", new), ("gone", vanished)) if names]
    return "; ".join(changes)


def _is_mostly_missing(result: FeatureResult) -> bool:
    return "missing" in result.effects and result.effects["missing"] >= max(result.effects.values())


def _amount(value: float, unit: str | None) -> str:
    return f"{value:.3g} {unit}" if unit else f"{value:.3g}"
