"""A table that is kept open is the one on the disk: after a commit, a damage, and an exchange by another table."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from lakehouse_assets.storage import opened_tables
from lakehouse_assets.storage.opened_tables import open_table, open_to_change


def add(path: Path, value: int) -> None:
    write_deltalake(path, pa.table({"x": [value]}), mode="append")


def test_the_same_until_a_commit(tmp_path: Path) -> None:
    path = tmp_path / "t"
    add(path, 1)
    first = open_table(str(path))
    assert open_table(str(path)) is first
    assert open_to_change(str(path)) is not first
    add(path, 2)
    second = open_table(str(path))
    assert (first.version(), second.version(), open_table(str(path), 0).version()) == (0, 1, 0)
    assert open_table(str(path)) is second
    assert open_table(str(path), 1) is second
    add(path, 3)
    assert open_table(str(path), 1) is not second and open_table(str(path), 1).version() == 1
    assert open_table(str(path)).version() == 2


def test_a_table_that_goes_is_exchanged_or_damaged(tmp_path: Path) -> None:
    path, other = tmp_path / "t", tmp_path / "other"
    add(path, 1)
    add(path, 2)
    shutil.copytree(path, other)
    add(path, 3)
    assert open_table(str(path)).version() == 2
    shutil.rmtree(path)
    with pytest.raises(TableNotFoundError):
        open_table(str(path))
    shutil.copytree(other, path)
    assert open_table(str(path)).version() == 1
    add(path, 4)
    assert len(open_table(str(path)).to_pyarrow_table()) == 3
    (path / "_delta_log" / f"{0:020d}.json").write_text("damaged")
    with pytest.raises((DeltaError, ValueError)):
        open_table(str(path)).to_pyarrow_table()


def test_a_long_log_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_tables, "MOST_LOG_BYTES", 10)
    add(tmp_path / "t", 1)
    assert open_table(str(tmp_path / "t")) is not open_table(str(tmp_path / "t"))
