"""What the reason of a failed cast adds about commas in numbers.

Belongs here: texts → the first addition that applies. Does not: the reason's row (pipeline).
"""

import re

import pytest

from lakehouse_assets.measures.hints import number_hints
from lakehouse_assets_tests.support import readings

EITHER, DECIMAL, THOUSANDS = "source.decimal or source.thousands ','", "source.decimal ','", "source.thousands ','"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("1,234", EITHER),
        ("-12,500", EITHER),
        ("1,234,567", THOUSANDS),
        (" 12,345,678,901 ", THOUSANDS),
        ("1,5", DECIMAL),
        ("0,512", DECIMAL),
        ("1.013,847", DECIMAL),
        ("1,23,456", None),
        ("0,123,456", None),
        ("x", None),
    ],
)
def test_a_comma_names_the_keys_that_it_may_need(text, key):
    source = {"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv"}
    spec = readings(
        columns={"sensor": "string", "value": "double"}, source=source, key=["sensor"], last_modified=None, checks=[]
    )
    hints = [
        (sql.removeprefix("raw RLIKE ").strip("'"), message)
        for sql, message in number_hints(spec, spec.columns["value"], "raw")
    ]
    message = next((message for pattern, message in hints if re.search(pattern, text)), None)
    assert message == (key and f": is {key} in all files?")
