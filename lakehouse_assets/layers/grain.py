"""Which parts of a gold table its inputs' changes concern, and the SQL that selects a part.

Belongs here: reading what changed between two versions of the inputs. Does not: deriving or publishing (gold).
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql_text import literal, parse_expression
from lakehouse_assets.contracts.gold import GrainSpec
from lakehouse_assets.sources.base import SCAN_ERRORS

Values = tuple[str | None, ...]
# More parts than these are not worth selecting: the table is then derived whole.
MOST = 1000


def changed_values(
    spark: SparkSession, grain: GrainSpec, places: Mapping[str, str], before: Mapping[str, int], now: Mapping[str, int]
) -> Values | None:
    """Values of the grain, as text, of every row that was added, changed or taken away since; None: derive it whole.

    ``places``: each input's path. ``before``, ``now``: their Delta versions. At most `MOST` values are collected.
    """
    if before.keys() != now.keys():
        return None
    moved = [name for name in now if before[name] != now[name]]
    if any(name not in grain.inputs or before[name] > now[name] for name in moved):
        return None
    found: set[str | None] = set()
    for name in moved:
        feed = spark.read.format("delta").option("readChangeFeed", "true")
        feed = feed.option("startingVersion", before[name] + 1).option("endingVersion", now[name])
        try:
            # Old images of updated rows are among them: a row may have moved from one part to another.
            changed = feed.load(places[name]).select(F.expr(_text(grain.inputs[name])).cast("string").alias("v")).distinct()
            found |= {row["v"] for row in changed.limit(MOST + 1).collect()}
        except SCAN_ERRORS:
            # The feed of these versions is gone, was never kept, or has other columns.
            return None
        if len(found) > MOST:
            return None
    return tuple(sorted(found, key=lambda v: (v is not None, v)))


def selects(expr: str, values: Values) -> str:
    """SQL that is true for the rows of these parts, and never NULL."""
    text = f"CAST({_text(expr)} AS STRING)"
    known = [literal(value) for value in values if value is not None]
    parts = [f"coalesce({text} IN ({', '.join(known)}), FALSE)"] if known else []
    parts += [f"{text} IS NULL"] if None in values else []
    return f"({' OR '.join(parts) or 'FALSE'})"


def told(values: Sequence[str | None]) -> str:
    """A few of the values, for people."""
    shown = ", ".join("NULL" if value is None else value for value in values[:20])
    return shown + (f", … {len(values)} in all" if len(values) > 20 else "")


def _text(expr: str) -> str:
    return parse_expression(expr, "grain").sql(dialect="spark")
