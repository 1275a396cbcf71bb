"""A sample of a table's rows in one pass: the same seed gives the same rows, however many tasks read them.

Belongs here: the priority of a row, the bounded draw, counts by group. Does not: what is asked of the sample (audit_rules), or
how likely a row was to be in it (decisions/audit_share).

Each row has a priority, `-ln(u) / w`; the least ones are the sample. That is A-Res (the greatest `u^(1/w)`) written so that it
does not underflow; with one weight for all it is a uniform sample. `u` is a hash of the seed and of what identifies the row.
Spark keeps a heap of bounded size per task (`TakeOrderedAndProject`), and a first cut keeps nearly every row out of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from lakehouse_assets.checks.sql_text import identifier
from lakehouse_assets.decisions.audit_share import cut_for, group_weights

MOST_GROUPS = 1000
GROUP, PRIORITY = "_audit_group", "_audit_priority"
OTHERS, NO_VALUE = "(others)", "(no value)"


@dataclass(frozen=True)
class Groups:
    """Rows by value of one column, as text: the most frequent thousand, and the others together. ``weights``: of a row of each;
    none for a uniform sample.
    """

    counts: Mapping[str, int]
    weights: Mapping[str, float]


@dataclass(frozen=True)
class Drawn:
    """``rows``: the sample, kept by Spark until `release`, with `_audit_group` and `_audit_priority`. ``cut``: the priority of
    the first row left out; infinite where none is.
    """

    rows: DataFrame
    kept: DataFrame
    count: int
    cut: float
    counts: Mapping[str, int]
    repeated: bool = False

    def release(self) -> None:
        """Forget the rows."""
        self.kept.unpersist()


def priority(seed: Column, identity: Sequence[Column], weight: Column) -> Column:
    """Of a row: an exponential number of rate ``weight``, by a hash of the seed and of what identifies the row."""
    number = F.shiftrightunsigned(F.xxhash64(seed, *identity), 11)
    uniform = (number.cast("double") + F.lit(0.5)) * F.lit(2.0**-53)
    return -F.log(uniform) / weight


def group_of(column: str) -> Column:
    """A row's group: its value as a text."""
    return F.coalesce(F.col(identifier(column)).cast("string"), F.lit(NO_VALUE))


def count_groups(frame: DataFrame, column: str, whole: int, *, weighted: bool) -> Groups:
    """Reads that column alone; collects at most a thousand groups. ``whole``: rows of the table."""
    counted = frame.groupBy(group_of(column).alias("g")).count().orderBy(F.desc("count"), "g").limit(MOST_GROUPS)
    counts = {row["g"]: row["count"] for row in counted.collect()}
    left = whole - sum(counts.values())
    if left > 0:
        counts[OTHERS] = counts.get(OTHERS, 0) + left
    names = list(counts)
    return Groups(counts, dict(zip(names, group_weights([counts[g] for g in names]), strict=True)) if weighted else {})


def draw(
    frame: DataFrame,
    identity: Sequence[Column],
    wanted: int,
    seed: int,
    whole: int,
    *,
    column: str | None = None,
    groups: Groups | None = None,
) -> Drawn:
    """At most ``wanted`` rows of ``frame``, of which it has ``whole``. ``identity``: what tells two rows apart. ``column``,
    ``groups``: by what the rows are counted, and weighed where there are weights.
    """
    rows = frame.withColumn(GROUP, group_of(column) if column else F.lit(""))
    weights = groups.weights if groups else {}
    if groups and OTHERS in groups.counts:
        named = [name for name in groups.counts if name != OTHERS]
        rows = rows.withColumn(GROUP, F.when(F.col(GROUP).isin(named), F.col(GROUP)).otherwise(F.lit(OTHERS)))
    if weights:
        spark = frame.sparkSession
        table = spark.createDataFrame(list(weights.items()), f"{GROUP} string, _audit_weight double")
        rows = rows.join(F.broadcast(table), GROUP, "left")
        weight = F.coalesce(F.col("_audit_weight"), F.lit(weights.get(OTHERS, 1.0)))
    else:
        weight = F.lit(1.0)
    by_seed = F.lit(seed).cast("bigint")
    given = rows.withColumn(PRIORITY, priority(by_seed, identity, weight)).drop("_audit_weight")
    sizes = [(weights[name], count) for name, count in groups.counts.items()] if groups and weights else [(1.0, whole)]
    first_cut = cut_for(sizes, wanted + 1 + 8 * sqrt(wanted) + 50)
    kept, found = _draw(given, wanted, whole, first_cut)
    repeated = len({order for _, order in found}) < len(found)
    if repeated:
        # Rows that are alike would all be in the sample or none of them, which no interval knows of.
        kept.unpersist()
        placed = priority(by_seed, [*identity, F.monotonically_increasing_id()], weight)
        kept, found = _draw(rows.withColumn(PRIORITY, placed).drop("_audit_weight"), wanted, whole, first_cut)
    cut = found[wanted][1] if len(found) > wanted else float("inf")
    counts: dict[str, int] = {}
    inside = [group for group, order in found if order < cut]
    for group in inside:
        counts[group] = counts.get(group, 0) + 1
    return Drawn(kept.where(F.col(PRIORITY) < F.lit(cut)), kept, len(inside), cut, counts, repeated)


def _draw(rows: DataFrame, wanted: int, whole: int, first_cut: float) -> tuple[DataFrame, list[tuple[str, float]]]:
    """One row more than is wanted; without the first cut where that left too few, which is next to impossible."""
    kept, found = _least(rows, wanted + 1, first_cut)
    if isfinite(first_cut) and len(found) < min(wanted + 1, whole):
        kept.unpersist()
        kept, found = _least(rows, wanted + 1, float("inf"))
    return kept, found


def _least(rows: DataFrame, count: int, below: float) -> tuple[DataFrame, list[tuple[str, float]]]:
    """The rows of least priority, kept, with each one's group and priority in that order."""
    if isfinite(below):
        rows = rows.where(F.col(PRIORITY) <= F.lit(below))
    kept = rows.orderBy(PRIORITY).limit(count).persist(StorageLevel.MEMORY_AND_DISK)
    found = kept.select(GROUP, PRIORITY).collect()
    return kept, sorted(((row[GROUP], row[PRIORITY]) for row in found), key=lambda pair: pair[1])
