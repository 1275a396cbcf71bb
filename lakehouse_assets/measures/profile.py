"""The second aggregation: each drift feature's profile by window and stratum, and how its numbers vary together.

Belongs here: the aggregation of the rows to publish. Does not: its result as records (profile_rows), distances, baselines.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window as W
from sqlglot import exp

from lakehouse_assets.checks.drift_rows import CATEGORY_LENGTH
from lakehouse_assets.checks.sql.text import add_partition, identifier, parse_expression
from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.contracts.drift import MOST_RELATED, DriftSpec, FeatureSpec
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.measures.frames import all_of, any_of, micros, moment
from lakehouse_assets.measures.profile_rows import KEYS, join_rows, read_category, read_number, read_relations

MAX_STRATA = 64
# Values counted one by one: Spark's sketch of frequent items is exact for so many at this size.
COUNTED = 1536


class _Group(NamedTuple):
    """Features of one `by`: their indices in the specification. ``discrete``: numbers that are whole or decimal."""

    by: str | None
    numbers: list[int]
    texts: list[int]
    discrete: frozenset[int]


def measure_profiles(
    staged: DataFrame, drift: DriftSpec, only: Batch | None = None
) -> tuple[dict[Batch, list[Measurement]], set[Batch]]:
    """Return profiles and relations of every batch, from one job, and the batches with more than 64 strata of a feature.

    A text or boolean feature is a category, every other a number. ``only``: the only batch of all rows, if there is just one:
    not grouping by it saves a quarter of the work. Collects at most 65 rows per batch and `by` (twice, if sketches and figures
    are aggregated separately), of at most 1,536 counted values a feature.
    """
    published = staged.where(F.col("_newest"))
    groups = _groups(published, drift)
    numbers = range(max(len(group.numbers) for group in groups))
    texts = range(max(len(group.texts) for group in groups))
    # Features of one `by` share a row, which is counted once for all of them.
    strata = [_cells(index, group, drift, numbers, texts) for index, group in enumerate(groups)]
    # Usually there is one `by`: then each row occurs once.
    cells = strata[0] if len(strata) == 1 else [F.inline(F.array(*[F.struct(*stratum) for stratum in strata]))]
    values = published.select(F.unix_micros("p_extracted_at").alias("window"), "extraction_seq", *cells)
    discrete = {slot for group in groups for slot, index in enumerate(group.numbers) if index in group.discrete}
    sketches = _sketches(numbers, texts, discrete, groups, drift.sketch_k)
    figures = _figures(numbers, texts, max(len(_related(group, drift)) for group in groups))
    values = values.select("*", *[_finite(slot) for slot in numbers])
    values = values.select("*", _complete(groups, drift).alias("complete"))
    constant = _constant(groups, only)
    keys = [key for key in KEYS if key not in constant]
    rows = _aggregate(values, keys, sketches, figures, separately=not any(map(has_window_function, drift.features)))
    rows = rows.select("*", *[value.alias(key) for key, value in constant.items()])
    nth = F.dense_rank().over(W.partitionBy("window", "extraction_seq", "by_index").orderBy("stratum"))
    extremes = [extreme for slot in numbers for extreme in _extremes(slot)]
    collected = rows.select("*", *extremes, nth.alias("nth")).where(F.col("nth") <= MAX_STRATA + 1).collect()
    excess = [row for row in collected if row["nth"] > MAX_STRATA]
    too_many_strata: set[Batch] = {(moment(row["window"]), row["extraction_seq"]) for row in excess}
    measurements: dict[Batch, list[Measurement]] = {}
    for row in join_rows(collected):
        if not row["rows"]:
            continue  # an aggregation without keys returns a row for no rows, too
        group = groups[row["by_index"]]
        own = measurements.setdefault((moment(row["window"]), row["extraction_seq"]), [])
        own += [read_number(drift.features[index].name, row, slot) for slot, index in enumerate(group.numbers)]
        own += [read_category(drift.features[index].name, row, slot) for slot, index in enumerate(group.texts)]
        if related := _related(group, drift):
            own.append(read_relations(group.by, tuple(drift.features[index].name for index in related), row))
    return measurements, too_many_strata


def _groups(published: DataFrame, drift: DriftSpec) -> list[_Group]:
    # In the order of the specification; numbers and texts by Spark's types.
    types = [field.dataType for field in published.select(*[F.expr(_sql(feature)) for feature in drift.features]).schema]
    groups: dict[str | None, _Group] = {}
    for index, (feature, kind) in enumerate(zip(drift.features, types, strict=True)):
        group = groups.setdefault(feature.by, _Group(feature.by, [], [], frozenset()))
        if isinstance(kind, T.StringType | T.BooleanType):
            group.texts.append(index)
        else:
            group.numbers.append(index)
            if isinstance(kind, T.IntegralType | T.DecimalType):
                groups[feature.by] = group._replace(discrete=group.discrete | {index})
    return list(groups.values())


def _sql(feature: FeatureSpec) -> str:
    tree = parse_expression(feature.expr, feature.name, allow_windows=True)
    # A range run stages several windows at once, and a window function must not cross them.
    return add_partition(add_partition(tree, "p_extracted_at"), "extraction_seq").sql(dialect="spark")


def has_window_function(feature: FeatureSpec) -> bool:
    """Whether a feature is computed from several rows."""
    return parse_expression(feature.expr, feature.name, allow_windows=True).find(exp.Window) is not None


def _cells(by_index: int, group: _Group, drift: DriftSpec, numbers: Iterable[int], texts: Iterable[int]) -> list[Column]:
    """Return the columns of one `by`: NULL where it has fewer features than another."""

    def cell(slot: int, indices: Sequence[int], template: str, kind: str) -> Column:
        if slot >= len(indices):
            return F.lit(None).cast(kind)
        return F.expr(template.format(_sql(drift.features[indices[slot]])))

    stratum = F.expr(f"CAST({identifier(group.by) if group.by else 'NULL'} AS STRING)")
    text = f"left(CAST({{}} AS STRING), {CATEGORY_LENGTH})"
    return [
        F.lit(by_index).alias("by_index"),
        stratum.alias("stratum"),
        *[cell(slot, group.numbers, "CAST({} AS DOUBLE)", "double").alias(f"v{slot}") for slot in numbers],
        *[cell(slot, group.texts, text, "string").alias(f"s{slot}") for slot in texts],
    ]


def _finite(slot: int) -> Column:
    # NaN is above every number.
    return F.expr(f"CASE WHEN abs(v{slot}) < CAST('Infinity' AS DOUBLE) THEN v{slot} END AS f{slot}")


def _related(group: _Group, drift: DriftSpec) -> list[int]:
    # One number alone has no relations.
    return group.numbers[:MOST_RELATED] if drift.relations and len(group.numbers) > 1 else []


def _complete(groups: Sequence[_Group], drift: DriftSpec) -> Column:
    """Return whether a row has all numbers of its `by`."""
    has_all = [all_of(F.col(f"f{slot}").isNotNull() for slot, _ in enumerate(_related(group, drift))) for group in groups]
    if len(groups) == 1:
        return has_all[0]
    return any_of((F.col("by_index") == index) & condition for index, condition in enumerate(has_all))


def _sketches(
    numbers: Iterable[int], texts: Iterable[int], discrete: set[int], groups: Sequence[_Group], k: int
) -> list[Column]:
    """Return the aggregates that Spark does not compile. Each is evaluated row by row, so there are as few as possible."""
    sketches = []
    for slot in numbers:
        sketches.append(F.expr(f"kll_sketch_agg_double(f{slot}, {int(k)})").alias(f"sketch{slot}"))
        sketches.append(F.expr(f"approx_count_distinct(f{slot})").alias(f"distinct{slot}"))
        if slot in discrete:
            indices = [i for i, g in enumerate(groups) if slot < len(g.numbers) and g.numbers[slot] in g.discrete]
            counted = f"CASE WHEN by_index IN ({', '.join(map(str, indices))}) THEN f{slot} END"
            sketches.append(F.expr(f"approx_top_k({counted}, {COUNTED}, {COUNTED})").alias(f"counted{slot}"))
    for slot in texts:
        sketches.append(F.expr(f"approx_count_distinct(s{slot})").alias(f"kinds{slot}"))
        sketches.append(F.expr(f"approx_top_k(s{slot}, {COUNTED}, {COUNTED})").alias(f"categories{slot}"))
    return sketches


def _figures(numbers: Sequence[int], texts: Iterable[int], related: int) -> list[Column]:
    """Return counts, moments and co-moments, by Spark's updating formulas: sums of squares would lose 1013 ± 0.01."""
    aggregates = [F.count(F.lit(1)).alias("rows")]
    for slot in numbers:
        value, finite = F.col(f"v{slot}"), F.col(f"f{slot}")
        figures = {
            "filled": F.count(value),
            "nans": F.count_if(F.isnan(value)),
            "valid": F.count(finite),
            "mean": F.mean(finite),
            "std": F.stddev_samp(finite),
        }
        aggregates += [figure.alias(f"{name}{slot}") for name, figure in figures.items()]
    for slot in texts:
        text = F.col(f"s{slot}")
        aggregates.append(F.count(text).alias(f"filled_text{slot}"))
        aggregates += [figure.alias(f"{name}{slot}") for name, figure in _text_figures(text).items()]
    own = [F.when(F.col("complete"), F.col(f"f{slot}")) for slot in range(related)]
    aggregates.append(F.count_if(F.col("complete")).alias("completes"))
    aggregates += [F.mean(one).alias(f"centre{slot}") for slot, one in enumerate(own)]
    pairs = [(i, j) for i in range(related) for j in range(i, related)]
    aggregates += [(F.var_pop(own[i]) if i == j else F.covar_pop(own[i], own[j])).alias(f"co{i}_{j}") for i, j in pairs]
    return aggregates


def _text_figures(text: Column) -> dict[str, Column]:
    """Return the figures of `TextFigures`."""
    kinds = {
        "lower": text != F.upper(text),
        "upper": text != F.lower(text),
        "digits": text.rlike("[0-9]"),
        "spaces": text.rlike(r"\s"),
        "beyond_ascii": F.length(text) != F.octet_length(text),
    }
    lengths = {"length": F.mean(F.length(text)), "length_spread": F.stddev_samp(F.length(text))}
    return lengths | {name: F.mean(kind.cast("double")) for name, kind in kinds.items()}


def _constant(groups: Sequence[_Group], only: Batch | None) -> dict[str, Column]:
    """Return those of `KEYS` that are equal in all rows."""
    constants = {"window": F.lit(micros(start_of(only))), "extraction_seq": F.lit(only[1])} if only else {}
    if len(groups) == 1:
        constants["by_index"] = F.lit(0)
        if groups[0].by is None:
            constants["stratum"] = F.lit(None).cast("string")
    return constants


def _aggregate(
    values: DataFrame, keys: Sequence[str], sketches: list[Column], figures: list[Column], *, separately: bool
) -> DataFrame:
    """``separately``: sketches and figures as two aggregates of one job. Both read the columns, but Spark then compiles the
    figures, which is cheaper than one aggregate. Not with a window function, which would sort the rows twice.
    """
    if not separately:
        return values.groupBy(*keys).agg(*sketches, *figures)
    one, other = values.groupBy(*keys).agg(*sketches), values.groupBy(*keys).agg(*figures)
    return one.unionByName(other, allowMissingColumns=True)


def _extremes(slot: int) -> list[Column]:
    """Return minimum and maximum from the sketch. Reading them from an empty one would be an error."""
    some = f"kll_sketch_get_n_double(sketch{slot}) > 0"
    ranks = {"minimum": "0.0D", "maximum": "1.0D"}
    return [
        F.expr(f"CASE WHEN {some} THEN kll_sketch_get_quantile_double(sketch{slot}, {rank}) END").alias(f"{name}{slot}")
        for name, rank in ranks.items()
    ]
