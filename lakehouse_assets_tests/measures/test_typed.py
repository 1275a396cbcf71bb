"""The SQL of typed columns: its length, and that it can be parsed.

Belongs here: SQL as text. Does not: what it gives on Spark (spec/test_casts).
"""

import pytest

from lakehouse_assets.checks.sql.text import LONGEST
from lakehouse_assets.measures.typed import TypedColumn, typed_columns
from lakehouse_assets_tests.support import readings

NAMES = ["changed_at", "updated_at", "modified_at", "touched_at"]


def typed_column(kind: str, names: list[str], stored: list[str], **source: object) -> TypedColumn:
    csv = {"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv"}
    columns = {"sensor": "string", "v": {"type": kind, "from": names, "expr": "coalesce(value, value)"}}
    spec = readings(source={**csv, **source}, columns=columns, key=["sensor"], last_modified=None, checks=[])
    return typed_columns(spec, ["sensor", *stored])[-1]


@pytest.mark.parametrize("kind", ["timestamp", "date", "double", "string"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_sql_of_an_expression_grows_slowly_with_the_names_of_its_column(kind, count):
    source = {"nulls": ["NA", "-"], "timezone": "Europe/Berlin"}
    column = typed_column(kind, NAMES[:count], NAMES[:count], **source)
    assert len(column.value) < LONGEST * (1 + count / 2)
    assert len(column.raw) < 120 * count
    assert "_text_to_cast" not in column.value + column.failed
    # What fails a cast is tested by the raw text, which is one column.
    assert column.failed == typed_column(kind, NAMES[:1], NAMES[:1], **source).failed


def test_a_column_that_has_not_arrived_is_null_whatever_the_marks_of_its_numbers():
    assert "CAST(NULL AS STRING)" in typed_column("double", ["v"], [], decimal=",", thousands=".").value
