"""Publishing a frame, and guarding somebody's own write: one commit that names its decision, or none."""

import json
import time
from threading import Thread

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from lakehouse_assets import Gate
from lakehouse_assets.errors import LockedError, QuarantinedError, RefusedError
from lakehouse_assets.frames import exchange, staging_folder
from lakehouse_assets.frames.exchange import merge_rows
from lakehouse_assets.storage.commit_metadata import decode_decisions
from lakehouse_assets_tests.support import rows_of

RULES = {
    "name": "orders",
    "key": ["id"],
    "last_modified": "v",
    "checks": [{"check": "in_range", "column": "v", "min": 0}, {"check": "row_count", "max": 50}],
}
GATE = Gate.from_dict(RULES)


def orders(spark, *rows):
    return spark.createDataFrame(list(rows), "id bigint, v bigint, note string")


def history(path):
    return [json.loads(entry["userMetadata"]) if "userMetadata" in entry else None for entry in DeltaTable(path).history()]


def test_clean_rows_are_published_in_one_commit_that_names_its_decision(spark, tmp_path):
    path, bad = str(tmp_path / "orders"), str(tmp_path / "bad")
    with GATE.publish(orders(spark, (1, 1, "a"), (2, -1, "b")), path, quarantine=bad) as first:
        assert (first.version, first.verdict) == (0, "published_with_warnings")
    assert rows_of(path) == [{"id": 1, "v": 1, "note": "a"}]
    (quarantined,) = rows_of(bad)
    assert (quarantined["id"], quarantined["_decision_id"]) == (2, first.decision.decision_id)
    assert quarantined["_reasons"][0]["check"] == "in_range_v"
    # By key, the newest row wins, in the frame and in the table.
    with GATE.publish(orders(spark, (1, 0, "old"), (3, 5, "x"), (3, 6, "y")), path, "merge") as second:
        assert second.version == 1
    assert [(row["id"], row["note"]) for row in rows_of(path)] == [(1, "a"), (3, "y")]
    with GATE.publish(orders(spark, (9, 9, "z")), path, "overwrite") as third:
        assert third.version == 2
    assert [row["id"] for row in rows_of(path)] == [9]
    assert [commit["decisions"] for commit in history(path)] == [
        [result.decision.decision_id] for result in (third, second, first)
    ]
    log = DeltaTable(path).history()[0]["userMetadata"]
    assert decode_decisions(log, "orders")[0].ruleset_hash == GATE.rules.ruleset_hash
    assert spark.conf.get("spark.databricks.delta.commitInfo.userMetadata", None) is None
    assert not [view for view in spark.sql("SHOW VIEWS").collect() if view.viewName.startswith("_gate_")]


def test_a_table_by_name(spark):
    spark.sql("CREATE DATABASE IF NOT EXISTS shop")
    try:
        for mode in ("append", "merge"):
            with GATE.publish(orders(spark, (1, 1, mode)), "shop.orders", mode) as result:
                assert result.version is not None
        assert [row["note"] for row in spark.table("shop.orders").collect()] == ["merge"]
    finally:
        spark.sql("DROP DATABASE shop CASCADE")


def test_a_blocked_frame_changes_nothing_but_the_quarantine(spark, tmp_path):
    path, bad = str(tmp_path / "orders"), tmp_path / "bad"
    GATE.publish(orders(spark, (1, 1, "a")), path).close()
    with pytest.raises(QuarantinedError, match="row_count") as refused:
        GATE.publish(spark.range(51).selectExpr("id", "id AS v", "'x' AS note"), path, "overwrite", quarantine=bad)
    assert refused.value.exit_code == 8
    assert refused.value.result.quarantined.count() == 51
    assert len(rows_of(str(bad))) == 51
    assert DeltaTable(path).version() == 0
    refused.value.result.close()


@pytest.mark.exhaustive(seconds=12)
def test_another_writer_is_named_and_nothing_is_half_written(spark, tmp_path, monkeypatch):
    path, bad = str(tmp_path / "orders"), str(tmp_path / "bad")
    GATE.publish(orders(spark, (1, 1, "a"), (2, 2, "b")), path).close()
    reading, written = tmp_path / "reading", tmp_path / "written"

    def wait(note):
        reading.touch()
        while not written.exists():
            time.sleep(0.05)
        return note

    def update():
        while not reading.exists():
            time.sleep(0.05)
        spark.sql(f"UPDATE delta.`{path}` SET note = 'theirs'")
        written.touch()

    def compete(to, rows, *others):
        """Another program updates the table while the rows of the MERGE are computed."""
        Thread(target=update, daemon=True).start()
        merge_rows(to, rows.withColumn("note", F.udf(wait)("note")), *others)

    monkeypatch.setattr(exchange, "merge_rows", compete)
    with pytest.raises(LockedError, match="written by somebody else at the same time; nothing was written"):
        GATE.publish(orders(spark, (1, 5, "ours"), (3, -1, "bad")), path, "merge", quarantine=bad)
    assert {row["note"] for row in rows_of(path)} == {"theirs"}
    assert rows_of(bad) == []
    assert staging_folder.OPEN_FOLDERS == []


def test_tables_that_cannot_take_the_rows(spark, tmp_path):
    path = tmp_path / "orders"
    frame = orders(spark, (1, 1, "a"))
    with pytest.raises(RefusedError, match="there are append, merge, overwrite"):
        GATE.publish(frame, path, "upsert")
    with pytest.raises(RefusedError, match="needs a `key:`"):
        Gate.from_dict({}).publish(frame, path, "merge")
    with pytest.raises(RefusedError, match="that clean rows go to"):
        GATE.publish(frame, path, quarantine=path)
    spark.range(1).write.format("delta").save(str(path))
    with pytest.raises(RefusedError, match="has no column 'v'; it has id"):
        GATE.publish(frame, path)
    other = tmp_path / "other"
    spark.sql("select 'text' as id, 1L as v, 'n' as note").write.format("delta").save(str(other))
    with pytest.raises(RefusedError, match="refuses the rows; nothing was written"):
        GATE.publish(orders(spark, (1, 1, "a")), other)
    assert DeltaTable(str(other)).version() == 0
    plain = tmp_path / "plain"
    spark.range(1).write.parquet(str(plain))
    with pytest.raises(RefusedError, match="plain holds files, and is no Delta table"):
        GATE.publish(frame, plain)
    assert not (plain / "_delta_log").exists()
    assert staging_folder.OPEN_FOLDERS == []


def test_a_guard_checks_before_and_after_somebody_s_own_write(spark, tmp_path):
    path = str(tmp_path / "orders")
    good, bad = orders(spark, (1, 1, "a"), (2, -5, "b")), spark.range(51).selectExpr("id", "id AS v", "'x' AS note")
    with GATE.guard(path, good) as guard:
        guard.clean.write.format("delta").save(path)
    assert (guard.before.counts.rows_quarantined, guard.after.counts.rows_in) == (1, 1)
    assert guard.judged == "all rows of version 0, which created the table"
    # Nothing is written if the frame is blocked.
    with pytest.raises(QuarantinedError, match="nothing was written"), GATE.guard(path, bad):
        raise AssertionError("the body does not run")
    # Rows that somebody appends are judged, and they alone.
    appended = r"OF 0\): the rows that versions 1 to 3 appended: .*row_count"
    with pytest.raises(QuarantinedError, match=appended) as refused, GATE.guard(path, spark=spark):
        for rows in (
            orders(spark, (7, 7, "c")),
            bad.where("id < 50 and id <> 7"),
            bad.where("id < 2").selectExpr("id + 70 AS id", "v", "note"),
        ):
            rows.write.format("delta").mode("append").save(path)
    assert refused.value.result.counts.rows_in == 52
    with GATE.guard(path, spark=spark, blocking=False) as guard:
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 8")
    assert guard.judged.startswith("the whole table: version 4 rewrote files")
    assert (guard.after.blocked, guard.passed) == (True, False)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    with GATE.guard(path, spark=spark) as guard:
        spark.sql(f"UPDATE delta.`{path}` SET v = -1 WHERE id = 7")
    assert guard.judged == "the rows that version 6 inserted or updated, by the change data feed"
    assert guard.after.counts.rows_in == 1
    with GATE.guard(path, spark=spark) as guard:
        pass
    assert (guard.after, guard.judged) == (None, "nothing was written")
