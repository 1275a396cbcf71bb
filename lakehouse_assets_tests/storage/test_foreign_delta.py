"""A foreign table's log: what each commit did, which files it added, what is no longer there. Tables by deltalake, no JVM."""

import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_assets.errors import SourceError
from lakehouse_assets.storage.foreign_commit import Schema, find_renames, parse_commit
from lakehouse_assets.storage.foreign_delta import ForeignTable
from lakehouse_assets_tests.e2e.servers import s3_server


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "text": [f"t{each}" for each in ids]})


@pytest.fixture
def path(tmp_path: Path) -> str:
    folder = str(tmp_path / "orders")
    write_deltalake(folder, rows(1, 2))
    write_deltalake(folder, rows(3), mode="append")
    DeltaTable(folder).delete("id = 2")
    DeltaTable(folder).optimize.compact()
    write_deltalake(folder, rows(9), mode="overwrite")
    DeltaTable(folder).restore(1)
    return folder


def test_each_commit_has_its_effect_on_rows(path):
    table = ForeignTable(path, "SHOP: orders")
    log = table.log()
    commits = table.commits(log, 0)
    assert [commit.kind for commit in commits] == ["append", "append", "rewrite", "none", "overwrite", "restore"]
    assert [commit.version for commit in table.commits(log, 2, 3)] == [2, 3]
    assert commits[5].describe().startswith("version 5 (RESTORE to version 1, 20")
    assert len({commit.digest for commit in commits}) == 6


def test_files_of_a_commit_are_those_that_changed_rows(path):
    table = ForeignTable(path, "orders")
    log = table.log()
    (file,) = table.files(log, 1).added
    assert (file.rows, file.vector, file.partition) == (1, False, {})
    assert table.files(log, 2).removed
    assert table.files(log, 3) == ((), frozenset()), "a compaction adds no rows"
    assert table.missing_files([file.path]) == []
    (Path(path) / file.path).unlink()
    assert table.missing_files([file.path]) == [file.path]


def test_the_schema_of_a_version(path):
    write_deltalake(path, rows(4).append_column("more", pa.array([1.5])), mode="append", schema_mode="merge")
    table = ForeignTable(path, "orders")
    assert table.schema(1).types == {"id": "bigint", "text": "string"}
    assert table.schema().types == {"id": "bigint", "text": "string", "more": "double"}
    assert table.schema(1).table_id == table.schema().table_id
    assert not table.schema().has_feed


def test_a_cleaned_log_and_no_table_at_all_are_errors(path, tmp_path):
    (Path(path) / "_delta_log" / f"{1:020d}.json").unlink()
    (Path(path) / "_delta_log" / f"{0:020d}.json").unlink()
    table = ForeignTable(path, "SHOP: orders")
    with pytest.raises(SourceError, match="SHOP: orders: the commits of versions 0 to 1 are no longer in its log"):
        table.commits(table.log(), 0)
    with pytest.raises(SourceError, match="there is no Delta table"):
        ForeignTable(str(tmp_path / "none"), "orders").log()
    with pytest.raises(SourceError, match="the log of its newest version cannot be read"):
        ForeignTable(str(tmp_path / "none"), "orders").schema()
    (Path(path) / "_delta_log" / f"{4:020d}.json").write_text("{half")
    with pytest.raises(SourceError, match="the commit of version 4 is no JSON"):
        table.commits(table.log(), 4)


def test_another_history_at_the_path_has_other_digests(path):
    table = ForeignTable(path, "orders")
    before = table.commits(table.log(), 0)[1]
    shutil.rmtree(path)
    time.sleep(0.01)
    write_deltalake(path, rows(1, 2))
    write_deltalake(path, rows(3), mode="append")
    assert table.commits(table.log(), 0)[1].digest != before.digest


def test_a_rename_keeps_the_columns_id():
    def schema(**names: int) -> Schema:
        fields = [{"name": name, "type": "string", "metadata": {"delta.columnMapping.id": key}} for name, key in names.items()]
        return Schema("id", tuple(fields), (), {})

    assert find_renames(schema(a=1, b=2), schema(a=1, c=2)) == {"b": "c"}
    assert find_renames(schema(a=1, b=2), schema(a=1)) == {}, "a dropped column is not renamed"
    assert find_renames(schema(a=1, b=2), schema(b=1, a=2)) == {"a": "b", "b": "a"}


@pytest.mark.parametrize(
    ("parameters", "kind"),
    [
        ({"mode": "Overwrite"}, "overwrite"),
        ({"mode": "Overwrite", "predicate": "day = '2024-01-01'"}, "rewrite"),
        ({"mode": "Overwrite", "isDynamicPartitionOverwrite": True}, "rewrite"),
        ({"mode": "Append"}, "rewrite"),
    ],
)
def test_a_part_that_is_replaced_is_no_overwrite(parameters, kind):
    actions = [{"commitInfo": {"operation": "WRITE", "operationParameters": parameters}}]
    actions += [{"add": {"dataChange": True}}, {"remove": {"dataChange": True}}]
    assert parse_commit(3, actions, 0, b"").kind == kind


def test_a_table_on_an_object_store(tmp_path, monkeypatch):
    with s3_server(tmp_path, "shop") as address:
        keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_ENDPOINT_URL": address}
        for name, value in keys.items():
            monkeypatch.setenv(name, value)
        options = {"AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
        write_deltalake("s3://shop/orders", rows(1, 2), storage_options=options)
        write_deltalake("s3://shop/orders", rows(3), mode="append", storage_options=options)
        table = ForeignTable("s3://shop/orders", "orders")
        log = table.log()
        assert [commit.kind for commit in table.commits(log, 0)] == ["append", "append"]
        (file,) = table.files(log, 1).added
        assert table.missing_files([file.path, "gone.parquet", f"s3://shop/orders/{file.path}"]) == ["gone.parquet"]
        assert table.schema().types == {"id": "bigint", "text": "string"}
        with pytest.raises(SourceError, match="there is no Delta table"):
            ForeignTable("s3://shop/none", "orders").log()
