"""A guard of a table through its life: thirty versions of every kind in two tables, and what a version costs to read.

Belongs here: the story against an oracle that shares no code. Does not: single rules (guards), faults (test_guard_faults).
"""

from dataclasses import dataclass, field

import pytest
from deltalake import DeltaTable

from lakehouse_assets.guards.observed_table import GuardState
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.guards.guarded_orders import ForeignOrders, judge, orders_guard

FIRST = [(number, float(number), "DE") for number in range(1, 11)]


@dataclass
class Oracle:
    """The table as lists of rows by version, and what a guard must decide, by the documented rules alone."""

    feed: bool = False
    versions: list[list[tuple]] = field(default_factory=list)
    expected: list[tuple[int, str, int]] = field(default_factory=list)
    quarantined: set[int] = field(default_factory=set)

    @property
    def now(self) -> list[tuple]:
        return self.versions[-1] if self.versions else []

    def version(self, rows: list[tuple], batch: list[tuple] | None, whole_table: bool = False, unusual: bool = False) -> None:
        """A version with these rows. ``batch``: those that are judged; None: it has no batch."""
        self.versions.append(list(rows))
        if batch is None:
            return
        number = len(self.versions) - 1
        is_faulty = any(amount is not None and not 0 <= amount <= 1000 for _, amount, _ in batch)
        is_odd = unusual or any(country is None for *_, country in batch)
        verdict = "quarantined" if is_faulty else "published_with_warnings" if is_odd else "published"
        self.expected.append((number, verdict, len(batch)))
        if is_faulty:
            self.quarantined.add(number)
        elif whole_table:
            self.quarantined.clear()

    def append(self, *rows: tuple) -> None:
        self.version([*self.now, *rows], list(rows))

    def rewrite(self, rows: list[tuple], changed: list[tuple]) -> None:
        """A version that rewrites files. ``changed``: the rows that it inserted or updated."""
        if self.feed and not self.quarantined:
            self.version(rows, changed)
        else:
            self.version(rows, rows, whole_table=True)

    def replace(self, rows: list[tuple]) -> None:
        self.version(rows, rows, whole_table=True, unusual=True)

    def nothing(self) -> None:
        self.version(self.now, None)


class Story:
    """The table and its oracle, changed together."""

    def __init__(self, table: ForeignOrders) -> None:
        self.table, self.oracle = table, Oracle()

    def append(self, *rows: tuple) -> None:
        self.table.append(*rows)
        self.oracle.append(*rows)

    def merge(self, *rows: tuple) -> None:
        self.table.merge(*rows)
        ids = {row[0] for row in rows}
        self.oracle.rewrite([row for row in self.oracle.now if row[0] not in ids] + list(rows), list(rows))

    def delete(self, number: int) -> None:
        self.table.run(f"DELETE FROM {{T}} WHERE id = {number}")
        self.oracle.rewrite([row for row in self.oracle.now if row[0] != number], [])

    def restore(self, version: int) -> None:
        self.table.run(f"RESTORE TABLE {{T}} TO VERSION AS OF {version}")
        self.oracle.replace(self.oracle.versions[version])

    def overwrite(self, *rows: tuple) -> None:
        self.table.append(*rows, mode="overwrite")
        self.oracle.replace(list(rows))

    def change_nothing(self, sql: str) -> None:
        self.table.run(sql)
        self.oracle.nothing()


def files_of(path):
    return {each.relative_to(path): each.stat().st_mtime_ns for each in path.rglob("*") if each.is_file()}


class Guarded:
    """A table, its guard and its oracle; `check` judges what waits, and compares every decision so far."""

    def __init__(self, spark, settings, path) -> None:
        self.spark, self.settings = spark, settings
        self.story, self.guard = Story(ForeignOrders(spark, path)), orders_guard(path)
        self.decided: list[tuple] = []

    def check(self) -> None:
        oracle, path = self.story.oracle, self.story.table.path
        before = files_of(path)
        self.decided += [
            (d.bronze_version, d.verdict, d.counts.rows_in) for d in judge(self.spark, self.settings, self.guard).new
        ]
        assert files_of(path) == before, "the guard changed the table"
        assert self.decided == oracle.expected
        assert {d.bronze_version for d in GuardState.read(self.settings, self.guard).quarantined} == oracle.quarantined
        names = ["id", "amount", "country"]
        if "price" not in {field.name for field in DeltaTable(str(path)).schema().fields}:
            ours = [dict(zip(names, row, strict=True)) for row in oracle.now]
            rows = self.spark.read.format("delta").load(str(path)).select(names).collect()
            assert sorted(map(str, ours)) == sorted(str(row.asDict()) for row in rows), "the oracle is of another table"


@pytest.mark.exhaustive(seconds=150)
def test_a_table_without_a_change_feed_is_judged_as_an_oracle_would(spark, settings, tmp_path):
    guarded = Guarded(spark, settings, tmp_path / "theirs")
    story = guarded.story
    story.append(*FIRST)
    story.append((11, 11.0, "FR"))
    story.append((12, 12.0, None))
    story.merge((11, 111.0, "FR"), (13, 13.0, "FR"))
    story.delete(1)
    story.change_nothing("OPTIMIZE {T}")
    guarded.check()
    story.append((14, 2000.0, "FR"))  # the fault
    story.append((15, 15.0, "FR"))
    story.change_nothing("ALTER TABLE {T} SET TBLPROPERTIES ('written.by' = 'others')")
    guarded.check()
    story.delete(14)  # the correction
    story.append((16, 16.0, "FR"))
    story.overwrite(*FIRST, (17, 17.0, "IT"))
    guarded.check()
    story.append((18, -1.0, "IT"))
    guarded.check()
    story.restore(11)
    story.append((19, 19.0, "IT"))
    guarded.check()
    assert len(story.oracle.versions) == 15


@pytest.mark.exhaustive(seconds=200)
def test_a_table_with_a_change_feed_and_renamed_columns_is_judged_as_an_oracle_would(spark, settings, tmp_path):
    guarded = Guarded(spark, settings, tmp_path / "theirs")
    story = guarded.story
    story.append(*FIRST)
    story.change_nothing(
        "ALTER TABLE {T} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true')"
    )
    story.oracle.feed = True
    story.merge((10, 100.0, "IT"), (19, 19.0, "IT"))
    story.delete(2)
    story.append((20, 20.0, "IT"))
    story.merge((20, -20.0, "IT"))
    guarded.check()
    story.merge((20, 20.5, None))
    story.merge((21, 21.0, "ES"))
    story.table.run("ALTER TABLE {T} ADD COLUMN note STRING")
    story.oracle.version(story.oracle.now, [])
    story.append((22, 22.0, "ES"))
    story.change_nothing("OPTIMIZE {T}")
    story.restore(7)
    guarded.check()
    mapping = "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '3', 'delta.minWriterVersion' = '7'"
    story.change_nothing(f"ALTER TABLE {{T}} SET TBLPROPERTIES ({mapping})")
    story.append((23, 23.0, "ES"))
    guarded.check()
    story.table.run("ALTER TABLE {T} RENAME COLUMN amount TO price")
    number = len(story.oracle.versions)
    story.oracle.version(story.oracle.now, None)
    story.oracle.expected.append((number, "quarantined", 0))
    story.oracle.quarantined.add(number)
    guarded.check()
    (renamed,) = [d for d in logs.decisions(settings, "orders", checks=True) if d.bronze_version == number]
    assert "amount is now called price" in "".join(reason.message for reason in renamed.reasons)
    story.table.run("ALTER TABLE {T} RENAME COLUMN price TO amount")
    story.oracle.version(story.oracle.now, story.oracle.now, whole_table=True, unusual=True)
    story.append((24, 24.0, "PT"))
    guarded.check()
    assert len(story.oracle.versions) == 17


def bytes_scanned(spark, action):
    """The bytes of the files that each scan of Parquet files read during an action, by Spark's own metric `size of files read`;
    and whether it read a Delta table: a guard's staged copy is a folder of files.
    """
    context, store = spark.sparkContext._jsc.sc(), spark._jsparkSession.sharedState().statusStore()

    def executions():
        context.listenerBus().waitUntilEmpty()
        listed = store.executionsList()
        return [listed.apply(index).executionId() for index in range(listed.size())]

    before = executions()
    action()
    scans = []
    for execution in set(executions()) - set(before):
        values, nodes = store.executionMetrics(execution), store.planGraph(execution).allNodes()
        for node in (nodes.apply(index) for index in range(nodes.size())):
            metrics = [node.metrics().apply(index) for index in range(node.metrics().size())]
            for metric in metrics:
                if metric.name() == "size of files read" and node.name().startswith("Scan parquet"):
                    number, unit = values.get(metric.accumulatorId()).get().split()
                    size = float(number) * {"B": 1, "KiB": 2**10, "MiB": 2**20}[unit]
                    scans.append((size, "DeltaFileIndex" in node.desc()))
    return scans


@pytest.mark.exhaustive(seconds=60)
def test_a_version_that_added_one_percent_of_the_rows_reads_one_percent_of_the_bytes(spark, settings, tmp_path):
    table, guard = ForeignOrders(spark, tmp_path / "theirs"), orders_guard(tmp_path / "theirs", start=None)
    rows = spark.range(200_000).selectExpr("id", "id / 1000 amount", "'DE' country")
    rows.repartition(4).write.format("delta").save(str(table.path))
    first_scans = bytes_scanned(spark, lambda: judge(spark, settings, guard))
    size = sum(file.stat().st_size for file in table.path.glob("*.parquet"))
    assert [of for of, is_theirs in first_scans if is_theirs] == [pytest.approx(size, rel=0.01)]
    rows.selectExpr("id + 200000 id", "amount", "country").limit(2_000).write.format("delta").mode("append").save(
        str(table.path)
    )
    second_scans = bytes_scanned(spark, lambda: judge(spark, settings, guard))
    added = sum(file.stat().st_size for file in table.path.glob("*.parquet")) - size
    # Their file once, then its staged copy a few times.
    assert [of for of, is_theirs in second_scans if is_theirs] == [pytest.approx(added, rel=0.01)]
    assert added < size / 50 and sum(of for of, _ in second_scans) < size / 20
