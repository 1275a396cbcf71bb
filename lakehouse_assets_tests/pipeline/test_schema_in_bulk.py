"""Schemas in bulk on real Delta: the matrix of types through the gate, a column a case; changes one after another.

Belongs here: many cases in one table. Does not: what each mode means (test_schema), or the pure matrix (decisions).
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.schema.gate import differences_of, is_rejected
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.storage import delta
from lakehouse_assets_tests.chaos.changes import check_changes
from lakehouse_assets_tests.decisions.schema.cases import ATOMS, MODES, READS_AS, expected
from lakehouse_assets_tests.support import heal, readings, rows_of, runner, silver, window

MOMENT = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
ARROW = {
    "tinyint": (pa.int8(), 7), "smallint": (pa.int16(), 7), "int": (pa.int32(), 7), "bigint": (pa.int64(), 7),
    "float": (pa.float32(), 1.5), "double": (pa.float64(), 1.5), "decimal(10,2)": (pa.decimal128(10, 2), Decimal("1.25")),
    "decimal(12,2)": (pa.decimal128(12, 2), Decimal("1.25")), "decimal(22,4)": (pa.decimal128(22, 4), Decimal("1.25")),
    "date": (pa.date32(), date(2024, 1, 2)), "timestamp": (pa.timestamp("us", "UTC"), MOMENT),
    "timestamp_ntz": (pa.timestamp("us"), MOMENT.replace(tzinfo=None)), "string": (pa.string(), "text"),
    "binary": (pa.binary(), b"\x01"), "boolean": (pa.bool_(), True),
}  # fmt: skip
# A column each: Spark's work grows faster than they do. The others are in the pure matrix.
KINDS = [kind for kind in ATOMS if kind not in ("smallint", "decimal(10,2)", "decimal(22,4)", "timestamp", "binary")]
CASES = [(old, new) for old in KINDS for new in KINDS]


def spec(columns: dict[str, str], **policy: str) -> TableSpec:
    return readings(
        source={"kind": "files", "path": "readings/{window:%Y-%m-%d}.parquet", "format": "parquet"},
        columns={"id": "int", **columns}, key=["id"], last_modified=None, checks=[], schema=policy,
    )  # fmt: skip


def write(settings, start: datetime, cells: dict[str, pa.Array], ids: list[int]) -> None:
    path = Path(settings.landing, "readings", f"{start:%Y-%m-%d}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({"id": pa.array(ids, pa.int32()), **cells}), path)


def diagonal(indices: list[int], which: int) -> dict[str, pa.Array]:
    """A row a case, in which only the case's own column has a value; of the old type (0) or of the new one (1)."""
    cells = {}
    for row, index in enumerate(indices):
        kind, value = ARROW[CASES[index][which]]
        cells[f"c{index}"] = pa.array([value if n == row else None for n in range(len(indices))], kind)
    return cells


def same(actual: object, wanted: object) -> bool:
    """A date may have become a moment."""
    if isinstance(actual, datetime) and not isinstance(wanted, datetime):
        return (actual.date(), actual.hour, actual.minute) == (wanted, 0, 0)
    return actual == wanted


@pytest.mark.exhaustive(seconds=25)
@pytest.mark.parametrize("mode", MODES)
def test_the_matrix_through_the_gate(spark, settings, mode):
    """Each row ends in silver, with its value where the new type reads without loss, or in quarantine, with what is wrong."""
    fates = {index: expected(old, new, "silver", mode) for index, (old, new) in enumerate(CASES)}
    accepted = [index for index, fate in fates.items() if fate in ("same", "accepted", "widened")]
    left = [index for index in fates if index not in accepted]
    contract = spec({f"c{index}": old for index, (old, _) in enumerate(CASES)}, type_changes=mode)
    write(settings, window(1).start, diagonal(list(fates), 0), list(fates))
    write(settings, window(2).start, diagonal(accepted, 1), [1000 + index for index in accepted])
    days = [1, 2]
    if left:
        write(settings, window(3).start, diagonal(left, 1), [1000 + index for index in left])
        days.append(3)
    current = heal(spark, settings, days, contract).current
    published, quarantined_rows = silver(settings), rows_of(settings.path("quarantine", "readings"))
    assert current[window(1)].verdict == "published"
    assert len(published) + len(quarantined_rows) == 2 * len(CASES), "a row is lost, or twice"
    types = dict(delta.schema_types(settings.path("silver", "readings")))
    rows = {row["id"]: row for row in published}
    for index, (old, new) in enumerate(CASES):
        old_value = ARROW[old][1]
        assert same(rows[index][f"c{index}"], old_value), (old, new)
        assert types[f"c{index}"] == (new if fates[index] == "widened" else old), (old, new)
        if fates[index] in ("same", "widened") or old in READS_AS.get(new, "").split():
            value = ARROW[new][1]
            assert same(rows[1000 + index][f"c{index}"], value), (old, new)
    failed_checks = {int(row["id"]): {r["check"] for r in row["reasons"]} for row in quarantined_rows}
    for index in (index for index in accepted if 1000 + index not in rows):
        assert mode == "cast"
        assert failed_checks[1000 + index] == {f"cast_c{index}"}, CASES[index]
    if left:
        assert current[window(3)].verdict == "quarantined"
        assert is_rejected(current[window(3)]) == (mode == "reject")
        differing = {d["column"]: d["outcome"] for d in differences_of(current[window(3)]) if d["kind"] == "type"}
        assert differing == {f"c{index}": fates[index] for index in left}
    if mode == "widen":
        proof = rebuild(runner(spark, settings, contract))
        assert (proof.gained, proof.lost) == (0, 0)


@pytest.mark.exhaustive(seconds=40)
def test_a_schema_that_changes_with_every_window_is_right_at_each_version(spark, settings):
    """Ten changes here, fifty by `make chaos`."""
    check_changes(spark, settings, 10)
