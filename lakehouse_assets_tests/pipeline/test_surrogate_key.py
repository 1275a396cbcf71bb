"""The surrogate key on real Delta: its bytes, the three modes, law 1, a migration, and its removal.

Belongs here: silver's hashes against Python's own. Does not: what may be declared (contracts/test_surrogate_key).
"""

import hashlib
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakehouse_assets.contracts.spark_types import parse_type
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.measures.computed_columns import as_silver
from lakehouse_assets.measures.surrogate_key import hash_sql
from lakehouse_assets.operations.rebuild import migrate, plan_of, rebuild, refuse_loss
from lakehouse_assets.queries.schema_status import column_rows, read_schema_status
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.session_properties import set_session_property
from lakehouse_assets_tests.support import heal, land, readings, runner, silver

KEY = {"name": "reading_sk", "from": ["sensor", "hour"]}
COLUMNS = {"sensor": "string", "hour": "int", "value": "decimal(6,2)", "updated": "timestamp"}
A1, B1 = "a,1,10,2024-01-01T01:00:00Z", "b,1,30,2024-01-01T01:00:00Z"


def digest(*texts: str | None) -> str:
    """The documented hash: `<length in bytes>:<text>,` of each value, `-,` of NULL."""
    parts = [b"-," if text is None else b"%d:%s," % (len(text.encode()), text.encode()) for text in texts]
    return hashlib.sha256(b"".join(parts)).hexdigest()


VALUES: list[tuple[str, Any, str | None]] = [
    ("string", "Zürich, 1:1", "Zürich, 1:1"),
    ("string", "", ""),
    ("string", None, None),
    ("boolean", True, "true"),
    ("tinyint", -7, "-7"),
    ("bigint", -(2**63), str(-(2**63))),
    ("decimal(12,2)", Decimal("100.00"), "100"),
    ("decimal(12,2)", Decimal("-0.50"), "-0.5"),
    ("decimal(12,2)", Decimal("0.00"), "0"),
    ("decimal(20,0)", Decimal(100), "100"),
    ("decimal(38,10)", Decimal("0.0000000001"), "0.0000000001"),
    ("date", date(1, 2, 3), "0001-02-03"),
    ("timestamp", datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), "-1"),
    ("timestamp_ntz", datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC).replace(tzinfo=None), "1000005"),
    ("binary", bytearray(b"\x00\xff"), "00ff"),
]


def test_the_hash_is_of_the_documented_bytes_of_every_type(spark):
    names = [f"c`{index}.x" for index, _ in enumerate(VALUES)]
    schema = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, (kind, _, _) in zip(names, VALUES, strict=True))
    rows = spark.createDataFrame([tuple(value for _, value, _ in VALUES)], schema)
    types = [parse_type(kind) for kind, _, _ in VALUES]
    alone = [hash_sql([name], [kind]) for name, kind in zip(names, types, strict=True)]
    (row,) = rows.selectExpr(*alone).collect()
    assert list(row) == [digest(text) for _, _, text in VALUES]
    assert len({digest("a,b", "c"), digest("a", "b,c"), digest("a", None), digest("a", ""), digest(None, "a")}) == 5


def test_the_session_of_a_project_does_not_change_it(spark):
    """Of several columns, in the order in which they are listed."""
    columns = {f"c{index}": kind for index, (kind, _, _) in enumerate(VALUES)}
    spec = readings(
        columns=columns, key=["c0"], last_modified=None, checks=[], surrogate_key={"name": "sk", "from": [*columns][::-1]}
    )
    schema = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    rows = spark.createDataFrame([tuple(value for _, value, _ in VALUES)], schema)
    rows = rows.selectExpr("*", "current_timestamp() AS p_extracted_at", "1 AS extraction_seq", "'' AS _content_hash")
    ansi, zone = ("spark.sql.ansi.enabled", "false"), ("spark.sql.session.timeZone", "Asia/Tokyo")
    with set_session_property(spark, *ansi), set_session_property(spark, *zone):
        result = as_silver(rows, spec)
    assert result.columns == [*columns, "sk", "p_extracted_at", "extraction_seq", "_content_hash"]
    assert result.first()["sk"] == digest(*[text for _, _, text in VALUES][::-1])


def hashes(settings) -> dict[tuple, str]:
    return {(row["sensor"], row["hour"], row["value"]): row["reading_sk"] for row in silver(settings)}


def assert_rebuilds(spark, settings, spec) -> None:
    proof = rebuild(runner(spark, settings, spec))
    assert (proof.gained, proof.lost) == (0, 0)


@pytest.mark.exhaustive(seconds=25)
@pytest.mark.parametrize("mode", ["upsert", "append", "snapshot"])
def test_each_row_has_the_hash_of_its_own_values_whatever_path_led_there(spark, settings, mode):
    """By MERGE, by a fold of some keys (a redelivery), and by a rebuild."""
    spec = readings(
        surrogate_key=KEY, columns=COLUMNS, checks=[], key=[] if mode == "append" else ["sensor", "hour"],
        extraction={"cadence": "daily", "start": datetime(2024, 1, 1, tzinfo=UTC), "mode": mode},
    )  # fmt: skip
    land(settings, 1, [A1, B1])
    heal(spark, settings, [1], spec)
    land(settings, 2, [A1.replace(",10,", ",11,").replace("T01", "T02"), B1, "c,-2,1.5,2024-01-02T01:00:00Z"])
    heal(spark, settings, [2], spec)
    land(settings, 1, [A1, "d,4,1,2024-01-01T01:00:00Z"])
    heal(spark, settings, [1], spec)
    by_row = hashes(settings)
    assert {sensor for sensor, _, _ in by_row} >= {"a", "b", "c"}
    assert all(text == digest(sensor, str(hour)) for (sensor, hour, _), text in by_row.items())
    assert_rebuilds(spark, settings, spec)


@pytest.mark.exhaustive(seconds=25)
def test_it_follows_the_folded_row_where_columns_come_from_different_batches(spark, settings):
    spec = readings(surrogate_key={**KEY, "from": ["value", "sensor"]}, columns=COLUMNS, checks=[])
    land(settings, 1, [A1, B1.replace(",30,", ",NA,")])
    land(settings, 2, ["a,1,2024-01-02T00:00:00Z", "b,1,2024-01-02T00:00:00Z"], header="sensor,hour,updated")
    heal(spark, settings, [1], spec)
    heal(spark, settings, [2], spec)
    assert {row["sensor"]: row["reading_sk"] for row in silver(settings)} == {"a": digest("10", "a"), "b": digest(None, "b")}
    assert_rebuilds(spark, settings, spec)


def column_steps(steps):
    """Without the step that values are made by another contract, which is beside each of these."""
    return [step for step in steps if step.column != "*"]


@pytest.mark.exhaustive(seconds=25)
def test_a_migration_adds_changes_and_drops_it(spark, settings):
    plain, keyed = readings(columns=COLUMNS, checks=[]), readings(surrogate_key=KEY, columns=COLUMNS, checks=[])
    land(settings, 1, [A1, B1])
    heal(spark, settings, [1], plain)
    [step] = column_steps(migrate(runner(spark, settings, keyed)))
    assert (step.action, step.column, step.rewrites, step.reversible) == ("add", "reading_sk", True, True)
    assert set(hashes(settings).values()) == {digest("a", "1"), digest("b", "1")}
    # Nothing was judged since: the table itself says that its values can be computed again.
    assert [(s.action, s.reversible) for s in column_steps(plan_of(read_schema_status(settings, plain)))] == [("drop", True)]
    path = settings.path("silver", "readings")
    assert [name for name, _ in delta.schema_types(path)][3:6] == ["updated", "reading_sk", "p_extracted_at"]
    status = read_schema_status(settings, keyed)
    assert (status.matches, status.foreign) == (True, frozenset())
    [listed] = [row for row in column_rows(status) if row["column"] == "reading_sk"]
    assert listed == {"column": "reading_sk", "promised": "string", "by": "surrogate_key", "table": "string", "arrived": ""}
    # The next batch changes a hash of other columns by itself; a removed one is no loss.
    land(settings, 2, ["c,2,1,2024-01-02T01:00:00Z"])
    swapped = readings(surrogate_key={**KEY, "from": ["hour", "sensor"]}, columns=COLUMNS, checks=[])
    heal(spark, settings, [2], swapped)
    assert set(hashes(settings).values()) == {digest("1", "a"), digest("1", "b"), digest("2", "c")}
    assert_rebuilds(spark, settings, swapped)
    [step] = column_steps(plan_of(read_schema_status(settings, plain)))
    assert (step.action, step.column, step.reversible) == ("drop", "reading_sk", True)
    try:
        refuse_loss("readings", [step], ())
    except RefusedError as error:
        pytest.fail(f"a surrogate key can be computed again: {error}")
