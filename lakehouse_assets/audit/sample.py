"""A sample of a table's rows in one pass: the same seed gives the same rows, however many tasks read them.

Belongs here: a row's priority, the bounded draw, counts by group. Does not: measuring rules (rule_scans), or a row's
probability to be sampled (decisions/audit/share).

Each row has a priority, `-ln(u) / w`; the least ones are the sample. That is A-Res (the greatest `u^(1/w)`) without underflow;
with one weight for all it is a uniform sample. `u` is a hash of the seed and of the row's identity. Spark keeps a bounded heap
per task (`TakeOrderedAndProject`), and a first cut keeps nearly every row out of it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.decisions.audit.share import find_cut, group_weights
from lakehouse_assets.measures.frames import local_frame

MOST_GROUPS = 1000
GROUP, PRIORITY = "_audit_group", "_audit_priority"
OTHERS, NO_VALUE = "(others)", "(no value)"


@dataclass(frozen=True)
class Groups:
    """Rows by a column's value as text: the most frequent thousand, and the others together. ``weights``: none if uniform."""

    counts: Mapping[str, int]
    weights: Mapping[str, float]


@dataclass(frozen=True)
class Sample:
    """``rows``: the sample with `_audit_group` and `_audit_priority`, cached by Spark until `release`. ``cut``: the priority of
    the first row left out; infinite if none is.
    """

    rows: DataFrame
    cached: DataFrame
    count: int
    cut: float
    counts: Mapping[str, int]
    weights: Mapping[str, float]
    repeated: bool = False

    def release(self) -> None:
        """Drop the cached rows."""
        self.cached.unpersist()


def sampling_priority(seed: Column, identity: Sequence[Column], weight: Column) -> Column:
    """Return a row's priority: an exponential number of rate ``weight``, by a hash of the seed and the row's identity."""
    number = F.shiftrightunsigned(F.xxhash64(seed, *identity), 11)
    uniform = (number.cast("double") + F.lit(0.5)) * F.lit(2.0**-53)
    return -F.log(uniform) / weight


def group_of(column: str) -> Column:
    """Return a row's group: its value as text."""
    return F.coalesce(F.col(identifier(column)).cast("string"), F.lit(NO_VALUE))


def count_groups(frame: DataFrame, column: str, table_rows: int, *, weighted: bool) -> Groups:
    """Count rows by group. Reads that column alone; collects at most a thousand groups. ``table_rows``: rows of the table."""
    counted = frame.groupBy(group_of(column).alias("g")).count().orderBy(F.desc("count"), "g").limit(MOST_GROUPS)
    counts = {row["g"]: row["count"] for row in counted.collect()}
    remaining = table_rows - sum(counts.values())
    if remaining > 0:
        counts[OTHERS] = counts.get(OTHERS, 0) + remaining
    return Groups(counts, dict(zip(counts, group_weights([*counts.values()]), strict=True)) if weighted else {})


def draw_sample(
    frame: DataFrame,
    identity: Sequence[Column],
    wanted: int,
    seed: int,
    table_rows: int,
    *,
    column: str | None = None,
    groups: Groups | None = None,
) -> Sample:
    """Draw at most ``wanted`` rows of ``frame``, which has ``table_rows``. ``identity``: columns that identify a row.
    ``column``, ``groups``: how rows are counted and, with weights, weighted.
    """
    rows = frame.withColumn(GROUP, group_of(column) if column else F.lit(""))
    weights = groups.weights if groups else {}
    if groups and OTHERS in groups.counts:
        named = [name for name in groups.counts if name != OTHERS]
        rows = rows.withColumn(GROUP, F.when(F.col(GROUP).isin(named), F.col(GROUP)).otherwise(F.lit(OTHERS)))
    if weights:
        kinds = [(GROUP, pa.string()), ("_audit_weight", pa.float64())]
        table = local_frame(frame.sparkSession, kinds, weights.items())
        rows = rows.join(F.broadcast(table), GROUP, "left")
        weight = F.coalesce(F.col("_audit_weight"), F.lit(weights.get(OTHERS, 1.0)))
    else:
        weight = F.lit(1.0)
    by_seed = F.lit(seed).cast("bigint")
    prioritized = rows.withColumn(PRIORITY, sampling_priority(by_seed, identity, weight)).drop("_audit_weight")
    sizes = [(weights[name], count) for name, count in groups.counts.items()] if groups and weights else [(1.0, table_rows)]
    first_cut = find_cut(sizes, wanted + 1 + 8 * sqrt(wanted) + 50)
    cached, drawn = _draw(prioritized, wanted, table_rows, first_cut)
    repeated = len({priority for _, priority in drawn}) < len(drawn)
    if repeated:
        # Rows that are alike would all be in the sample or none of them, which no interval knows of.
        cached.unpersist()
        salted = sampling_priority(by_seed, [*identity, F.monotonically_increasing_id()], weight)
        cached, drawn = _draw(rows.withColumn(PRIORITY, salted).drop("_audit_weight"), wanted, table_rows, first_cut)
    cut = drawn[wanted][1] if len(drawn) > wanted else float("inf")
    counts = Counter(group for group, priority in drawn if priority < cut)
    return Sample(cached.where(F.col(PRIORITY) < F.lit(cut)), cached, counts.total(), cut, dict(counts), weights, repeated)


def _draw(rows: DataFrame, wanted: int, table_rows: int, first_cut: float) -> tuple[DataFrame, list[tuple[str, float]]]:
    """Return one row more than wanted; without the first cut if that left too few, which is next to impossible."""
    cached, drawn = _least(rows, wanted + 1, first_cut)
    if isfinite(first_cut) and len(drawn) < min(wanted + 1, table_rows):
        cached.unpersist()
        cached, drawn = _least(rows, wanted + 1, float("inf"))
    return cached, drawn


def _least(rows: DataFrame, count: int, below: float) -> tuple[DataFrame, list[tuple[str, float]]]:
    """Return the rows of least priority, cached, with group and priority of each in that order."""
    if isfinite(below):
        rows = rows.where(F.col(PRIORITY) <= F.lit(below))
    cached = rows.orderBy(PRIORITY).limit(count).persist(StorageLevel.MEMORY_AND_DISK)
    drawn = cached.select(GROUP, PRIORITY).collect()
    return cached, sorted(((row[GROUP], row[PRIORITY]) for row in drawn), key=lambda pair: pair[1])
