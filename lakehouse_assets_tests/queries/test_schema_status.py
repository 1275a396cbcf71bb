"""How a table's schema came to be, from Delta's log: no JVM.

Belongs here: the versions at which columns changed. Does not: the diff of a contract (test_cli_schema).
"""

import pyarrow as pa
from deltalake import write_deltalake

from lakehouse_assets.queries.schema_status import read_schema_history
from lakehouse_assets.storage import delta


def test_the_versions_at_which_columns_changed_and_no_other(tmp_path, monkeypatch):
    path, number = str(tmp_path / "table"), pa.array([1], pa.int32())
    write_deltalake(path, pa.table({"a": number}))
    write_deltalake(path, pa.table({"a": number, "b": ["x"]}), mode="append", schema_mode="merge")
    write_deltalake(path, pa.table({"a": number, "b": ["x"]}), mode="append")
    write_deltalake(path, pa.table({"b": pa.array([1], pa.int64())}), mode="overwrite", schema_mode="overwrite")
    versions = [(v.version, v.changes) for v in read_schema_history(path)]
    assert versions == [(0, "1 columns"), (1, "+ b string"), (3, "- a; b: string → bigint")]
    assert [v.version for v in read_schema_history(path, 1)] == [3]
    # Of a long log only the newest commits are looked at.
    monkeypatch.setattr(delta, "COMMITS_READ", 2)
    assert [(v.version, v.changes) for v in read_schema_history(path)] == [(3, "1 columns")]
    assert read_schema_history(str(tmp_path / "nothing")) == []
