"""A drift decision as a reader sees it: the table of features, the status in words, and the plots.

Belongs here: kept `drift` → markdown. Does not: judging.
"""

import base64

import numpy as np
import pytest

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.distances import Ecdf
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.relations import compare_relations, compute_relations, find_farthest_pair
from lakehouse_assets.reports.baselines import feature_rows, short_rows
from lakehouse_assets.reports.drift import describe_status, feature_table
from lakehouse_assets.reports.plots import draw_drift, plot_distributions, plot_ellipses, plot_shares, plot_volumes

LEVELS = {"hold_at": 0.05, "hold_from": 30, "warn_at": 0.05, "warn_from": 20, "lasting_at": 0}
BASELINE_WINDOWS = 32
FEATURES = [{"name": "level", "unit": "kPa"}, "depth", "kind"]
SPEC = DriftSpec.model_validate({**LEVELS, "features": FEATURES})


def measured(seed: int, shift: float = 0.0, kinds=(("calm", 150), ("wild|<b>", 50))):
    dice = np.random.default_rng(seed)
    level = np.round(dice.normal(100 + shift, 1, 200), 3)
    depth = np.round(level + dice.normal(0, 0.5, 200), 3)
    profiles = []
    for name, values in (("level", level), ("depth", depth)):
        distinct_values, rows = np.unique(values, return_counts=True)
        counts = tuple(zip(distinct_values.tolist(), rows.tolist(), strict=True))
        figures = {"mean": float(values.mean()), "std": float(values.std(ddof=1))}
        extremes = {"minimum": float(distinct_values[0]), "maximum": float(distinct_values[-1])}
        profiles.append(Profile(name, None, 210, 10, counts=counts, distinct=float(len(counts)), **figures, **extremes))
    kind = Profile(
        "kind", None, sum(rows for _, rows in kinds), kind="category", counts=tuple(kinds), distinct=float(len(kinds))
    )
    return [*profiles, kind, compute_relations({"level": level, "depth": depth})]


@pytest.fixture
def state():
    baseline = BaselineState(SPEC)
    for seed in range(BASELINE_WINDOWS):
        profiles = measured(seed)
        baseline.learn(seed, profiles, judge_drift(profiles, *baseline.without_window(seed), SPEC, window=seed).statistics)
    return baseline


def cells(text: str, feature: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {feature} |"))
    return [cell.strip().replace("\\", "") for cell in line.strip("|").split(" | ")]


def test_features_are_listed_by_strangeness(state):
    drift = judge_drift(measured(99, shift=2.0), *state.without_window(99), SPEC, window=99).to_dict()
    text = feature_table(drift)
    first = text.splitlines()[2]
    assert first.startswith(("| level", "| depth", "| relations"))
    level = cells(text, "level")
    assert float(level[3]) > SPEC.min_effect
    assert float(level[4]) < 1 / (BASELINE_WINDOWS + 1)
    assert float(level[6]) < 1e-6
    assert level[7].startswith("+")
    assert level[7].endswith("kPa")
    assert "→" in level[8]
    assert "correlation of level and depth" in cells(text, "relations")[8]
    assert level[9] == "4.76% (before: 4.76%)"
    assert (
        describe_status(drift)
        == "calibrated: p is a rank among the windows before, and extrapolated beyond all of them; 32 windows known"
    )


def test_changed_categories_are_listed_escaped(state):
    drift = judge_drift(
        measured(99, kinds=(("calm", 40), ("odd`|", 160))), *state.without_window(99), SPEC, window=99
    ).to_dict()
    text = feature_table(drift)
    line = next(line for line in text.splitlines() if line.startswith("| kind"))
    assert "\\`\\|" in line
    assert "&lt;b" in line
    assert "75.0% → 20.0%".replace("-", "\\-") in line.replace("\\", "")


def test_the_status_states_its_calibration():
    state = BaselineState(SPEC)
    assert describe_status(judge_drift(measured(1), *state.without_window(1), SPEC).to_dict()).startswith("cold start")
    state.learn(1, measured(1), {})
    text = describe_status(judge_drift(measured(2), *state.without_window(2), SPEC).to_dict())
    assert text.startswith("uncalibrated")
    assert "1 windows known; 19 more until a window can be warned of" in text
    assert "29 more until a window can be quarantined for" in text


def test_a_baseline_is_summarized_by_feature(state):
    rows = {row["feature"]: row for row in feature_rows(state.baseline, [measured(seed) for seed in range(BASELINE_WINDOWS)])}
    level = np.concatenate([np.round(np.random.default_rng(seed).normal(100, 1, 200), 3) for seed in range(BASELINE_WINDOWS)])
    assert (rows["level"]["rows"], rows["level"]["windows"], rows["level"]["moved"]) == (
        BASELINE_WINDOWS * 210,
        BASELINE_WINDOWS,
        None,
    )
    assert rows["level"]["missing"] == pytest.approx(10 / 210)
    assert [rows["level"][name] for name in ("nulls", "nans", "infinities")] == [10 * BASELINE_WINDOWS, 0, 0]
    assert rows["level"]["mean"] == pytest.approx(level.mean())
    assert rows["level"]["std"] == pytest.approx(level.std(ddof=1))
    assert (rows["level"]["minimum"], rows["level"]["maximum"]) == (level.min(), level.max())
    assert rows["level"]["distinct"] == len(np.unique(level))
    assert rows["level"]["quantiles"]["0.5"] == np.sort(level)[BASELINE_WINDOWS * 100 - 1]
    assert rows["kind"]["categories"] == {"calm": 0.75, "wild|<b>": 0.25}
    assert rows["relations"]["correlations"][0][:2] == ["level", "depth"]
    assert rows["relations"]["correlations"][0][2] == pytest.approx(0.894, abs=0.02)
    assert [row["feature"] for row in short_rows(rows.values())] == list(rows)


def together(correlation: float, seed: int = 1):
    dice = np.random.default_rng(seed)
    x, noise, other = dice.normal(size=(3, 400))
    return compute_relations({"a$": x, "b": correlation * x + (1 - correlation**2) ** 0.5 * noise, "c": other})


@pytest.mark.parametrize("statistic", [None, "means", "pair a$ ~ b", "spread b"])
def test_the_two_features_that_changed_are_drawn(statistic):
    now, before = find_farthest_pair(together(0.1, 2), together(0.9), statistic)
    assert now.features == before.features == ("a$", "b")
    assert compare_relations(now, before).effects["pair a$ ~ b"] == pytest.approx(
        compare_relations(together(0.1, 2), together(0.9)).effects["pair a$ ~ b"]
    )


def test_the_farthest_pair_of_features_is_chosen():
    assert find_farthest_pair(together(0.1, 2), together(0.9), "pair b ~ c")[0].features == ("b", "c")
    assert find_farthest_pair(together(0.1, 2), together(0.9), "spread c")[0].features in {("a$", "c"), ("b", "c")}
    one = compute_relations({"a": np.arange(50.0)})
    assert find_farthest_pair(one, one) is None


@pytest.mark.parametrize(
    ("worst", "message"),
    [
        ({"feature": "level"}, "distribution of the batch"),
        ({"feature": "kind"}, "shares of the batch"),
        ({"feature": "level", "statistic": "missing", "missing": 0.4, "baseline_missing": 0.05}, "shares of the batch"),
        ({"feature": "relations", "statistic": "scatter"}, "two features"),
        ({"feature": "volume", "rows": 20}, "rows of the batch"),
        ({"feature": "unheard of"}, None),
    ],
)
def test_each_kind_of_drift_has_its_picture(state, worst, message):
    now = next((m for m in measured(99, shift=2.0) if m.key[0] == worst["feature"]), None)
    picture = draw_drift("t", {"stratum": None, **worst}, now, state.baseline)
    assert picture is None if message is None else message in picture
    assert draw_drift("t", {"stratum": None, **worst}, now, BaselineState(SPEC).baseline) is None or "missing" in worst


@pytest.mark.parametrize(
    "drawn",
    [
        lambda: plot_distributions("a $ title", Ecdf.of([1.0, 2.0]), Ecdf.of([2.0, 3.0])),
        lambda: plot_ellipses("a $ title", together(0.8).pair("a$", "b"), together(0.2).pair("a$", "b")),
        lambda: plot_volumes("a $ title", [10, 12, 11], 3),
        lambda: plot_shares("a $ title $", {"a$b": 0.5, "c$": 0.5}, {"a$b": 0.2, "c$": 0.7, "x" * 90: 0.1}),
    ],
)
def test_a_plot_is_a_picture_and_always_the_same(drawn):
    one = drawn()
    assert one == drawn()
    assert base64.b64decode(one.split("base64,")[1].rstrip(")")).startswith(b"\x89PNG")
