"""Gold's columns: strict where nobody has changed the SQL, and following it where somebody has. On real Delta.

Belongs here: what the SQL yields beside what the table has. Does not: deriving gold (test_gold), or comparing (decisions).
"""

from datetime import UTC, datetime

import pytest

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import silver_schemas
from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.decisions.schema.gate import is_rejected
from lakehouse_assets.pipeline import gold as gold_module
from lakehouse_assets.pipeline.gold import publish_gold
from lakehouse_assets.pipeline.run import GoldRun
from lakehouse_assets.storage import delta
from lakehouse_assets_tests.support import Killed, copy_lake, lake_settings, readings, rows_of

SPEC = readings(columns={"sensor": "string", "value": "int"}, key=["sensor"], last_modified=None, checks=[])
STAR = "select * except (p_extracted_at) from silver_readings"


class Gold:
    """A silver table that is written as a test likes, and a gold table of everything in it."""

    def __init__(self, spark, settings, number: int = 0) -> None:
        self.spark, self.settings, self.number = spark, settings, number
        self.schemas = silver_schemas([SPEC])

    def silver(self, columns: str) -> None:
        rows = self.spark.sql(f"SELECT {columns}, TIMESTAMP '2024-01-01 00:00:00Z' AS p_extracted_at, 1 AS extraction_seq")
        path = self.settings.path("silver", "readings")
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)

    def publish(self, sql: str = STAR, step=lambda _: None, **policy: str):
        self.number += 1
        run = GoldRun(
            settings=self.settings,
            spec=GoldSpec.model_validate({"name": "all", "sql": "all.sql", "key": ["sensor"], "schema": policy}),
            query=read_gold(sql, "all.sql", self.schemas),
            session=lambda: self.spark,
            run_id=f"gold-{self.number}",
            clock=lambda: datetime(2024, 7, 1, 0, self.number, tzinfo=UTC),
            step=step,
        )
        return publish_gold(run).decision

    def table(self):
        path = self.settings.path("gold", "all")
        return dict(delta.schema_types(path)), rows_of(path)


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """Silver by hand, without any decision, and gold of it. The comparison with the logs (test_evidence) would refuse that."""
    settings = lake_settings(tmp_path_factory.mktemp("gold") / "lake")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gold_module, "refuse_damaged_inputs", lambda *_: None)
        new_gold = Gold(spark, settings)
        new_gold.silver("'a' AS sensor, 1 AS value")
        assert new_gold.publish().verdict == "published"
    return settings


@pytest.fixture
def gold(spark, template, monkeypatch, tmp_path):
    monkeypatch.setattr(gold_module, "refuse_damaged_inputs", lambda *_: None)
    return Gold(spark, copy_lake(template, tmp_path), number=1)


def test_an_undeclared_column_is_quarantined_unless_evolve_allows_it(gold):
    gold.silver("'a' AS sensor, 2 AS value, 'new' AS note")
    quarantined = gold.publish()
    assert (quarantined.verdict, [r.check for r in quarantined.reasons]) == ("quarantined", ["schema_matches_contract"])
    assert "note: no column → string" in quarantined.reasons[0].message
    assert not is_rejected(quarantined)
    assert gold.table() == ({"sensor": "string", "value": "int"}, [{"sensor": "a", "value": 1}])
    assert gold.publish(new_columns="ignore").verdict == "published"
    assert gold.table()[1] == [{"sensor": "a", "value": 2}]
    accepted = gold.publish(new_columns="evolve")
    assert (accepted.verdict, accepted.reasons[0].severity) == ("published_with_warnings", "info")
    assert gold.table() == (
        {"sensor": "string", "value": "int", "note": "string"}, [{"sensor": "a", "value": 2, "note": "new"}]
    )  # fmt: skip


@pytest.mark.exhaustive(seconds=10)
def test_types_and_columns_that_vanish(gold):
    gold.silver("'a' AS sensor, 5000000000 AS value")
    assert is_rejected(gold.publish(type_changes="reject"))
    assert gold.publish().verdict == "quarantined"
    gold.publish(type_changes="widen")
    assert gold.table() == ({"sensor": "string", "value": "bigint"}, [{"sensor": "a", "value": 5_000_000_000}])
    # A narrower one is read as the table's.
    gold.silver("'a' AS sensor, CAST(3 AS SMALLINT) AS value")
    assert gold.publish().verdict == "published"
    assert gold.table() == ({"sensor": "string", "value": "bigint"}, [{"sensor": "a", "value": 3}])


def test_a_table_follows_sql_that_was_changed(gold):
    changed = gold.publish("select sensor, cast(value as string) as text from silver_readings")
    assert changed.verdict == "published"
    assert gold.table() == ({"sensor": "string", "text": "string"}, [{"sensor": "a", "text": "1"}])


def test_a_recovery_writes_the_decided_shape(gold):
    def stop(step: str) -> None:
        if step == "log_done":
            raise Killed

    gold.silver("'a' AS sensor, CAST(7 AS SMALLINT) AS value, 'n' AS note")
    with pytest.raises(Killed):
        gold.publish(step=stop, new_columns="ignore")
    gold.publish(new_columns="ignore")
    assert gold.table() == ({"sensor": "string", "value": "int"}, [{"sensor": "a", "value": 7}])


@pytest.mark.exhaustive(seconds=12)
def test_fields_of_structs_go_by_their_names(gold):
    """As silver's struct has grown in its middle; and one that came in another order."""
    sql = "select sensor, s, array(s) as several, map('k', s) as named from silver_readings"
    spec = readings(columns={"sensor": "string", "s": "struct<a: int, b: int>"}, key=["sensor"], last_modified=None, checks=[])
    gold.schemas = silver_schemas([spec])
    gold.silver("'a' AS sensor, named_struct('a', 1, 'b', 2) AS s")
    assert gold.publish(sql).verdict == "published"
    for cell in ("named_struct('a', 1, 'c', 9, 'b', 2)", "named_struct('b', 2, 'a', 1)"):
        gold.silver(f"'a' AS sensor, {cell} AS s")
        accepted = gold.publish(sql, new_columns="ignore", missing_columns="null")
        assert accepted.accepted, accepted.reasons
        [row] = gold.table()[1]
        assert (row["s"], row["several"], row["named"]) == ({"a": 1, "b": 2}, [{"a": 1, "b": 2}], [("k", {"a": 1, "b": 2})])
    gold.silver("'a' AS sensor, named_struct('b', 2) AS s")
    gold.publish(sql, new_columns="ignore", missing_columns="null")
    assert gold.table()[1][0]["s"] == {"a": None, "b": 2}
