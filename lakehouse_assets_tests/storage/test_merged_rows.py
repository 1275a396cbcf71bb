"""Which rows replace, delete and add which: as a dictionary of keys finds it."""

from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_assets.storage.merged_rows import compare_rows, rows_to_write

SCHEMA = pa.schema(
    [("k", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("hash", pa.string()), ("v", pa.int64())]
)
TEXTS = st.sampled_from(["", "a", "B", "ä", "￿", "\U0001f600", "a\x00"])
MOMENTS = st.sampled_from(
    [None, datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 1, tzinfo=UTC)]
)
ROWS = st.dictionaries(
    st.tuples(TEXTS, st.integers(0, 1)),
    st.tuples(MOMENTS, st.one_of(st.none(), TEXTS), st.integers(0, 9), st.booleans()),
    max_size=12,
)


def as_table(rows) -> pa.Table:
    columns = [[row[index] for row in rows] for index in range(len(SCHEMA))]
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def rank(row):
    """NULL before any value; texts by their bytes."""
    at, text = row[2], row[3]
    return (at is not None, at and at.timestamp()), (text is not None, (text or "").encode())


@given(stored=ROWS, merged=ROWS, cut=st.integers(0, 12))
def test_is_what_a_dictionary_gives(stored, merged, cut) -> None:
    """Rows in one to two files; the changes say what became of each."""
    before = [(*key, *values[:3]) for key, values in stored.items()]
    own, deletions = [(*key, *values[:3]) for key, values in merged.items()], [values[3] for values in merged.values()]
    expected, changes = {row[:2]: row for row in before}, Counter()
    for row, is_deletion in zip(own, deletions, strict=True):
        was = expected.get(row[:2])
        if was is None and not is_deletion:
            changes[(*row, "insert")] += 1
        elif was is not None and rank(row) > rank(was):
            changes[(*was, "delete" if is_deletion else "update_preimage")] += 1
            if not is_deletion:
                changes[(*row, "update_postimage")] += 1
        else:
            continue
        expected[row[:2]] = row
        if is_deletion:
            del expected[row[:2]]
    files = [as_table(before[:cut]), as_table(before[cut:])]
    merged_rows = compare_rows(as_table(own), np.array(deletions, bool), files, ["k", "n"], ["at", "hash"])
    added, feed = rows_to_write(as_table(own), {number: files[number] for number in merged_rows.files}, merged_rows)
    untouched = [row for number, file in enumerate(files) if number not in merged_rows.files for row in rows_of(file)]
    assert Counter([*untouched, *rows_of(added)]) == Counter(expected.values())
    assert Counter(rows_of(feed)) == changes


def rows_of(table: pa.Table) -> list[tuple]:
    return [tuple(row.values()) for row in table.to_pylist()]
