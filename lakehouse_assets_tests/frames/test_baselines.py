"""Drift of frames: baselines from a log, a frame and a table's versions; comparison, proposals, and what a log keeps."""

from datetime import UTC, datetime, timedelta

import pytest
import yaml

from lakehouse_assets import Gate
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.frames import staging_folder
from lakehouse_assets.storage import logs

RULES = {
    "name": "orders",
    "checks": [{"check": "row_count_ratio", "windows": 2, "least": 2, "min": 0.5, "max": 2, "severity": "warning"}],
    "drift": {"features": ["amount"], "cold_start": "learn"},
}
GATE = Gate.from_dict(RULES)
DAY = datetime(2024, 5, 1, tzinfo=UTC)


def orders(spark, rows=200, shift=0.0, seed=0, windows=1):
    text = f"cast(randn({seed}) * 10 as int) + 100 + {shift} as amount"
    return spark.range(rows * windows, numPartitions=1).selectExpr("id", text, f"id % {windows} as day")


def test_a_log_makes_the_baseline_and_nothing_else_remains(spark, tmp_path):
    log = tmp_path / "log"
    for day in range(2):
        with GATE.check(orders(spark, seed=day), DAY + timedelta(days=day), log=log) as result:
            assert not result.blocked
    assert result.drift["windows_known"] == 1
    # A window that is judged again takes the place of its first judgement.
    with GATE.check(orders(spark, seed=9), DAY + timedelta(days=1), log=log) as again:
        assert again.drift["windows_known"] == 1
        assert (again.decision.number, again.decision.extraction_seq) == (3, 2)
    with GATE.check(orders(spark, rows=20, shift=50), DAY + timedelta(days=2), log=log) as far:
        assert far.drift["action"] == "warn"
        assert {reason.check for reason in far.reasons} == {"drift", "row_count_ratio"}
        assert far.pictures[0].startswith("![")
        assert "Drift" in far.markdown
        assert far.profile[0].feature == "amount"
    # The baseline of a log can be read by itself, and by another log's gate.
    assert len(GATE.baseline(log).baseline) == 3
    with GATE.check(orders(spark, shift=50), baseline=log) as other:
        assert other.drift["windows_known"] == 3
    assert {path.name for path in log.iterdir()} <= {"ops", "baseline", "_locks"}
    assert staging_folder.OPEN_FOLDERS == []
    (tmp_path / "lake" / "ops").mkdir(parents=True)
    (tmp_path / "log" / "ops" / "decisions").rename(tmp_path / "lake" / "ops" / "extractions")
    with pytest.raises(RefusedError, match="this is a lake"):
        GATE.check(orders(spark), log=tmp_path / "lake")
    (tmp_path / "file").write_text("")
    with pytest.raises(RefusedError, match="this is a file"):
        GATE.check(orders(spark), log=tmp_path / "file")


def test_a_frame_is_a_baseline_as_one_or_split_by_a_column(spark):
    windows = orders(spark, windows=30)
    split, one = GATE.baseline(windows, by="day"), GATE.baseline(windows)
    assert (len(split.baseline), len(one.baseline)) == (30, 1)
    assert GATE.compare(orders(spark, seed=5), split).action == "pass"
    drifted = GATE.compare(orders(spark, shift=20), split)
    assert (drifted.status, drifted.action) == ("calibrated", "hold")
    assert GATE.compare(orders(spark, shift=20), windows).action == "warn", "one window is no history"
    with GATE.check(orders(spark, shift=20), baseline=split) as result:
        assert [reason.check for reason in result.reasons] == ["drift"]
    dated = windows.selectExpr("*", "date_add(date'2024-01-01', cast(day as int)) as d")
    assert len(GATE.baseline(dated, by="d").baseline) == 30
    for call, text in (
        (lambda: GATE.baseline(windows, by="week"), "no column 'week'"),
        (lambda: GATE.baseline(windows.drop("amount")), "no column 'amount'"),
        (lambda: GATE.baseline(windows.limit(0)), "no row to learn from"),
        (lambda: Gate.from_dict({}).compare(windows, windows), "declare no `drift:`"),
        (lambda: GATE.baseline("/nowhere/at/all"), "neither the folder of a log nor a Delta table"),
    ):
        with pytest.raises(RefusedError, match=text):
            call()


def test_each_version_of_a_table_that_added_rows_is_a_window(spark, tmp_path):
    path = str(tmp_path / "orders")
    for seed in range(2):
        orders(spark, seed=seed).write.format("delta").mode("append").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 2 = 0")
    orders(spark, rows=300, seed=7).write.format("delta").mode("append").save(path)
    state = GATE.baseline(path, spark=spark)
    assert (len(state.baseline), state.baseline.volumes()) == (3, [200, 200, 300])
    verdict = GATE.compare(orders(spark, shift=60), state)
    assert (verdict.windows_known, verdict.action) == (3, "warn")


def test_decisions_are_the_lake_s_own(spark, tmp_path):
    from lakehouse_assets.frames.log import settings_at

    log = tmp_path / "log"
    GATE.publish(orders(spark), tmp_path / "orders", window="2024-05-01", log=log).close()
    (decision,) = logs.decisions(settings_at(log), "orders")
    assert (decision.verdict, decision.counts.rows_published, decision.silver_version) == ("published", 200, 0)
    assert decision.applied_at is not None


def test_proposals_are_rules_that_the_frame_passes(spark):
    frame = orders(spark).selectExpr("*", "if(id % 2 = 0, 'a', 'b') as kind", "cast(null as void) as nothing")
    text = Gate.suggest(frame, "orders")
    assert "in_set" in text and "# 2 different texts" in text
    with Gate.from_dict(yaml.safe_load(text)).check(frame.drop("nothing")) as result:
        assert result.passed, result
    with pytest.raises(RefusedError, match="at least 100"):
        Gate.suggest(spark.range(5))
    with pytest.raises(RefusedError, match="0 rows; at least 100"):
        Gate.suggest(spark.range(0))
