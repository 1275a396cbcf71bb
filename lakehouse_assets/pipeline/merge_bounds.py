"""Which files a MERGE has to read, by the columns of the table's layout.

Belongs here: rows to merge → conditions on silver. Does not: the MERGE (silver_write), or which columns may lie so (contracts).

Delta skips files by conditions on the target alone, so `t.key = s.key` skips none. A column that follows from the key has one
value in both rows of a key. So the values of the rows to merge are a condition on the target that excludes no match.
"""

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier, literal
from lakehouse_assets.contracts.layout import INEXACT
from lakehouse_assets.contracts.table_contract import TableContract

# More partitions than these are given as a range.
MOST = 100


def bounds_of(rows: DataFrame, spec: TableContract) -> list[str]:
    """Return SQL over silver as `t` that is true for each row whose key is among these; none if the layout does not follow from
    the key. One job, or two. A table's history has its conditions, so values of `pii` columns are not among them.
    """
    kinds = {name: kind for name, kind in rows.dtypes if name in _exact_columns(spec)}
    if not kinds:
        return []
    if spec.layout and spec.layout.partition_by:
        texts = [F.expr(_text(identifier(name), kind)).alias(name) for name, kind in kinds.items()]
        partitions = rows.select(*texts).distinct().limit(MOST + 1).collect()
        if len(partitions) <= MOST:
            return [_one_of(name, kind, {row[name] for row in partitions}) for name, kind in kinds.items() if partitions]
    cells = [(identifier(name), kind) for name, kind in kinds.items()]
    extremes = [F.expr(_text(f"{end}({cell})", kind)) for cell, kind in cells for end in ("min", "max")]
    nulls = [F.expr(f"count_if({cell} IS NULL) > 0") for cell, _ in cells]
    (row,) = rows.agg(*extremes, *nulls).collect()
    return [
        _between(name, kind, *row[2 * index : 2 * index + 2], has_null=row[2 * len(cells) + index])
        for index, (name, kind) in enumerate(kinds.items())
        if row[2 * index] is not None
    ]


def _exact_columns(spec: TableContract) -> set[str]:
    """Columns of the layout that follow from the key, with one value for equal keys."""
    if spec.layout is None:
        return set()
    inexact = {name for name, column in spec.published_columns.items() if column.type in INEXACT}
    following = {name for name in spec.layout.columns if spec.layout.sources_of(name) <= {*spec.key} - inexact}
    return following - spec.pii_columns - inexact


def _text(value: str, kind: str) -> str:
    """Return SQL of a value's text, which no time zone changes."""
    return f"CAST({f'unix_micros({value})' if kind == 'timestamp' else value} AS STRING)"


def _value(text: str, kind: str) -> str:
    """Return SQL of the value with this text."""
    return f"timestamp_micros({int(text)})" if kind == "timestamp" else f"CAST({literal(text)} AS {kind})"


def _one_of(name: str, kind: str, texts: Collection[str | None]) -> str:
    column, values = f"t.{identifier(name)}", sorted(text for text in texts if text is not None)
    parts = [f"{column} IN ({', '.join(_value(text, kind) for text in values)})"] if values else []
    parts += [f"{column} IS NULL"] if None in texts else []
    return f"({' OR '.join(parts)})"


def _between(name: str, kind: str, least: str, greatest: str, *, has_null: bool) -> str:
    column = f"t.{identifier(name)}"
    bounds = f"{column} >= {_value(least, kind)} AND {column} <= {_value(greatest, kind)}"
    return f"({bounds} OR {column} IS NULL)" if has_null else f"({bounds})"
