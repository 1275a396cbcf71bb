"""One feature of a batch beside the baseline's: every statistic of it, and what a reader wants to see.

Belongs here: measurement and baseline → statistics and effects. Does not: ranking them, or what follows (drift).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, log10
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from lakehouse_assets.contracts.drift import VOLUME, DriftSpec
from lakehouse_assets.decisions.baseline import Baseline
from lakehouse_assets.decisions.categories import Categories, categories_apart, categories_of
from lakehouse_assets.decisions.chance import missing_surprise, naive_p_value, surely, volume_surprise
from lakehouse_assets.decisions.distances import FARTHEST, TAIL_FLOOR, Distance, distances, steps_of
from lakehouse_assets.decisions.profiles import Key, Profile
from lakehouse_assets.decisions.relations import Measured, Relations, apart

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
# Missing values and the volume have ranks of their own: one freak of volume in a year of history would otherwise stand
# before every fault of shape. They are believed half as easily, so that all three raise at most twice as many false alarms
# as one.
FAMILIES = {"shape": 1, "missing": 2, "volume": 2}


def family(statistic: str) -> str | None:
    """Which statistics this one is ranked with; of `signed` only the sum over several windows is ranked (lasting)."""
    if statistic in FAMILIES:
        return statistic
    return None if statistic == "signed" else "shape"


class Counted(NamedTuple):
    """How rare so many missing values, or rows, are among the windows before; in deviations of their history."""

    p_value: float
    score: float


@dataclass(frozen=True)
class FeatureResult:
    """One feature and stratum of the batch, or its relations, or its volume. In the feature's unit: quantiles (at `SHARES`) and
    ``median_shift``.

    ``statistics``: what is compared with history. ``effects``: of each ranked statistic, how large the change itself is: a
    tail-weighted distance in [0, 10], which `min_effect` is compared with. ``score``: the largest statistic, in
    deviations of its own history, and ``statistic`` its name; ``p_value``: its rank among the ``windows`` that have one;
    None while it is being learnt. ``corrected``: the p-value corrected for the number of features: the rank among past
    maxima, or, where history is too short, Monte Carlo's, corrected by Holm.
    ``naive_p_value``: of a usual KS test, which takes rows for independent. ``silent``: rows, but no value in any.
    ``counted``: of missing values and of the volume, where they changed by enough to matter.
    """

    feature: str
    stratum: str | None
    rows: int = 0
    ks: float | None = None
    tail: float | None = None
    statistics: Mapping[str, float] = field(default_factory=dict)
    effects: Mapping[str, float] = field(default_factory=dict)
    score: float | None = None
    statistic: str | None = None
    p_value: float | None = None
    windows: int = 0
    naive_p_value: float | None = None
    corrected: float | None = None
    silent: bool = False
    quantiles: tuple[float, ...] | None = None
    baseline_quantiles: tuple[float, ...] | None = None
    median_shift: float | None = None
    missing: float | None = None
    baseline_missing: float | None = None
    unit: str | None = None
    changed: tuple[tuple[str, float, float], ...] = ()
    new: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    correlations: tuple[tuple[str, str, float, float], ...] = ()
    counted: Counted | None = None

    @property
    def key(self) -> Key:
        """Feature and stratum."""
        return (self.feature, self.stratum)

    @property
    def effect(self) -> float:
        """The largest of its effects; 0 where nothing was compared."""
        return max(self.effects.values(), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        found = {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items() if name != "counted"}
        found |= {name: [list(one) for one in found[name]] for name in ("changed", "correlations")}
        return found | {"statistics": dict(self.statistics), "effects": dict(self.effects), "effect": self.effect}


def compare_all(given: Sequence[Measured], baseline: Baseline, spec: DriftSpec) -> list[FeatureResult]:
    """Every feature and stratum, then the relations, then the volume. Raises SketchError and ValueError, the latter also where
    something cannot be said in finite numbers: what is not known must not pass for what is usual.
    """
    for each in given if spec.relations else ():
        if isinstance(each, Relations) and each.too_large:
            raise ValueError(f"{', '.join(each.too_large)}: a value is so large that its square is no finite number")
    profiles = [m for m in given if isinstance(m, Profile)]
    units = {feature.name: feature.unit for feature in spec.features}
    found = [compare_profile(p, baseline, units.get(p.feature)) for p in profiles]
    if spec.relations:
        found += [_related(m, baseline) for m in given if isinstance(m, Relations)]
    found.append(_volume(profiles, baseline, spec))
    for result in found:
        for name, value in [*result.statistics.items(), *result.effects.items()]:
            if not isfinite(value):
                raise ValueError(f"{name} of {result.feature} is no finite number")
    return found


def compare_profile(profile: Profile, baseline: Baseline, unit: str | None = None) -> FeatureResult:
    """A number's or a category's distribution, and its missing values, beside the baseline's."""
    result = FeatureResult(profile.feature, profile.stratum, rows=profile.rows, unit=unit)
    compare = _category if profile.kind == "category" else _number
    result = compare(result, profile, baseline)
    past = np.array(baseline.missing(profile.key))
    if not past.size or not profile.rows:
        return result
    missing, (without, rows) = profile.rows - profile.valid, past.sum(axis=0).tolist()
    before = without / max(rows, 1)
    share = missing / profile.rows
    surprise = missing_surprise(missing, profile.rows, past)
    effect = abs(surely(missing, profile.rows, before) - before) / max(before * (1.0 - before), TAIL_FLOOR) ** 0.5
    return replace(
        result,
        missing=share,
        baseline_missing=before,
        statistics={**result.statistics, "missing": surprise},
        effects={**result.effects, "missing": round(effect, 9)},
    )


def _number(result: FeatureResult, profile: Profile, baseline: Baseline) -> FeatureResult:
    batch, normal = steps_of(profile), baseline.steps(profile.key)
    distance: Distance | None = None
    found: dict[str, Any] = {"silent": batch is None and profile.rows > 0}
    if normal is not None:
        found["baseline_quantiles"] = tuple(normal.quantiles(SHARES).tolist())
        distance = distances(batch, normal) if batch is not None else FARTHEST if found["silent"] else None
    if batch is not None:
        found["quantiles"] = tuple(batch.quantiles(SHARES).tolist())
    if batch is not None and normal is not None and distance is not None:
        shift = found["quantiles"][2] - found["baseline_quantiles"][2]
        found["median_shift"] = shift if isfinite(shift) else None
        found["naive_p_value"] = naive_p_value(distance.ks, batch.total, normal.total)
    if distance is not None:
        found |= {"ks": distance.ks, "tail": distance.tail, "statistics": distance._asdict()}
        found["effects"] = {"ks": distance.tail, "tail": distance.tail}
    return replace(result, **found)


def _category(result: FeatureResult, profile: Profile, baseline: Baseline) -> FeatureResult:
    batch, normal = categories_of(profile), baseline.shape(profile.key)
    result = replace(result, silent=batch is None and profile.rows > 0)
    if not isinstance(normal, Categories):
        return result
    if batch is None:
        far = {"g": FARTHEST.tail, "tail": FARTHEST.tail}
        return replace(result, tail=FARTHEST.tail, statistics=far, effects=far) if result.silent else result
    found = categories_apart(batch, normal)
    return replace(
        result,
        tail=found.tail,
        statistics={"g": found.g, "tail": found.tail},
        effects={"g": found.tail, "tail": found.tail},
        changed=found.changed,
        new=found.new,
        vanished=found.vanished,
    )


def _related(relations: Relations, baseline: Baseline) -> FeatureResult:
    result, normal = FeatureResult(*relations.key, rows=relations.rows), baseline.shape(relations.key)
    found = apart(relations, normal) if isinstance(normal, Relations) else None
    if found is None:
        return result
    tail = max(found.effects.values())
    return replace(result, tail=tail, statistics=found.statistics, effects=found.effects, correlations=found.correlations)


def _volume(profiles: Sequence[Profile], baseline: Baseline, spec: DriftSpec) -> FeatureResult:
    """Rows of the batch beside the median window's: |ln| of their ratio."""
    first = spec.features[0].name
    rows = sum(p.rows for p in profiles if p.feature == first)
    result = FeatureResult(VOLUME, None, rows=rows)
    past = baseline.volumes()
    if not past or not rows:
        return result
    ratio = rows / median(past)
    least = 1.0 - spec.min_volume_change
    # Told in the unit of the other effects: at `min_effect` where the ratio is at its bound.
    size = abs(log10(ratio)) / abs(log10(least)) if 0 < least < 1 else float(ratio != 1.0) * 2
    effect = spec.min_effect * size if spec.min_effect else max(0.0, size - 1.0)
    return replace(
        result,
        statistics={"volume": volume_surprise(rows, past)},
        effects={"volume": round(effect, 9)},
        quantiles=(float(rows),) * len(SHARES),
        baseline_quantiles=(float(median(past)),) * len(SHARES),
        median_shift=float(rows - median(past)),
        unit="rows",
    )
