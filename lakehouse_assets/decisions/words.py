"""What a drift verdict says, in sentences that a person understands without having read about the method.

Belongs here: the wording. Does not: any judgement.
"""

from collections.abc import Sequence
from typing import Any

from lakehouse_assets.contracts.drift import VOLUME, DriftSpec
from lakehouse_assets.decisions.baseline import Moved
from lakehouse_assets.decisions.compared import SHARES, FeatureResult
from lakehouse_assets.decisions.lasting import Lasting
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.decisions.profiles import Key, describe

NAMED = 5


def cold_start(spec: DriftSpec) -> str:
    """There is no baseline."""
    if spec.cold_start == "stop":
        way = "seed one (`lakehouse baseline seed`), or release this window over the check drift and let it teach"
        return f"there is no baseline to compare with, and cold_start is stop: {way}"
    return f"the first window: there is no baseline to compare with; {spec.warn_from} windows until drift can be warned of"


def of_rank(action: str, worst: FeatureResult | None, p_value: float, known: int, since: Any) -> str:
    """Of a window that was ranked among ``known`` others."""
    if worst is None or worst.p_value is None:
        return f"nothing differs from the baseline by enough to matter ({known} windows known)"
    if action == "pass":
        return f"like the {known} windows before (p = {p_value:.3g}); farthest off is {describe(worst.key)}"
    beyond = round(worst.p_value * (worst.windows + 1)) - 1
    rank = f"every one of the {worst.windows}" if beyond <= 0 else f"all but {beyond} of the {worst.windows}"
    return f"{what_changed(worst, since)}; beyond {rank} windows before (p = {p_value:.3g}{_naive(worst)})"


def by_chance(action: str, worst: FeatureResult | None, p_value: float, known: int, more: int, since: Any) -> str:
    """Of a window that history is too short for."""
    missing = f"{known} window{'s' if known != 1 else ''} known, {more} more until that can be believed"
    if worst is None or action == "pass":
        return f"uncalibrated: nothing differs by more than chance allows ({missing})"
    return f"uncalibrated: {what_changed(worst, since)}, by more than chance allows (p = {p_value:.3g}); {missing}"


def of_lasting(found: Lasting, result: FeatureResult) -> str:
    """Of a small shift that lasts."""
    side = "higher" if found.mean > 0 else "lower"
    now = ""
    if result.median_shift:
        now = f" (this window's median by {_amount(abs(result.median_shift), result.unit)})"
    told = f"{describe(result.key)} has been {side} than the baseline for {found.windows} windows, since {moment(found.since)}"
    return f"{told}{now}: no one of them stands out, together they do (p = {found.p_value:.3g})"


def of_young(young: Sequence[tuple[Key, int]], spec: DriftSpec) -> str:
    """What is too new to be judged; nothing where nothing is. To be put behind a sentence."""
    if not young:
        return ""
    told = [f"{describe(key)} ({known} of {spec.warn_from} windows known)" for key, known in young]
    return f"; not judged yet: {first_of(told, NAMED)}"


def of_absent(absent: Sequence[Key]) -> str:
    """What the baseline knows and the batch has no row of; nothing where there is all. To be put behind a sentence."""
    strata = list(dict.fromkeys(stratum for _, stratum in absent if stratum is not None))
    if not strata:
        return ""
    return f"; no row of {first_of(strata, NAMED)}, which the baseline knows"


def of_moved(moved: Moved, spec: DriftSpec) -> str:
    """Of a baseline that has left its reference."""
    far = f"the baseline of {describe(moved.key)} is {moved.distance:.2g} (KS) from the pinned one"
    way = "look at it, then pin it anew (`lakehouse baseline pin`), or let go of what is pinned (`--clear`)"
    return f"{far}, and {spec.max_shift:g} is allowed: it no longer learns; {way}"


def what_changed(result: FeatureResult, since: Any = None) -> str:
    """`pressure_offset is 0.1 kPa higher at LGA since 2013-09-09`."""
    where = f" at {result.stratum}" if result.stratum is not None else ""
    when = f" since {moment(since)}" if since is not None else ""
    if result.feature == VOLUME:
        before = result.baseline_quantiles[2] if result.baseline_quantiles else 0.0
        return f"{result.rows:,} rows{when}, where a window usually has {before:,.0f}"
    if result.silent:
        return f"every value of {result.feature} is missing{where}{when}"
    if result.statistic == "missing" or (result.statistic is None and _mostly_missing(result)):
        shares = f"{(result.missing or 0):.2%} of {result.feature} are missing{where}{when}"
        return f"{shares}, where {(result.baseline_missing or 0):.2%} were"
    if result.correlations or result.statistic in ("means", "scatter"):
        return _relations(result, where, when)
    if result.changed:
        return f"{result.feature} has other shares{where}{when}: {_categories(result)}"
    return _number(result, where, when)


def moment(label: Any) -> str:
    """A window's label: a date where it begins at midnight."""
    if hasattr(label, "strftime"):
        return label.strftime("%Y-%m-%d" if (label.hour, label.minute) == (0, 0) else "%Y-%m-%d %H:%M")
    return str(label)


def _number(result: FeatureResult, where: str, when: str) -> str:
    shift = result.median_shift or 0.0
    if result.quantiles and result.baseline_quantiles:
        gaps = [now - before for now, before in zip(result.quantiles, result.baseline_quantiles, strict=True)]
        far = max(range(len(gaps)), key=lambda i: abs(gaps[i]))
        # Where the middle has hardly moved, the change is one of spread or shape.
        if abs(shift) <= 0.5 * abs(gaps[far]):
            before, now = result.baseline_quantiles[far], result.quantiles[far]
            share = f"the {SHARES[far]:.0%} quantile is {_amount(now, result.unit)}, and was {_amount(before, result.unit)}"
            return f"{result.feature} has another spread or shape{where}{when}: {share}"
    if abs(shift) <= 1e-9:
        return f"{result.feature} has another spread or shape{where}{when} (KS {result.ks or 0:.2g})"
    return f"{result.feature} is {_amount(abs(shift), result.unit)} {'higher' if shift > 0 else 'lower'}{where}{when}"


def _relations(result: FeatureResult, where: str, when: str) -> str:
    kind, _, of = (result.statistic or "").partition(" ")
    if kind == "spread":
        return f"{of} varies more or less than before{where}{when}"
    if kind == "means":
        return f"the features' means together are not as before{where}{when}"
    pairs = [pair for pair in result.correlations if kind == "scatter" or of == f"{pair[0]} ~ {pair[1]}"]
    if not pairs:
        return f"the features do not vary together as before{where}{when}"
    one, other, before, now = max(pairs, key=lambda pair: abs(pair[3] - pair[2]))
    return f"{one} and {other} no longer go together as before{where}{when}: correlation {before:.2f}, now {now:.2f}"


def _categories(result: FeatureResult) -> str:
    told = [f"{name} {before:.1%} → {now:.1%}" for name, before, now in result.changed[:3]]
    told += [f"new: {', '.join(result.new[:3])}"] if result.new else []
    told += [f"gone: {', '.join(result.vanished[:3])}"] if result.vanished else []
    return "; ".join(told)


def _mostly_missing(result: FeatureResult) -> bool:
    return "missing" in result.effects and result.effects["missing"] >= max(result.effects.values())


def _naive(result: FeatureResult) -> str:
    if result.naive_p_value is None or result.statistic not in ("ks", "tail"):
        return ""
    return f"; {result.naive_p_value:.2g} if rows were independent"


def _amount(value: float, unit: str | None) -> str:
    return f"{value:.3g} {unit}" if unit else f"{value:.3g}"
