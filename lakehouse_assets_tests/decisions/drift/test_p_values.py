"""p-values of chance: against SciPy, and uniform where nothing has changed.

Belongs here: theory, Monte Carlo, Holm, missing values. Does not: verdicts.
"""

import numpy as np
import pytest
from scipy import stats

from lakehouse_assets.decisions.drift.categories import Categories
from lakehouse_assets.decisions.drift.distances import Ecdf
from lakehouse_assets.decisions.drift.p_values import (
    correct_by_holm,
    missing_surprisal,
    monte_carlo,
    monte_carlo_categories,
    naive_p_value,
    nearest_likely_share,
    relations_p_value,
    volume_deviation,
)

KEY = ("f", None)


def test_the_naive_p_value_is_scipys():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=400), rng.normal(0.1, 1, 9000)
    expected = stats.ks_2samp(a, b, method="asymp")
    assert naive_p_value(expected.statistic, 400, 9000) == pytest.approx(expected.pvalue, rel=0.1)


@pytest.mark.parametrize("make", [lambda rng, n: rng.normal(size=n), lambda rng, n: rng.integers(0, 4, n).astype(float)])
def test_monte_carlo_is_uniform_where_nothing_changed_and_small_where_it_did(make):
    rng = np.random.default_rng(1)
    p_values = [monte_carlo(Ecdf.of(make(rng, 300)), Ecdf.of(make(rng, 3000)), (str(i), None)) for i in range(100)]
    for which in (0, 1):
        share = np.mean([p[which] <= 0.1 for p in p_values])
        assert 0.02 <= share <= 0.2  # beyond three deviations of a binomial on either side
    assert max(monte_carlo(Ecdf.of(make(rng, 300) + 1), Ecdf.of(make(rng, 3000)), KEY)) <= 0.002


def test_monte_carlo_agrees_with_scipy():
    rng = np.random.default_rng(2)
    batch, baseline = rng.normal(0.13, 1, 300), rng.normal(size=6000)
    ks, _ = monte_carlo(Ecdf.of(batch), Ecdf.of(baseline), KEY)
    assert ks == pytest.approx(stats.ks_2samp(batch, baseline).pvalue, abs=0.03)
    assert (ks, _) == monte_carlo(Ecdf.of(batch), Ecdf.of(baseline), KEY)  # seeded


def test_categories_by_chance_agree_with_chi_square():
    now, before = {"a": 60.0, "b": 25.0, "c": 15.0}, {"a": 5000.0, "b": 3000.0, "c": 2000.0}
    expected = stats.chi2_contingency([list(now.values()), list(before.values())], lambda_="log-likelihood").pvalue
    assert monte_carlo_categories(Categories(now), Categories(before), KEY)[0] == pytest.approx(expected, abs=0.03)
    assert max(monte_carlo_categories(Categories({"a": 50.0, "d": 50.0}), Categories(before), KEY)) <= 0.002


@pytest.mark.parametrize(("kinds", "rows", "windows"), [(3, 12, 4), (10, 40, 1), (300, 500, 1), (900, 500, 9)])
def test_rare_categories_by_chance(kinds, rows, windows):
    """Uniform where nothing changed, and small where all categories are other ones."""
    rng = np.random.default_rng([6, kinds, rows])

    def draw(size: int, name: str = "") -> Categories:
        counts = np.bincount(rng.integers(0, kinds, size), minlength=kinds)
        return Categories({f"{name}{kind}": float(n) for kind, n in enumerate(counts.tolist()) if n})

    p_values = np.array([monte_carlo_categories(draw(rows), draw(windows * rows), (str(i), None)) for i in range(40)])
    assert ((p_values <= 0.1).mean(axis=0) <= 0.25).all()
    assert p_values[:, 0].mean() == pytest.approx(0.5, abs=0.2)
    assert monte_carlo_categories(draw(rows, "new "), draw(windows * rows), KEY)[0] <= 0.002


def test_a_category_that_becomes_frequent_among_many_rare_ones_by_chance():
    rng = np.random.default_rng(7)
    batch, baseline = ({str(kind): 1.0 for kind in rng.choice(2_000, 470, replace=False)} for _ in range(2))
    g, tail = monte_carlo_categories(Categories(batch | {"new": 30.0}), Categories(baseline), KEY)
    assert tail <= 0.002 < g


def test_billions_of_rows_by_chance():
    before = Categories({"a": 6e9, "b": 3e9, "c": 1e9})
    assert monte_carlo_categories(Categories({"a": 6e8, "b": 3e8, "c": 1e8}), before, KEY) == (1.0, 1.0)
    assert max(monte_carlo_categories(Categories({"a": 5e8, "b": 4e8, "c": 1e8}), before, KEY)) <= 0.002


def test_holm():
    assert correct_by_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert correct_by_holm([0.9, 0.8]) == [1.0, 1.0]
    assert correct_by_holm([]) == []


def test_missing_values_by_a_binomial_where_windows_do_not_vary():
    past = [(20, 1000)] * 200  # exactly 2 % each: no spread beyond chance
    # The beta's tail is a little longer: at four deviations by a factor of seven.
    assert missing_surprisal(40, 1000, past) == pytest.approx(-np.log10(stats.binomtest(40, 1000, 0.02).pvalue), abs=1.0)
    assert missing_surprisal(30, 1000, past) == pytest.approx(-np.log10(stats.binomtest(30, 1000, 0.02).pvalue), abs=0.3)
    assert missing_surprisal(20, 1000, past) < 0.05


def test_missing_values_that_vary_from_window_to_window_are_no_surprise():
    rng = np.random.default_rng(3)
    shares = rng.beta(2, 98, 200)
    past = [(int(rng.binomial(1000, share)), 1000) for share in shares]
    # Four times the mean: impossible for a binomial, usual here.
    assert missing_surprisal(45, 1000, past) < 2.5
    assert missing_surprisal(300, 1000, past) > 6
    clean = [10.0 ** -missing_surprisal(int(rng.binomial(1000, rng.beta(2, 98))), 1000, past) for _ in range(500)]
    assert np.mean(np.array(clean) <= 0.05) <= 0.1


@pytest.mark.parametrize(("missing", "rows", "past"), [(5, 0, [(1, 2)]), (5, 10, []), (5, 10, [(0, 0)])])
def test_an_empty_history_gives_no_evidence(missing, rows, past):
    assert missing_surprisal(missing, rows, past) == 0.0


def test_any_number_of_rows():
    assert missing_surprisal(10**8, 10**9, [(10**8, 10**9)] * 30) < 1
    assert missing_surprisal(10**9, 10**9, [(0, 10**9)] * 30) == 12.0
    assert missing_surprisal(1, 20, [(0, 20)] * 100) > 1


def test_one_missing_row_of_twenty_is_next_to_nothing():
    assert nearest_likely_share(1, 20, 0.0) < 0.003
    assert nearest_likely_share(50_000, 1_000_000, 0.0) == pytest.approx(0.05, rel=0.01)
    assert nearest_likely_share(0, 20, 0.1) == pytest.approx(0.1)
    assert nearest_likely_share(20, 20, 0.0) > 0.85


def test_volume():
    assert volume_deviation(50, [100, 100, 101]) == pytest.approx(-np.log10(2), abs=1e-6)
    assert volume_deviation(200, [100, 100, 101]) == pytest.approx(np.log10(2), abs=1e-6)
    assert volume_deviation(0, [100]) == volume_deviation(10, []) == 0.0


@pytest.mark.exhaustive(seconds=15)
def test_relations_by_chance():
    rng = np.random.default_rng(4)

    def draw(n, r):
        z = rng.normal(size=(n, 3))
        z[:, 1] = r * z[:, 0] + np.sqrt(1 - r * r) * z[:, 1]
        z[:, 2] = np.exp(z[:, 2])  # a heavy tail, which must not drown the others
        return z

    base = draw(20_000, 0.8)
    statistic, p = relations_p_value(draw(3000, 0.7), base, ["a", "b", "c"])
    assert statistic == "pair a ~ b"
    assert p < 1e-6
    clean = [relations_p_value(draw(500, 0.8), base, ["a", "b", "c"])[1] for _ in range(40)]
    assert np.mean(np.array(clean) <= 0.1) <= 0.3
    assert relations_p_value(draw(4, 0.8), base, ["a", "b", "c"]) is None
