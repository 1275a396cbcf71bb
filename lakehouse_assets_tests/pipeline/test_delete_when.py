"""A `delete_when` that cannot be evaluated is one window's error and never a fold that fails for ever. On real Delta.

Belongs here: that it is judged where rows are staged. Does not: what a delete does (laws).
"""

import pytest

from lakehouse_assets_tests.support import heal, land, readings, silver, window

BROKEN = {"cadence": "daily", "start": "2024-01-01", "mode": "upsert", "delete_when": "cast(sensor as int) = 1"}
RIGHT = {**BROKEN, "delete_when": "sensor = 'gone'"}


def test_a_failing_delete_condition_quarantines_its_window_alone(spark, settings):
    land(settings, 1, ["a,1,5,2024-01-01T00:00:00Z"])
    land(settings, 2, ["1,1,5,2024-01-02T00:00:00Z", "2,1,5,2024-01-02T00:00:00Z"])
    land(settings, 3, ["a\tb,1,5,2024-01-03T00:00:00Z"])
    current = heal(spark, settings, [1, 2, 3], readings(extraction=BROKEN, checks=[])).current
    assert [current[window(day)].verdict for day in (1, 2, 3)] == ["quarantined", "published", "quarantined"]
    (reason,) = current[window(1)].reasons
    assert (reason.check, reason.status, reason.effect) == ("delete_when", "error", "batch")
    assert "CAST_INVALID_INPUT" in reason.message
    assert [row["sensor"] for row in silver(settings)] == ["2"], "the other window's row is deleted by its own condition"
    again = heal(spark, settings, [1, 2, 3], readings(extraction=BROKEN, checks=[]))
    assert not again.new, "nothing is left that fails for ever"


@pytest.mark.exhaustive(seconds=8)
def test_a_changed_delete_condition_that_fails_on_a_row_deletes_nothing(spark, settings):
    land(settings, 1, ["a,1,5,2024-01-01T00:00:00Z", "gone,1,5,2024-01-01T00:00:00Z", "1,1,5,2024-01-01T00:00:00Z"])
    heal(spark, settings, [1], readings(extraction=RIGHT, checks=[]))
    assert [row["sensor"] for row in silver(settings)] == ["1", "a"]
    land(settings, 2, ["3,1,5,2024-01-02T00:00:00Z"])
    current = heal(spark, settings, [2], readings(extraction=BROKEN, checks=[])).current
    assert current[window(2)].verdict == "published"
    assert [row["sensor"] for row in silver(settings)] == ["3", "a", "gone"]
