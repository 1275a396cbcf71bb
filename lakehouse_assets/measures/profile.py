"""The second aggregation: each drift feature's profile by window and stratum, and how its numbers go together.

Belongs here: rows → profiles and relations of the rows that would be published. Does not: distances, baselines, judgement.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window as W
from sqlglot import exp

from lakehouse_assets.checks.sql_text import add_partition, identifier, parse_expression
from lakehouse_assets.contracts.drift import MOST_RELATED, DriftSpec, FeatureSpec
from lakehouse_assets.decisions.relations import Measured
from lakehouse_assets.measures.profile_rows import KEYS, category, joined, number, relations
from lakehouse_assets.measures.scan import moment

MAX_STRATA = 64
CROWDED = f"a feature's `by` has more than {MAX_STRATA} strata; use a coarser one"
# A category is told apart by so many characters.
CATEGORY_LENGTH = 200
# Values that are counted one by one: as many as Spark's sketch of frequent items holds exactly at this size.
COUNTED = 1536

Batch = tuple[datetime, int]


class _Group(NamedTuple):
    """Features of one `by`: places in the specification, of numbers and of texts; which numbers are whole or decimal."""

    by: str | None
    numbers: list[int]
    texts: list[int]
    discrete: frozenset[int]


def profile(staged: DataFrame, drift: DriftSpec, only: Batch | None = None) -> tuple[dict[Batch, list[Measured]], set[Batch]]:
    """Profiles and relations of every batch, in one job, and the batches that have more than 64 strata of a feature.

    A feature that is a text or true/false is a category; every other is a number. ``only``: the batch that all rows are of,
    where there is but one: they are then not grouped by it, which is a quarter of the work. Collects at most 65 rows a batch
    and `by` (twice, where they are aggregated apart), of at most 1,536 counted values a feature.
    """
    published = staged.where(F.col("_newest"))
    groups = _groups(published, drift)
    numbers = range(max(len(group.numbers) for group in groups))
    texts = range(max(len(group.texts) for group in groups))
    # Features of one `by` stand beside each other in a row, which is counted once for all of them.
    strata = [_cells(place, group, drift, numbers, texts) for place, group in enumerate(groups)]
    # One `by` is the rule: no row is then written more than once.
    cells = strata[0] if len(strata) == 1 else [F.inline(F.array(*[F.struct(*stratum) for stratum in strata]))]
    values = published.select(F.unix_micros("p_extracted_at").alias("window"), "extraction_seq", *cells)
    discrete = {slot for group in groups for slot, position in enumerate(group.numbers) if position in group.discrete}
    sketches = _sketches(numbers, texts, discrete, groups, drift.sketch_k)
    figures = _figures(numbers, texts, max(len(_related(group, drift)) for group in groups))
    finite = values.select("*", *[_finite(slot) for slot in numbers])
    whole = finite.select("*", _complete(groups, drift).alias("complete"))
    constant = _constant(groups, only)
    keys = [key for key in KEYS if key not in constant]
    rows = _aggregated(whole, keys, sketches, figures, apart=not _looks_around(drift))
    rows = rows.select("*", *[value.alias(key) for key, value in constant.items()])
    nth = F.dense_rank().over(W.partitionBy("window", "extraction_seq", "place").orderBy("stratum"))
    extremes = [extreme for slot in numbers for extreme in _extremes(slot)]
    collected = rows.select("*", *extremes, nth.alias("nth")).where(F.col("nth") <= MAX_STRATA + 1).collect()
    crowded = {(moment(row["window"]), row["extraction_seq"]) for row in collected if row["nth"] > MAX_STRATA}
    found: dict[Batch, list[Measured]] = {}
    for row in joined(collected):
        if not row["rows"]:
            # Without anything to group by there is a row of nothing.
            continue
        group = groups[row["place"]]
        measured = found.setdefault((moment(row["window"]), row["extraction_seq"]), [])
        measured += [number(drift.features[position].name, row, slot) for slot, position in enumerate(group.numbers)]
        measured += [category(drift.features[position].name, row, slot) for slot, position in enumerate(group.texts)]
        if related := _related(group, drift):
            measured.append(relations(group.by, tuple(drift.features[p].name for p in related), row))
    return found, crowded


def _groups(published: DataFrame, drift: DriftSpec) -> list[_Group]:
    """By `by`, in the order of the specification; what a feature is follows from the type that Spark finds."""
    types = [field.dataType for field in published.select(*[F.expr(_sql(feature)) for feature in drift.features]).schema]
    found: dict[str | None, _Group] = {}
    for position, (feature, kind) in enumerate(zip(drift.features, types, strict=True)):
        group = found.setdefault(feature.by, _Group(feature.by, [], [], frozenset()))
        if isinstance(kind, T.StringType | T.BooleanType):
            group.texts.append(position)
        else:
            group.numbers.append(position)
            if isinstance(kind, T.IntegralType | T.DecimalType):
                found[feature.by] = group._replace(discrete=group.discrete | {position})
    return list(found.values())


def _sql(feature: FeatureSpec) -> str:
    tree = parse_expression(feature.expr, feature.name, allow_windows=True)
    # A range run stages several windows at once: a window function must never look across them.
    return add_partition(add_partition(tree, "p_extracted_at"), "extraction_seq").sql(dialect="spark")


def _looks_around(drift: DriftSpec) -> bool:
    trees = [parse_expression(feature.expr, feature.name, allow_windows=True) for feature in drift.features]
    return any(tree.find(exp.Window) for tree in trees)


def _cells(place: int, group: _Group, drift: DriftSpec, numbers: Iterable[int], texts: Iterable[int]) -> list[Column]:
    """One `by`: nothing where it has fewer features than another."""

    def cell(slot: int, positions: Sequence[int], template: str, kind: str) -> Column:
        if slot >= len(positions):
            return F.lit(None).cast(kind)
        return F.expr(template.format(_sql(drift.features[positions[slot]])))

    stratum = F.expr(f"CAST({identifier(group.by) if group.by else 'NULL'} AS STRING)")
    text = f"left(CAST({{}} AS STRING), {CATEGORY_LENGTH})"
    return [
        F.lit(place).alias("place"),
        stratum.alias("stratum"),
        *[cell(slot, group.numbers, "CAST({} AS DOUBLE)", "double").alias(f"v{slot}") for slot in numbers],
        *[cell(slot, group.texts, text, "string").alias(f"s{slot}") for slot in texts],
    ]


def _finite(slot: int) -> Column:
    # NaN is above every number.
    return F.expr(f"CASE WHEN abs(v{slot}) < CAST('Infinity' AS DOUBLE) THEN v{slot} END AS f{slot}")


def _related(group: _Group, drift: DriftSpec) -> list[int]:
    """One number alone has no relations."""
    return group.numbers[:MOST_RELATED] if drift.relations and len(group.numbers) > 1 else []


def _complete(groups: Sequence[_Group], drift: DriftSpec) -> Column:
    """Whether a row has all numbers of its `by`."""
    found = F.lit(False)
    for place, group in enumerate(groups):
        whole = F.lit(True)
        for slot in range(len(_related(group, drift))):
            whole = whole & F.col(f"f{slot}").isNotNull()
        found = found | ((F.col("place") == place) & whole) if len(groups) > 1 else whole
    return found


def _sketches(
    numbers: Iterable[int], texts: Iterable[int], discrete: set[int], groups: Sequence[_Group], k: int
) -> list[Column]:
    """What Spark compiles nothing beside: each is evaluated for each row by itself, so there are as few as tell all."""
    found = []
    for slot in numbers:
        found.append(F.expr(f"kll_sketch_agg_double(f{slot}, {int(k)})").alias(f"sketch{slot}"))
        found.append(F.expr(f"approx_count_distinct(f{slot})").alias(f"distinct{slot}"))
        if slot in discrete:
            places = [p for p, g in enumerate(groups) if slot < len(g.numbers) and g.numbers[slot] in g.discrete]
            counted = f"CASE WHEN place IN ({', '.join(map(str, places))}) THEN f{slot} END"
            found.append(F.expr(f"approx_top_k({counted}, {COUNTED}, {COUNTED})").alias(f"counted{slot}"))
    for slot in texts:
        found.append(F.expr(f"approx_count_distinct(s{slot})").alias(f"kinds{slot}"))
        found.append(F.expr(f"approx_top_k(s{slot}, {COUNTED}, {COUNTED})").alias(f"categories{slot}"))
    return found


def _figures(numbers: Sequence[int], texts: Iterable[int], related: int) -> list[Column]:
    """Counts, moments and co-moments, by Spark's updating formulas: sums of squares would lose 1013 ± 0.01."""
    found = [F.count(F.lit(1)).alias("rows")]
    for slot in numbers:
        value, finite = F.col(f"v{slot}"), F.col(f"f{slot}")
        figures = {
            "given": F.count(value),
            "nans": F.count_if(F.isnan(value)),
            "valid": F.count(finite),
            "mean": F.mean(finite),
            "std": F.stddev_samp(finite),
        }
        found += [figure.alias(f"{name}{slot}") for name, figure in figures.items()]
    found += [F.count(F.col(f"s{slot}")).alias(f"told{slot}") for slot in texts]
    whole = [F.when(F.col("complete"), F.col(f"f{slot}")) for slot in range(related)]
    found.append(F.count_if(F.col("complete")).alias("completes"))
    found += [F.mean(one).alias(f"centre{slot}") for slot, one in enumerate(whole)]
    pairs = [(i, j) for i in range(related) for j in range(i, related)]
    found += [(F.var_pop(whole[i]) if i == j else F.covar_pop(whole[i], whole[j])).alias(f"co{i}_{j}") for i, j in pairs]
    return found


def _constant(groups: Sequence[_Group], only: Batch | None) -> dict[str, Column]:
    """The keys that are the same in all rows, of the names in `KEYS`."""
    found = {}
    if only:
        micros = (only[0] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        found |= {"window": F.lit(micros), "extraction_seq": F.lit(only[1])}
    if len(groups) == 1:
        found["place"] = F.lit(0)
        if groups[0].by is None:
            found["stratum"] = F.lit(None).cast("string")
    return found


def _aggregated(
    values: DataFrame, keys: Sequence[str], sketches: list[Column], figures: list[Column], *, apart: bool
) -> DataFrame:
    """``apart``: sketches and figures as two aggregates of one job. Each reads the columns; but the figures are then compiled,
    which makes both together cheaper than one. Not where a window function would sort the rows twice.
    """
    if not apart:
        return values.groupBy(*keys).agg(*sketches, *figures)
    one, other = values.groupBy(*keys).agg(*sketches), values.groupBy(*keys).agg(*figures)
    return one.unionByName(other, allowMissingColumns=True)


def _extremes(slot: int) -> list[Column]:
    """The sketch knows them. Of an empty one there are none, and asking would be an error."""
    some = f"kll_sketch_get_n_double(sketch{slot}) > 0"
    asked = {"minimum": "0.0D", "maximum": "1.0D"}
    return [
        F.expr(f"CASE WHEN {some} THEN kll_sketch_get_quantile_double(sketch{slot}, {rank}) END").alias(f"{name}{slot}")
        for name, rank in asked.items()
    ]
