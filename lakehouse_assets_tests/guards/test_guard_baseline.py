"""A person's requests on the baseline of a guard: pin, unpin, reset and seed, and what later versions are compared with.

Belongs here: the requests on a guard. Does not: the same on a table (operations/test_baseline), or statistics.
"""

import pytest
from pyspark.sql import functions as F

from lakehouse_assets.errors import RefusedError
from lakehouse_assets.guards.run import hold_lock
from lakehouse_assets.guards.seed import seed_guard, seed_windows
from lakehouse_assets.operations import baseline_request
from lakehouse_assets.operations.baseline import read_baseline_version
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.guards.guarded_orders import ForeignOrders, guard_run, judge, orders_guard

REQUEST = {"by": "ann", "because": "the shop moved"}


def windows_known(settings):
    """How many earlier versions each decision was compared with."""
    return [d.drift and d.drift["windows_known"] for d in logs.decisions(settings, "orders", evidence=True)]


@pytest.mark.exhaustive(seconds=60)
def test_a_guard_s_baseline_is_pinned_and_reset_once(spark, settings, tmp_path):
    table = ForeignOrders(spark, tmp_path / "theirs")
    guard = orders_guard(tmp_path / "theirs", drift={"features": ["amount"]})
    table.append((1, 10.0, "DE"))
    with pytest.raises(RefusedError, match="nothing to pin"):
        baseline_request.pin(guard_run(spark, settings, guard), hold_lock, **REQUEST)
    judge(spark, settings, guard)
    table.append((2, 20.0, "DE"))
    judge(spark, settings, guard)
    run = guard_run(spark, settings, guard)
    events = [baseline_request.pin(run, hold_lock, **REQUEST) for _ in range(2)]
    assert events[0] == events[1]
    assert events[0].extra["windows"] == 2
    assert read_baseline_version(settings, guard, None).state.baseline.pinned
    # The reset comes after a decision on a whole table, and holds for the next appended version.
    table.run("UPDATE {T} SET amount = 21 WHERE id = 2")
    judge(spark, settings, guard)
    assert baseline_request.forget(guard_run(spark, settings, guard), hold_lock, **REQUEST).kind == "reset"
    table.append((3, 30.0, "DE"))
    judge(spark, settings, guard)
    assert windows_known(settings) == [0, 1, 0, 0]
    current = read_baseline_version(settings, guard, None)
    assert ([event.kind for event in current.events], len(current.entries)) == (["pin", "reset"], 1)
    baseline_request.unpin(guard_run(spark, settings, guard), hold_lock, **REQUEST)
    assert not read_baseline_version(settings, guard, None).state.baseline.pinned


WINDOWS = {"column": "ordered_at", "cadence": "weekly"}
BY_TIME = {
    "columns": {"id": "bigint", "amount": "double", "ordered_at": "date"},
    "checks": [],
    "start": None,
    "windows": WINDOWS,
}


def test_options_name_the_rows_that_are_like_one_version(tmp_path):
    versions = orders_guard(tmp_path)
    for column, cadence, named in [
        (None, None, "--window-column and --cadence"), ("at", None, "by --cadence"), (None, "daily", "by --window-column")
    ]:  # fmt: skip
        with pytest.raises(RefusedError, match=named):
            seed_windows(versions, column, cadence)
    assert seed_windows(versions, "at", "daily").first.key == "1970-01-01"
    by_time = orders_guard(tmp_path, **BY_TIME)
    weekly = seed_windows(by_time, None, None)
    assert (weekly.column, weekly.cadence, weekly.first.start.weekday()) == ("ordered_at", "weekly", 0)
    assert seed_windows(by_time, "other", "weekly").column == "other"
    with pytest.raises(RefusedError, match="leave out --cadence daily"):
        seed_windows(by_time, None, "daily")


def other_table(spark, path, days: int) -> str:
    """Orders of so many days, a table of somebody else."""
    rows = spark.range(days * 10).select("id", (F.col("id") % 10).cast("double").alias("amount"))
    day = F.date_add(F.lit("2024-01-01").cast("date"), (F.col("id") / 10).cast("int"))
    rows.withColumn("ordered_at", day).coalesce(1).write.format("delta").save(str(path))
    return str(path)


def test_a_seed_counts_for_appended_versions_and_for_no_whole_table(spark, settings, tmp_path):
    elsewhere = other_table(spark, tmp_path / "elsewhere", 3)
    table = ForeignOrders(spark, tmp_path / "theirs")
    guard = orders_guard(tmp_path / "theirs", drift={"features": ["amount"]})
    run = guard_run(spark, settings, guard)
    with pytest.raises(RefusedError, match=r"elsewhere has no column taken; it has id, amount, ordered_at"):
        seed_guard(run, elsewhere, "taken", "daily", **REQUEST)
    events = [seed_guard(run, elsewhere, "ordered_at", "daily", **REQUEST) for _ in range(2)]
    assert events[0] == events[1]
    assert (events[0].extra["windows"], events[0].extra["rows"], events[0].extra["cadence"]) == (3, 30, "daily")
    with pytest.raises(RefusedError, match="seeded already"):
        seed_guard(run, elsewhere, "ordered_at", "weekly", **REQUEST)
    table.append((1, 5.0, "DE"))
    table.run("UPDATE {T} SET amount = 6 WHERE id = 1")
    judge(spark, settings, guard)
    assert windows_known(settings) == [3, 0]
    assert [entry.seeded for entry in read_baseline_version(settings, guard, None).entries].count(True) == 3


def test_a_seed_is_cut_by_minutes_where_its_column_has_them(spark, settings, tmp_path):
    elsewhere = str(tmp_path / "elsewhere")
    texts = [f"2024-05-01 07:{minute:02d}:59" for minute in (0, 14, 15, 44, 45, 59)]
    rows = [(n, 1.0, text) for n, text in enumerate(texts)]
    frame = spark.createDataFrame(rows, "id bigint, amount double, at string")
    at = F.to_timestamp(F.concat("at", F.lit("+00:00")))
    frame.withColumn("at", at).withColumn("day", F.to_date("at")).write.format("delta").save(elsewhere)
    guard = orders_guard(tmp_path / "theirs", drift={"features": ["amount"]})
    for cadence in ("15min", "hourly"):
        with pytest.raises(RefusedError, match=f"elsewhere: the date day has no hours, and {cadence} windows need them"):
            seed_guard(guard_run(spark, settings, guard), elsewhere, "day", cadence, **REQUEST)
    event = seed_guard(guard_run(spark, settings, guard), elsewhere, "at", "15min", **REQUEST)
    assert (event.extra["windows"], event.extra["rows"], event.extra["cadence"]) == (4, 6, "15min")
    starts = [entry.window for entry in read_baseline_version(settings, guard, None).entries]
    assert [f"{start:%H:%M}" for start in sorted(starts)] == ["07:00", "07:15", "07:30", "07:45"]


@pytest.mark.exhaustive(seconds=60)
def test_a_guard_of_windows_is_seeded_by_its_own_weeks(spark, settings, tmp_path):
    elsewhere = other_table(spark, tmp_path / "elsewhere", 21)
    guard = orders_guard(other_table(spark, tmp_path / "theirs", 28), drift={"features": ["amount"]}, **BY_TIME)
    event = seed_guard(guard_run(spark, settings, guard), elsewhere, None, None, **REQUEST)
    assert (event.extra["windows"], event.extra["rows"], event.extra["column"]) == (3, 210, "ordered_at")
    judged = judge(spark, settings, guard)
    assert [(d.p_extracted_at.date().isoformat(), d.counts.rows_in) for d in judged.new if d.p_extracted_at.hour == 0][:4] == [
        ("2024-01-01", 70), ("2024-01-08", 70), ("2024-01-15", 70), ("2024-01-22", 70)
    ]  # fmt: skip
    # A week that is accepted takes the place of its seed.
    assert len(read_baseline_version(settings, guard, None).entries) == 4
