"""JSON lines of one shape: flat objects with the same keys in the same order, as one program writes them.

Belongs here: finding the shape of some lines, and splitting the lines that have it. Does not: parsing any other (json_files).

It takes half the time of parsing them. Only those lines are split whose values the parser would return unchanged.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

# The same in Python's regular expressions and in Java's. A text is captured with its first quotation mark. It has no U+FFFD,
# which Spark puts in the place of bytes that are no UTF-8.
SPACE = r"[ \t\r\n]*+"
TEXT = r'"[^"\\\x00-\x1f\ufffd]*+'
NUMBER = r"-?[1-9][0-9]{0,17}|-?(?:0|[1-9][0-9]{0,8})\.[0-9]{0,8}[1-9]|0"
VALUE = f'(?:({TEXT})"|({NUMBER}|true|false|null))'
PLAIN_KEY = re.compile(r"[A-Za-z0-9_ -]+")
# Java matches an expression by a call for each of its parts, within those before it: of many keys its stack would overflow.
MOST_KEYS, LONGEST_LINE = 100, 1_000_000
# TEXT excludes it.
SEPARATOR = "\x01"
TEXTS = "_texts"


@dataclass(frozen=True)
class LineShape:
    """``keys``: those of each object, in order."""

    keys: tuple[str, ...]

    @property
    def pattern(self) -> str:
        """The regular expression of a whole line, up to its end."""
        members = f"{SPACE},{SPACE}".join(f'"{key}"{SPACE}:{SPACE}{VALUE}' for key in self.keys)
        return rf"\A{SPACE}\{{{SPACE}{members}{SPACE}\}}{SPACE}"

    def split_lines(self, rows: DataFrame) -> DataFrame:
        """Add the values of each `_line` that has this shape, in a column of their own; NULL for all others."""
        cells = "".join(f"{SEPARATOR}${2 * index + 1}${2 * index + 2}" for index in range(len(self.keys)))
        split_text = F.regexp_replace("_line", F.lit(rf"{self.pattern}\z"), F.lit(cells))
        may_have = (F.octet_length("_line") <= LONGEST_LINE) & ~F.startswith("_line", F.lit(SEPARATOR))
        rows = rows.withColumn("_split_text", F.when(may_have, split_text))
        is_split = F.startswith("_split_text", F.lit(SEPARATOR))
        return rows.withColumn(TEXTS, F.when(is_split, F.split("_split_text", SEPARATOR))).drop("_split_text")

    def value_of(self, key: str) -> Column:
        """Return the value of one of the keys as text: of the rows that were split, NULL for all others."""
        text = F.col(TEXTS)[self.keys.index(key) + 1]
        return F.when(F.startswith(text, F.lit('"')), F.substring(text, 2, 2**31 - 1)).when(text != "null", text)


def find_shape(lines: Sequence[str]) -> LineShape | None:
    """Return the shape that most of these lines have; None if they have none, or if one has other keys.

    >>> find_shape(['{"a": 1, "b": "x"}', '{"a":2.5,"b":null}', '{"b": 1}'])
    LineShape(keys=('a', 'b'))
    >>> find_shape(['{"a": [1]}']), find_shape([]), find_shape(['{"a": 1}', '{"b": 1}'])
    (None, None, None)
    >>> find_shape(['{"a": 1}', '{"a": 2}', '{"a": 3, "b": 1}'])
    """
    for line in lines[:3]:
        shape = LineShape(_keys_of(line))
        if not _are_plain(shape.keys):
            continue
        pattern = re.compile(shape.pattern)
        others = [line for line in lines if pattern.fullmatch(line) is None]
        if 2 * len(others) < len(lines):
            return shape if all({*_keys_of(line)} <= {*shape.keys} for line in others) else None
    return None


def _are_plain(keys: Sequence[str]) -> bool:
    """Return whether each of these keys can be a column, and stands in a regular expression as it is."""
    differ = len({key.lower() for key in keys}) == len(keys)
    return 0 < len(keys) <= MOST_KEYS and differ and all(map(PLAIN_KEY.fullmatch, keys))


def _keys_of(line: str) -> tuple[str, ...]:
    """Return the keys of an object in order; none of anything else."""
    try:
        pairs = json.loads(line, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        return ()
    return tuple(key for key, _ in pairs) if isinstance(pairs, tuple) else ()
