"""`lakehouse drift test`: two files, the gate's decision, and what is refused.

Belongs here: the command and `compare`, which it is made of. Does not: the statistics (decisions).
"""

import json
import subprocess
import sys
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from lakehouse_assets.cli import app
from lakehouse_assets.decisions.drift.compare import compare
from lakehouse_assets.errors import CheckFailedError, RefusedError


def rows(n, seed=0, correlation=0.8, **change):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    b = correlation * a + np.sqrt(1 - correlation**2) * rng.normal(size=n)
    c, k = np.round(rng.lognormal(size=n), 2), rng.choice(list("xyz"), n, p=[0.5, 0.3, 0.2])
    frame = pd.DataFrame({"a": a, "b": b, "c": c, "k": k})
    return frame.assign(**{name: make(frame, rng) for name, make in change.items()})


BASE = rows(40_000, 1)
WINDOWS = BASE.assign(day=np.repeat(np.arange(120), 334)[:40_000])


def run(tmp_path, batch, baseline, *options, suffix="csv"):
    paths = [tmp_path / f"{name}.{suffix}" for name in ("batch", "baseline")]
    for path, frame in zip(paths, (batch, baseline), strict=True):
        frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(path, index=False)
    arguments = ["drift", "test", str(paths[0]), "--baseline", str(paths[1]), "--json", *options]
    result = CliRunner().invoke(app, arguments, standalone_mode=False)
    if result.exception:
        raise result.exception
    return json.loads(result.stdout)


def test_the_answer(tmp_path):
    comparison = run(tmp_path, rows(2000, 2, a=lambda f, _: f["a"] + 0.5), BASE)
    assert (comparison["drifted"], comparison["calibrated"], comparison["status"]) == (True, False, "uncalibrated")
    assert comparison["p_value"] <= 0.05
    assert comparison["windows_until_calibrated"] == 19
    by_name = {feature["name"]: feature for feature in comparison["features"]}
    assert {"a", "b", "c", "k", "relations"} <= by_name.keys()
    assert {"name", "statistic", "distance", "p_value", "drifted"} <= by_name["a"].keys()
    assert (by_name["a"]["drifted"], by_name["c"]["drifted"], by_name["k"]["drifted"]) == (True, False, False)
    assert by_name["a"]["median_shift"] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "csv.gz", "tsv"])
def test_clean_files_of_every_kind(tmp_path, suffix):
    batch, baseline = rows(2000, 3), BASE
    if suffix == "tsv":
        (tmp_path / "batch.tsv").write_text(batch.to_csv(sep="\t", index=False))
        (tmp_path / "baseline.tsv").write_text(baseline.to_csv(sep="\t", index=False))
        arguments = ["drift", "test", str(tmp_path / "batch.tsv"), "--baseline", str(tmp_path / "baseline.tsv"), "--json"]
        comparison = json.loads(CliRunner().invoke(app, arguments, standalone_mode=False).stdout)
    else:
        comparison = run(tmp_path, batch, baseline, suffix=suffix)
    assert (comparison["drifted"], len(comparison["features"])) == (False, 6)


@pytest.mark.parametrize(
    ("change", "feature", "message"),
    [
        ({"a": lambda f, _: f["a"] + 0.5}, "a", "a is 0."),
        ({"c": lambda f, _: f["c"].where(f.index % 10 > 0)}, "c", "% of c are missing, where 0.00% were"),
        ({"k": lambda f, r: r.choice(list("xyzw"), len(f), p=[0.5, 0.3, 0.1, 0.1])}, "k", "new: w"),
        ({"b": lambda f, r: r.normal(size=len(f))}, "relations", "a and b no longer go together as before: correlation 0.8"),
        ({"a": lambda f, _: np.nan}, "a", "every value of a is missing"),
    ],
)
@pytest.mark.parametrize("history", [False, True])
def test_the_drifted_feature_is_named(change, feature, message, history):
    if history:
        comparison = compare(rows(334, 4, **change), WINDOWS, history="day")
        assert (comparison.verdict.status, comparison.verdict.action) == ("calibrated", "hold")
    else:
        comparison = compare(rows(2000, 4, **change), BASE)
        assert (comparison.verdict.status, comparison.verdict.action) == ("uncalibrated", "warn")
    assert comparison.verdict.worst.feature == feature
    assert message in comparison.verdict.message
    json.dumps(comparison.to_dict(), allow_nan=False)


@pytest.mark.exhaustive(seconds=10)
def test_a_history_calibrates_where_chance_alone_would_be_wrong():
    # Every window has an offset of its own: chance calls each of them drift, history knows better.
    rng = np.random.default_rng(5)
    windows = [rng.normal(rng.normal(0, 0.3), 1.0, 400) for _ in range(130)]
    baseline = pd.DataFrame({"x": np.concatenate(windows[:100]), "w": np.repeat(np.arange(100), 400)})
    naive = sum(compare(pd.DataFrame({"x": x}), baseline.drop(columns="w")).drifted for x in windows[100:])
    drifted_count = sum(compare(pd.DataFrame({"x": x}), baseline, history="w").drifted for x in windows[100:])
    assert naive >= 15
    assert drifted_count <= 5


def test_arrays():
    rng = np.random.default_rng(6)
    assert compare(rng.normal(0.5, 1, 1000), rng.normal(size=20_000)).drifted
    assert not compare(rng.normal(size=1000), rng.normal(size=20_000)).drifted
    assert compare(rng.normal(0.5, 1, 1000), rng.normal(size=20_000)).features == ("value",)


def test_the_history_column_must_be_there_and_full(tmp_path):
    with pytest.raises(RefusedError, match=r"no column 'month' \(it has a, b, c, k, day\)"):
        run(tmp_path, rows(10), WINDOWS, "--history-column", "month")
    with pytest.raises(RefusedError, match="each row of the baseline must say"):
        compare(rows(10), WINDOWS.assign(day=WINDOWS["day"].where(WINDOWS["day"] > 3)), history="day")


@pytest.mark.parametrize(
    ("batch", "baseline", "message"),
    [
        (rows(0), BASE, "the batch has no rows"),
        (rows(9), rows(0), "the baseline has no rows"),
        (rows(9)[["a"]], BASE[["b"]], "no column in common"),
        (rows(9, a=lambda f, _: "text"), BASE, "'a' holds text in the batch and numbers in the baseline"),
    ],
)
def test_unusable_inputs_are_refused(batch, baseline, message):
    with pytest.raises(RefusedError, match=message):
        compare(batch, baseline)


def test_skipped_columns_are_listed():
    batch = rows(2000, 7).assign(only=1, id=[f"id{i}" for i in range(2000)])
    comparison = compare(batch, BASE.assign(other=1, id=[f"row{i}" for i in range(40_000)]))
    reasons = {
        "only": "only the batch has it",
        "other": "only the baseline has it",
        "id": "nearly every row has a value of its own",
    }
    assert comparison.left_out == reasons
    with pytest.raises(RefusedError, match="no column 'nope'"):
        compare(batch, BASE, features=["nope"])
    assert compare(batch, BASE, features=["a"]).features == ("a",)


def test_files_that_are_not_there_or_cannot_be_read(tmp_path):
    good, bad, odd = tmp_path / "good.csv", tmp_path / "bad.parquet", tmp_path / "odd.xlsx"
    rows(50).to_csv(good, index=False)
    bad.write_text("no parquet")
    odd.write_text("x")
    for path, message in ((tmp_path / "none.csv", "there is no file"), (bad, "cannot be read"), (odd, "must end with")):
        result = CliRunner().invoke(app, ["drift", "test", str(path), "--baseline", str(good)], standalone_mode=False)
        assert isinstance(result.exception, RefusedError)
        assert message in str(result.exception)


def test_exit_codes_and_the_table_on_the_terminal(tmp_path):
    good, off = tmp_path / "good.csv", tmp_path / "off.csv"
    BASE.to_csv(good, index=False)
    rows(2000, 8, a=lambda f, _: f["a"] + 1).to_csv(off, index=False)
    shown = CliRunner().invoke(app, ["drift", "test", str(off), "--baseline", str(good)], standalone_mode=False)
    assert shown.exception is None
    assert "drifted: uncalibrated: a is" in shown.stdout
    result = CliRunner().invoke(app, ["drift", "test", str(off), "--baseline", str(good), "--fail"], standalone_mode=False)
    assert isinstance(result.exception, CheckFailedError)
    code = "import sys; sys.argv = ['lakehouse', 'drift', 'test', 'none.csv', '--baseline', 'none.csv']; "
    command = [sys.executable, "-c", code + "from lakehouse_assets.cli import main; main()"]
    process = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (process.returncode, "there is no file none.csv" in process.stderr) == (5, True)


def test_columns_that_the_gate_has_names_for_are_compared(tmp_path):
    old, new = (rows(n, seed).rename(columns={"a": "volume", "b": "relations", "c": "K"}) for n, seed in ((4000, 1), (500, 2)))
    comparison = run(tmp_path, new.assign(volume=new["volume"] + 3), old)
    by_name = {feature["name"]: feature for feature in comparison["features"]}
    assert {"column volume", "column relations", "K", "column k"} <= by_name.keys()
    assert by_name["column volume"]["drifted"]
    assert run(tmp_path, new, old, "--feature", "volume")["features"][0]["name"] == "column volume"


def test_many_columns_at_a_low_level(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"c{i}" for i in range(6)]
    old, new = (pd.DataFrame(rng.normal(size=(n, 6)), columns=names) for n in (3000, 300))
    assert run(tmp_path, new + 10, old, "--warn-at", "0.001")["drifted"]
    assert not run(tmp_path, new, old, "--warn-at", "0.001")["drifted"]


def test_a_text_of_each_row_s_own_is_left_out():
    old, new = (pd.DataFrame({"id": [f"{w}{i}" for i in range(n)], "v": np.arange(n) % 7}) for w, n in (("o", 800), ("n", 100)))
    comparison = compare(new, old)
    assert not comparison.drifted
    assert "value of its own" in comparison.left_out["id"]


def test_numbers_as_large_as_can_be_are_json(tmp_path):
    old = pd.DataFrame({"v": [-1.7e308] * 300})
    assert run(tmp_path, -old[:50], old)["features"][0]["median_shift"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": [1, 2, 3]}, "3 labels"),
        ({"warn_at": 0.0}, "warn_at"),
        ({"warn_at": 0.01, "hold_at": 0.05}, "a warning must come first"),
        ({"remembers": 3}, "remembers: not known here; did you mean remember"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(RefusedError, match=message):
        compare(np.arange(50.0), np.arange(100.0), **options)


def test_a_low_level_takes_no_more_windows():
    comparison = compare(np.arange(50.0), np.arange(100.0), warn_at=0.001)
    assert comparison.verdict.windows_until_warn == 19
    assert comparison.spec.hold_at == 0.001


def test_decimals_are_numbers_and_dates_are_times(tmp_path):
    """In Parquet and Delta they are objects, and no texts."""

    def typed(frame, day):
        prices = pd.Series([Decimal(f"{value:.2f}") for value in frame["c"]]).where(frame["a"] < 2, None)
        return pd.DataFrame({"price": prices, "day": [date(2024, 1, day)] * len(frame)})

    old, new = typed(BASE, 1), typed(rows(2000, 2, c=lambda f, _: f["c"] * 1.3), 2)
    comparison = run(tmp_path, new, old, suffix="parquet")
    assert comparison["left_out"] == {"day": "a time is not compared; give what should be stable about it as a number"}
    price = next(each for each in comparison["features"] if each["name"] == "price")
    assert price["drifted"]
    assert price["median_shift"] == pytest.approx(0.3, abs=0.1)
    assert not run(tmp_path, typed(rows(2000, 3), 2), old, suffix="parquet")["drifted"]


def test_two_columns_of_one_name_are_refused():
    twice = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    with pytest.raises(RefusedError, match="two columns that are called 'a'"):
        compare(twice, twice)


def test_delta_tables_and_their_versions(tmp_path):
    path = tmp_path / "rows"
    for frame in (BASE, rows(2000, 2, a=lambda f, _: f["a"] + 0.5)):
        write_deltalake(path, frame, mode="overwrite")

    def answer(*arguments):
        return CliRunner().invoke(app, ["drift", "test", *map(str, arguments)], standalone_mode=False)

    assert isinstance(answer(path, "--baseline", f"{path}@v0", "--fail").exception, CheckFailedError)
    assert answer(f"{path}@v0", "--baseline", f"{path}@v0", "--fail", "--feature", "a").exception is None
    assert "cannot be read" in str(answer(f"{path}@v7", "--baseline", path).exception)
    assert "is no Delta table" in str(answer(tmp_path, "--baseline", path).exception)
