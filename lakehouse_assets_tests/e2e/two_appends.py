"""Two appends that read one version, on any store. Belongs here: that both are there. Does not: a store (the tests)."""

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakehouse_assets.object_store import ObjectStore
from lakehouse_assets.storage import delta


def append_twice_from_one_version(path: str) -> None:
    """Create a table, open it twice, and append by both. Raises AssertionError unless each has a version of its own."""
    assert not delta.exists(path)
    options = ObjectStore.from_environment().options(path)
    write_deltalake(path, pa.table({"n": [1]}), storage_options=options)
    one, other = (DeltaTable(path, storage_options=options) for _ in range(2))
    for number, table in enumerate((one, other), 2):
        write_deltalake(table, pa.table({"n": [number]}), mode="append")
    assert sorted(delta.read_arrow(path)["n"].to_pylist()) == [1, 2, 3]
    assert delta.version(path) == 2
