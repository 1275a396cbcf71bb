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
from lakehouse_assets.decisions.schema.gate import differences_of, rejected
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


def diagonal(places: list[int], which: int) -> dict[str, pa.Array]:
    """A row a case, in which only the case's own column has a value; of the old type (0) or of the new one (1)."""
    cells = {}
    for row, place in enumerate(places):
        kind, value = ARROW[CASES[place][which]]
        cells[f"c{place}"] = pa.array([value if n == row else None for n in range(len(places))], kind)
    return cells


def same(found: object, wanted: object) -> bool:
    """A date may have become a moment."""
    if isinstance(found, datetime) and not isinstance(wanted, datetime):
        return (found.date(), found.hour, found.minute) == (wanted, 0, 0)
    return found == wanted


@pytest.mark.parametrize("mode", MODES)
def test_the_matrix_through_the_gate(spark, settings, mode):
    """Each row ends in silver, with its value where the new type reads without loss, or in quarantine, with what is wrong."""
    fates = {place: expected(old, new, "silver", mode) for place, (old, new) in enumerate(CASES)}
    taken = [place for place, fate in fates.items() if fate in ("same", "accepted", "widened")]
    left = [place for place in fates if place not in taken]
    contract = spec({f"c{place}": old for place, (old, _) in enumerate(CASES)}, type_changes=mode)
    write(settings, window(1).start, diagonal(list(fates), 0), list(fates))
    write(settings, window(2).start, diagonal(taken, 1), [1000 + place for place in taken])
    days = [1, 2]
    if left:
        write(settings, window(3).start, diagonal(left, 1), [1000 + place for place in left])
        days.append(3)
    found = heal(spark, settings, days, contract).current
    published, held = silver(settings), rows_of(settings.path("quarantine", "readings"))
    assert found[window(1)].verdict == "published"
    assert len(published) + len(held) == 2 * len(CASES), "a row is lost, or twice"
    types = dict(delta.schema_types(settings.path("silver", "readings")))
    rows = {row["id"]: row for row in published}
    for place, (old, new) in enumerate(CASES):
        kept = ARROW[old][1]
        assert same(rows[place][f"c{place}"], kept), (old, new)
        assert types[f"c{place}"] == (new if fates[place] == "widened" else old), (old, new)
        if fates[place] in ("same", "widened") or old in READS_AS.get(new, "").split():
            value = ARROW[new][1]
            assert same(rows[1000 + place][f"c{place}"], value), (old, new)
    told = {int(row["id"]): {r["check"] for r in row["reasons"]} for row in held}
    for place in (place for place in taken if 1000 + place not in rows):
        assert mode == "cast"
        assert told[1000 + place] == {f"cast_c{place}"}, CASES[place]
    if left:
        assert found[window(3)].verdict == "quarantined"
        assert rejected(found[window(3)]) == (mode == "reject")
        differing = {d["column"]: d["outcome"] for d in differences_of(found[window(3)]) if d["kind"] == "type"}
        assert differing == {f"c{place}": fates[place] for place in left}
    if mode == "widen":
        proof = rebuild(runner(spark, settings, contract))
        assert (proof.gained, proof.lost) == (0, 0)


def test_a_schema_that_changes_with_every_window_is_right_at_each_version(spark, settings):
    """Ten changes here, fifty by `make chaos`."""
    check_changes(spark, settings, 10)
