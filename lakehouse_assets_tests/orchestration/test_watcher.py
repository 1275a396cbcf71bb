"""The watcher over tables of several sources: one that cannot be reached keeps no other from being watched.

Belongs here: one look at many sources. Does not: what a source's fingerprints are (sources).
"""

from datetime import UTC, datetime

import dagster as dg

from lakehouse_assets.orchestration.watcher import look
from lakehouse_assets_tests.support import land, readings

NOW = datetime(2024, 1, 3, tzinfo=UTC)


def test_a_source_that_nobody_named_here_is_told_of_and_passed_over(settings):
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z"])
    shop = {"kind": "jdbc", "connection": "SHOP", "table": "t", "modified": "at"}
    specs = [
        readings(name="by_jdbc", source=shop),
        readings(name="by_kafka", source={"kind": "kafka", "topic": "t"}),
        readings(),
    ]
    with dg.DagsterInstance.ephemeral() as instance:
        _, seen, troubles = look(instance, settings, specs, {}, NOW)
        events, _, _ = look(instance, settings, specs, seen, NOW)
    assert [event.asset_key.to_user_string() for event in events] == ["source_readings"]
    assert [text.partition(":")[0] for text in troubles] == ["by_jdbc", "by_kafka"]
    assert "LAKEHOUSE_JDBC_SHOP_URL" in troubles[0] and "LAKEHOUSE_KAFKA_BOOTSTRAP" in troubles[1]
