"""Which rows of a window that drifts may be quarantined alone: a verdict's slice, interval or category, as a row check.

Belongs here: the choice, its estimated precision, when the window is quarantined instead. Does not: measuring a slice
(measures), judging the rest (decide), or the search for an interval (excess).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lakehouse_assets.checks.drift_rows import CATEGORY_LENGTH, CategoryCondition, DriftRows
from lakehouse_assets.checks.sql.text import identifier, parse_expression
from lakehouse_assets.contracts.drift import DriftSpec, FeatureSpec
from lakehouse_assets.decisions.drift.distances import Ecdf, read_ecdf
from lakehouse_assets.decisions.drift.excess import LARGEST_SHARE, LEAST_ROWS, Excess, count_beyond, find_exact_interval
from lakehouse_assets.decisions.drift.feature_result import FeatureResult
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.pseudonyms import is_pseudonym
from lakehouse_assets.decisions.drift.slice_messages import describe_conditions
from lakehouse_assets.decisions.drift.slices import Conditions, Slices
from lakehouse_assets.decisions.drift.verdict import DriftVerdict
from lakehouse_assets.decisions.numbers import BatchNumbers

NAMED_ROWS = "named_rows"  # in the evidence of a window whose rest was not accepted
# Of the rows that are quarantined alone at least so many are more than usual.
LEAST_PRECISION = 0.9
# A slice with so large a share of the rows of an interval says more than that interval.
NEARLY = 0.9


def find_worst(verdict: DriftVerdict | None, spec: DriftSpec | None) -> FeatureResult | None:
    """The feature whose rows may be quarantined alone; None where the window is: `on_drift` says so, drift does not quarantine
    it, or what is off is the volume, missing values, a relation or a feature that several rows make.
    """
    if verdict is None or spec is None or not spec.divides or verdict.action != "hold" or verdict.p_value is None:
        return None
    worst = verdict.worst
    if worst is None or worst.silent or worst.statistic == "missing" or _feature_of(worst, spec) is None:
        return None
    return worst


def slice_conditions(worst: FeatureResult, spec: DriftSpec) -> tuple[CategoryCondition, ...]:
    """The conditions of the slice that a verdict names, or of its stratum; none without one, or where a pseudonym hides it."""
    named: Conditions = worst.slice.conditions if worst.slice else ()
    conditions = tuple(CategoryCondition(name=c, expr=_sql_of(c, spec), category=name) for c, name in named)
    return () if _are_hidden(conditions) else conditions


def name_slice(
    verdict: DriftVerdict, spec: DriftSpec, in_slice: Profile, rest: Profile, past: Sequence[Slices | None]
) -> DriftRows | None:
    """The rows of a verdict's slice: all, or those in the interval that has more of them than usual; None where they are too
    few, too many, or not precise enough. ``in_slice``, ``rest``: the feature in the slice and in all other rows of the window.
    Usual is the share of the others, moved by as much as the slice usually differs from them; or not moved, if that is more.
    """
    worst, batch, others = find_worst(verdict, spec), read_ecdf(in_slice), read_ecdf(rest)
    if worst is None or worst.slice is None or batch is None or others is None:
        return None
    offset = find_offset(past, worst.slice.conditions, worst.feature)
    moved = Ecdf(others.values + offset, others.weights, others.cumulated)
    excess = all_rows = _whole_slice(in_slice, batch, [moved, others])
    if all_rows.precision < LEAST_PRECISION:
        excess = find_exact_interval(batch, moved, LEAST_PRECISION, largest_share=1.0)
        if excess is None or excess.low is None or excess.high is None:
            return None
        if excess.rows - excess.usual < NEARLY * (all_rows.rows - all_rows.usual):
            return None  # the fault goes on outside the interval
        below, up_to = others.weights_around(np.array([excess.low, excess.high]))
        usual = round(float(up_to[1] - below[0]) * batch.total / others.total, 3)
        excess = excess._replace(usual=max(excess.usual, usual))
    conditions = slice_conditions(worst, spec)
    if not conditions or not LEAST_ROWS <= excess.rows <= LARGEST_SHARE * worst.slice.of_rows:
        return None
    return _make_check(verdict, worst, spec, excess, conditions)


def _whole_slice(in_slice: Profile, batch: Ecdf, others: Sequence[Ecdf]) -> Excess:
    """All rows of a slice; usual are those that no interval has too many of."""
    beyond = min(count_beyond(batch, each) for each in others)
    return Excess(in_slice.rows, round(max(0.0, in_slice.rows - beyond), 3))


def name_excess(verdict: DriftVerdict, spec: DriftSpec) -> DriftRows | None:
    """The rows of the interval or category that a verdict names, in its stratum if it has one; None where there is none, or it
    is not precise enough.
    """
    worst = find_worst(verdict, spec)
    if worst is None or worst.excess is None:
        return None
    feature, conditions = _feature_of(worst, spec), []
    if feature is None or (worst.stratum is not None and len(worst.stratum) >= CATEGORY_LENGTH):
        return None
    if worst.stratum is None and feature.by:
        return None  # rows without a category: no condition names them
    if worst.excess.rows > LARGEST_SHARE * _count_rows(verdict, feature.name):
        return None
    if worst.stratum is not None and feature.by:
        conditions.append(CategoryCondition(name=feature.by, expr=identifier(feature.by), category=worst.stratum))
    if worst.excess.category is not None:
        conditions.append(CategoryCondition(name=feature.name, expr=feature.expr, category=worst.excess.category))
    return None if _are_hidden(conditions) else _make_check(verdict, worst, spec, worst.excess, conditions)


def choose_check(named: Sequence[DriftRows | None]) -> DriftRows | None:
    """The first check with nearly as many rows beyond what is usual as any other; None where there is none."""
    beyond = {index: check.rows - check.usual for index, check in enumerate(named) if check}
    return named[next(i for i, rows in beyond.items() if rows >= NEARLY * max(beyond.values()))] if beyond else None


def find_offset(past: Sequence[Slices | None], conditions: Conditions, feature: str) -> float:
    """By how much the values of a slice usually differ from the others, in the feature's unit; 0 where that is not known."""
    offsets = []
    for each in past:
        if each and conditions in each.conditions and feature in each.features:
            s, f = each.conditions.index(conditions), each.features.index(feature)
            offsets.append(each.differences[s, f] * each.width[f])
    present = [offset for offset in offsets if np.isfinite(offset)]
    return float(np.mean(present)) if present else 0.0


def unchanged_features(check: DriftRows, spec: DriftSpec) -> frozenset[str]:
    """The features that say of which category a named row is: without these rows their shares are no longer those of what
    arrived, so that the rest of the window is judged with the shares of all.
    """
    columns = {each.name for each in check.categories}
    return frozenset(f.name for f in spec.features if f.name != check.feature and {f.name, f.expr} & columns)


def count_apart(check: DriftRows | None, spec: DriftSpec | None, numbers: BatchNumbers) -> int:
    """How many rows the volume of the rest lacks. ``numbers``: of the rest."""
    if check is None or spec is None or spec.features[0].name in unchanged_features(check, spec):
        return 0
    if check.of_rows is not None:
        return max(0, check.of_rows - numbers.newest)
    # As decisions of older rule sets were made: these are all rows of the condition, also superseded and failing ones.
    return numbers.failed_rows.get(check.id, 0)


def find_check(checks: Sequence[Any]) -> DriftRows | None:
    """The check that the gate made, of a batch's checks."""
    return next((check for check in checks if isinstance(check, DriftRows)), None)


def _make_check(
    verdict: DriftVerdict,
    worst: FeatureResult,
    spec: DriftSpec,
    excess: Excess,
    conditions: Sequence[CategoryCondition],
) -> DriftRows | None:
    feature = _feature_of(worst, spec)
    if feature is None or verdict.p_value is None or excess.precision < LEAST_PRECISION:
        return None
    return DriftRows(
        feature=feature.name,
        value=feature.expr,
        shown=_describe(worst, excess, conditions),
        low=excess.low,
        high=excess.high,
        categories=tuple(conditions),
        rows=excess.rows,
        usual=excess.usual,
        p_value=verdict.p_value,
        of_rows=_count_rows(verdict, spec.features[0].name),
        description=verdict.message,
    )


def _count_rows(verdict: DriftVerdict, feature: str) -> int:
    """The window's rows, in all strata of a feature."""
    return sum(each.rows for each in verdict.results if each.feature == feature)


def _describe(worst: FeatureResult, excess: Excess, conditions: Sequence[CategoryCondition]) -> str:
    """`value between 8 and 12 where city = Rome, 40 rows where 1.2 are usual`."""
    unit = f" {worst.unit}" if worst.unit else ""
    if excess.low is None and excess.category is None:
        where = describe_conditions(tuple((each.name, each.category) for each in conditions))
        return f"{worst.feature} where {where}, {excess.rows:,} rows of which about {excess.usual:.3g} are usual"
    parts = []
    if excess.low is not None and excess.high is not None:
        low, high = f"{excess.low:.5g}", f"{excess.high:.5g}"
        parts.append(f"{worst.feature} at {low}{unit}" if low == high else f"{worst.feature} between {low} and {high}{unit}")
    if conditions:
        parts.append(describe_conditions(tuple((each.name, each.category) for each in conditions)))
    return f"{' where '.join(parts)}, {excess.rows:,} rows where {excess.usual:.3g} are usual"


def _feature_of(worst: FeatureResult, spec: DriftSpec) -> FeatureSpec | None:
    """The declared feature of a result, if one row is enough to compute it."""
    feature = next((each for each in spec.features if each.name == worst.feature), None)
    if feature is None:
        return None
    try:
        parse_expression(feature.expr, feature.name)
    except ValueError:
        return None  # a window function
    return feature


def _sql_of(column: str, spec: DriftSpec) -> str:
    """The SQL of a slice's column: a feature's, or that of a column which features are split by."""
    of_feature = (f.expr for f in spec.features if f.by is None and column == (f.expr if f.is_plain else f.name))
    return next(of_feature, identifier(column))


def _are_hidden(conditions: Sequence[CategoryCondition]) -> bool:
    return any(is_pseudonym(each.category) for each in conditions)
