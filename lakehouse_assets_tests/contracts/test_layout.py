"""A declared layout, pure: what is refused, and what follows for silver, its rules and personal columns.

Belongs here: the contract. Does not: tables on disk (pipeline/test_layout).
"""

import pytest
from pydantic import ValidationError

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.references import readers_of
from lakehouse_assets.contracts.silver import columns_from_bronze, silver_columns, silver_types
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets_tests.support import readings as readings_by_hour

DAY = {"event_date": {"type": "date", "expr": "to_date(updated)"}}
BY_DAY = {"partition_by": ["event_date"], "derived": DAY}
PERSONAL = {"sensor": {"type": "string", "pii": True}, "hour": "int", "value": "double", "updated": "timestamp"}
WIDE = {f"c{index}": "int" for index in range(40)}
NESTED = {"sensor": "string", "hour": "int", "value": "array<int>", "updated": "timestamp"}


def readings(**changes) -> TableSpec:
    """The readings without checks, with a key from which their day follows."""
    return readings_by_hour(**{"key": ["sensor", "hour", "updated"], "checks": [], **changes})


@pytest.mark.parametrize(
    ("layout", "columns", "message"),
    [
        ({}, None, "state either partition_by or cluster_by; it has neither"),
        ({"partition_by": ["hour"], "cluster_by": ["sensor"]}, None, "state either partition_by or cluster_by; it has both"),
        ({"partition_by": ["hour", "hour"]}, None, "partition_by: 'hour' is listed twice"),
        ({"partition_by": ["value"]}, None, "layout.partition_by.0: value is double, whose values make no folders"),
        ({"partition_by": ["value"]}, {**NESTED, "value": "binary"}, "value is binary, whose values make no folders"),
        ({"partition_by": ["hour", "value"]}, NESTED, r"layout.partition_by.1: value is array<int>; use a plain column"),
        (
            {"partition_by": ["value"]},
            {**NESTED, "value": "int"},
            r"value does not follow from the key \(sensor, hour, updated\), because of value: each MERGE would read every",
        ),
        (
            {"partition_by": ["v"], "derived": {"v": {"type": "int", "expr": "hour + int(value)"}}},
            None,
            r"layout.partition_by.0: v does not follow from the key .*, because of value",
        ),
        (
            {"partition_by": ["v"], "derived": {"v": {"type": "int", "expr": "int(hour)"}}},
            {**NESTED, "value": "int", "hour": "double"},
            "hour is double: equal keys could lie in two partitions; use cluster_by",
        ),
        ({"partition_by": ["sensor"]}, None, "Delta stores an empty text of a partition as NULL, which would change sensor"),
        ({"partition_by": ["day"]}, None, "layout.partition_by.0: there is no column 'day'; there are sensor, hour"),
        ({"partition_by": ["hour"], "derived": DAY}, None, "derived.event_date: partition_by does not list it"),
        (
            {**BY_DAY, "derived": {"event_date": {**DAY["event_date"], "expr": "to_date(at)"}}},
            None,
            "no column 'at' is declared",
        ),
        ({**BY_DAY, "derived": {"event_date": {**DAY["event_date"], "expr": "now()"}}}, None, "now"),
        (
            {"partition_by": ["Hour"], "derived": {"Hour": DAY["event_date"]}},
            None,
            "layout.derived.Hour: a column is called 'hour'",
        ),
        (
            {"partition_by": ["_d"], "derived": {"_d": DAY["event_date"]}},
            None,
            "column '_d': p_extracted_at, extraction_seq and",
        ),
        ({"partition_by": ["sensor"]}, PERSONAL, "layout.partition_by.0: sensor is pii, and folders would show its values"),
        (
            {"partition_by": ["s"], "derived": {"s": {"type": "string", "expr": "left(sensor, 1)"}}},
            PERSONAL,
            "layout.partition_by.0: s is pii",
        ),
        ({"cluster_by": ["value"]}, NESTED, r"layout.cluster_by.0: value is array<int>; use a plain column"),
        ({"cluster_by": ["value"]}, {**NESTED, "value": "boolean"}, "Delta keeps no statistics of value"),
        ({"cluster_by": ["a", "b", "c", "d", "e"]}, None, "at most 4 items"),
    ],
    ids=str,
)
def test_what_is_refused(layout, columns, message):
    with pytest.raises(ValidationError, match=message):
        readings(layout=layout, **({"columns": columns} if columns else {}))


@pytest.mark.parametrize(
    ("first", "fits", "unfit"), [({}, "c10", "c30"), ({"s": "struct<a: int, b: struct<c: int, d: array<int>>>"}, "c25", "c26")]
)
def test_a_column_without_statistics_cannot_be_clustered_by(first, fits, unfit):
    """Delta keeps them of 32 columns, and counts the fields of a struct."""
    columns = {**first, "sensor": "string", "hour": "int", "updated": "timestamp", **WIDE}
    readings(columns=columns, layout={"cluster_by": [fits]})
    message = rf"cluster_by.0: Delta keeps no statistics of {unfit} \(int\); use one of the first 32"
    with pytest.raises(ValidationError, match=message):
        readings(columns=columns, layout={"cluster_by": [unfit]})


def test_a_row_of_append_mode_is_its_own_and_may_lie_by_any_column():
    extraction = {"cadence": "daily", "start": "2024-01-01T00:00:00Z", "mode": "append"}
    spec = {"key": [], "last_modified": None, "extraction": extraction}
    readings(**spec, columns={**NESTED, "value": "int"}, layout={"partition_by": ["value"]})
    with pytest.raises(ValidationError, match="an empty text of a partition"):
        readings(**spec, layout={"partition_by": ["sensor"]})


def test_derived_columns_are_silver_and_no_part_of_a_batch():
    spec = readings(layout=BY_DAY, surrogate_key={"name": "sk", "from": ["hour"]})
    assert silver_columns(spec)[4:7] == ["sk", "event_date", "p_extracted_at"]
    assert silver_types(spec)["event_date"] == "date"
    assert not {"sk", "event_date"} & {*columns_from_bronze(spec), *spec.columns}
    assert readers_of(spec)["updated"] == ("key", "last_modified", "layout event_date")
    assert spec.published_columns["event_date"].description == "derived: to_date(updated)"


def test_only_a_declared_layout_is_in_the_rules_and_the_meaning():
    spec = readings(layout=BY_DAY)
    assert TableSpec.from_ruleset(spec.ruleset()).layout == spec.layout
    assert "layout" not in readings().ruleset()
    by_hour = readings(layout={"partition_by": ["hour"]})
    assert len({spec.meaning, readings().meaning, by_hour.meaning}) == 3


def test_clustering_by_a_personal_column_is_allowed_and_what_is_derived_of_it_is_personal():
    layout = {"cluster_by": ["s"], "derived": {"s": {"type": "string", "expr": "left(sensor, 1)"}}}
    spec = readings(columns=PERSONAL, layout=layout)
    assert spec.pii_columns == {"sensor", "s"}


def test_gold_derives_in_its_sql():
    with pytest.raises(ValidationError, match=r"layout\.derived: does not apply to gold"):
        GoldSpec.model_validate({"name": "days", "sql": "days.sql", "key": ["day"], "layout": BY_DAY})
