"""Values of rows that fail row checks, for a person to look at: a few of each check.

Belongs here: which failing values are shown. Does not: all failing rows (quarantine), or examples of batch checks
(batch_numbers).
"""

from collections.abc import Collection, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.families import RowCheck

PER_CHECK = 5


def all_leave(checks: Sequence[Check], failing: Collection[str]) -> bool:
    """Whether each row that fails one of these rules (ids) leaves its batch. The built-in rules are none of ``checks``."""
    warning = {check.id for check in checks if isinstance(check, RowCheck) and not check.removes_rows}
    return warning.isdisjoint(failing)


def left_rows(staged: DataFrame) -> DataFrame:
    """Return the staged rows that are not published, among them all that leave. They may be in files of their own."""
    return staged.where(~F.col("_newest"))


def collect_failing_samples(staged: DataFrame) -> dict[str, list[str]]:
    """Return at most five different ``window value`` texts per check over all batches of a run. Collects 5 × checks rows.
    Values of `pii` columns were masked at staging.
    """
    reasons = staged.select("p_extracted_at", F.explode("_reasons").alias("r"))
    texts = reasons.select(
        F.col("r.check").alias("check"),
        F.date_format("p_extracted_at", "yyyy-MM-dd HH:mm").alias("window"),
        F.coalesce("r.value", F.lit("NULL")).alias("value"),
    ).distinct()
    # In the order of a hash of the text: samples come from all windows, and no other column is read.
    first = W.partitionBy("check").orderBy(F.xxhash64("window", "value"), "window", "value")
    ranked = texts.select("*", F.row_number().over(first).alias("n"))
    samples: dict[str, list[str]] = {}
    for row in ranked.where(F.col("n") <= PER_CHECK).orderBy("check", "n").collect():
        samples.setdefault(row["check"], []).append(f"{row['window']}: {row['value']}")
    return samples
