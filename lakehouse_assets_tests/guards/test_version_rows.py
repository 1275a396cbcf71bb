"""Which files a version's batch reads, by the log that is made of them. No JVM.

Belongs here: the files of a batch. Does not: what Spark's tasks read (e2e/test_guard), or verdicts.
"""

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakehouse_assets.guards.version_rows import write_log_of_added_files


def sizes_of(path):
    """The size of each file that a reader of a table opens."""
    return pa.table(DeltaTable(str(path)).get_add_actions())["size_bytes"].to_pylist()


def test_a_version_that_added_one_percent_of_the_rows_reads_its_own_file_alone(tmp_path):
    path = tmp_path / "theirs"
    for first, count in ((0, 200_000), (200_000, 2_000)):
        ids = range(first, first + count)
        rows = pa.table({"id": list(ids), "amount": [number / 1000 for number in ids], "country": ["DE"] * count})
        write_deltalake(str(path), rows, mode="append")
    write_log_of_added_files(str(path), 1, str(tmp_path / "added"))
    files, added = sizes_of(path), sizes_of(tmp_path / "added")
    assert (len(files), len(added)) == (2, 1)
    assert added[0] in files
    assert added[0] < sum(files) / 50
