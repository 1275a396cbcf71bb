"""A gate on frames: verdicts, rows by what becomes of them, one reading, and what is refused before anything is read."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from lakehouse_assets import Gate
from lakehouse_assets.errors import ConfigError, EnvironmentMissing, RefusedError, SourceError
from lakehouse_assets.frames import staging_folder

RULES = {
    "name": "orders",
    "key": ["id"],
    "last_modified": "at",
    "columns": {"id": "bigint", "amount": "double", "at": "timestamp"},
    "checks": [
        {"check": "in_range", "column": "amount", "min": 0},
        {"check": "row_count", "min": 2, "max": 1000, "severity": "warning"},
        {"check": "sql", "name": "no_torn_order", "sql": "select id from batch group by id having count(*) > 3"},
    ],
}
ROWS = "id bigint, amount double, at timestamp, _id string, p_extracted_at string"


@pytest.fixture
def orders(spark):
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    rows = [(1, 5.0, noon, "a", "x"), (1, 6.0, noon.replace(hour=13), "b", "x"), (2, -1.0, noon, "c", "x")]
    return spark.createDataFrame([*rows, (None, 1.0, noon, "d", "x"), (3, 7.0, noon, "e", "x")], ROWS)


def test_rows_are_divided_and_counted_by_their_flags(spark, orders):
    spark.createDataFrame([(9,)], "x int").createOrReplaceTempView("batch")
    before = spark.conf.get("spark.sql.session.timeZone")
    with Gate.from_dict(RULES).check(orders, window="2024-05-01") as result:
        counts = result.counts
        assert (counts.rows_in, counts.rows_published, counts.rows_superseded, counts.rows_quarantined) == (5, 2, 1, 2)
        assert result.verdict == "published_with_warnings"
        assert not result.blocked
        assert [reason.check for reason in result.reasons] == ["key_not_null", "in_range_amount"]
        assert sorted(map(tuple, result.clean.select("id", "amount", "_id").collect())) == [(1, 6.0, "b"), (3, 7.0, "e")]
        assert result.clean.dtypes == orders.dtypes
        assert [row["_id"] for row in result.superseded.collect()] == ["a"]
        bad = {row["_id"]: [each["check"] for each in row["_reasons"]] for row in result.quarantined.collect()}
        assert bad == {"c": ["in_range_amount"], "d": ["key_not_null"]}
        assert "in\\_range\\_amount" in result.markdown
        # The caller's views and settings are as they were.
        assert spark.table("batch").columns == ["x"]
        assert spark.conf.get("spark.sql.session.timeZone") == before
        assert len(staging_folder.OPEN_FOLDERS) == 1
    assert staging_folder.OPEN_FOLDERS == []
    with pytest.raises(RefusedError, match="closed"):
        _ = result.clean


def test_verdict_and_frames_are_of_the_same_rows(spark):
    rand = spark.range(2000).withColumn("amount", F.rand() - 0.5)
    with Gate.from_dict({"checks": [{"check": "in_range", "column": "amount", "min": 0}]}).check(rand) as result:
        counts = result.counts
        assert 0 < counts.rows_quarantined < 2000
        assert (result.clean.count(), result.quarantined.count()) == (counts.rows_published, counts.rows_quarantined)
        assert result.clean.count() == counts.rows_published
        assert result.clean.where("amount < 0").count() == 0


def test_each_row_of_a_blocked_frame_is_quarantined_with_its_reasons(spark):
    rules = {"key": ["id"], "checks": [{"check": "row_count", "min": 5}]}
    with Gate.from_dict(rules).check(spark.range(3)) as result:
        assert (result.verdict, result.blocked, result.passed) == ("quarantined", True, False)
        assert result.clean.count() == result.superseded.count() == 0
        rows = result.quarantined.collect()
        assert [row["_batch_reasons"][0].split(":")[0] for row in rows] == ["row_count"] * 3
        assert result.counts.rows_quarantined == result.counts.rows_in == 3
    with Gate.from_dict({"checks": [{"check": "not_empty"}]}).check(spark.range(0)) as empty:
        assert empty.blocked
        assert empty.counts.rows_in == 0


def test_many_repeated_keys_are_sorted_once(spark, monkeypatch):
    monkeypatch.setattr("lakehouse_assets.pipeline.staging.FEW_REPEATED", 3)
    rows = spark.range(40).selectExpr("id % 20 AS id", "id AS v")
    with Gate.from_dict({"key": ["id"], "last_modified": "v"}).check(rows) as result:
        assert (result.counts.rows_published, result.counts.rows_superseded) == (20, 20)
        assert result.clean.agg(F.min("v")).collect()[0][0] == 20
        assert result.superseded.agg(F.max("v")).collect()[0][0] == 19


def test_rules_mean_the_same_in_any_session(spark):
    """By ANSI rules and UTC, whatever the caller's session says; what the caller reads keeps the session's meaning."""
    before = {name: spark.conf.get(name) for name in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")}
    try:
        spark.conf.set("spark.sql.ansi.enabled", "false")
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        rows = spark.sql("select '2024-05-01 00:30:00' as text, 'x' as number").selectExpr("*", "cast(text as timestamp) as at")
        rules = [
            {"check": "expression", "name": "is_number", "expr": "cast(number as int) > 0"},
            {"check": "expression", "name": "at_15", "expr": "hour(at) = 15"},
        ]
        with Gate.from_dict({"checks": rules}).check(rows) as result:
            by_check = {outcome.check: outcome for outcome in result.outcomes}
            assert (by_check["is_number"].status, by_check["is_number"].effect) == ("error", "batch")
            assert by_check["at_15"].status == "passed"
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def test_checks_read_the_tables_that_are_passed(spark):
    foreign = {"check": "foreign_key", "columns": ["shop"], "table": "shops", "to": ["id"]}
    sums = {"check": "reconcile", "measure": "sum(amount)", "table": "ledger", "against": "sum(amount)", "name": "sums"}
    gate = Gate.from_dict({"checks": [foreign, {**sums, "severity": "warning"}]})
    orders, shops = spark.createDataFrame([(1, 5.0), (2, 6.0)], "shop bigint, amount double"), spark.range(2)
    ledger = spark.createDataFrame([(5.0,)], "amount double")
    with pytest.raises(RefusedError, match="reads the table ledger: pass it, as `tables="):
        gate.check(orders, tables={"shops": shops})
    with gate.check(orders, tables={"shops": shops, "ledger": ledger}) as result:
        assert [row["shop"] for row in result.quarantined.collect()] == [2]
        assert {outcome.check: outcome.status for outcome in result.outcomes}["sums"] == "passed"
    with pytest.raises(RefusedError, match="no column 'id'"):
        gate.check(orders, tables={"shops": shops.toDF("x"), "ledger": ledger})


def test_personal_values_are_in_no_report(spark):
    rules = {"columns": {"mail": {"type": "string", "pii": True}}, "checks": [{"check": "length", "column": "mail", "min": 50}]}
    with Gate.from_dict(rules).check(spark.createDataFrame([("eve@example.com",)], "mail string")) as result:
        assert "eve@" not in result.markdown + str(result) + str(result.decision)
        assert result.quarantined.collect()[0]["mail"] == "eve@example.com"


def test_a_rule_file_for_other_columns_is_refused_by_line(spark, tmp_path: Path):
    path = tmp_path / "orders.yaml"
    path.write_text("name: orders\nkey: [nr]\ncolumns: {id: int}\nchecks:\n  - {check: not_null, column: amont}\n")
    with pytest.raises(ConfigError) as refused:
        Gate.from_yaml(path).check(spark.range(2))
    lines = str(refused.value).splitlines()
    assert [line.removeprefix(f"{path}:").split(" the frame")[0] for line in lines] == [
        "3: columns.id:",
        "2: key:",
        "5: checks.0: (not_null_amont)",
    ]
    assert "it as bigint, which is no int" in lines[0]
    path.write_text("name: orders\nchecks:\n  - {check: in_range, column: a, maxx: 3}\nsource: {}\n")
    with pytest.raises(ConfigError, match=r"orders.yaml:3: checks.0.in_range.maxx(.|\n)*orders.yaml:4: source: not known"):
        Gate.from_yaml(path)
    with pytest.raises(ConfigError, match="there is no such file"):
        Gate.from_yaml(tmp_path / "none.yaml")


def test_a_table_s_own_file_judges_a_frame(spark, tmp_path: Path):
    path = tmp_path / "defs.yaml"
    path.write_text(
        "type: lakehouse_assets.LakehouseTable\nattributes:\n  name: readings\n"
        "  source: {kind: files, path: 'r/{window:%Y-%m-%d}.csv', format: csv, control: 'r/{window:%Y-%m-%d}.json'}\n"
        "  extraction: {cadence: daily, start: 2024-01-01}\n  key: [id]\n  columns: {id: bigint}\n"
        "  checks:\n    - {check: not_empty}\n    - {check: control_total, figure: rows}\n"
        "    - {check: sql, name: early, sql: 'select * from batch where :window_end > :window_start + interval 1 day'}\n"
    )
    gate = Gate.from_yaml(path)
    with gate.check(spark.range(2), window="2024-01-01") as result:
        assert result.passed, result
        assert list(result.left_out) == ["control_total_rows"]
        assert "a frame has no source" in result.markdown


def test_what_no_gate_can_judge_is_refused(spark, tmp_path: Path):
    gate = Gate.from_dict({"checks": [{"check": "not_empty"}]})
    with pytest.raises(RefusedError, match=r"DataFrame is wanted, not a builtins\.list"):
        gate.check([1])
    with pytest.raises(RefusedError, match="foreachBatch"):
        gate.check(spark.readStream.format("rate").load())
    with pytest.raises(RefusedError, match="two columns 'a' and 'A'"):
        gate.check(spark.sql("select 1 as a, 2 as A"))
    with pytest.raises(RefusedError, match=r"cannot be stored: .*INTERVAL"):
        gate.check(spark.sql("select interval 1 month as i, null as v, make_interval(1,1) as w"))
    with pytest.raises(RefusedError, match="a time is wanted"):
        gate.check(spark.range(1), window="yesterday")
    # A frame that fails while it is read, in the middle of it.
    torn = spark.range(100).selectExpr("id", "if(id = 57, raise_error('the source broke'), id) as v")
    with pytest.raises(SourceError, match=r"the frame cannot be read: .*the source broke"):
        gate.check(torn)
    torn_file = tmp_path / "rows"
    spark.range(10).write.parquet(str(torn_file))
    frame = spark.read.parquet(str(torn_file))
    for part in torn_file.glob("*.parquet"):
        part.write_bytes(b"PAR1 not any more PAR1")
    with pytest.raises(SourceError, match="cannot be read"):
        gate.check(frame)
    assert staging_folder.OPEN_FOLDERS == []


def test_sessions_that_a_gate_cannot_use(spark, monkeypatch):
    gate = Gate.from_dict({"checks": [{"check": "not_empty"}]})
    with monkeypatch.context() as patch:
        patch.setattr(type(spark), "version", property(lambda _: "3.5.6"))
        with pytest.raises(EnvironmentMissing, match=r"Spark 3\.5\.6; the gate needs Spark 4\.1"):
            gate.check(spark.range(1))
    with monkeypatch.context() as patch:
        patch.setattr(staging_folder, "runs_locally", lambda _: False)
        with pytest.raises(RefusedError, match="pass `staging=`"):
            gate.check(spark.range(1))
    other = staging_folder.StagingFolder(spark, "/tmp")
    assert other.path.startswith("/tmp/lakehouse-gate-")
    other.remove()


def test_hostile_names_and_values_are_only_names_and_values(spark):
    odd = "a`b.c'; DROP TABLE x --"
    frame = spark.createDataFrame([("<b>${x}</b>|*", 1), (None, 2), ("x' OR '1'='1", 1)], [odd, "k.e y"])
    rules = {
        "key": ["k.e y"],
        "checks": [{"check": "not_null", "column": odd}, {"check": "in_set", "column": odd, "values": ["'"]}],
    }
    with Gate.from_dict(rules).check(frame) as result:
        assert result.quarantined.count() == result.counts.rows_quarantined == 3
        assert result.clean.columns == [odd, "k.e y"]
        assert "<b>" not in result.markdown
