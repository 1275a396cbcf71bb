"""What each text becomes as a declared type: the casts of silver, as a table.

Belongs here: one column's value, or that it is a reason. Does not: the reason's row (layers), or types that change (schema).
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.measures.typed import typed_columns
from lakehouse_assets_tests.support import readings

# As for users: what is tested here depends on what Spark compiles.
pytestmark = pytest.mark.usefixtures("compiled")

BAD = "a reason"


def moment(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


# The column as it is declared; then what texts become. None, "" and the null tokens (NA and -999 here) are no value, and no
# reason either.
CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "boolean"}, {
        "true": True, "FALSE": False, "t": True, "n": False, "yes": True, "No": False, "1": True, "0": False, " true ": True,
        "on": BAD, "2": BAD, "maybe": BAD, "-1": BAD,
    }),
    ({"type": "tinyint"}, {"127": 127, "-128": -128, "128": BAD, "-129": BAD, " 7 ": 7, "+7": 7, "1.0": BAD, "7,0": BAD}),
    ({"type": "bigint"}, {"9223372036854775807": 2**63 - 1, "9223372036854775808": BAD, "1e3": BAD, "0x1F": BAD}),
    ({"type": "double"}, {
        "1.5": 1.5, "-1e3": -1000.0, ".5": 0.5, "1.": 1.0, "1e999": float("inf"), "Infinity": float("inf"), "1,5": BAD,
        "1.2.3": BAD, "1 000": BAD,
    }),
    ({"type": "decimal(5,2)"}, {
        "123.45": Decimal("123.45"), "-999.99": Decimal("-999.99"), "7": Decimal("7.00"), "1E2": Decimal("100.00"),
        "1000": BAD, "12,5": BAD, "1.2.3": BAD,
        # More decimals than are promised are rounded, half up; what is rounded beyond the precision is a reason.
        "1.005": Decimal("1.01"), "1.004": Decimal("1.00"), "-1.005": Decimal("-1.01"), "999.995": BAD,
    }),
    ({"type": "date"}, {
        "2024-02-29": date(2024, 2, 29), "2023-02-29": BAD, "2024-13-01": BAD, "2024-2-1": date(2024, 2, 1), "29.02.2024": BAD,
        "20240229": BAD, "today": BAD,
        # Of another year than 1 to 9999, no reader but Spark could open it.
        "0001-01-01": date(1, 1, 1), "9999-12-31": date(9999, 12, 31), " 0001-01-01": date(1, 1, 1), "0000-12-31": BAD,
        "-0001-01-01": BAD, "-0044-03-15": BAD, "10000-01-01": BAD, "+10000-01-01": BAD, "+2024-01-01": date(2024, 1, 1),
        "99999-12-31": BAD, "0000": BAD, "9999": date(9999, 1, 1), "10000": BAD,
    }),
    ({"type": "date", "expr": "date_add(value, 366)"}, {
        "2023-01-01": date(2024, 1, 2), "9999-01-01": BAD, "-0001-06-01": BAD,
    }),
    ({"type": "date", "format": "G yyyy-MM-dd"}, {"AD 2024-02-29": date(2024, 2, 29), "BC 0044-03-15": BAD}),
    ({"type": "date", "format": "dd.MM.yyyy"}, {
        "29.02.2024": date(2024, 2, 29), "29.02.2023": BAD, "1.2.2024": BAD, "2024-02-29": BAD,
    }),
    ({"type": "timestamp"}, {
        "2024-01-02T03:04:05Z": moment(2024, 1, 2, 3, 4, 5), "2024-01-02 03:04:05+02:00": moment(2024, 1, 2, 1, 4, 5),
        "2024-01-02": moment(2024, 1, 2), "2024-01-02T25:00:00Z": BAD, "1704164645": BAD,
        # A time of day would be one of today.
        "03:04": BAD, "T3:4": BAD, "\t12:00:00.5": BAD, "03:04:00-08:00": BAD, "3:04-08:00": BAD, "1:1:1-08:00": BAD,
        "  2024-01-02 03:04": moment(2024, 1, 2, 3, 4),
        "0001-01-01T00:00:00Z": moment(1, 1, 1), "0001-01-01T00:00:00+05:00": BAD, "0001-1-1 00:00:00+05:00": BAD,
        "9999-12-31T23:59:59.999999Z": moment(9999, 12, 31, 23, 59, 59, 999_999), "9999-12-31T23:59:59-05:00": BAD,
        "0000-12-31T23:59:59Z": BAD, "-0044-03-15T12:00:00Z": BAD, "10000-01-01T00:00:00Z": BAD, "+294247-01-01T00:00:00Z": BAD,
    }),
    ({"type": "timestamp", "format": "dd/MM/yyyy HH:mm"}, {
        "02/01/2024 03:04": moment(2024, 1, 2, 3, 4), "02/01/2024": BAD, "32/01/2024 03:04": BAD, "2024-01-02 03:04": BAD,
    }),
    ({"type": "timestamp_ntz"}, {"2024-01-02T03:04:05": moment(2024, 1, 2, 3, 4, 5).replace(tzinfo=None), "2024-01-32": BAD,
        "10000-01-01T00:00:00": BAD, "-0001-01-01T00:00:00": BAD}),
    ({"type": "binary"}, {"aGk=": b"hi", "aGk": b"hi", "?": BAD}),
    ({"type": "string"}, {" as it is ": " as it is ", "": "", "NULL": "NULL"}),
    # Units: the expression sees the typed value, and its result is cast once more.
    ({"type": "double", "expr": "(value - 32) * 5 / 9", "unit": "°C"}, {"212": 100.0, "32": 0.0, "warm": BAD}),
    ({"type": "decimal(6,1)", "expr": "value * 1.609344", "unit": "km"}, {"100": Decimal("160.9"), "99999": BAD, "far": BAD}),
    ({"type": "int", "expr": "value * 1000", "unit": "m"}, {"2": 2000, "2.5": BAD}),
    ({"type": "double", "expr": "if(value < 0, NULL, value)"}, {"3": 3.0, "-3": None}),
    ({"type": "array<int>"}, {"[1, 2]": [1, 2], "[]": [], "[1, \"x\"]": BAD, "[1": BAD, "1": BAD}),
    ({"type": "array<timestamp>"}, {
        '["2024-01-02T03:04:05.125Z"]': [moment(2024, 1, 2, 3, 4, 5, 125_000)],
        '["2024-01-02 03:04+02:00"]': [moment(2024, 1, 2, 1, 4)],
        '["2024-1-2"]': [moment(2024, 1, 2)], '["03:04"]': BAD, '["T03:04:05"]': BAD, '["2024-01-02T25:00:00Z"]': BAD,
    }),
    ({"type": "array<date>"}, {'["2024-01-02", null]': [date(2024, 1, 2), None], '["2024-01-02", "-0044-03-15"]': BAD}),
    ({"type": "struct<a: int, b: array<struct<`c-d`: timestamp>>, m: map<string, date>>"}, {
        '{"a": 1, "m": {"x": "2024-01-02"}}': {"a": 1, "b": None, "m": [("x", date(2024, 1, 2))]},
        '{"b": [{"c-d": "2024-01-02"}]}': {"a": None, "b": [{"c-d": moment(2024, 1, 2)}], "m": None},
        '{"b": [{"c-d": "2024-01-02"}, {"c-d": "+10000-01-02"}]}': BAD, '{"m": {"x": "-0001-01-01"}}': BAD,
    }),
    ({"type": "struct<a: int>"}, {'{"a": 1}': {"a": 1}, '{"a": "one"}': BAD, '{"b": 1}': {"a": None}, "{": BAD}),
    # Fields of the typed value, one of which is called like it.
    ({"type": "struct<a: int, b: struct<`c-d`: string>, value: int>",
      "expr": "if(value.a = 1 and value.b is null, named_struct('a', value.value, 'b', value.b, 'value', 0), value)"}, {
        '{"a": 2}': {"a": 2, "b": None, "value": None}, '{"a": 2, "b": 1}': BAD,
        '{"a": 1, "b": {"c-d": "x"}}': {"a": 1, "b": {"c-d": "x"}, "value": None},
        '{"a": 1, "value": 7}': {"a": 7, "b": None, "value": 0},
    }),
    ({"type": "struct<b: struct<`c-d`: string>>", "expr": "nullif(value, if(value.b.`c-d` = 'x', value, null))"}, {
        '{"b": {"c-d": "x"}}': None, '{"b": {"c-d": "y"}}': {"b": {"c-d": "y"}}, "{}": {"b": None},
    }),
    ({"type": "map<string, double>"}, {'{"x": 1.5}': [("x", 1.5)], '{"x": "y"}': BAD, "[]": BAD}),
]  # fmt: skip
NO_VALUE = [None, "NA", "-999"]


def cast(spark, spec: TableSpec, texts: list[str | None]) -> list[tuple[Any, bool]]:
    """Of each text the value, and whether it is a reason."""
    rows = spark.createDataFrame([(n, text) for n, text in enumerate(texts)], "n int, v string")
    return cast_rows(spec, rows, ["v"])


def cast_rows(spec: TableSpec, rows: DataFrame, stored: list[str]) -> list[tuple[Any, bool]]:
    """Return of each row the value of column `v`, and whether it is a reason. ``stored``: the columns of bronze."""
    [column] = [column for column in typed_columns(spec, stored) if column.name == "v"]
    typed = rows.selectExpr("n", f"{column.value} AS v", f"{column.raw} AS _raw_v")
    cells = typed.selectExpr("n", "v", f"coalesce({column.failed}, FALSE) AS failed").toArrow().to_pylist()
    return [(row["v"], row["failed"]) for row in sorted(cells, key=lambda row: row["n"])]


def called(case: dict[str, Any]) -> str:
    return " ".join(str(value) for value in case.values())


@pytest.mark.parametrize(("column", "texts"), CASES, ids=[called(column) for column, _ in CASES])
def test_texts_as_a_type(spark, column, texts):
    spec = readings(
        source={"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv", "nulls": ["NA", "-999"]},
        columns={"id": "int", "v": column}, key=["id"], last_modified=None, checks=[],
    )  # fmt: skip
    empty = [] if column["type"] in ("string", "binary") else ["", "  "]
    by_text = dict(zip([*texts, *NO_VALUE, *empty], cast(spark, spec, [*texts, *NO_VALUE, *empty]), strict=True))
    wanted = {text: (None, True) if value is BAD else (value, False) for text, value in texts.items()}
    wanted |= dict.fromkeys([*NO_VALUE, *empty], (None, False))
    approximate = {t: (pytest.approx(v) if isinstance(v, float) else v, f) for t, (v, f) in wanted.items()}
    assert by_text == approximate


COMMA, GROUPS = {"decimal": ","}, {"decimal": ",", "thousands": "."}
NUMBERS: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    ("decimal(12,3)", COMMA, {
        "1013,847": Decimal("1013.847"), "-7": Decimal(-7), " 1,5 ": Decimal("1.5"), ",5": Decimal("0.5"), "1.5": BAD,
        "1,2,3": BAD, ",": BAD, "x": BAD,
    }),
    ("decimal(12,3)", GROUPS, {
        "1.013,847": Decimal("1013.847"), "1013,847": Decimal("1013.847"), "1.234.567": Decimal(1234567), "1.23.4": BAD,
        "1.0,5": BAD, "1234.567": BAD, ".123": BAD, "1,234.5": BAD,
    }),
    ("double", GROUPS, {"1,5e3": 1500.0, "Infinity": float("inf"), "-1.000,25": -1000.25, "1.5": BAD}),
    ("int", GROUPS, {"1.013": 1013, "1013": 1013, "1,5": BAD, "1.01": BAD}),
    ("int", {"thousands": ","}, {"1,013": 1013, "1,01": BAD}),
    ("decimal(9,2)", {"decimal": ",", "thousands": " "}, {"1 013,5": Decimal("1013.5"), " 1 013 ": Decimal(1013), "1 01": BAD}),
    ("decimal(9,2)", {"thousands": "'"}, {"1'013.5": Decimal("1013.5"), "1'01": BAD}),
    ("string", GROUPS, {"1.013,847": "1.013,847"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "marks", "texts"), NUMBERS, ids=[f"{kind} {marks}" for kind, marks, _ in NUMBERS])
def test_numbers_with_the_marks_of_the_source(spark, kind, marks, texts):
    spec = readings(
        source={"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv", **marks},
        columns={"id": "int", "v": kind}, key=["id"], last_modified=None, checks=[],
    )  # fmt: skip
    values = dict(zip(texts, cast(spark, spec, [*texts]), strict=True))
    assert values == {text: (None, True) if value is BAD else (value, False) for text, value in texts.items()}


def test_a_long_text_fails_the_cast_of_its_own_row_only(spark):
    spec = readings(
        source={"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv", **GROUPS, "nulls": ["NA"]},
        columns={"id": "int", "v": {"type": "double", "expr": "value * 10"}}, key=["id"], last_modified=None, checks=[],
    )  # fmt: skip
    assert cast(spark, spec, ["1,5", "1," + "5" * 4096, "x" * 5000]) == [(15.0, False), (None, True), (None, True)]


FIRST_VALUES: list[tuple[str, list[tuple[str | None, str | None, Any]]]] = [
    ("int", [("1", "2", 1), (None, "2", 2), ("NA", "2", 2), ("", "2", 2), (" ", "2", 2), ("x", "2", BAD), ("NA", None, None),
             ("", "NA", None), (None, "x", BAD), (None, None, None)]),
    ("string", [("a", "b", "a"), (None, "b", "b"), ("NA", "b", "b"), ("", "b", ""), ("NA", "NA", None), (None, None, None)]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "texts"), FIRST_VALUES, ids=[kind for kind, _ in FIRST_VALUES])
def test_the_first_name_with_a_value_is_read(spark, kind, texts):
    spec = readings(
        source={"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv", "nulls": ["NA"]},
        columns={"id": "int", "v": {"type": kind, "from": ["New", "Old"]}}, key=["id"], last_modified=None, checks=[],
    )  # fmt: skip
    rows = spark.createDataFrame([(n, new, old) for n, (new, old, _) in enumerate(texts)], "n int, New string, Old string")
    wanted = [(None, True) if value is BAD else (value, False) for _, _, value in texts]
    assert cast_rows(spec, rows, ["New", "Old"]) == wanted


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("2024-01-02 03:04:05", moment(2024, 1, 2, 8, 4, 5)),
        ("2024-07-02 03:04:05", moment(2024, 7, 2, 7, 4, 5)),
        ("2024-01-02T03:04:05Z", moment(2024, 1, 2, 3, 4, 5)),
        ("2024-01-02T03:04:05+01:00", moment(2024, 1, 2, 2, 4, 5)),
        ("2024-01-02 03:04:05-03", moment(2024, 1, 2, 6, 4, 5)),
        ("2024-01-02 03:04:05 UTC", moment(2024, 1, 2, 3, 4, 5)),
        ("2024-01-02 03:04:05.5 Europe/Paris", moment(2024, 1, 2, 2, 4, 5, 500000)),
        # The month and the day look like the hours of a zone.
        ("2024-01-02", moment(2024, 1, 2, 5)),
        ("2024-01", moment(2024, 1, 1, 5)),
        ("2024", moment(2024, 1, 1, 5)),
        (" 2024-01-02T03:04 ", moment(2024, 1, 2, 8, 4)),
    ],
)
def test_a_moment_without_a_zone_is_of_the_source(spark, text, there):
    assert cast(spark, spec_of_new_york(), [text]) == [(there, False)]


@pytest.mark.parametrize(
    ("form", "text", "there"),
    [
        ("dd-MM-yyyy", "02-01-2024", moment(2024, 1, 2, 5)),
        ("yyyy-MM-dd", "2024-01-02", moment(2024, 1, 2, 5)),
        ("yyyy-MM-dd'Z'", "2024-01-02Z", moment(2024, 1, 2, 5)),
        ("dd.MM.yyyy HH:mm XXX", "02.01.2024 03:04 +01:00", moment(2024, 1, 2, 2, 4)),
        ("yyyy-MM-dd HH:mm VV", "2024-01-02 03:04 Europe/Paris", moment(2024, 1, 2, 2, 4)),
        ("yyyy-MM-dd[ HH:mm[XXX]]", "2024-01-02", moment(2024, 1, 2, 5)),
        ("yyyy-MM-dd[ HH:mm[XXX]]", "2024-01-02 03:04", moment(2024, 1, 2, 8, 4)),
        ("yyyy-MM-dd[ HH:mm[XXX]]", "2024-01-02 03:04+01:00", moment(2024, 1, 2, 2, 4)),
        ("yyyy-MM-dd HH:mm[ VV]", "2024-01-02 03:04 Europe/Paris", moment(2024, 1, 2, 2, 4)),
        ("HH:mm dd-MM-yyyy[ XXX]", "03:04 02-01-2024", moment(2024, 1, 2, 8, 4)),
        ("XXX yyyy-MM-dd[ HH:mm]", "+01:00 2024-01-02", moment(2024, 1, 1, 23)),
        ("yyyy-MM-dd['Z']", "2024-01-02Z", moment(2024, 1, 2, 5)),
    ],
)
def test_a_format_decides_whether_a_text_has_a_zone(spark, form, text, there):
    assert cast(spark, spec_of_new_york(form), [text]) == [(there, False)]


def spec_of_new_york(form=None):
    source = {"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv", "timezone": "America/New_York"}
    columns = {"id": "int", "v": {"type": "timestamp", **({"format": form} if form else {})}}
    return readings(source=source, columns=columns, key=["id"], last_modified=None, checks=[])
