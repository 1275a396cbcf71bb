"""A guarded Iceberg table whose versions a catalog keeps: a real JDBC catalog on SQLite, another program, an oracle.

Belongs here: the guard by a name in a catalog, and polls of it. Does not: tables in folders of their own (test_guard_iceberg),
or when a poll asks (guards/test_catalog_poll).

The oracle keeps the rows as a dictionary and says of each statement which rows the guard should judge, and how.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from lakehouse_assets.errors import SourceError
from lakehouse_assets.guards.catalog_poll import located_for_poll
from lakehouse_assets.guards.observed_table import GuardState, observe
from lakehouse_assets.guards.run import judge_versions
from lakehouse_assets.guards.trial import try_check
from lakehouse_assets.sources.base import AnswerPending
from lakehouse_assets_tests.e2e.servers import JARS, fetched_jars
from lakehouse_assets_tests.e2e.test_guard_iceberg import EXTENSIONS, RUNTIME
from lakehouse_assets_tests.guards.guarded_orders import guard_run, orders_guard
from lakehouse_assets_tests.laws.child import at, session
from lakehouse_assets_tests.support import PROJECT_ROOT, Killed, rows_of

SQLITE = "org.xerial:sqlite-jdbc:3.49.1.0"
CONF = """
spark.jars {jars}
spark.sql.extensions {extensions}
spark.sql.warehouse.dir {home}/spark-warehouse
spark.sql.catalog.ice org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.ice.type jdbc
spark.sql.catalog.ice.uri jdbc:sqlite:{home}/catalog.db
spark.sql.catalog.ice.warehouse {home}/warehouse
spark.sql.catalog.ice.jdbc.schema-version V1
spark.sql.catalog.down org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.down.type jdbc
spark.sql.catalog.down.uri jdbc:sqlite:{home}/no/such/folder/catalog.db
spark.sql.catalog.down.warehouse {home}/warehouse
"""
CREATE = "CREATE TABLE ice.db.{} (id bigint, amount double, country string) TBLPROPERTIES ({})"
V2, GZIP = "'format-version' = '2'", "'write.metadata.compression-codec' = 'gzip'"
MERGE = (
    "MERGE INTO ice.db.orders t USING (SELECT 1L AS id, 11D AS amount, 'DE' AS country UNION ALL SELECT 5L, 50D, 'DE') s"
    " ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
WARNED = "published_with_warnings"
Rows = dict[int, float]


def insert(rows: Rows, table: str = "orders") -> str:
    return f"INSERT INTO ice.db.{table} VALUES " + ", ".join(f"({i}, {a}, 'DE')" for i, a in rows.items())


def expected(rows: Rows) -> list[Any]:
    """The oracle's verdict on these rows: all are judged, and one below 0 quarantines them."""
    return [len(rows), "published" if min(rows.values(), default=0) >= 0 else "quarantined"]


def story() -> Iterator[tuple[list[str], list[list[Any]], str]]:
    """The other program's statements, what the oracle says of them, and a text of the guard's message on the last version."""
    table: Rows = {1: 10, 2: 20}
    yield [CREATE.format("orders", V2), insert(table)], [expected(table)], ""
    table |= {3: -3}
    yield [insert({3: -3})], [expected({3: -3})], ""
    table |= {4: 40}
    yield [insert({4: 40})], [expected({4: 40})], ""
    del table[3]
    yield ["DELETE FROM ice.db.orders WHERE amount < 0"], [expected(table)], "whole table"
    table |= {1: 11, 5: 50}
    yield [MERGE], [expected(table)], "whole table"
    compaction = "CALL ice.system.rewrite_data_files(table => 'db.orders', options => map('min-input-files', '2'))"
    yield [compaction], [], ""
    table |= {6: 60}
    rename = "ALTER TABLE ice.db.orders RENAME COLUMN {} TO {}"
    yield [rename.format("amount", "price"), insert({6: 60})], [[1, "quarantined"]], "amount is now called price"
    del table[2]
    yield (
        [rename.format("price", "amount"), "DELETE FROM ice.db.orders WHERE id = 2"],
        [[len(table), WARNED]],
        "now called amount",
    )
    table |= {7: 70, 8: 80}
    expire = "CALL ice.system.expire_snapshots(table => 'db.orders', older_than => now(), retain_last => 1)"
    yield [insert({7: 70}), insert({8: 80}), expire], [[len(table), WARNED]], "cleaned up before it was judged"
    yield ["ROLLBACK"], [[6, "quarantined"]], "its newest version is"
    table = {9: 90}
    again = ["DROP TABLE ice.db.orders", CREATE.format("orders", V2), insert(table)]
    yield again, [[1, "quarantined"]], "release the version if this table is the one to guard"
    table |= {10: 100}
    yield [insert({10: 100}), "DELETE FROM ice.db.orders WHERE id = 9"], [[1, "published"], [1, "published"]], ""


def play(home: str) -> None:
    """What the test runs in a process of its own, whose JVM has the jars: prints what was decided, and what errors say."""
    folder = Path(home)
    jars = ",".join(map(str, sorted(folder.glob("jars-*/*.jar"))))
    settings = at(folder)
    assert settings.spark_conf is not None
    settings.spark_conf.write_text(settings.spark_conf.read_text() + CONF.format(jars=jars, extensions=EXTENSIONS, home=home))
    spark, end = session(settings)
    guard = orders_guard("", table="ice.db.orders", format="iceberg", start=0)
    answers: dict[str, Any] = {"story": []}

    def judge(spec=guard, **more):
        judged = judge_versions(guard_run(spark, settings, spec, **more))
        return [[d.counts.rows_in, d.verdict, _history(d)] for d in judged.new]

    def error(name: str, table: str) -> str:
        with pytest.raises(SourceError) as raised:
            judge(orders_guard("", name=name, table=table, format="iceberg"))
        return str(raised.value)

    for statements, _, _ in story():
        for sql in statements:
            if sql == "ROLLBACK":
                first = spark.sql("SELECT snapshot_id FROM ice.db.orders.snapshots ORDER BY committed_at").collect()
                assert len(first) == 1, "all others have expired"
                spark.sql("DELETE FROM ice.db.orders WHERE id > 6").collect()
                judge()
                spark.sql(f"CALL ice.system.rollback_to_snapshot('db.orders', {first[0][0]})").collect()
            else:
                spark.sql(sql).collect()
        answers["story"].append(judge())
    answers["tried"] = try_check(guard, settings, spark, "in_range_amount").status
    answers["unknown"], answers["down"] = error("a", "ice.db.nothing"), error("b", "down.db.orders")
    spark.sql("CREATE TABLE default.plain (id bigint) USING delta").collect()
    answers["delta"] = error("c", "default.plain")
    spark.sql(CREATE.format("old", "'format-version' = '1'")).collect()
    spark.sql(insert({1: 1}, "old")).collect()
    answers["old"] = error("d", "ice.db.old")
    spark.sql(CREATE.format("packed", f"{V2}, {GZIP}")).collect()
    spark.sql(insert({1: 1, 2: -2}, "packed")).collect()
    clean = {"publish": {"to": f"{home}/clean"}, "key": [], "checks": [{"check": "in_range", "column": "amount", "min": 0}]}
    packed = orders_guard("", name="packed", table="ice.db.packed", format="iceberg", start=0, **clean)

    def stop(step: str) -> None:
        if step == "log_done":
            raise Killed(step)

    with pytest.raises(Killed):
        judge(packed, step=stop)
    spark.sql(insert({3: 3}, "packed")).collect()
    answers["packed"] = [judge(packed), judge(packed), sorted(row["id"] for row in rows_of(f"{home}/clean"))]
    spark.sql(insert({11: 110})).collect()
    end()
    SparkContext._active_spark_context = None  # as in a process that polls
    answers["poll"] = poll(guard, settings)
    print("ANSWERS " + json.dumps(answers))


def poll(guard, settings) -> list[Any]:
    """What a process without a session finds: the polls that had no answer yet, the next batch, and an error."""
    state, answers = GuardState.read(settings, guard), []
    for spec in (guard, orders_guard("", name="b", table="down.db.orders", format="iceberg")):
        pending = 0
        while True:
            try:
                batch = observe(located_for_poll(spec, settings, state, datetime.now(UTC)), settings, state).batch
            except AnswerPending:
                pending += 1
                time.sleep(0.5)
                continue
            except SourceError as error:
                answers.append([pending > 0, str(error)])
            else:
                answers.append([pending > 0, batch and batch.rows])
            break
    return answers


def _history(decision) -> str:
    texts = [reason.message for reason in decision.reasons if reason.check in ("table_history", "table_columns")]
    return "; ".join(texts) or next(check["message"] for check in decision.checks if check["check"] == "table_history")


@pytest.mark.exhaustive(seconds=200)
def test_a_table_whose_versions_a_catalog_keeps_is_guarded_by_its_name(tmp_path):
    for package, name in ((RUNTIME, "iceberg"), (SQLITE, "sqlite")):
        (tmp_path / f"jars-{name}").symlink_to(fetched_jars(package, JARS / name))
    code = f"from lakehouse_assets_tests.e2e.test_guard_iceberg_catalog import play; play({str(tmp_path)!r})"
    child = subprocess.run([sys.executable, "-c", code], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in child.stdout.splitlines() if line.startswith("ANSWERS ")]
    assert lines, child.stderr[-3000:]
    answers = json.loads(lines[0].removeprefix("ANSWERS "))
    for (statements, oracle, text), judged in zip(story(), answers["story"], strict=True):
        assert [each[:2] for each in judged] == oracle, (statements, judged)
        assert not judged or text in judged[-1][2], (statements, judged)
    assert answers["tried"] == "passed"
    assert "Spark's catalog has no table of this name" in answers["unknown"]
    assert "b: table: down.db.orders: the catalog cannot be asked" in answers["down"]
    assert answers["delta"].endswith("the table of this name in Spark's catalog is not of Iceberg")
    assert "format version 1 does not number its snapshots" in answers["old"]
    later, again, clean = answers["packed"]
    assert ([each[:2] for each in later], again, clean) == ([[1, "published"]], [], [1, 3])
    (pending, rows), (pending_too, down) = answers["poll"]
    assert (pending, rows, pending_too) == (True, "added", True) and "the catalog cannot be asked" in down
