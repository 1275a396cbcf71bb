"""The second aggregation: each drift feature's profile (counts, moments, KLL sketch) by window and stratum.

Belongs here: rows → profiles of the rows that would be published. Does not: distances, baselines, judgement.
"""

from datetime import datetime

from pyspark.sql import DataFrame
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
    features = []
    for position, feature in enumerate(drift.features):
        tree = parse_expression(feature.expr, feature.name, allow_windows=True)
        # A range run stages several windows at once: a window function must never look across them.
        value = add_partition(add_partition(tree, "p_extracted_at"), "extraction_seq").sql(dialect="spark")
        features.append((position, f"CAST({value} AS DOUBLE)", identifier(feature.by) if feature.by else "NULL"))
    published = staged.where(F.col("_newest"))
    wide = published.select(
        F.unix_micros("p_extracted_at").alias("window"),
        "extraction_seq",
        F.array(
            *[
                F.struct(
                    F.lit(position).alias("feature"),
                    F.expr(f"CAST({by} AS STRING)").alias("stratum"),
                    F.expr(value).alias("value"),
                )
                for position, value, by in features
            ]
        ).alias("given"),
    )
    finite = "CASE WHEN isnan(value) OR abs(value) = CAST('Infinity' AS DOUBLE) THEN NULL ELSE value END"
    long = wide.select("window", "extraction_seq", F.inline("given")).withColumn("finite", F.expr(finite))
    nth = F.row_number().over(W.partitionBy("window", "extraction_seq", "feature").orderBy("stratum"))
    rows = (
        long.groupBy("window", "extraction_seq", "feature", "stratum")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.count_if(F.col("value").isNull()).alias("nulls"),
            F.count_if(F.expr("isnan(value)")).alias("nans"),
            F.expr("count_if(abs(value) = CAST('Infinity' AS DOUBLE))").alias("infinities"),
            F.mean("finite").alias("mean"),
            F.stddev_samp("finite").alias("std"),
            F.min("finite").alias("minimum"),
            F.max("finite").alias("maximum"),
            F.expr(f"kll_sketch_agg_double(finite, {int(drift.sketch_k)})").alias("sketch"),
        )
        .withColumn("nth", nth)
        .where(F.col("nth") <= MAX_STRATA + 1)
        .collect()
    )
    crowded = {(moment(row["window"]), row["extraction_seq"]) for row in rows if row["nth"] > MAX_STRATA}
    found: dict[Batch, list[Profile]] = {}
    for row in rows:
        valid = row["rows"] - row["nulls"] - row["nans"] - row["infinities"]
        found.setdefault((moment(row["window"]), row["extraction_seq"]), []).append(
            Profile(
                feature=drift.features[row["feature"]].name,
                stratum=row["stratum"],
                rows=row["rows"],
                nulls=row["nulls"],
                nans=row["nans"],
                infinities=row["infinities"],
                mean=row["mean"],
                std=row["std"],
                minimum=row["minimum"],
                maximum=row["maximum"],
                sketch=bytes(row["sketch"]) if valid and row["sketch"] is not None else None,
            )
        )
    return found, crowded
