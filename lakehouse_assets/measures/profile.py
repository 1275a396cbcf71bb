"""The second aggregation: each drift feature's profile (counts, moments, KLL sketch) by window and stratum.

Belongs here: rows → profiles of the rows that would be published. Does not: distances, baselines, judgement.
"""

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lakehouse_assets.checks.sql_text import add_partition, identifier, parse_expression
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.profiles import Profile
from lakehouse_assets.measures.scan import moment

MAX_STRATA = 64


Batch = tuple[datetime, int]


def profile(staged: DataFrame, drift: DriftSpec) -> tuple[dict[Batch, list[Profile]], set[Batch]]:
    """Profiles of every batch, one aggregation, and the batches that have more than 64 strata of a feature.

    Collects at most 65 rows a batch and feature.
    """
    # Features of one `by` stand beside each other in a row, which is counted once for all of them.
    groups: dict[str | None, list[int]] = {}
    for position, feature in enumerate(drift.features):
        groups.setdefault(feature.by, []).append(position)
    slots = range(max(map(len, groups.values())))
    strata = [
        [
            F.lit(place).alias("place"),
            _stratum(by),
            *[_value(drift, given[slot : slot + 1]).alias(f"v{slot}") for slot in slots],
        ]
        for place, (by, given) in enumerate(groups.items())
    ]
    # One `by` is the rule: no row is then written more than once.
    cells = strata[0] if len(strata) == 1 else [F.inline(F.array(*[F.struct(*stratum) for stratum in strata]))]
    published = staged.where(F.col("_newest"))
    values = published.select(F.unix_micros("p_extracted_at").alias("window"), "extraction_seq", *cells)
    # NaN is above every number.
    finite = [
        F.expr(f"CASE WHEN abs(v{slot}) < CAST('Infinity' AS DOUBLE) THEN v{slot} END").alias(f"f{slot}") for slot in slots
    ]
    nth = F.row_number().over(W.partitionBy("window", "extraction_seq", "place").orderBy("stratum"))
    rows = (
        values.select("*", *finite)
        .groupBy("window", "extraction_seq", "place", "stratum")
        .agg(F.count(F.lit(1)).alias("rows"), *[figure for slot in slots for figure in _figures(slot, drift.sketch_k)])
        .select("*", *[extreme for slot in slots for extreme in _extremes(slot)], nth.alias("nth"))
        .where(F.col("nth") <= MAX_STRATA + 1)
        .collect()
    )
    crowded = {(moment(row["window"]), row["extraction_seq"]) for row in rows if row["nth"] > MAX_STRATA}
    found: dict[Batch, list[Profile]] = {}
    features = list(groups.values())
    for row in rows:
        batch = (moment(row["window"]), row["extraction_seq"])
        for slot, position in enumerate(features[row["place"]]):
            found.setdefault(batch, []).append(_profile(drift.features[position].name, row, slot))
    return found, crowded


def _stratum(by: str | None) -> Column:
    return F.expr(f"CAST({identifier(by) if by else 'NULL'} AS STRING)").alias("stratum")


def _value(drift: DriftSpec, position: Sequence[int]) -> Column:
    """The feature at this position; no number where a `by` has fewer features than another."""
    if not position:
        return F.lit(None).cast("double")
    feature = drift.features[position[0]]
    tree = parse_expression(feature.expr, feature.name, allow_windows=True)
    # A range run stages several windows at once: a window function must never look across them.
    value = add_partition(add_partition(tree, "p_extracted_at"), "extraction_seq").sql(dialect="spark")
    return F.expr(f"CAST({value} AS DOUBLE)")


def _figures(slot: int, k: int) -> list[Column]:
    """As few aggregates as tell all: each is evaluated for each row by itself, since Spark compiles none beside a sketch. The
    sketch knows the extremes.
    """
    value, finite = F.col(f"v{slot}"), F.col(f"f{slot}")
    figures = {
        "given": F.count(value),
        "nans": F.count_if(F.isnan(value)),
        "valid": F.count(finite),
        "mean": F.mean(finite),
        "std": F.stddev_samp(finite),
        "sketch": F.expr(f"kll_sketch_agg_double(f{slot}, {int(k)})"),
    }
    return [figure.alias(f"{name}{slot}") for name, figure in figures.items()]


def _extremes(slot: int) -> list[Column]:
    """Of an empty sketch there are none, and asking would be an error."""
    asked = {"minimum": "0.0D", "maximum": "1.0D"}
    return [
        F.expr(f"CASE WHEN valid{slot} > 0 THEN kll_sketch_get_quantile_double(sketch{slot}, {rank}) END").alias(
            f"{name}{slot}"
        )
        for name, rank in asked.items()
    ]


def _profile(feature: str, row: Row, slot: int) -> Profile:
    given, nans, valid, sketch = (row[f"{name}{slot}"] for name in ("given", "nans", "valid", "sketch"))
    return Profile(
        feature=feature,
        stratum=row["stratum"],
        rows=row["rows"],
        nulls=row["rows"] - given,
        nans=nans,
        infinities=given - nans - valid,
        mean=row[f"mean{slot}"],
        std=row[f"std{slot}"],
        minimum=row[f"minimum{slot}"],
        maximum=row[f"maximum{slot}"],
        sketch=bytes(sketch) if valid and sketch is not None else None,
    )
