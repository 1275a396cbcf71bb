"""Lines that are split by their shape have the values that the parser gives them.

Belongs here: splitting beside parsing. Does not: which messages are split (e2e/test_kafka_shape).
"""

import json
import random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.sources.json_files import field_text, parse_objects
from lakehouse_assets.sources.json_shape import MOST_KEYS, TEXTS, LineShape, find_shape

KEYS = ("id", "a b", "value-2", "X")
SHAPE = LineShape(KEYS)
# As a line has them. The first group is split as it is, the others are left to the parser.
PLAIN = (
    *(
        "0",
        "7",
        "-7",
        "123456789012345678",
        "-999999999999999999",
        "0.5",
        "-0.5",
        "10.123",
        "123456789.123456789",
        "0.00000001",
    ),
    *("true", "false", "null", '""', '"x"', '"null"', '"true"', '" 1 "', '"é, {}: []"', '"😀"', '"1.10"', '"\u007f\u2028"'),
)
OTHER = (
    *(
        "-0",
        "00",
        "01",
        "+1",
        "1.",
        ".5",
        "1.0",
        "1.10",
        "-0.0",
        "1e5",
        "1E-5",
        "1234567890123456789",
        "9" * 40,
        "NaN",
        "Infinity",
    ),
    *(
        "1234567890.5",
        "0.1234567891",
        "0x1F",
        "True",
        "nul",
        "nulll",
        "",
        " ",
        "'x'",
        '"a\\"b"',
        '"\\u00e9"',
        '"a\tb"',
        '"\x01"',
    ),
    *(
        '"\ufffd"',
        "[]",
        "[1, 2]",
        "{}",
        '{"id": 1}',
        '"x" "y"',
        '"x',
        'x"',
        "1 2",
        "1,2",
        '1, "z": 2',
        "-",
        "--1",
        '"\ud800"',
        "\x01",
    ),
)
LAYOUTS = ('"%s": %s', '"%s":%s', '"%s"\t:\r %s', "%s: %s", "'%s': %s", '"%s"  %s')
AROUND = ("", "", "", " ", "\t", "\r", "\x01", "\ufeff", "x", "}", "{", ",", " {}", "\u00a0", "\x00")


def line_of(rng: random.Random) -> str:
    """A line that mostly has the shape: each part is another with some chance."""
    odd = rng.choice((0.0, 0.03, 0.3))
    keys = list(KEYS)
    if rng.random() < odd:
        rng.choice((rng.shuffle, list.pop, lambda k: k.append("z"), lambda k: k.append("id"), lambda k: k.append("x")))(keys)
    layout = LAYOUTS[rng.randrange(len(LAYOUTS) if rng.random() < odd else 3)]
    members = [layout % (key, rng.choice(OTHER if rng.random() < odd else PLAIN)) for key in keys]
    before, after = (rng.choice(AROUND[: len(AROUND) if rng.random() < odd else 6]) for _ in range(2))
    return f"{before}{{{rng.choice((', ', ',', ' ,  '))[: 9 if rng.random() > odd / 9 else 0].join(members)}}}{after}"


def split_and_parsed(spark: SparkSession, lines: list[bytes | None]) -> DataFrame:
    frame = spark.createDataFrame([(line,) for line in lines], "_line binary").withColumn(
        "_line", F.col("_line").cast("string")
    )
    values = {f"split_{index}": SHAPE.value_of(key) for index, key in enumerate(KEYS)}
    values |= {f"parsed_{index}": field_text([key]) for index, key in enumerate(KEYS)}
    return SHAPE.split_lines(parse_objects(frame)).select(
        (F.col(TEXTS).isNotNull()).alias("is_split"),
        F.map_keys("_object").alias("keys"),
        *[v.alias(n) for n, v in values.items()],
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_line_that_is_split_has_the_values_that_the_parser_gives(spark, seed):
    rng = random.Random(seed)
    texts = [line_of(rng) for _ in range(6000)]
    lines = [text.encode("utf-8", "surrogatepass") for text in texts]
    # Bytes that are no UTF-8, anywhere.
    for index in range(0, len(lines), 40):
        at = rng.randrange(len(lines[index]) + 1)
        lines[index] = lines[index][:at] + rng.choice((b"\xff", b"\xc3", b"\xed\xa0\x80")) + lines[index][at:]
    rows = split_and_parsed(spark, lines).collect()
    split = [(line, row) for line, row in zip(lines, rows, strict=True) if row["is_split"]]
    assert 1500 < len(split) < 5000
    for line, row in split:
        assert row["keys"] is not None and sorted(row["keys"]) == sorted(KEYS), line
        for index in range(len(KEYS)):
            assert row[f"split_{index}"] == row[f"parsed_{index}"], line
    assert all(row[f"split_{index}"] is None for row in rows if not row["is_split"] for index in range(len(KEYS)))


@pytest.mark.parametrize(("texts", "is_split"), [(PLAIN, True), (OTHER, False)])
def test_plain_values_are_split_and_no_others(spark, texts, is_split):
    lines = [f'{{"id": 1, "a b": {text}, "value-2": 2, "X": 3}}'.encode("utf-8", "surrogatepass") for text in texts]
    rows = split_and_parsed(spark, [*lines, None]).collect()
    unlike = [text for text, row in zip(texts, rows, strict=False) if row["is_split"] is not is_split]
    assert (unlike, rows[-1]["is_split"]) == ([], False)


@pytest.mark.parametrize("value", ["x", -123456789.123456789, True, None])
def test_many_keys_in_order(spark, value):
    keys = [f"k{number}" for number in range(MOST_KEYS)]
    line = json.dumps(dict.fromkeys(keys, value))
    shape = find_shape([line, json.dumps({key: key for key in keys})])
    assert shape is not None and shape.keys == tuple(keys)
    frame = spark.createDataFrame([(line,), (line[:-1],)], "_line string")
    rows = shape.split_lines(frame).select(*[shape.value_of(key).alias(key) for key in keys]).collect()
    text = {True: "true", None: None}.get(value, str(value))
    assert [row.asDict() for row in rows] == [dict.fromkeys(keys, text), dict.fromkeys(keys)]


@pytest.mark.parametrize(
    "lines",
    [
        ['{"a": 1, "a": 2}'],
        ['{"a": 1, "A": 2}'],
        ['{"a": {"b": 1}}'],
        ["{}"],
        ["[]", "1", "x", ""],
        ['{"a.b": 1}'],
        ['{"a$1": 1}'],
        ['{"": 1}'],
        ['{"é": 1}'],
        [json.dumps({f"k{number}": 1 for number in range(MOST_KEYS + 1)})],
        ["[" * 100_000],
        ['{"a": 1}', '{"a": 1.0}', '{"a": 1.0}'],
    ],
)
def test_lines_without_a_shape(lines):
    assert find_shape(lines) is None


def test_a_broken_first_line_hides_no_shape():
    assert find_shape(['{"a": ', '{"a": 1}', '{"a": "x"}']) == LineShape(("a",))
