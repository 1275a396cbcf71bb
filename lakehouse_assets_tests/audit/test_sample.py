"""The sampler on Spark: ten thousand small draws in one query by its own arithmetic, and one draw read in many ways.

Belongs here: audit/sample.py. Does not: what is made of a sample (decisions/audit/test_share.py).
"""

import numpy as np
import pytest
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W
from scipy.stats import chisquare

from lakehouse_assets.audit.sample import OTHERS, PRIORITY, Groups, count_groups, draw_sample, sampling_priority
from lakehouse_assets.decisions.audit.share import find_cut, inclusion_probability

DRAWS, ROWS, SAMPLE_SIZE = 10_000, 12, 4


def drawn_counts(spark, weight) -> np.ndarray:
    """How often each of twelve rows is among the four of least priority, over ten thousand seeds."""
    pairs = spark.range(DRAWS).select(F.col("id").alias("seed")).crossJoin(spark.range(ROWS).select(F.col("id").alias("row")))
    ordered = pairs.withColumn("p", sampling_priority(F.col("seed"), [F.col("row")], weight))
    ranked = ordered.withColumn("n", F.row_number().over(W.partitionBy("seed").orderBy("p")))
    row_counts = ranked.where(F.col("n") <= SAMPLE_SIZE).groupBy("row").count().collect()
    return np.array([count for _, count in sorted((row["row"], row["count"]) for row in row_counts)])


def test_every_row_is_equally_likely(spark):
    counts = drawn_counts(spark, F.lit(1.0))
    assert counts.sum() == DRAWS * SAMPLE_SIZE
    # Rows of one draw are no independent trials: four of twelve without putting back vary less, by (12 - 4) / (12 - 1).
    assert chisquare(counts).statistic / ((ROWS - SAMPLE_SIZE) / (ROWS - 1)) < 31.3  # 0.1 % of chi-square with 11 degrees


def test_a_row_of_three_times_the_weight_is_drawn_as_successive_sampling_draws_it(spark):
    """Against an oracle that draws one row after the other, each by its weight among those that are left."""
    counts = drawn_counts(spark, F.when(F.col("row") < 3, 3.0).otherwise(1.0))
    dice, weights = np.random.default_rng(1), np.array([3.0] * 3 + [1.0] * 9)
    heavy = 0
    for _ in range(DRAWS):
        heavy += (dice.choice(ROWS, SAMPLE_SIZE, replace=False, p=weights / weights.sum()) < 3).sum()
    share, expected = counts[:3].sum() / DRAWS, heavy / DRAWS
    assert abs(share - expected) < 5 * np.sqrt(2 * 0.7 / DRAWS)
    assert chisquare(counts[3:]).pvalue > 0.001


@pytest.fixture(scope="module")
def rows(spark):
    kind = F.when(F.col("id") % 500 == 7, F.lit("rare")).otherwise(F.lit("common"))
    return spark.range(20_000).select("id", kind.alias("kind"))


def test_the_same_seed_gives_the_same_rows_on_one_partition_and_on_eight(rows):
    samples = []
    for parts, seed in ((1, 5), (8, 5), (8, 6)):
        drawn = draw_sample(rows.repartition(parts), [F.col("id")], 100, seed, 20_000)
        samples.append({row["id"] for row in drawn.rows.collect()})
        assert (drawn.count, len(samples[-1])) == (100, 100)
        drawn.release()
    assert samples[0] == samples[1]
    assert samples[0] != samples[2]


def test_rare_groups_are_sampled_with_known_inclusion_probabilities(rows):
    groups = count_groups(rows, "kind", 20_000, weighted=True)
    assert groups.counts == {"common": 19_960, "rare": 40}
    drawn = draw_sample(rows, [F.col("id")], 100, 3, 20_000, column="kind", groups=groups)
    sizes = [(groups.weights[name], count) for name, count in groups.counts.items()]
    assert sum(drawn.counts.values()) == drawn.count == 100
    expected = groups.counts["rare"] * inclusion_probability(groups.weights["rare"], find_cut(sizes, 100))
    assert expected > 15
    assert abs(drawn.counts["rare"] - expected) < 4 * np.sqrt(expected)
    assert drawn.rows.where(F.col(PRIORITY) >= drawn.cut).count() == 0
    drawn.release()


def test_a_table_smaller_than_the_sample_is_sampled_completely(rows):
    for count in (0, 7, 100):
        drawn = draw_sample(rows.limit(count), [F.col("id")], 100, 1, count)
        assert (drawn.count, drawn.rows.count(), drawn.cut) == (count, count, float("inf"))
        drawn.release()


def test_infrequent_groups_are_counted_together(rows):
    groups = Groups({"common": 19_960, OTHERS: 40}, {"common": 1.0, OTHERS: 500.0})
    drawn = draw_sample(rows, [F.col("id")], 100, 3, 20_000, column="kind", groups=groups)
    assert drawn.counts[OTHERS] > 30
    drawn.release()


def test_sampling_uses_a_bounded_heap_per_task(rows):
    drawn = draw_sample(rows, [F.col("id")], 10, 1, 20_000)
    plan = drawn.cached._jdf.queryExecution().executedPlan().toString()
    assert "TakeOrderedAndProject(limit=11" in plan
    assert "Sort [" not in plan
    drawn.release()


def test_equal_rows_are_drawn_separately_and_a_warning_names_them(rows):
    drawn = draw_sample(
        rows.select(F.lit(1).alias("same"), (F.col("id") % 2).alias("odd")), [F.col("same"), F.col("odd")], 400, 1, 20_000
    )
    assert (drawn.count, drawn.repeated) == (400, True)
    assert 140 < drawn.rows.where("odd = 1").count() < 260
    drawn.release()
