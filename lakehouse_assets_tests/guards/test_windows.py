"""A guard whose windows are cut by a column of time, against an oracle in pandas that shares no code with it.

Belongs here: which windows are judged, their verdicts, rows in no window, and the clean table. Does not: the YAML (contracts).
"""

import random
from dataclasses import replace
from datetime import UTC, date, datetime

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pydantic import ValidationError

from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decide import JudgementRequest
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.guards.observed_table import GuardState
from lakehouse_assets.guards.run import judge_versions
from lakehouse_assets.guards.settlement import settle_version
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.guards.guarded_orders import ForeignOrders, guard_run, orders_guard
from lakehouse_assets_tests.support import rows_of

NOW = datetime(2024, 5, 10, 12, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("at", pa.timestamp("us", "UTC"))])
COLUMNS = {"id": "bigint", "amount": "double", "at": "timestamp"}
CHECKS = [
    {"check": "in_range", "column": "amount", "min": 0, "on_fail": "quarantine_batch"},
    {"check": "in_range", "column": "amount", "max": 90, "on_fail": "quarantine_rows", "name": "small"},
]


def at(day, hour=1):
    return datetime(2024, 5, day, hour, tzinfo=UTC)


def windows_guard(path, **changes):
    windows = {"column": "at", "cadence": "daily", **changes.pop("windows", {})}
    attributes = {"columns": COLUMNS, "checks": CHECKS, "start": None, "key": [], "windows": windows, **changes}
    return orders_guard(path, **attributes)


def write(path, *rows, mode="append"):
    write_deltalake(
        str(path), pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA), mode=mode
    )


def judge(spark, settings, guard, now=NOW):
    run = replace(guard_run(spark, settings, guard), clock=lambda: now)
    return judge_versions(run).new


def days(decisions):
    """Day, extraction, verdict and rows of each window; of the table as a whole its verdict and what it says of its rows."""
    windows = [d for d in decisions if d.p_extracted_at.microsecond == 0 and d.p_extracted_at.minute == 0]
    return [(d.p_extracted_at.day, d.extraction_seq, d.verdict, d.counts.rows_in) for d in windows]


def outside(decision):
    return next(check["failed_rows"] for check in decision.checks if check["check"] == "table_windows")


def clean_rows(path):
    return sorted((row["id"], row["amount"]) for row in rows_of(str(path), ["id", "amount"]))


def test_a_late_row_has_its_window_judged_again_and_rows_without_a_time_are_counted(spark, settings, tmp_path):
    path, clean = tmp_path / "theirs", tmp_path / "clean"
    guard = windows_guard(path, publish={"to": str(clean)})
    write(path, (1, 1.0, at(1)), (2, 2.0, at(2)), (3, 3.0, at(10)))
    assert days(judge(spark, settings, guard)) == [(1, 1, "published", 1), (2, 1, "published", 1)]
    assert judge(spark, settings, guard) == [], "the tenth is not over"
    write(path, (4, -4.0, at(1)), (5, 5.0, None))
    table, *windows = judge(spark, settings, guard)
    assert (table.verdict, outside(table)) == ("published_with_warnings", 1)
    assert days(windows) == [(1, 2, "quarantined", 2)]
    assert clean_rows(clean) == [(1, 1.0), (2, 2.0)], "the accepted extraction stays"
    DeltaTable(str(path)).update(updates={"amount": "4.0"}, predicate="id = 4")
    healed = judge(spark, settings, guard, at(11, 0))
    assert (1, 3, "published", 2) in days(healed) and (10, 1, "published", 1) in days(healed)
    assert GuardState.read(settings, guard).quarantined == []
    assert clean_rows(clean) == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)]
    assert judge(spark, settings, guard, at(11, 0)) == []


class Oracle:
    """The foreign table as a pandas frame, and by window: its rows at the last judgement, its state, its published rows."""

    def __init__(self):
        self.rows = pd.DataFrame({"id": [], "amount": [], "at": []})
        self.judged, self.quarantined, self.published = {}, set(), {}

    def windows(self):
        timed = self.rows[self.rows["at"].notna()]
        timed = timed[timed["at"] < pd.Timestamp(2024, 5, 10, tz="UTC")]
        days = timed["at"].dt.floor("D")
        return {day.day: sorted(zip(of_day["id"], of_day["amount"], strict=True)) for day, of_day in timed.groupby(days)}

    def outside(self):
        return int(self.rows["at"].isna().sum() + (self.rows["at"] >= pd.Timestamp(2024, 5, 11, tz="UTC")).sum())

    def judge(self):
        """Judge the windows whose rows are others than when they were judged last. Returns their days."""
        now = self.windows()
        changed = {day for day in {*now, *self.judged} if now.get(day, []) != self.judged.get(day, [])}
        for day in changed:
            rows = self.judged[day] = now.get(day, [])
            if any(amount < 0 for _, amount in rows):
                self.quarantined.add(day)
                continue
            self.quarantined.discard(day)
            self.published[day] = [row for row in rows if row[1] <= 90]
            if len(self.published[day]) < len(rows):
                self.quarantined.add(day)
        return changed

    def release(self, day):
        self.quarantined.discard(day)
        self.published[day] = self.judged[day]


@pytest.mark.exhaustive(seconds=240)
@pytest.mark.parametrize(("seed", "feed"), [(1, False), (2, True)], ids=["without_feed", "by_feed"])
def test_windows_are_what_an_oracle_makes_of_random_versions(seed, feed, spark, settings, tmp_path):
    path, clean, rand, oracle = tmp_path / "theirs", tmp_path / "clean", random.Random(seed), Oracle()
    guard = windows_guard(path, publish={"to": str(clean)}, versions_per_run=1000)
    spark_table, next_id = ForeignOrders(spark, path), iter(range(1, 10_000))

    def append(count):
        new = []
        for _ in range(count):
            amount = rand.choice([-1.0, 95.0, *map(float, range(12))])
            day = rand.choice([None, 12, 10, *range(1, 10)])
            new.append((next(next_id), amount, None if day is None else at(day, rand.randint(0, 23))))
        write(path, *new)
        added = pd.DataFrame([dict(zip(SCHEMA.names, row, strict=True)) for row in new])
        added["at"] = pd.to_datetime(added["at"], utc=True)
        oracle.rows = pd.concat([oracle.rows, added]) if len(oracle.rows) else added

    append(12)
    if feed:
        spark_table.run("ALTER TABLE {T} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    for number in range(7):
        judged = judge(spark, settings, guard)
        changed = oracle.judge()
        of_days = {day for day, *_ in days(judged)}
        assert changed <= of_days, number
        if feed or number in (0, 1):
            assert changed == of_days, "appends, and changes by a feed, touch no other window"
        state = GuardState.read(settings, guard)
        assert {d.p_extracted_at.day for d in state.quarantined} == oracle.quarantined
        assert clean_rows(clean) == sorted(row for rows in oracle.published.values() for row in rows)
        on_table = [
            d for d in logs.decisions(settings, "orders", checks=True) if any(c["check"] == "table_windows" for c in d.checks)
        ]
        assert (outside(max(on_table, key=lambda d: d.number)) if on_table else 0) == oracle.outside()
        for decision in state.decisions:
            c = decision.counts
            assert c.rows_in == c.rows_published + c.rows_superseded + c.rows_quarantined + c.rows_discarded
        if number == 3 and oracle.quarantined:
            day = min(oracle.quarantined)
            request = JudgementRequest(kind="released", waived=("*",), by="me", because="so", operation="r")
            settle_version(guard_run(spark, settings, guard), at(day, 0), request)
            oracle.release(day)
        append(2)
        if number in (1, 2, 4):
            low = rand.randint(1, 8)
            within = f"at >= TIMESTAMP '2024-05-0{low} 00:00:00Z' AND at < TIMESTAMP '2024-05-0{low + 1} 00:00:00Z'"
            chosen = oracle.rows["at"].dt.floor("D") == pd.Timestamp(2024, 5, low, tz="UTC")
            if number == 2:
                spark_table.run(f"DELETE FROM {{T}} WHERE {within}")
                oracle.rows = oracle.rows[~chosen]
            else:
                spark_table.run(f"UPDATE {{T}} SET amount = 7 WHERE {within}")
                oracle.rows.loc[chosen, "amount"] = 7.0
        if number == 5:
            spark_table.run("OPTIMIZE {T}")


def test_two_deletes_of_one_file_have_its_windows_judged_again_whatever_its_deletion_vectors(spark, settings, tmp_path):
    path, guard = tmp_path / "theirs", windows_guard(tmp_path / "theirs")
    properties = "'delta.enableDeletionVectors' = 'true'"
    spark_table = ForeignOrders(spark, path)
    spark_table.run(f"CREATE TABLE {{T}} (id BIGINT, amount DOUBLE, at TIMESTAMP) USING delta TBLPROPERTIES ({properties})")
    rows = [(n, 1.0, at(1 + n // 3, n % 3)) for n in range(9)]
    spark.createDataFrame(rows, "id bigint, amount double, at timestamp").coalesce(1).write.format("delta").mode("append").save(
        str(path)
    )
    assert days(judge(spark, settings, guard)) == [(day, 1, "published", 3) for day in (1, 2, 3)]
    # The first leaves no row of the first day, and the file as the second one removes it has none of them.
    spark_table.run("DELETE FROM {T} WHERE id < 3")
    spark_table.run("DELETE FROM {T} WHERE id = 3")
    assert list(path.glob("**/deletion_vector_*.bin")), "the deletes wrote vectors, and no data file"
    new = judge(spark, settings, guard)
    assert days(new) == [(1, 2, "published", 0), (2, 2, "published", 2), (3, 2, "published", 3)]
    assert len(new) == 3, "no file counts as lost: there is nothing to report of the table as a whole"
    assert judge(spark, settings, guard) == []


@pytest.mark.parametrize("cadence", ["1min", "5min", "15min"])
def test_windows_of_minutes_begin_with_the_hour(cadence, spark, settings, tmp_path):
    path, minutes = tmp_path / "theirs", int(cadence.removesuffix("min"))
    rows = [(n, 1.0, at(1, 1).replace(minute=n, second=59)) for n in (0, 4, 5, 14, 15, 59)]
    write(path, *rows)
    new = judge(spark, settings, windows_guard(path, windows={"cadence": cadence}))
    windows = [d for d in new if d.counts.rows_in and d.p_extracted_at.date() == date(2024, 5, 1)]
    expected = sorted({row[2].replace(minute=row[2].minute // minutes * minutes, second=0) for row in rows})
    assert [d.p_extracted_at for d in windows if d.p_extracted_at.second == 0] == expected
    with pytest.raises(ValidationError, match=f"windows.cadence: {cadence}: the date at has no hours"):
        windows_guard(path, windows={"cadence": cadence}, columns={**COLUMNS, "at": "date"})


def test_a_later_version_closes_no_window_of_minutes(spark, settings, tmp_path):
    """A version as a whole closes the one before it. A window waits for a person, or for rows of its own."""
    path, faulty = tmp_path / "theirs", at(1, 7).replace(minute=15)
    guard = windows_guard(path, windows={"cadence": "15min"})
    write(path, (1, -1.0, faulty), (2, 2.0, at(1, 8)))
    assert {d.verdict for d in judge(spark, settings, guard) if d.p_extracted_at == faulty} == {"quarantined"}
    write(path, (3, 3.0, at(1, 9)))
    judge(spark, settings, guard)
    quarantined = ledger.quarantined_decisions(logs.decisions(settings, guard.name))
    assert [d.p_extracted_at for d in quarantined] == [faulty]


@pytest.mark.exhaustive(seconds=90)
def test_changes_of_the_whole_table_are_reported_once_and_no_window_is_lost(spark, settings, tmp_path):
    path, clean = tmp_path / "theirs", tmp_path / "clean"
    guard = windows_guard(path, publish={"to": str(clean)}, windows={"start": date(2024, 5, 2), "outside": "quarantine"})
    write(path, (1, 1.0, at(1)), (2, 2.0, at(2)), (3, 3.0, at(3)))
    table, *windows = judge(spark, settings, guard)
    assert (table.verdict, outside(table)) == ("quarantined", 1), "the first is before `windows.start`"
    assert days(windows) == [(2, 1, "published", 1), (3, 1, "published", 1)]
    # An overwrite without the second: its window is empty now, and its rows leave the clean table.
    write(path, (3, 3.0, at(3)), (4, 4.0, at(4)), mode="overwrite")
    table, *windows = judge(spark, settings, guard)
    assert table.verdict == "published_with_warnings"
    assert days(windows) == [(2, 2, "published", 0), (3, 2, "published", 1), (4, 1, "published", 1)]
    assert clean_rows(clean) == [(3, 3.0), (4, 4.0)]
    assert GuardState.read(settings, guard).quarantined == [], "no row lies in no window any more"
    assert judge(spark, settings, guard) == []
    # The clean table is gone: the windows with rows are judged and published again, once.
    DeltaTable(str(clean)).delete()
    spark.sql(f"DROP TABLE IF EXISTS delta.`{clean}`")
    for file in sorted(clean.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    clean.rmdir()
    assert days(judge(spark, settings, guard)) == [(3, 3, "published", 1), (4, 2, "published", 1)]
    assert clean_rows(clean) == [(3, 3.0), (4, 4.0)]
    assert judge(spark, settings, guard) == []
    with pytest.raises(RefusedError, match="they were cut by at, daily before, and now by at, monthly"):
        judge(spark, settings, windows_guard(path, windows={"cadence": "monthly"}))
    # The column of time is renamed: nothing is guessed, and its return heals.
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN at TO moment")
    assert [d.verdict for d in judge(spark, settings, guard)] == ["quarantined"]
    assert judge(spark, settings, guard) == []
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN moment TO at")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (5, 5, TIMESTAMP '2024-05-05 01:00:00Z')")
    judged = judge(spark, settings, guard)
    assert (5, 1, "published", 1) in days(judged)
    assert GuardState.read(settings, guard).quarantined == []
