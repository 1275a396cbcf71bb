"""An Iceberg table's metadata, made by hand, as versions: which snapshots count, what they did, what is refused. No JVM.

Belongs here: metadata files → commits and schemas. Does not: a real table, or reading its rows (e2e/test_guard_iceberg).
"""

import doctest
import gzip
import json

import pytest

from lakehouse_assets.errors import SourceError
from lakehouse_assets.storage import foreign_iceberg
from lakehouse_assets.storage.foreign_delta import ForeignTable
from lakehouse_assets.storage.foreign_iceberg import IcebergTable

MAP = {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value": "timestamptz", "value-required": False}
FIELDS = [
    {"id": 1, "name": "id", "required": True, "type": "long"},
    {"id": 2, "name": "amount", "required": False, "type": "decimal(9, 2)"},
    {"id": 3, "name": "seen", "required": False, "type": MAP},
]
RENAMED = [FIELDS[0], FIELDS[1] | {"name": "price"}, FIELDS[2]]


def snapshot(number, parent=None, operation="append", schema=0, **summary):
    counts = {"added-records": "1", "total-records": str(number)} | {
        key.replace("_", "-"): str(n) for key, n in summary.items()
    }
    before = {} if parent is None else {"parent-snapshot-id": parent * 100}
    return before | {
        "snapshot-id": number * 100, "sequence-number": number, "timestamp-ms": 1_700_000_000_000 + number,
        "summary": {"operation": operation, **counts}, "manifest-list": f"snap-{number}.avro", "schema-id": schema,
    }  # fmt: skip


def write(folder, snapshots, current=None, version=1, **changes):
    """A version of the table's metadata, and the hint that names it."""
    schemas = [{"schema-id": 0, "fields": FIELDS}, {"schema-id": 1, "fields": RENAMED}]
    metadata = {
        "format-version": 2, "table-uuid": "u-1", "schemas": schemas, "current-schema-id": 0, "snapshots": snapshots,
        "current-snapshot-id": (current or (snapshots[-1]["sequence-number"] if snapshots else 0)) * 100, **changes,
    }  # fmt: skip
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    (folder / "metadata" / f"v{version}.metadata.json").write_text(json.dumps(metadata))
    hint = folder / "metadata" / "version-hint.text"
    if not hint.exists():
        hint.write_text(str(version))
    return IcebergTable(str(folder), "orders")


def commits(table):
    log = table.log()
    return {commit.version: commit for commit in table.commits(log, max(log.oldest, 1))}


def test_each_operation_is_what_it_did_to_the_rows(tmp_path):
    snapshots = [
        snapshot(1),
        snapshot(2, 1, added_records=0),
        snapshot(3, 2, "replace"),
        snapshot(4, 3, "overwrite", added_records=2, total_records=9),
        snapshot(5, 4, "overwrite", added_records=9, total_records=9),
        snapshot(6, 5, "delete"),
        snapshot(7, 6, "overwrite", added_records=0, total_records=0),
    ]
    by_version = commits(write(tmp_path, snapshots))
    expected = ["append", "none", "none", "rewrite", "overwrite", "rewrite", "overwrite"]
    assert [commit.kind for commit in by_version.values()] == expected
    assert [version for version, commit in by_version.items() if commit.states_schema] == [1]
    assert len({commit.digest for commit in by_version.values()}) == 7
    assert by_version[4].describe() == "version 4 (overwrite, 2023-11-14 22:13 UTC)"


def test_snapshots_of_other_branches_are_no_versions_and_expired_ones_are_gone(tmp_path):
    table = write(tmp_path, [snapshot(3, 2), snapshot(4, 3), snapshot(5, 4), snapshot(6, 4)], current=6)
    assert table.log().oldest == 3
    by_version = commits(table)
    assert [(version, commit.kind) for version, commit in by_version.items()] == [
        (3, "rewrite"), (4, "append"), (5, "none"), (6, "append")
    ]  # fmt: skip
    assert "after a snapshot that has expired" in by_version[3].describe()
    assert (by_version[5].digest, table.snapshot(6)) == ("", ("600", "400"))
    with pytest.raises(SourceError, match="the snapshot of version 5 has expired"):
        table.snapshot(5)
    assert (table.row_count(6, added=True), table.row_count(6, added=False), table.row_count(5, added=True)) == (1, 6, 0)


def test_version_0_is_the_table_without_rows_or_all_that_was_before_an_upgrade(tmp_path):
    table = write(tmp_path / "new", [snapshot(1)])
    [empty] = table.commits(table.log(), 0, 0)
    assert (table.log().oldest, empty.kind) == (0, "none")
    before = [snapshot(8), snapshot(9, 8)]
    for each in before:
        del each["sequence-number"]
    upgraded = write(tmp_path / "upgraded", [*before, snapshot(1, 9)], current=1)
    assert list(upgraded.log().entries) == [0, 1]
    assert [commit.kind for commit in upgraded.commits(upgraded.log(), 0)] == ["rewrite", "append"]
    assert upgraded.snapshot(1) == ("100", "900")


def test_a_newer_file_than_the_hint_names_is_read_once_the_log_is_asked_for(tmp_path):
    table = write(tmp_path, [snapshot(1)])
    assert table.log().newest == 1
    write(tmp_path, [snapshot(1), snapshot(2, 1, schema=1)], version=2)
    assert table.log().newest == 2
    assert table.schema().types == {"id": "bigint", "price": "decimal(9,2)", "seen": "map<string, timestamp>"}
    assert list(table.schema(1).types) == ["id", "amount", "seen"]
    assert commits(table)[2].states_schema


def test_the_types_of_columns():
    assert doctest.testmod(foreign_iceberg).failed == 0
    names = {
        "timestamp": "timestamp_ntz",
        "timestamptz": "timestamp",
        "uuid": "string",
        "fixed[16]": "binary",
        "int": "integer",
    }
    assert {name: foreign_iceberg._type(name) for name in names} == names


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format-version": 1}, "format version 1 does not number its snapshots"),
        ({"current-snapshot-id": -1}, "has no snapshot yet"),
    ],
)
def test_a_table_that_cannot_be_guarded_is_refused_with_the_reason(tmp_path, changes, message):
    with pytest.raises(SourceError, match=message):
        write(tmp_path, [snapshot(1)], **changes).log()


def test_no_table_a_damaged_one_and_one_of_a_catalog_are_refused(tmp_path):
    with pytest.raises(SourceError, match=r"no metadata/version-hint\.text.*a catalog keeps.*`table: warehouse\.db\.orders`"):
        IcebergTable(str(tmp_path / "none"), "orders").log()
    table = write(tmp_path, [snapshot(1)])
    for damaged in (b"\x1f\x8b", b"\x1f\x8b\x08" + b"x" * 30, b"", b"[]", b"{"):
        (tmp_path / "metadata" / "v1.metadata.json").write_bytes(damaged)
        with pytest.raises(SourceError, match="its Iceberg metadata cannot be read: it is damaged"):
            table.log()
    with pytest.raises(SourceError, match=r"no Delta table.*it is an Iceberg table: a guard of it has `format: iceberg`"):
        ForeignTable(str(tmp_path), "orders").log()


def test_a_table_by_the_metadata_file_that_a_catalog_names(tmp_path):
    write(tmp_path, [snapshot(1), snapshot(2, 1)])
    plain = (tmp_path / "metadata" / "v1.metadata.json").read_bytes()
    for name, text in (("00002-a.metadata.json", plain), ("00002-a.gz.metadata.json", gzip.compress(plain))):
        file = tmp_path / "elsewhere" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text)
        table = IcebergTable(str(file), "orders")
        assert (table.log().newest, table.snapshot(2)) == (2, ("200", "100"))
        assert IcebergTable(f"file://{file}", "orders").log().newest == 2
        file.unlink()
        with pytest.raises(SourceError, match="the metadata file that the catalog named is gone"):
            table.log()


def test_compressed_metadata_of_a_table_in_its_folder_is_read(tmp_path):
    table = write(tmp_path, [snapshot(1)])
    file = tmp_path / "metadata" / "v1.metadata.json"
    file.with_name("v1.gz.metadata.json").write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    assert table.log().newest == 1
