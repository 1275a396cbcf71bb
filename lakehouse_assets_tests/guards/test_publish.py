"""`publish`: what a clean table has after versions of each kind, on real Delta.

Belongs here: the clean table without Dagster. Does not: long stories and kills (e2e/test_guard_publish), or verdicts.
"""

import json
import shutil

import pytest
from deltalake import DeltaTable

from lakehouse_assets.decisions.decide import JudgementRequest
from lakehouse_assets.errors import RefusedError, SourceError
from lakehouse_assets.guards.settlement import settle_version
from lakehouse_assets.storage import delta, logs
from lakehouse_assets_tests.guards.guarded_orders import ForeignOrders, guard_run, judge, orders_guard, verdicts
from lakehouse_assets_tests.support import rows_of

RANGE = ("in_range_amount",)


def release(spark, settings, guard, version, waived=RANGE):
    request = JudgementRequest(kind="released", waived=waived, by="me", because="right", operation=f"release-{version}")
    return settle_version(guard_run(spark, settings, guard), version, request)


def ids(path):
    """The ids in a clean table, in order."""
    return sorted(row["id"] for row in rows_of(str(path), ["id"]))


def published(path):
    """How many decisions each commit names that moves rows."""
    history = DeltaTable(str(path)).history()
    named = [json.loads(entry.get("userMetadata") or "{}").get("decisions", []) for entry in history]
    return [len(decisions) for decisions in named]


def test_accepted_rows_are_published_once_and_quarantined_ones_when_they_are_released(spark, settings, tmp_path):
    table, clean = ForeignOrders(spark, tmp_path / "theirs"), tmp_path / "clean"
    guard = orders_guard(tmp_path / "theirs", key=[], publish={"to": str(clean)})
    table.append((1, 10.0, "DE"), (2, 20.0, "FR"))
    table.append((3, -5.0, "DE"))
    table.append((4, 40.0, "DE"))
    assert [verdict for _, verdict, _ in verdicts(judge(spark, settings, guard))] == ["published", "quarantined", "published"]
    assert ids(clean) == [1, 2, 4]
    (quarantined,) = rows_of(settings.path("quarantine", "orders"))
    assert json.loads(quarantined["row"]) == {"id": 3, "amount": -5.0, "country": "DE"}
    assert quarantined["reasons"][0]["check"] == "in_range_amount"
    assert release(spark, settings, guard, 1).counts.rows_published == 1
    assert release(spark, settings, guard, 1).number == 4
    assert ids(clean) == [1, 2, 3, 4]
    table.append((7, 70.0, "DE"), mode="overwrite")
    assert verdicts(judge(spark, settings, guard)) == [(3, "published_with_warnings", 1)]
    assert verdicts(judge(spark, settings, guard)) == []
    assert ids(clean) == [7]
    assert published(clean) == [1, 1, 1, 1]
    marks = [(d.bronze_version, d.silver_version) for d in logs.decisions(settings, "orders") if not d.superseded_by]
    assert marks == [(0, 0), (1, None), (2, 1), (1, 2), (3, 3)]
    shutil.rmtree(clean)
    assert [row[:2] for row in verdicts(judge(spark, settings, guard))] == [(3, "published")]
    assert ids(clean) == [7]


def test_a_table_that_no_guard_made_is_not_published_to(spark, settings, tmp_path):
    table, other = ForeignOrders(spark, tmp_path / "theirs"), ForeignOrders(spark, tmp_path / "other")
    table.append((1, 10.0, "DE"))
    other.append((5, 50.0, "DE"))
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.txt").write_text("a")
    for folder, text in (("other", "a table that no guard made"), ("files", "holds files")):
        with pytest.raises(RefusedError, match=text):
            judge(spark, settings, orders_guard(tmp_path / "theirs", publish={"to": str(tmp_path / folder)}))
    assert logs.decisions(settings, "orders") == []
    assert delta.version(str(tmp_path / "other")) == 0


@pytest.mark.exhaustive(seconds=60)
def test_a_clean_table_that_lacks_rows_gets_the_whole_table_if_that_is_accepted(spark, settings, tmp_path):
    table, clean = ForeignOrders(spark, tmp_path / "theirs"), tmp_path / "clean"
    silent = orders_guard(tmp_path / "theirs", key=[])
    guard = orders_guard(tmp_path / "theirs", key=[], publish={"to": str(clean)})
    table.append((1, 10.0, "DE"))
    judge(spark, settings, silent)
    # Nothing new is in the table, and `publish` is.
    assert verdicts(judge(spark, settings, guard)) == [(0, "published", 1)]
    assert ids(clean) == [1]
    table.append((2, -2.0, "DE"))
    assert verdicts(judge(spark, settings, silent)) == [(1, "quarantined", 1)]
    table.append((3, 3.0, "DE"))
    assert verdicts(judge(spark, settings, silent)) == [(2, "published", 1)]
    # Version 2 was accepted while nothing was published. The whole table has the faulty row: it is judged once, and waits.
    assert verdicts(judge(spark, settings, guard)) == [(2, "quarantined", 3)]
    assert verdicts(judge(spark, settings, guard)) == []
    assert ids(clean) == [1]
    table.run("UPDATE {T} SET amount = 2 WHERE id = 2")
    assert verdicts(judge(spark, settings, guard)) == [(3, "published", 3)]
    assert ids(clean) == [1, 2, 3]
    table.append((4, -4.0, "DE"), (5, 5.0, None))
    table.run("ALTER TABLE {T} ADD COLUMN note STRING")
    spark.sql(f"INSERT INTO {table.sql} VALUES (6, 6.0, 'DE', 'new')")
    assert [row[:2] for row in verdicts(judge(spark, settings, guard))] == [
        (4, "quarantined"),
        (5, "quarantined"),
        (6, "published"),
    ]
    rows = {row["id"]: row["note"] for row in rows_of(str(clean), ["id", "note"])}
    assert rows == {1: None, 2: None, 3: None, 6: "new"}
    request = JudgementRequest(kind="discarded", by="me", because="of no use", operation="discard")
    assert settle_version(guard_run(spark, settings, guard), 4, request).verdict == "discarded"
    assert verdicts(judge(spark, settings, guard)) == []
    table.append((7, -7.0, "DE"))
    judge(spark, settings, guard)
    table.run("DELETE FROM {T}")
    for file in table.path.glob("*.parquet"):
        file.unlink()
    with pytest.raises(SourceError):
        release(spark, settings, guard, 7)
