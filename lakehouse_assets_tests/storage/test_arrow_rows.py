"""Values from their bytes are those that Arrow gives."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_assets.storage.arrow_rows import rows_of, values_of

MOMENTS = st.datetimes(timezones=st.just(UTC))
KINDS = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=3),
    pa.float64(): st.floats(allow_nan=False),
    pa.timestamp("us", "UTC"): MOMENTS,
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("ms", "UTC"): st.just(datetime(2024, 1, 1, tzinfo=UTC)),
    pa.list_(pa.string()): st.lists(st.none() | st.text(max_size=2), max_size=2),
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_values_are_those_of_arrow(kind, data):
    chunks = data.draw(st.lists(st.lists(st.none() | KINDS[kind], max_size=4), max_size=3))
    column = pa.chunked_array([pa.array(chunk, kind) for chunk in chunks], kind)
    skipped = data.draw(st.integers(0, len(column)))
    expected = column.slice(skipped).to_pylist()
    actual = list(values_of(column.slice(skipped)))
    assert actual == expected
    assert [type(value) for value in actual] == [type(value) for value in expected]


def test_rows_share_equal_texts():
    table = pa.table({"text": pa.chunked_array([["long text"], ["long text", None]]), "number": [1, 2, None]})
    rows = rows_of(table)
    assert rows == table.to_pylist()
    assert rows[0]["text"] is rows[1]["text"]
    assert rows_of(table.slice(3)) == []
