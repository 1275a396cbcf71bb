"""After a takeover every kind of commit of the former holder is refused, on real Delta: Spark's by the log store, those of
`deltalake` by application transactions. And each log store's file is created once.

Belongs here: one late commit at a time. Does not: several processes (storage/test_several_writers).
"""

import json
import re
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from delta.tables import DeltaTable
from deltalake import DeltaTable as LightTable
from deltalake import Transaction
from deltalake.exceptions import CommitFailedError

from lakehouse_assets import storage
from lakehouse_assets.errors import LeaseLostError, LockedError, RefusedError
from lakehouse_assets.storage import delta, delta_writes, log_compaction, log_rows, logs, opened_tables
from lakehouse_assets.storage.decision_claims import claim_numbers
from lakehouse_assets.storage.delta_files import TableFiles, forget_lost_files
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.leases.fencing import LOGS, fence, guard_location
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets.storage.leases.holding import Lease, LeaseHolder, lease_holder, now
from lakehouse_assets.storage.lock import confirm_lock, table_lock
from lakehouse_assets.storage.log_store import JAR, SOURCE_DIGEST, digest_source
from lakehouse_assets.storage.opened_tables import open_to_change
from lakehouse_assets.storage.source_positions import POSITIONS
from lakehouse_assets.storage.staging_folder import staging_path
from lakehouse_assets_tests.logbook import decided

CODE = Path(storage.__file__).parent
AT = datetime(2026, 1, 1, tzinfo=UTC)


def take_over(settings, name="weather"):
    """Another machine finds the lease lapsed, and takes it over."""
    files = LeaseFiles(settings.root)
    number = files.find_newest(name).number + 1
    assert LeaseHolder(files, 60)._claim(name, number)
    fence(files, name, number)
    return number


def give_back(settings, name="weather"):
    """The other machine ends its run."""
    files = LeaseFiles(settings.root)
    files.create(name, files.find_newest(name).number + 1, b"")


@contextmanager
def taken_over_within(settings):
    """A block of a process whose lease is taken over while it sleeps in it. It must end with LeaseLostError."""
    with pytest.raises(LeaseLostError, match="taken over"), table_lock(settings, "weather"):
        yield
    holder = lease_holder(settings.root, 60)
    assert "weather" not in holder.leases or holder.leases["weather"].is_lost


def write_rows(spark, settings, layer="silver", count=3):
    with table_lock(settings, "weather"):
        delta_writes.append(spark.range(count).withColumnRenamed("id", "n"), settings.path(layer, "weather"))


def rows_of(settings, layer="silver"):
    return sorted(delta.read_arrow(settings.path(layer, "weather"))["n"].to_pylist())


def merge(spark, path):
    source = spark.range(10).withColumnRenamed("id", "n")
    DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), "t.n = s.n").whenNotMatchedInsertAll().execute()


LATE_COMMITS = {
    "an append": lambda spark, path: delta_writes.append(spark.range(9).withColumnRenamed("id", "n"), path),
    "a replacement": lambda spark, path: delta_writes.append(
        spark.range(1).withColumnRenamed("id", "n"), path, replacing="n = 0"
    ),
    "a merge": merge,
    "a deletion": lambda spark, path: DeltaTable.forPath(spark, path).delete("n = 1"),
    "a new column": lambda spark, path: delta_writes.add_columns(spark, path, {"m": "int"}),
    "a property": lambda spark, path: delta_writes.set_property(spark, path, "lakehouse.x", "1"),
    "a compaction": lambda spark, path: DeltaTable.forPath(spark, path).optimize().executeCompaction(),
}


@pytest.mark.parametrize("kind", LATE_COMMITS)
def test_no_late_commit_of_spark_comes_in(leased_spark, leased, kind):
    path = leased.path("silver", "weather")
    for _ in range(2):
        write_rows(leased_spark, leased)
    with taken_over_within(leased):
        number = take_over(leased)
        before = LightTable(path).version()
        LATE_COMMITS[kind](leased_spark, path)
    assert delta.version(path) == before
    assert LightTable(path).transaction_version("lakehouse.lease.weather") == number
    assert rows_of(leased) == [0, 0, 1, 1, 2, 2]


def test_a_commit_that_is_under_way_at_the_takeover_is_refused(leased_spark, leased):
    """Delta has read the table, and commits on top of the fence: no row conflicts, so that it would try the next version."""
    write_rows(leased_spark, leased)
    path = leased.path("silver", "weather")
    with taken_over_within(leased):
        jvm = leased_spark.sparkContext._jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(leased_spark._jsparkSession, path)
        read_before = log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty())
        take_over(leased)
        assert read_before.version() == 0
        store = jvm.lakehouse.LeasedLogStore(leased_spark._jsc.hadoopConfiguration())
        write_version(jvm, store, path, 2, '{"commitInfo":{"operation":"WRITE"}}')
    assert delta.version(path) == 1


def write_version(jvm, store, table, version, *lines):
    path = jvm.org.apache.hadoop.fs.Path(f"file:{table}/_delta_log/{version:020d}.json")
    actions = jvm.java.util.ArrayList()
    for line in lines:
        actions.add(line)
    conf = jvm.org.apache.spark.SparkContext.getOrCreate().hadoopConfiguration()
    store.write(path, actions.iterator(), False, conf)


def test_spark_states_the_lease_in_each_commit_and_needs_one(leased_spark, leased):
    write_rows(leased_spark, leased)
    path = leased.path("silver", "weather")
    [line] = [line for line in Path(path, "_delta_log", f"{0:020d}.json").read_text().splitlines() if "commitInfo" in line]
    with table_lock(leased, "weather"):
        assert json.loads(line)["commitInfo"]["lakehouseLease"] == str(guards.lease_of(leased, "weather").number)
    with pytest.raises(Exception, match="is written under a lease, and this process holds none"):
        delta_writes.append(leased_spark.range(1).withColumnRenamed("id", "n"), path)
    assert rows_of(leased) == [0, 1, 2]
    elsewhere = str(Path(leased.root).parent / "own_table")
    delta_writes.append(leased_spark.range(1), elsewhere)
    assert delta.version(elsewhere) == 0, "tables that no lease guards are written as ever"


def test_the_next_holder_writes_on(leased_spark, leased):
    write_rows(leased_spark, leased)
    with taken_over_within(leased):
        take_over(leased)
        write_rows(leased_spark, leased)
    give_back(leased)
    write_rows(leased_spark, leased)
    assert rows_of(leased) == [0, 0, 1, 1, 2, 2]


def test_a_version_is_created_once_and_a_lost_answer_is_found_out(leased_spark, leased):
    path = leased.path("gold", "weather")
    Path(path, "_delta_log").mkdir(parents=True)
    jvm = leased_spark.sparkContext._jvm
    store = jvm.lakehouse.LeasedLogStore(leased_spark._jsc.hadoopConfiguration())
    with table_lock(leased, "gold_weather"):
        write_version(jvm, store, path, 0, '{"commitInfo":{"txnId":"mine"}}', '{"add":{}}')
        write_version(jvm, store, path, 0, '{"commitInfo":{"txnId":"mine"}}', '{"add":{}}')
        with pytest.raises(Exception, match="FileAlreadyExistsException"):
            write_version(jvm, store, path, 0, '{"commitInfo":{"txnId":"theirs"}}', '{"add":{}}')
        with pytest.raises(Exception, match="has no version 4"):
            write_version(jvm, store, path, 5, '{"commitInfo":{"txnId":"mine"}}')
    assert not [file for file in Path(path, "_delta_log").iterdir() if file.suffix == ".tmp"]


def test_threads_that_create_one_version_have_one_winner(leased_spark, leased):
    path = leased.path("gold", "weather")
    Path(path, "_delta_log").mkdir(parents=True)
    jvm = leased_spark.sparkContext._jvm
    winners = []

    def write(name):
        store = jvm.lakehouse.LeasedLogStore(leased_spark._jsc.hadoopConfiguration())
        for version in range(20):
            try:
                write_version(jvm, store, path, version, f'{{"commitInfo":{{"txnId":"{name}"}}}}')
            except Exception as error:
                assert "FileAlreadyExistsException" in str(error)
            else:
                winners.append((version, name))

    with table_lock(leased, "gold_weather"):
        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert sorted(version for version, _ in winners) == list(range(20))
    for version, name in winners:
        assert f'"txnId":"{name}"' in Path(path, "_delta_log", f"{version:020d}.json").read_text()


def position(table="weather"):
    return {"table": table, "p_extracted_at": AT, "position": "1", "run_id": "r", "recorded_at": AT}


def test_the_logs_take_no_late_row_and_other_tables_are_not_disturbed(leased):
    for name in ("weather", "flights"):
        with table_lock(leased, name):
            POSITIONS.append(leased, [position(name)])
    with taken_over_within(leased):
        take_over(leased)
        POSITIONS.append(leased, [position()])
    with table_lock(leased, "flights"):
        POSITIONS.append(leased, [position("flights")])
    assert sorted(row["table"] for row in POSITIONS.read(leased)) == ["flights", "flights", "weather"]


def test_a_row_of_a_log_that_is_under_way_at_the_takeover_is_refused(leased):
    with table_lock(leased, "weather"):
        POSITIONS.append(leased, [position()])
    with taken_over_within(leased):
        opened = open_to_change(POSITIONS.path(leased))
        take_over(leased)
        POSITIONS.append(leased, [position()], after=opened)
    assert len(POSITIONS.read(leased)) == 1


def compact_positions(settings):
    log_compaction.compact_log(settings, POSITIONS, "weather")


def forget_lost_positions(settings):
    transactions = guards.log_transactions(settings, ["weather"], required=True)
    forget_lost_files(TableFiles(POSITIONS.path(settings)), transactions)


CHANGES_OF_LOGS = {"a compaction": compact_positions, "a repair": forget_lost_positions}


def write_positions(settings, monkeypatch):
    """Each file of the log is then one that a compaction merges."""
    monkeypatch.setattr(log_compaction, "FEW_FILES", 1)
    for name in ("weather", "weather", "flights"):
        with table_lock(settings, name):
            POSITIONS.append(settings, [position(name)])


@pytest.mark.parametrize("kind", CHANGES_OF_LOGS)
def test_no_late_change_of_a_log_comes_in(leased, kind, monkeypatch):
    write_positions(leased, monkeypatch)
    path = POSITIONS.path(leased)
    if kind == "a repair":
        Path(LightTable(path).file_uris()[0]).unlink()
    with taken_over_within(leased):
        take_over(leased)
        before = LightTable(path).version()
        CHANGES_OF_LOGS[kind](leased)
    assert LightTable(path).version() == before


@pytest.mark.parametrize("kind", CHANGES_OF_LOGS)
def test_a_change_of_a_log_that_is_under_way_at_the_takeover_is_refused(leased, kind, monkeypatch):
    write_positions(leased, monkeypatch)
    path, require_unfenced = POSITIONS.path(leased), opened_tables.require_unfenced
    if kind == "a repair":
        Path(LightTable(path).file_uris()[0]).unlink()

    def take_over_afterwards(*arguments):
        require_unfenced(*arguments)
        monkeypatch.setattr(opened_tables, "require_unfenced", require_unfenced)
        take_over(leased)

    with taken_over_within(leased):
        before = LightTable(path).version()
        monkeypatch.setattr(opened_tables, "require_unfenced", take_over_afterwards)
        CHANGES_OF_LOGS[kind](leased)
    assert LightTable(path).version() == before + 1, "the fence"


def test_the_first_compaction_of_a_log_disturbs_no_append_of_another_table(leased, monkeypatch):
    """The other machine has read the log before."""
    write_positions(leased, monkeypatch)
    path = POSITIONS.path(leased)
    with table_lock(leased, "weather"), table_lock(leased, "flights"):
        opened, before = open_to_change(path), LightTable(path).version()
        compact_positions(leased)
        assert LightTable(path).version() > before
        POSITIONS.append(leased, [position("flights")], after=opened)
    assert sorted(row["table"] for row in POSITIONS.read(leased)) == ["flights", "flights", "weather", "weather"]


def newer_positions():
    """The log as a newer version of the package has it: with one more column."""
    return replace(POSITIONS, schema=POSITIONS.schema.append(pa.field("note", pa.string())))


def change_meanwhile(monkeypatch, change):
    """It happens once, after an append has opened its log."""
    require_unfenced = guards.require_unfenced

    def change_afterwards(*arguments):
        require_unfenced(*arguments)
        monkeypatch.setattr(guards, "require_unfenced", require_unfenced)
        change()

    monkeypatch.setattr(guards, "require_unfenced", change_afterwards)


def test_a_new_column_of_a_log_disturbs_no_append_of_another_table(leased, monkeypatch):
    """The other machine has a newer version, and its first append comes after this one has opened the log."""
    write_positions(leased, monkeypatch)
    with table_lock(leased, "weather"), table_lock(leased, "flights"):
        change_meanwhile(monkeypatch, lambda: newer_positions().append(leased, [position() | {"note": "new"}]))
        POSITIONS.append(leased, [position("flights")])
    assert sorted(row["table"] for row in POSITIONS.read(leased)) == ["flights", "flights", "weather", "weather", "weather"]
    assert [row["note"] for row in newer_positions().read(leased) if row["note"]] == ["new"]


def test_an_append_with_a_claim_is_not_tried_on_another_log(leased, monkeypatch):
    """The claim is true of the log as its caller has read it."""
    write_positions(leased, monkeypatch)
    with table_lock(leased, "weather"), table_lock(leased, "flights"):
        change_meanwhile(monkeypatch, lambda: newer_positions().append(leased, [position() | {"note": "new"}]))
        with pytest.raises(CommitFailedError, match="Metadata changed"):
            POSITIONS.append(leased, [position("flights")], [Transaction("number", 1)])


def test_an_append_that_a_new_column_disturbs_meets_a_takeover(leased, monkeypatch):
    write_positions(leased, monkeypatch)
    with table_lock(leased, "flights"), taken_over_within(leased):

        def add_column_and_take_over():
            newer_positions().append(leased, [position("flights") | {"note": "new"}])
            take_over(leased)

        change_meanwhile(monkeypatch, add_column_and_take_over)
        POSITIONS.append(leased, [position()])
    assert [row["table"] for row in POSITIONS.read(leased)].count("weather") == 2


def test_the_logs_take_rows_of_a_table_under_its_lease_only(leased):
    with pytest.raises(LockedError, match="under its lease only"):
        POSITIONS.append(leased, [position()])


def test_each_log_is_fenced():
    written = {match for path in CODE.rglob("*.py") for match in re.findall(r'= LogTable\(\s*"(\w+)"', path.read_text())}
    assert written == set(LOGS)


def test_a_number_of_a_decision_is_claimed_once(leased, monkeypatch):
    with table_lock(leased, "weather"):
        logs.log_decisions(leased, [decided(1, "weather")])
        with pytest.raises(RefusedError, match="another process has logged decision 1"):
            logs.log_decisions(leased, [decided(1, "weather")])
        logs.log_decisions(leased, [decided(2, "weather")])
        # Both have read the log before either writes.
        claimed = claim_numbers(leased, log_rows.DECISIONS, [decided(3, "weather")])
        logs.log_decisions(leased, [decided(3, "weather")])
        monkeypatch.setattr(logs, "claim_numbers", lambda *_: claimed)
        with pytest.raises(CommitFailedError, match="Concurrent transaction"):
            logs.log_decisions(leased, [decided(3, "weather")])
    assert [decision.number for decision in logs.decisions(leased, "weather")] == [1, 2, 3]


def test_who_logs_a_number_that_the_next_holder_has_logged_learns_of_the_takeover(leased):
    """Code 6, and not 5: to run it again is right."""
    with table_lock(leased, "weather"):
        logs.log_decisions(leased, [decided(1, "weather")])
    with taken_over_within(leased):
        claims = [Transaction(guards.application("weather"), take_over(leased))]
        rows = pa.Table.from_pylist([log_rows.decision_row(decided(2, "weather"))], log_rows.DECISIONS.schema)
        delta.append_arrow(rows, log_rows.DECISIONS.path(leased), partition_by=("table",), transactions=claims)
        logs.log_decisions(leased, [decided(2, "weather")])


def test_a_decision_of_another_table_disturbs_no_claim(leased, monkeypatch):
    with table_lock(leased, "weather"), table_lock(leased, "flights"):
        logs.log_decisions(leased, [decided(1, "weather")])
        claimed = claim_numbers(leased, log_rows.DECISIONS, [decided(2, "weather")])
        logs.log_decisions(leased, [decided(2, "flights")])
        monkeypatch.setattr(logs, "claim_numbers", lambda *_: claimed)
        logs.log_decisions(leased, [decided(2, "weather")])
    assert [decision.number for decision in logs.decisions(leased, "weather")] == [1, 2]


def test_changes_by_the_light_library_are_refused_too(leased):
    path = leased.path("quarantine", "weather")
    with table_lock(leased, "weather"):
        delta.append_arrow(pa.table({"decision_id": ["a", "b"]}), path)
        open_to_change(path).delete("decision_id = 'b'", commit_properties=guards.commit_properties(path))
    with taken_over_within(leased):
        opened = open_to_change(path)
        take_over(leased)
        opened.delete("decision_id = 'a'", commit_properties=guards.commit_properties(path))
    give_back(leased)
    with taken_over_within(leased):
        take_over(leased)
        open_to_change(path).delete("decision_id = 'a'", commit_properties=guards.commit_properties(path))
    assert delta.read_arrow(path).num_rows == 1


def test_a_table_outside_the_lake_can_be_put_under_a_lease(leased_spark, leased, tmp_path):
    """A guard publishes into a table of its own, wherever that is."""
    path = str(tmp_path / "clean")
    leased_spark.range(3).write.format("delta").save(path)
    with taken_over_within(leased):
        guard_location(leased, "weather", f"file:{path}")
        number = take_over(leased)
        former = guards.lease_of(leased, "weather")
        guards.begin_writes(leased, Lease("weather", number, number, True, now(), now()))
        guard_location(leased, "weather", path)
        assert LightTable(path).transaction_version("lakehouse.lease.weather") == number
        guards.begin_writes(leased, former)
        guards.begin_writes_at(path, former)
        delta_writes.append(leased_spark.range(3), path)
    assert LightTable(path).version() == 1


def test_a_table_that_the_former_holder_creates_after_the_takeover_is_refused(leased_spark, leased):
    """It was absent, so that no fence could be added: what is there now is not this holder's own."""
    path = leased.path("silver", "weather")
    with pytest.raises(LeaseLostError, match="taken over"), table_lock(leased, "weather"):
        take_over(leased)
        lease = guards.lease_of(leased, "weather")
        delta_writes.append(leased_spark.range(3).withColumnRenamed("id", "n"), path)
        guards.end_writes(leased, lease)
        newer = Lease("weather", lease.number + 1, lease.number + 1, True, now(), now(), absent=frozenset(["silver/weather"]))
        guards.begin_writes(leased, newer)
        try:
            delta_writes.append(leased_spark.range(3).withColumnRenamed("id", "n"), path)
        finally:
            guards.end_writes(leased, newer)
    assert delta.version(path) == 0


def test_a_folder_is_removed_under_a_current_lease_only(leased, settings):
    with table_lock(settings.model_copy(update={"root": f"{leased.root}2"}), "weather"):
        confirm_lock(settings, "weather")
    with table_lock(leased, "weather"):
        confirm_lock(leased, "weather")
    with taken_over_within(leased):
        take_over(leased)
        confirm_lock(leased, "weather")


def test_a_block_that_ends_leaves_the_block_of_another_thread_its_guards(leased, monkeypatch):
    """That block begins in the moment in which the guards of the first one end."""
    end, has_begun, has_left, leases = guards.end_writes, threading.Event(), threading.Event(), []

    def other_block() -> None:
        with table_lock(leased, "weather"):
            has_begun.set()
            assert has_left.wait(10)
            leases.append(guards.lease_of(leased, "weather"))

    other = threading.Thread(target=other_block)

    def end_late(*arguments) -> None:
        if other.ident is None:
            other.start()
            has_begun.wait(0.5)
        end(*arguments)

    monkeypatch.setattr(guards, "end_writes", end_late)
    with table_lock(leased, "weather"):
        pass
    assert has_begun.wait(10)
    has_left.set()
    other.join(10)
    assert [lease is not None for lease in leases] == [True]
    assert guards.lease_of(leased, "weather") is None, "they end with the last block"


def test_each_lease_stages_in_a_folder_of_its_own(leased, settings):
    with table_lock(settings, "weather"):
        assert staging_path(settings, "weather", "run") == settings.path("staging", "weather", "run")
    leased = leased.model_copy(update={"root": f"{leased.root}2"})
    with table_lock(leased, "weather"):
        number = guards.lease_of(leased, "weather").number
        assert staging_path(leased, "weather", "run") == leased.path("staging", "weather", f"lease-{number}", "run")


def test_a_takeover_that_cannot_fence_is_none(leased, monkeypatch):
    """Else the next holder would find a lease that was given back, and read beside the former one's late commits."""
    with table_lock(leased, "weather"):
        POSITIONS.append(leased, [position()])
    lease_holder(leased.root, 60).release_all()
    files = LeaseFiles(leased.root)
    newest = files.find_newest("weather").number
    files.create("weather", newest + 1, json.dumps({"seconds": 0.2}).encode())
    with monkeypatch.context() as patch:
        patch.setattr("lakehouse_assets.storage.leases.fencing._append_fence", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError), table_lock(leased, "weather", wait_seconds=5):
            pytest.fail("it must not begin")
    assert not files.find_newest("weather").released
    with pytest.raises(LockedError), table_lock(leased, "weather", wait_seconds=0):
        pytest.fail("it has not lapsed")


def test_the_jar_is_made_from_the_source():
    with zipfile.ZipFile(JAR) as jar:
        assert jar.read(SOURCE_DIGEST).decode() == digest_source(), "run scripts/make_log_store.py"
