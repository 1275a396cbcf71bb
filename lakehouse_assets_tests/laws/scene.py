"""The scene of the kill tests: a lake with two published days, then a replaced day, a held one, and one with a bad row."""

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets_tests.support import heal, land, readings

DAYS = (1, 2, 3, 4)


def scene() -> TableSpec:
    """A table with drift declared, so that profiles are written, and with a deferred check."""
    deferred = {"check": "distinct_count", "columns": ["value"], "max": 1, "severity": "warning"}
    ranges = {"check": "in_range", "column": "value", "min": -100, "max": 100}
    return readings(drift={"features": ["value"]}, checks=[{"check": "not_empty"}, ranges, deferred])


def before(spark, settings) -> None:
    """What is published before the run that is killed."""
    land(settings, 1, ["a,1,10,2024-01-01T01:00:00Z", "b,1,11,2024-01-01T01:00:00Z"])
    land(settings, 2, ["a,2,20,2024-01-02T01:00:00Z"])
    heal(spark, settings, [1, 2], scene())


def arrives(settings) -> None:
    """What the killed run finds: day 1 again without b, day 3 with a row out of range, day 4 empty."""
    land(settings, 1, ["a,1,12,2024-01-01T02:00:00Z"])
    land(settings, 3, ["a,3,30,2024-01-03T01:00:00Z", "c,3,500,2024-01-03T01:00:00Z"])
    land(settings, 4, [])
