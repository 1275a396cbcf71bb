"""A table whose source changes its schema with every window: through the gate, then read at each version.

Belongs here: the changes, and what silver must be after each. Does not: what a mode means (layers).
"""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from lakehouse_assets.contracts.windows import Window, window_at
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets_tests.support import heal_windows, readings, runner

START = datetime(2024, 1, 1, tzinfo=UTC)
DAY, NOON = date(2024, 1, 2), datetime(2024, 1, 2, 12, tzinfo=UTC).replace(tzinfo=None)
# Of each kind of column its types, narrow to wide, and its value in a window. One that is declared begins as the first.
LADDERS: list[list[tuple[str, pa.DataType, Any]]] = [
    [("tinyint", pa.int8(), 7), ("smallint", pa.int16(), 300), ("int", pa.int32(), 70_000), ("bigint", pa.int64(), 2**40)],
    [("float", pa.float32(), 1.5), ("double", pa.float64(), 0.1)],
    [
        ("decimal(6,2)", pa.decimal128(6, 2), Decimal("1.25")),
        ("decimal(10,2)", pa.decimal128(10, 2), Decimal("12345678.25")),
        ("decimal(14,4)", pa.decimal128(14, 4), Decimal("1.0625")),
    ],
    [
        ("date", pa.date32(), DAY),
        ("timestamp_ntz", pa.timestamp("us"), NOON),
    ],
]
Rung = tuple[str, pa.DataType, Any]


def changes(count: int) -> list[dict[str, Rung]]:
    """The columns of each window's file after ``count`` changes in a row: a new column, or the next wider type of one."""
    columns: dict[str, tuple[int, int]] = {}
    rungs: list[dict[str, Rung]] = [{}]
    while len(rungs) <= count:
        may_grow = [name for name, (ladder, rung) in columns.items() if rung + 1 < len(LADDERS[ladder])]
        if len(rungs) % 3 and may_grow:
            ladder, rung = columns[may_grow[0]]
            columns[may_grow[0]] = (ladder, rung + 1)
        else:
            columns[f"c{len(columns)}"] = (len(columns) % len(LADDERS), 0)
        rungs.append({name: LADDERS[ladder][rung] for name, (ladder, rung) in columns.items()})
    return rungs


def check_changes(spark: Any, settings: Settings, count: int) -> int:
    """All of them in one run. Returns the last one's version of silver; raises AssertionError where one is wrong."""
    spec = readings(
        source={"kind": "files", "path": "readings/{window:%Y-%m-%dT%H}.parquet", "format": "parquet"},
        extraction={"cadence": "hourly", "start": START, "mode": "upsert"},
        columns={"id": "int"}, key=["id"], last_modified=None, checks=[],
        schema={"new_columns": "evolve", "type_changes": "widen"},
    )  # fmt: skip
    arriving = changes(count)
    for number, columns in enumerate(arriving):
        cells = {name: pa.array([value], kind) for name, (_, kind, value) in columns.items()}
        path = Path(settings.landing, "readings", f"{START + timedelta(hours=number):%Y-%m-%dT%H}.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table({"id": pa.array([number], pa.int32()), **cells}), path)
    windows: list[Window] = [window_at(START + timedelta(hours=number), "hourly") for number in range(len(arriving))]
    heal_windows(spark, settings, windows, spec)
    decisions = {decision.p_extracted_at: decision for decision in logs.decisions(settings, "readings")}
    assert all(decisions[window.start].accepted for window in windows)
    versions = [decisions[window.start].silver_version for window in windows]
    applied = [version for version in versions if version is not None]
    assert len(applied) == len(windows)
    assert applied == sorted(set(applied)), "each change is a version of its own"
    for number, version in enumerate(applied):
        types = dict(delta.schema_types(settings.path("silver", "readings"), version))
        wanted = {name: rung[0] for name, rung in arriving[number].items()}
        assert {name: types.get(name) for name in wanted} == wanted, f"types after change {number}"
        assert not {f"c{n}" for n in range(len(arriving))} & set(types) - set(wanted), f"columns after change {number}"
        rows = spark.read.format("delta").option("versionAsOf", version).load(settings.path("silver", "readings"))
        by_id = {row["id"]: row for row in rows.toArrow().to_pylist()}
        assert sorted(by_id) == list(range(number + 1)), f"rows after change {number}"
        for before in range(number + 1):
            for name in wanted:
                arrived = arriving[before].get(name)
                assert _same(by_id[before][name], arrived and arrived[2]), (number, before, name)
    proof = rebuild(runner(spark, settings, spec))
    assert (proof.gained, proof.lost) == (0, 0)
    return applied[-1]


def _same(actual: object, wanted: object) -> bool:
    """A date may have become a moment."""
    if isinstance(actual, datetime) and not isinstance(wanted, datetime):
        return (actual.date(), actual.hour, actual.minute) == (wanted, 0, 0)
    return actual == wanted
