"""A guarded Iceberg table that others write by Spark, on a session with Iceberg's jar: appends, a faulty version and its
correction, a compaction, another column, a rollback.

Belongs here: the guard of a real Iceberg table. Does not: which snapshots count (storage/test_foreign_iceberg).
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.errors import SourceError
from lakehouse_assets.guards.run import judge_versions
from lakehouse_assets.guards.trial import try_check
from lakehouse_assets_tests.e2e.servers import JARS, fetched_jars
from lakehouse_assets_tests.guards.guarded_orders import guard_run, orders_guard
from lakehouse_assets_tests.laws.child import at, session
from lakehouse_assets_tests.support import PROJECT_ROOT, rows_of

RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
EXTENSIONS = "io.delta.sql.DeltaSparkSessionExtension,org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
CONF = """
spark.jars {jar}
spark.sql.extensions {extensions}
spark.sql.catalog.ice org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.ice.type hadoop
spark.sql.catalog.ice.warehouse {home}/ice
"""
STORY = [
    "CREATE TABLE ice.db.orders (id bigint, amount double, country string) TBLPROPERTIES ('format-version' = '2')",
    "INSERT INTO ice.db.orders VALUES (1, 10, 'DE'), (2, 20, 'DE')",
    "INSERT INTO ice.db.orders VALUES (3, -3, 'DE')",
    "JUDGE",
    "INSERT INTO ice.db.orders VALUES (4, 40, 'DE')",
    "DELETE FROM ice.db.orders WHERE amount < 0",
    "CALL ice.system.rewrite_data_files(table => 'db.orders', options => map('min-input-files', '2'))",
    "JUDGE",
    "ALTER TABLE ice.db.orders ADD COLUMN note string",
    "INSERT INTO ice.db.orders VALUES (5, 50, 'FR', 'x')",
    "UPDATE ice.db.orders SET amount = 51 WHERE id = 5",
    "JUDGE",
    "ALTER TABLE ice.db.orders RENAME COLUMN amount TO price",
    "INSERT INTO ice.db.orders VALUES (6, 60, 'FR', 'x')",
    "JUDGE",
    "ROLLBACK",
    "JUDGE",
]


def orders(home: Path) -> GuardSpec:
    return orders_guard(home / "ice" / "db" / "orders", format="iceberg", start=0)


def play(home: str) -> None:
    """What the test runs in a process of its own, whose JVM has Iceberg's jar: prints what each judgement decided."""
    folder, jar = Path(home), next(Path(home, "jars").glob("*iceberg-spark-runtime*.jar"))
    settings = at(folder)
    assert settings.spark_conf is not None
    settings.spark_conf.write_text(settings.spark_conf.read_text() + CONF.format(jar=jar, extensions=EXTENSIONS, home=home))
    spark, end = session(settings)
    guard, answers = orders(folder), []
    published = guard.model_copy(update={"name": "clean_orders", "publish": None, "key": ()})
    published = GuardSpec.model_validate(
        published.model_dump(by_alias=True) | {"publish": {"to": f"{home}/clean"}, "key": [], "checks": guard.checks}
    )
    for sql in STORY:
        if sql == "JUDGE":
            judged = judge_versions(guard_run(spark, settings, guard))
            answers.append([[d.bronze_version, d.verdict, d.counts.rows_in, _history(d)] for d in judged.new])
            if len(answers) == 2:
                judge_versions(guard_run(spark, settings, published))
                outcome = try_check(guard, settings, spark, "in_range_amount")
                answers.append([outcome.status, len(rows_of(f"{home}/clean"))])
                with pytest.raises(SourceError, match="a guard of it has `format: iceberg`"):
                    judge_versions(guard_run(spark, settings, guard.model_copy(update={"format": "delta"})))
        elif sql == "ROLLBACK":
            first = spark.sql("SELECT snapshot_id FROM ice.db.orders.snapshots ORDER BY committed_at").collect()[0][0]
            spark.sql(f"CALL ice.system.rollback_to_snapshot('db.orders', {first})").collect()
        else:
            spark.sql(sql).collect()
    print("ANSWERS " + json.dumps(answers))
    end()


def _history(decision) -> str:
    texts = [reason.message for reason in decision.reasons if reason.check in ("table_history", "table_columns")]
    return "; ".join(texts) or next(check["message"] for check in decision.checks if check["check"] == "table_history")


@pytest.mark.exhaustive(seconds=120)
def test_an_iceberg_table_is_guarded_snapshot_by_snapshot(tmp_path):
    (tmp_path / "jars").symlink_to(fetched_jars(RUNTIME, JARS / "iceberg"))
    code = f"from lakehouse_assets_tests.e2e.test_guard_iceberg import play; play({str(tmp_path)!r})"
    child = subprocess.run([sys.executable, "-c", code], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in child.stdout.splitlines() if line.startswith("ANSWERS ")]
    assert lines, child.stderr[-3000:]
    faulty, corrected, clean, changed, renamed, rolled_back = json.loads(lines[0].removeprefix("ANSWERS "))
    assert [answer[:3] for answer in faulty] == [[1, "published", 2], [2, "quarantined", 1]]
    assert [answer[:3] for answer in corrected] == [[3, "published", 1], [4, "published", 3]], "a compaction has no decision"
    assert "whole table" in corrected[1][3]
    assert clean == ["passed", 3]
    assert [answer[1:3] for answer in changed] == [["published", 1], ["published", 4]]
    [[_, verdict, rows, text]] = renamed
    assert (verdict, rows) == ("quarantined", 1) and "amount is now called price" in text
    [[_, verdict, rows, text]] = rolled_back
    assert (verdict, rows) == ("quarantined", 2) and "its newest version is 1" in text
