"""Files of fixed width and of Avro, from the landing folder to silver: a bad record, and a file that is put right.

Belongs here: one short story of each format. Does not: how they are read (sources/test_fixed, sources/test_avro).
"""

from pathlib import Path

import pytest

from lakehouse_assets.storage.jars import JARS_FOR_AVRO
from lakehouse_assets_tests.sources.test_avro import write
from lakehouse_assets_tests.support import heal, readings, rows_of

FIELDS = [
    {"name": "sensor", "width": 4},
    {"name": "hour", "width": 3},
    {"name": "value", "width": 6},
    {"name": "updated", "width": 10},
]


def spec(form: str, **source):
    return readings(source={"kind": "files", "path": f"readings/{{window:%Y-%m-%d}}.{form}", "format": form, **source})


def silver(settings) -> list[tuple]:
    return [(row["sensor"], row["hour"], row["value"]) for row in rows_of(settings.path("silver", "readings"))]


@pytest.mark.exhaustive(seconds=10)
def test_lines_of_fixed_width(spark, settings):
    table = spec("fixed", fields=FIELDS)
    path = Path(settings.landing) / "readings" / "2024-01-01.fixed"
    path.parent.mkdir()
    path.write_text("s1    1  1.502024-01-01\ns2    1   n/a2024-01-01\ncut off\ns3    2      2024-01-01\n")
    heal(spark, settings, [1], table)
    assert silver(settings) == [("s1", 1, 1.5), ("s3", 2, None)]
    quarantined_values = {row["_corrupt_record"]: row["value"] for row in rows_of(settings.path("quarantine", "readings"))}
    assert quarantined_values == {None: "n/a", "a line of 7 characters instead of 23: cut off": None}
    path.write_text("s1    1  1.502024-01-01\ns2    1 -2.252024-01-01\ns3    2      2024-01-01\n")
    heal(spark, settings, [1], table)
    assert silver(settings) == [("s1", 1, 1.5), ("s2", 1, -2.25), ("s3", 2, None)]


@pytest.mark.exhaustive(seconds=20)
def test_avro_files(spark, settings):
    if not list(JARS_FOR_AVRO.glob("*.jar")):
        pytest.skip("Spark's Avro reader could not be fetched")
    table, folder = spec("avro"), Path(settings.landing) / "readings"
    fields = [
        {"name": "sensor", "type": "string"}, {"name": "hour", "type": "int"}, {"name": "value", "type": ["null", "double"]},
        {"name": "updated", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ]  # fmt: skip
    rows = [{"sensor": f"s{n}", "hour": n, "value": {"double": value}, "updated": n} for n, value in ((1, 1.5), (2, 1e6))]
    write(spark, folder / "2024-01-01.avro", fields, [*rows, {"sensor": "s3", "hour": 3, "value": None, "updated": 3}])
    (folder / "2024-01-02.avro").write_bytes(b"no Avro")
    heal(spark, settings, [1, 2], table)
    assert silver(settings) == [("s1", 1, 1.5), ("s3", 3, None)]
    # The other writer adds a column, and a file that could not be read comes again.
    write(
        spark,
        folder / "2024-01-02.avro",
        [*fields, {"name": "unit", "type": "string"}],
        [{**rows[0], "sensor": "s4", "unit": "K"}],
    )
    heal(spark, settings, [1, 2], table)
    assert silver(settings) == [("s1", 1, 1.5), ("s3", 3, None), ("s4", 1, 1.5)]
