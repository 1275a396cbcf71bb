"""A capped sample of failing values, for people: the same rows give the same sample.

Belongs here: what is shown of failing rows. Does not: the whole evidence, which is in quarantine.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

PER_CHECK = 5


def failing_samples(staged: DataFrame) -> dict[str, list[str]]:
    """At most five different ``window value`` texts per check over all batches of a run; collects 5 × checks rows. Values of
    columns marked `pii` were masked when they were staged.
    """
    reasons = staged.select("p_extracted_at", F.explode("_reasons").alias("r"))
    told = reasons.select(
        F.col("r.check").alias("check"),
        F.date_format("p_extracted_at", "yyyy-MM-dd HH:mm").alias("window"),
        F.coalesce("r.value", F.lit("NULL")).alias("value"),
    ).distinct()
    # By a hash of what is shown, so that they are drawn from all windows and no other column is read.
    first = W.partitionBy("check").orderBy(F.xxhash64("window", "value"), "window", "value")
    ranked = told.select("*", F.row_number().over(first).alias("n"))
    found: dict[str, list[str]] = {}
    for row in ranked.where(F.col("n") <= PER_CHECK).orderBy("check", "n").collect():
        found.setdefault(row["check"], []).append(f"{row['window']}: {row['value']}")
    return found
