"""Requests of single windows, merged into ranges. No JVM.

Belongs here: which requests become one. Does not: the sensor that requests them (test_automation_sensor).
"""

import dagster as dg

from lakehouse_assets.orchestration.healing.ranges import merge_windows
from lakehouse_assets.orchestration.healing.window_state import window_assets
from lakehouse_assets_tests.support import readings

HOURLY, MONTHLY = (
    readings(
        name=name,
        source={"kind": "files", "path": "readings/{window:%Y-%m-%d-%H}.csv", "format": "csv"},
        extraction={"cadence": cadence, "start": "2024-01-01"},
    )
    for name, cadence in (("hours", "hourly"), ("months", "monthly"))
)
TABLES = {key: spec for spec in (HOURLY, MONTHLY) for key in window_assets(spec)}
BRONZE, SILVER = dg.AssetKey("bronze_hours"), dg.AssetKey("silver_hours")


def request(key: str | None, *assets: dg.AssetKey, **fields) -> dg.RunRequest:
    partition = {} if key is None else {"dagster/partition": key}
    return dg.RunRequest(partition_key=key, asset_selection=list(assets), tags={"by": "test", **partition}, **fields)


def shown(requests) -> list[tuple]:
    """Each request's window or range, assets and remaining tags."""
    return [
        (
            request.partition_key,
            *(request.tags.get(f"dagster/asset_partition_range_{end}") for end in ("start", "end")),
            {key.to_user_string() for key in request.asset_selection},
            request.tags.get("dagster/partition"),
            request.tags["by"],
        )
        for request in requests
    ]


def test_adjacent_windows_of_the_same_assets_are_one_request():
    hours = ["2024-01-01-22:00", "2024-01-01-23:00", "2024-01-02-00:00", "2024-01-02-02:00"]
    both = [request(hour, SILVER, BRONZE) if number % 2 else request(hour, BRONZE, SILVER) for number, hour in enumerate(hours)]
    of_all = {"bronze_hours", "silver_hours"}
    assert shown(merge_windows(reversed(both), TABLES)) == [
        (None, hours[0], hours[2], of_all, None, "test"),
        (hours[3], None, None, of_all, hours[3], "test"),
    ]


def test_other_assets_other_checks_and_what_has_no_windows_stay_apart():
    first, second = "2024-01-01-00:00", "2024-01-01-01:00"
    check = dg.AssetCheckKey(SILVER, "no_window_overdue")
    gold = request(None, dg.AssetKey("gold_daily"))
    theirs = [request(key, dg.AssetKey("theirs")) for key in ("2024-01-01", "2024-01-02")]
    apart = [gold, *theirs, request(first, BRONZE), request(second, SILVER), request(second, BRONZE, asset_check_keys=[check])]
    assert sorted(map(str, shown(merge_windows(apart, TABLES)))) == sorted(map(str, shown(apart)))
    months = [request(key, dg.AssetKey("silver_months")) for key in ("2024-01-01", "2024-02-01")]
    assert [line[1:3] for line in shown(merge_windows(months, TABLES))] == [("2024-01-01", "2024-02-01")]


def test_tables_of_equal_windows_have_requests_of_their_own():
    """One has a window less: the range of the other stays whole."""
    other = HOURLY.model_copy(update={"name": "others"})
    tables = TABLES | dict.fromkeys(window_assets(other), other)
    hours = ["2024-01-01-00:00", "2024-01-01-01:00", "2024-01-01-02:00"]
    checks = [dg.AssetCheckKey(SILVER, "not_empty"), dg.AssetCheckKey(dg.AssetKey("silver_others"), "not_empty")]
    both = request(hours[1], SILVER, dg.AssetKey("silver_others"), asset_check_keys=checks)
    alone = [request(hour, SILVER, asset_check_keys=checks[:1]) for hour in (hours[0], hours[2])]
    one, two = merge_windows([alone[0], both, alone[1]], tables)
    assert shown([one, two]) == [
        (None, hours[0], hours[2], {"silver_hours"}, None, "test"),
        (hours[1], None, None, {"silver_others"}, hours[1], "test"),
    ]
    assert [one.asset_check_keys, two.asset_check_keys] == [checks[:1], checks[1:]]
