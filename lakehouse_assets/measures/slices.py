"""The slices of batches, from one more aggregation: of each feature the mean score by one or two categories.

Belongs here: which columns and categories, the aggregation, its rows as records. Does not: profiles (profile), which slices are
kept (decisions).
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lakehouse_assets.checks.drift_rows import CATEGORY_LENGTH
from lakehouse_assets.checks.sql.text import identifier, parse_expression
from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.contracts.drift import DriftSpec, FeatureSpec
from lakehouse_assets.decisions.drift.distances import read_ecdf
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.decisions.drift.slices import (
    LEAST_ROWS,
    MOST_COLUMNS,
    Cell,
    Scale,
    Slices,
    choose_categories,
    find_scale,
    pairs_of,
)
from lakehouse_assets.measures.frames import all_of, local_frame, micros, moment
from lakehouse_assets.measures.profile import has_window_function

# Rows that are collected of a batch: slices by one condition first, then the largest.
MOST_COLLECTED = 80
_SCALE = pa.float64()


class _Plan(NamedTuple):
    """What is measured of one batch: the scale of each number, and the frequent categories of each text, by feature."""

    batch: Batch
    scales: Mapping[str, Scale]
    categories: Mapping[str, Sequence[str]]


def sliced_features(drift: DriftSpec) -> list[FeatureSpec]:
    """The features of which slices are compared, if they are numbers."""
    return [each for each in drift.features if each.by is None and not has_window_function(each)]


def add_slice_columns(drift: DriftSpec) -> DriftSpec:
    """The same with a feature for each `by` column that is none yet: its categories must be counted to make slices."""
    if not drift.slices or not sliced_features(drift):
        return drift
    plain = {feature.expr.lower() for feature in drift.features if feature.is_plain}
    names = {feature.name.lower() for feature in drift.features}
    wanted = dict.fromkeys(feature.by for feature in drift.features if feature.by)
    missing = [by for by in wanted if by.lower() not in plain | names]
    more = tuple(FeatureSpec(name=name, expr=identifier(name)) for name in missing)
    return drift.model_copy(update={"features": (*drift.features, *more)})


def measure_slices(
    published: DataFrame, drift: DriftSpec, measurements: Mapping[Batch, Sequence[Measurement]]
) -> dict[Batch, Slices]:
    """Return the slices of each batch that has some. ``measurements``: its profiles, those of `add_slice_columns` too.

    One aggregation by at most four columns of nine categories each, summed up again by one and two of them. Collects at most 80
    rows per batch.
    """
    usable = sliced_features(drift)
    plans = [plan for batch, own in measurements.items() if (plan := _plan(batch, own, usable))]
    if not drift.slices or not plans:
        return {}
    features = [each for each in usable if any(each.name in plan.scales for plan in plans)]
    columns = [each for each in usable if any(each.name in plan.categories for plan in plans)]
    cells = _add_up(_score_rows(published, plans, features, columns), len(features), len(columns))
    by_batch: dict[Batch, list[Row]] = {}
    for row in cells.collect():
        by_batch.setdefault((moment(row["window"]), row["extraction_seq"]), []).append(row)
    results = {}
    for plan in plans:
        if slices := _read_slices(plan, by_batch.get(plan.batch, ()), features, columns):
            results[plan.batch] = slices
    return results


def _plan(batch: Batch, own: Sequence[Measurement], features: Sequence[FeatureSpec]) -> _Plan | None:
    profiles = {m.feature: m for m in own if isinstance(m, Profile) and m.stratum is None}
    rows = max((profile.rows for profile in profiles.values()), default=0)
    scales, categories = {}, {}
    for feature in features:
        profile = profiles.get(feature.name)
        if profile is None:
            continue
        if profile.kind == "number":
            scales |= {feature.name: scale} if (scale := _find_scale(profile)) else {}
        elif _is_column(feature) and len(categories) < MOST_COLUMNS:
            chosen = choose_categories({str(name): n for name, n in profile.counts or ()}, rows)
            categories |= {feature.name: chosen} if chosen else {}
    return _Plan(batch, scales, categories) if scales and categories else None


def _is_column(feature: FeatureSpec) -> bool:
    return feature.is_plain or feature.expr == identifier(feature.name)


def _find_scale(profile: Profile) -> Scale | None:
    ecdf = read_ecdf(profile)
    return find_scale(ecdf) if ecdf else None


def _score_rows(
    published: DataFrame, plans: Sequence[_Plan], features: Sequence[FeatureSpec], columns: Sequence[FeatureSpec]
) -> DataFrame:
    """Of each row the scores ``u…`` of its values, and its frequent categories ``c…``; NULL for others."""
    numbers = [F.expr(f"CAST({_sql(feature)} AS DOUBLE) AS v{slot}") for slot, feature in enumerate(features)]
    texts = [
        F.expr(f"left(CAST({_sql(feature)} AS STRING), {CATEGORY_LENGTH}) AS t{index}") for index, feature in enumerate(columns)
    ]
    rows = published.select(F.unix_micros("p_extracted_at").alias("window"), "extraction_seq", *numbers, *texts)
    joined = rows.join(F.broadcast(_scale_frame(published, plans, features, columns)), ["window", "extraction_seq"])
    scores = [_score(slot).alias(f"u{slot}") for slot, _ in enumerate(features)]
    frequent = [F.expr(f"CASE WHEN array_contains(names{i}, t{i}) THEN t{i} END AS c{i}") for i, _ in enumerate(columns)]
    return joined.select("window", "extraction_seq", *scores, *frequent)


def _add_up(scored: DataFrame, features: int, columns: int) -> DataFrame:
    """The cells of all batches: rows, and of each feature the values (``n…``), the sums of their scores (``s…``) and of the
    squares (``q…``). ``absent``: 1 for a column without a condition.
    """
    sums = [F.sum(f"u{slot}").alias(f"s{slot}") for slot in range(features)]
    sums += [F.count(f"u{slot}").alias(f"n{slot}") for slot in range(features)]
    sums += [F.sum(F.col(f"u{slot}") * F.col(f"u{slot}")).alias(f"q{slot}") for slot in range(features)]
    batch, names = ["window", "extraction_seq"], [f"c{index}" for index in range(columns)]
    cells = scored.groupBy(*batch, *names).agg(*sums, F.count(F.lit(1)).alias("rows"))
    again = [F.sum(name).alias(name) for name in cells.columns if name not in {*batch, *names}]
    absent = F.struct(*[F.grouping(name).alias(name) for name in names]).alias("absent")
    groups = [[*batch, *each] for each in [(), *pairs_of(names)]]
    summed = cells.groupingSets(groups, *batch, *names).agg(*again, absent)
    is_complete = [(F.col(f"absent.{name}") == 1) | F.col(name).isNotNull() for name in names]
    conditions = reduce(add, [F.lit(1) - F.col(f"absent.{name}") for name in names])
    usable = summed.where(all_of(is_complete) & (F.col("rows") >= LEAST_ROWS)).select("*", conditions.alias("conditions"))
    order = [F.col("conditions"), F.col("rows").desc(), *[F.col(name) for name in names]]
    nth = F.row_number().over(W.partitionBy(*batch).orderBy(*order))
    return usable.select("*", nth.alias("nth")).where(F.col("nth") <= MOST_COLLECTED)


def _scale_frame(
    published: DataFrame, plans: Sequence[_Plan], features: Sequence[FeatureSpec], columns: Sequence[FeatureSpec]
) -> DataFrame:
    kinds: list[tuple[str, pa.DataType]] = [("window", pa.int64()), ("extraction_seq", pa.int32())]
    kinds += [(f"{name}{slot}", _SCALE) for slot, _ in enumerate(features) for name in ("low", "width")]
    kinds += [(f"names{index}", pa.list_(pa.string())) for index, _ in enumerate(columns)]
    rows: list[list[Any]] = []
    for plan in plans:
        scales = [plan.scales.get(feature.name) for feature in features]
        pairs: list[Any] = [value for scale in scales for value in (scale or (None, None))]
        names = [list(plan.categories.get(column.name, ())) for column in columns]
        rows.append([micros(start_of(plan.batch)), plan.batch[1], *pairs, *names])
    return local_frame(published.sparkSession, kinds, rows)


def _score(slot: int) -> Column:
    # `greatest` and `least` pass over NULL; NaN is above every number.
    is_finite = f"abs(v{slot}) < CAST('Infinity' AS DOUBLE) AND width{slot} IS NOT NULL"
    return F.expr(f"CASE WHEN {is_finite} THEN greatest(0.0D, least(1.0D, (v{slot} - low{slot}) / width{slot})) END")


def _sql(feature: FeatureSpec) -> str:
    return parse_expression(feature.expr, feature.name, allow_windows=True).sql(dialect="spark")


def _read_slices(
    plan: _Plan, rows: Sequence[Row], features: Sequence[FeatureSpec], columns: Sequence[FeatureSpec]
) -> Slices | None:
    slots = [slot for slot, feature in enumerate(features) if feature.name in plan.scales]
    names = [each.expr if each.is_plain else each.name for each in columns]
    cells = []
    everything, squares = None, []
    for row in rows:
        conditions = tuple((column, row[f"c{i}"]) for i, column in enumerate(names) if row["absent"][f"c{i}"] == 0)
        valid, sums = tuple(row[f"n{slot}"] for slot in slots), tuple(row[f"s{slot}"] or 0.0 for slot in slots)
        cell = Cell(conditions, row["rows"], valid, sums)
        if conditions:
            cells.append(cell)
        else:
            everything, squares = cell, [row[f"q{slot}"] or 0.0 for slot in slots]
    if everything is None:
        return None
    return Slices.of({features[slot].name: plan.scales[features[slot].name] for slot in slots}, everything, squares, cells)
