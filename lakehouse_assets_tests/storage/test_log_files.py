"""A process reads each file of a log once, and notices whatever happens to it."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, log_files
from lakehouse_assets.storage.log_files import read_log
from lakehouse_assets.storage.log_table import LogTable, log_schema
from lakehouse_assets.storage.newest_values import NewestValues

LOG = LogTable("trial", log_schema("table text!, n long, text text"))


@pytest.fixture
def lake(tmp_path: Path) -> Settings:
    return Settings(root=str(tmp_path / "lake"), landing=str(tmp_path / "landing"), dagster_home=tmp_path)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are opened."""
    opened: list[str] = []

    make = delta.dataset_of

    def dataset_of(*arguments: Any) -> Any:
        dataset = make(*arguments)

        class Wrapped:
            schema, filesystem = dataset.schema, dataset.filesystem

            def get_fragments(self, filter: Any = None) -> Any:
                return [Fragment(part) for part in dataset.get_fragments(filter=filter)]

            def to_table(self, **keywords: Any) -> pa.Table:
                opened.append("all")
                return dataset.to_table(**keywords)

        class Fragment:
            def __init__(self, part: ds.Fragment) -> None:
                self.part, self.path = part, part.path

            def to_table(self, **keywords: Any) -> pa.Table:
                opened.append(self.path)
                return self.part.to_table(**keywords)

        return Wrapped()

    monkeypatch.setattr(delta, "dataset_of", dataset_of)
    return opened


def numbers(settings: Settings, table: str = "a") -> list[int]:
    return sorted(row["n"] for row in LOG.read(settings, ["n"], [("table", "=", table)]))


def add(settings: Settings, *values: int, table: str = "a") -> None:
    LOG.append(settings, [{"table": table, "n": n, "text": None} for n in values])


def data_files(settings: Settings) -> list[Path]:
    return sorted(Path(LOG.path(settings)).rglob("*.parquet"))


def test_reads_only_what_is_new(lake: Settings, reads: list[str]) -> None:
    assert numbers(lake) == []
    add(lake, 1, 2)
    add(lake, 9, table="b")
    assert (numbers(lake), len(reads)) == ([1, 2], 1)
    assert (numbers(lake), len(reads)) == ([1, 2], 1)
    add(lake, 3)
    assert (numbers(lake), len(reads)) == ([1, 2, 3], 2)
    assert numbers(lake, "b") == [9]


def test_filters_by_columns_that_are_not_asked_for(lake: Settings) -> None:
    add(lake, 1, 2)
    add(lake, 3)
    assert LOG.read(lake, ["text"], [("table", "=", "a"), ("n", ">", 2)]) == [{"text": None}]
    assert LOG.read(lake, ["n"], [("table", "in", ["a", "c"]), ("n", ">", 1)]) in ([{"n": 2}, {"n": 3}], [{"n": 3}, {"n": 2}])


def test_notices_a_lost_a_damaged_and_an_exchanged_file(lake: Settings) -> None:
    add(lake, 1)
    assert numbers(lake) == [1]
    (file,) = data_files(lake)
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(OSError, match=r"parquet"):
        numbers(lake)
    file.write_bytes(b"damaged")
    with pytest.raises((OSError, pa.ArrowException)):
        numbers(lake)
    file.write_bytes(content)
    assert numbers(lake) == [1]


def test_follows_a_lake_that_is_set_back(lake: Settings, tmp_path: Path) -> None:
    add(lake, 1)
    shutil.copytree(lake.root, tmp_path / "copy")
    add(lake, 2)
    assert numbers(lake) == [1, 2]
    shutil.rmtree(lake.root)
    shutil.copytree(tmp_path / "copy", lake.root)
    assert numbers(lake) == [1]
    add(lake, 3)
    assert numbers(lake) == [1, 3]


def test_large_files_are_read_by_a_filter(lake: Settings, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    add(lake, 1, 2)
    monkeypatch.setattr(log_files, "SMALL_BYTES", 10)
    assert (numbers(lake), numbers(lake), reads) == ([1, 2], [1, 2], ["all", "all"])


def test_the_newest_are_kept() -> None:
    newest = NewestValues[str](5, len)
    for key, value in (("a", "aa"), ("b", "bb")):
        newest.put(key, value)
    assert newest.get("a") == "aa"
    newest.put("c", "cc")
    assert [newest.get(key) for key in "abc"] == ["aa", None, "cc"]
    newest.put("d", "d" * 9)
    assert [newest.get(key) for key in "acd"] == [None, None, "d" * 9]
    newest.put("a", "aa")
    assert [newest.get(key) for key in "ad"] == ["aa", None]
    for value in ("aaa", "aa", "a"):  # in place of one another
        newest.put("a", value)
    newest.put("b", "bbbb")
    assert [newest.get(key) for key in "ab"] == ["a", "bbbb"]


def test_ids_of_equal_questions(lake: Settings) -> None:
    assert read_log(LOG.path(lake), None, []) == (pa.table({}), None)
    add(lake, 1)
    first, second = (read_log(LOG.path(lake), ["n"], [("table", "=", "a")])[1] for _ in range(2))
    other = read_log(LOG.path(lake), ["n"], [("table", "=", "b")])[1]
    assert first == second != other
