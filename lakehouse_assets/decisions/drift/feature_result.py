"""One feature of a batch beside the baseline's: every statistic of it, and what a reader wants to see.

Belongs here: measurement and baseline → statistics and effects. Does not: ranking them, or what follows (judge).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, log2, log10
from statistics import median
from typing import Any, NamedTuple

from lakehouse_assets.contracts.drift import VOLUME, DriftSpec
from lakehouse_assets.contracts.stream_drift import StreamDriftSpec
from lakehouse_assets.decisions.drift.baseline import Baseline
from lakehouse_assets.decisions.drift.categories import Categories, compare_categories, read_categories
from lakehouse_assets.decisions.drift.distances import FARTHEST, Ecdf, compare_ecdfs, read_ecdf, tail_weight
from lakehouse_assets.decisions.drift.effects import distinct_effect, volume_effect
from lakehouse_assets.decisions.drift.excess import Excess
from lakehouse_assets.decisions.drift.levels import NOTHING, FeatureComparison, compare_levels
from lakehouse_assets.decisions.drift.p_values import missing_surprisal, naive_p_value, nearest_likely_share, volume_deviation
from lakehouse_assets.decisions.drift.profiles import Key, Profile
from lakehouse_assets.decisions.drift.relations import Measurement, Relations, compare_relations
from lakehouse_assets.decisions.drift.seasons import SeasonChoice
from lakehouse_assets.decisions.drift.slice_scores import SliceFinding
from lakehouse_assets.decisions.drift.texts import TextFigures, compare_texts
from lakehouse_assets.decisions.json_values import to_json_value

QUANTILE_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
# Below this share of distinct values it is the size of the window that decides how many there are.
MOSTLY_DISTINCT = 0.5


class CountEvidence(NamedTuple):
    """How rare so many missing values, or rows, are among the windows before; ``score``: in deviations of their history."""

    p_value: float
    score: float


@dataclass(frozen=True)
class FeatureResult:
    """One feature and stratum of the batch, or its relations, or its volume. In the feature's unit: quantiles (at
    `QUANTILE_LEVELS`) and ``median_shift``.

    ``effects``: how large the change of each ranked statistic is, as a tail-weighted distance in [0, 10]; `min_effect` bounds
    it. ``score``: the largest statistic, in deviations of its own history; ``statistic``: its name; ``p_value``: its rank among
    the ``windows`` that have one, None while it is being learnt. ``corrected``: the p-value corrected for the number of
    features, by past maxima or, where history is too short, Holm. ``naive_p_value``: of a usual KS test, which takes rows for
    independent. ``silent``: rows, but no value in any. ``count_evidence``: of missing values and of the volume, if it matters.
    ``figures``: before and now, of extremes, distinct values and texts. ``season``: what the statistic was compared by, if by
    any; ``usual``: what it usually is then; ``usual_shift``: how far values usually are from the baseline then, and
    ``deviation``: the baseline's, both in the feature's unit. ``slice``, ``excess``: which rows are off, where that is known.
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
    count_evidence: CountEvidence | None = None
    figures: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    season: SeasonChoice | None = None
    usual: float | None = None
    usual_shift: float | None = None
    deviation: float | None = None
    slice: SliceFinding | None = None
    excess: Excess | None = None

    @property
    def key(self) -> Key:
        """Feature and stratum."""
        return (self.feature, self.stratum)

    @property
    def effect(self) -> float:
        """The largest effect; 0 where nothing was compared."""
        return max(self.effects.values(), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        plain = {name: value for name, value in vars(self).items() if name not in ("count_evidence", "slice", "excess")}
        plain |= {"slice": self.slice.to_dict()} if self.slice else {}
        plain |= {"excess": {**self.excess._asdict(), "precision": self.excess.precision}} if self.excess else {}
        return to_json_value(plain | {"effect": self.effect, "season": self.season and self.season._asdict()})


def compare_features(
    measurements: Sequence[Measurement], baseline: Baseline, spec: DriftSpec, rows_apart: int = 0
) -> list[FeatureResult]:
    """Every feature and stratum, then the relations, then the volume. Raises SketchError; ValueError where a statistic is no
    finite number, so that the unknown does not pass for the usual. ``rows_apart``: more rows of the volume.
    """
    relations = [m for m in measurements if spec.relations and isinstance(m, Relations)]
    for each in relations:
        if each.too_large:
            raise ValueError(f"{', '.join(each.too_large)}: a value is so large that its square is no finite number")
    profiles = [m for m in measurements if isinstance(m, Profile)]
    units = {feature.name: feature.unit for feature in spec.features}
    results = [_compare_profile(p, baseline, units.get(p.feature)) for p in profiles]
    results += [_compare_relations(each, baseline) for each in relations]
    if not isinstance(spec, StreamDriftSpec):
        # The rows of a stream's window are those that came since the last one.
        results.append(_compare_volume(profiles, baseline, spec, rows_apart))
    for result in results:
        for name, value in [*result.statistics.items(), *result.effects.items()]:
            if not isfinite(value):
                raise ValueError(f"{name} of {result.feature} is no finite number")
    return results


def _compare_profile(profile: Profile, baseline: Baseline, unit: str | None) -> FeatureResult:
    compare = _compare_category if profile.kind == "category" else _compare_number
    fields, distances = compare(profile, baseline)
    comparisons = [distances, _compare_texts(profile, baseline), _compare_distinct(profile, baseline)]
    past = baseline.missing_counts(profile.key)
    if past.size and profile.rows:
        missing, (without, rows) = profile.rows - profile.valid, past.sum(axis=0).tolist()
        before = without / max(rows, 1)
        effect = abs(nearest_likely_share(missing, profile.rows, before) - before) / float(tail_weight(before))
        fields |= {"missing": missing / profile.rows, "baseline_missing": before}
        surprisal = missing_surprisal(missing, profile.rows, past)
        comparisons.append(FeatureComparison({"missing": surprisal}, {"missing": round(effect, 9)}, {}))
    for name in ("statistics", "effects", "figures"):
        fields[name] = {}
        for comparison in comparisons:
            fields[name] |= getattr(comparison, name)
    # Built once: a copy of so many fields for each comparison takes longer than the comparisons.
    return FeatureResult(profile.feature, profile.stratum, rows=profile.rows, unit=unit, **fields)


def has_many_texts(baseline: Baseline, key: Key) -> bool:
    """Whether a category has too many texts to be compared by name alone: more than are kept by name, or mostly distinct."""
    normal, shares = baseline.shape(key), baseline.distinct_shares(key)
    return isinstance(normal, Categories) and (normal.others > 0 or bool(shares and median(shares) >= MOSTLY_DISTINCT))


def _compare_texts(profile: Profile, baseline: Baseline) -> FeatureComparison:
    past = baseline.texts(profile.key)
    if profile.texts is None or not past or not has_many_texts(baseline, profile.key):
        return NOTHING
    return compare_texts(TextFigures(*profile.texts), past)


def _compare_distinct(profile: Profile, baseline: Baseline) -> FeatureComparison:
    """The share of distinct values where most are: of keys, and of numbers that are measured finely. Doubled rows halve it."""
    share, past = profile.distinct_share, baseline.distinct_shares(profile.key)
    usual = median(past) if past else 0.0
    if share is None or usual < MOSTLY_DISTINCT:
        return NOTHING
    change = log2(share / usual)
    return FeatureComparison(
        {"distinct": round(log2(share), 9)}, {"distinct": distinct_effect(change)}, {"distinct": (usual, share)}
    )


def _compare_number(profile: Profile, baseline: Baseline) -> tuple[dict[str, Any], FeatureComparison]:
    """Fields of the result, and its distances and levels."""
    batch, normal = read_ecdf(profile), baseline.shape(profile.key)
    fields: dict[str, Any] = {"silent": batch is None and profile.rows > 0}
    if batch is not None:
        fields["quantiles"] = tuple(batch.quantiles(QUANTILE_LEVELS).tolist())
    if not isinstance(normal, Ecdf):
        return fields, NOTHING
    fields["baseline_quantiles"] = tuple(normal.quantiles(QUANTILE_LEVELS).tolist())
    if batch is None and not fields["silent"]:
        return fields, NOTHING
    distance, levels = FARTHEST, NOTHING
    if batch is not None:
        distance, levels = compare_ecdfs(batch, normal), compare_levels(batch, normal)
        shift = fields["quantiles"][2] - fields["baseline_quantiles"][2]
        fields["median_shift"] = shift if isfinite(shift) else None
        fields["naive_p_value"] = naive_p_value(distance.ks, batch.total, normal.total)
    fields |= {"ks": distance.ks, "tail": distance.tail, "deviation": levels.deviation}
    effects = {"ks": distance.tail, "tail": distance.tail, **levels.effects}
    return fields, FeatureComparison({**distance._asdict(), **levels.statistics}, effects, levels.figures)


def _compare_category(profile: Profile, baseline: Baseline) -> tuple[dict[str, Any], FeatureComparison]:
    """Fields of the result, and its distances."""
    batch, normal = read_categories(profile), baseline.shape(profile.key)
    fields: dict[str, Any] = {"silent": batch is None and profile.rows > 0}
    if not isinstance(normal, Categories):
        return fields, NOTHING
    if batch is None:
        if not fields["silent"]:
            return fields, NOTHING
        far: dict[str, float] = dict.fromkeys(("folded", "folded_tail") if normal.others else ("g", "tail"), FARTHEST.tail)
        return {**fields, "tail": FARTHEST.tail}, FeatureComparison(far, far, {})
    distance = compare_categories(batch, normal)
    fields |= {name: getattr(distance, name) for name in ("tail", "changed", "new", "vanished")}
    return fields, FeatureComparison(dict(distance.statistics), dict.fromkeys(distance.statistics, distance.tail), {})


def _compare_relations(relations: Relations, baseline: Baseline) -> FeatureResult:
    result, normal = FeatureResult(*relations.key, rows=relations.rows), baseline.shape(relations.key)
    distance = compare_relations(relations, normal) if isinstance(normal, Relations) else None
    return replace(result, tail=max(distance.effects.values()), **distance._asdict()) if distance else result


def _compare_volume(profiles: Sequence[Profile], baseline: Baseline, spec: DriftSpec, rows_apart: int) -> FeatureResult:
    """Rows of the batch beside the median window's."""
    rows = sum(p.rows for p in profiles if p.feature == spec.features[0].name) + rows_apart
    result, past = FeatureResult(VOLUME, None, rows=rows), baseline.volumes()
    if not past or not rows:
        return result
    usual = median(past)
    return replace(
        result,
        statistics={"volume": volume_deviation(rows, past)},
        effects={"volume": volume_effect(log10(rows / usual), spec)},
        quantiles=(float(rows),) * len(QUANTILE_LEVELS),
        baseline_quantiles=(float(usual),) * len(QUANTILE_LEVELS),
        median_shift=float(rows - usual),
        unit="rows",
    )
