"""Versions of a guarded table, judged on real Delta: which rows, which verdict, and what the log has of it.

Belongs here: the guard without Dagster. Does not: sensors and assets, or the long story (e2e/test_guard).
"""

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse_assets.errors import SourceError
from lakehouse_assets.events.alerts import format_message, select_new
from lakehouse_assets.guards.observed_table import GuardState, observe
from lakehouse_assets.guards.run import knowledge_of
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.guards.foreign_table import ForeignOrders, judge, orders_guard, verdicts
from lakehouse_assets_tests.guards.replay import replay
from lakehouse_assets_tests.support import rows_of

GOOD = [(1, 10.0, "DE"), (2, 20.0, "FR")]


def history_of(settings, version):
    """The text that says which rows of a version were judged."""
    log = logs.decisions(settings, "orders", checks=True)
    (decision,) = [d for d in log if d.bronze_version == version and not d.superseded_by]
    return next(c["message"] for c in decision.checks if c["check"] == "table_history")


def test_a_faulty_version_is_quarantined_until_the_table_is_corrected(spark, settings, tmp_path):
    table = ForeignOrders(spark, tmp_path / "orders")
    guard = orders_guard(tmp_path / "orders", drift={"features": ["amount"]})
    table.append(*GOOD)
    table.append((3, -5.0, "DE"))
    table.append((4, 40.0, None))
    table.run("OPTIMIZE {T}")
    table.run("ALTER TABLE {T} SET TBLPROPERTIES ('written.by' = 'others')")
    judged = judge(spark, settings, guard)
    assert verdicts(judged) == [(0, "published", 2), (1, "quarantined", 1), (2, "published_with_warnings", 1)]
    assert verdicts(judge(spark, settings, guard)) == []
    assert [d.bronze_version for d in GuardState.read(settings, guard).quarantined] == [1]
    title, body = format_message(guard, select_new(logs.decisions(settings, "orders"), 0))
    assert title == "orders: 1 window(s) quarantined"
    assert "in_range_amount" in body
    table.run("UPDATE {T} SET amount = 5 WHERE id = 3")
    assert verdicts(judge(spark, settings, guard)) == [(5, "published_with_warnings", 4)]
    assert "may correct what is in quarantine" in history_of(settings, 5)
    state = GuardState.read(settings, guard)
    assert state.quarantined == []
    windows = [d.p_extracted_at for d in state.decisions if not d.superseded_by]
    assert windows == sorted(set(windows))
    assert not (tmp_path / "lake" / "staging" / "orders").exists()
    table.spark.sql(f"DROP TABLE IF EXISTS {table.sql}")
    decided = logs.with_evidence(settings, "orders", [d for d in state.decisions if not d.superseded_by])
    # A quarantined version is not normal, and an appended part is not compared with a whole table.
    assert [(d.bronze_version, d.drift and d.drift["windows_known"]) for d in decided] == [(0, 0), (1, 1), (2, 1), (5, 0)]
    for decision in decided:
        before = GuardState([d for d in state.decisions if d.number < decision.number], state.records)
        known_then = knowledge_of(settings, guard, before, state.records[decision.batch])
        again = replay(decision, known_then)
        assert again == (decision.verdict, decision.counts, decision.drift_p_value)


def test_a_path_without_a_table_is_an_error_and_decides_nothing(spark, settings, tmp_path):
    (tmp_path / "folder").mkdir()
    for path in ("folder", "nothing"):
        with pytest.raises(SourceError, match="there is no Delta table"):
            judge(spark, settings, orders_guard(tmp_path / path))
    assert logs.decisions(settings, "orders") == []


@pytest.mark.exhaustive(seconds=20)
def test_no_personal_value_leaves_the_guarded_table(spark, settings, tmp_path):
    columns = {"id": "bigint", "amount": "double", "country": {"type": "string", "pii": True}}
    check = {"check": "in_set", "column": "country", "values": ["DE"], "on_fail": "quarantine_batch"}
    guard = orders_guard(tmp_path / "orders", columns=columns, checks=[check])
    ForeignOrders(spark, tmp_path / "orders").append((1, 1.0, "SECRET-7"))
    judged = judge(spark, settings, guard)
    assert [d.verdict for d in judged.new] == ["quarantined"]
    assert "SECRET-7" not in str(judged)
    for folder in ("ops/decisions", "ops/check_results", "ops/extractions"):
        assert rows_of(settings.path(folder)), folder
        assert "SECRET-7" not in str(rows_of(settings.path(folder))), folder
    copies = [path for path in (tmp_path / "lake").rglob("*.parquet") if b"SECRET-7" in path.read_bytes()]
    assert copies == []


def test_a_table_that_grew_by_ten_thousand_versions_is_looked_at_in_steps(settings, tmp_path):
    path = tmp_path / "orders"
    write_deltalake(str(path), pa.table({"id": [1, 2]}))
    for version in range(1, 10_001):
        commit = {"commitInfo": {"timestamp": 1_700_000_000_000 + version, "operation": "OPTIMIZE"}}
        (path / "_delta_log" / f"{version:020d}.json").write_text(json.dumps(commit))
    guard, passed = orders_guard(path, start=1), -1
    state = GuardState.read(settings, guard)
    for expected in (200, 400):
        observation = observe(guard, settings, state, passed)
        assert (observation.batch, observation.up_to, observation.is_complete) == (None, expected, False)
        passed = observation.up_to
    assert observe(guard, settings, state, 9_900).is_complete
