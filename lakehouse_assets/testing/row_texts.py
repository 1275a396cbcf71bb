"""A frame's rows as texts, in the form in which a test writes its expected rows.

Belongs here: values → texts. Does not: comparing them (contracts/expected_rows).
"""

import json
from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.spark_types import NESTED, parse_type
from lakehouse_assets.contracts.table_tests import Row
from lakehouse_assets.storage.json_texts import as_json


def texts_of(frame: DataFrame) -> list[Row]:
    """Return a frame's rows with each value as text, as a test writes it; nested values as JSON."""
    nested = {name for name, kind in frame.dtypes if isinstance(parse_type(kind), NESTED)}
    cells = as_json(F.struct(*[F.col(identifier(name)) for name in frame.columns]), with_nulls=True)
    return [_row_of_json(row[0], nested) for row in frame.select(cells).collect()]


def _row_of_json(text: str, nested: Collection[str]) -> Row:
    values = json.loads(text, parse_float=str, parse_int=str)
    row = {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}
    # Numbers within a nested value are numbers.
    return row | {name: json.dumps(value) for name, value in json.loads(text).items() if name in nested and value is not None}
