"""The dataset of a table gives the rows that `deltalake`'s own gives, whatever is question for."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import fs

from lakehouse_assets.storage.delta_dataset import make_dataset, read_file, read_first_rows, read_rows
from lakehouse_assets.storage.delta_files import TableFiles

START = datetime(2024, 1, 1, tzinfo=UTC)
TYPES = pa.schema(
    [
        ("part", pa.string()),
        ("n", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("x", pa.float64()),
        ("text", pa.string()),
    ]
)
rows = st.fixed_dictionaries(
    {
        "part": st.sampled_from([None, "a", "b c", "%25", "é/=:'"]),
        "n": st.none() | st.integers(-3, 3),
        "at": st.none() | st.integers(0, 4).map(lambda hours: START + timedelta(hours=hours)),
        "day": st.none() | st.integers(1, 4).map(lambda day: date(2024, 1, day)),
        "x": st.none() | st.sampled_from([float("nan"), -1.0, 0.0, 2.5]),
        "text": st.none() | st.sampled_from(["", "z", "long " * 20, "long " * 20 + "!"]),
    }
)
questions = st.one_of(
    st.tuples(st.just("part"), st.sampled_from(["a", "b c", "%25", "é/=:'"])),
    st.tuples(st.just("n"), st.integers(-3, 3)),
    st.tuples(st.just("at"), st.integers(0, 4).map(lambda hours: START + timedelta(hours=hours))),
    st.tuples(st.just("day"), st.integers(1, 4).map(lambda day: date(2024, 1, day))),
    st.tuples(st.just("x"), st.sampled_from([-1.0, 0.0, 2.5])),
    st.tuples(st.just("text"), st.sampled_from(["", "z", "long " * 20 + "!"])),
)


def write_files(path: Path, files: list[list[dict[str, Any]]], partitions: list[str]) -> DeltaTable:
    for part in files:
        write_deltalake(path, pa.Table.from_pylist(part, TYPES), mode="append", partition_by=partitions or None)
    return DeltaTable(path)


def as_set(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(st.lists(rows, min_size=1, max_size=4), min_size=1, max_size=3),
    partitions=st.sampled_from([[], ["part"], ["at"], ["part", "day"]]),
    question=st.lists(questions, max_size=2),
)
def test_gives_what_deltalake_gives(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[dict[str, Any]]],
    partitions: list[str],
    question: list[tuple[str, Any]],
) -> None:
    path = tmp_path_factory.mktemp("lake") / "t"
    table = write_files(path, files, partitions)
    dataset = make_dataset(table, fs.SubTreeFileSystem(str(path), fs.LocalFileSystem()), [name for name, _ in question])
    everything = [row for part in files for row in part]
    for compare in ("==", ">=", "<"):
        wanted: Any = None
        for name, value in question:
            one = {"==": ds.field(name) == value, ">=": ds.field(name) >= value, "<": ds.field(name) < value}[compare]
            wanted = one if wanted is None else wanted & one
        expected = pa.Table.from_pylist(everything, TYPES)
        expected = expected if wanted is None else expected.filter(wanted)
        assert as_set(dataset.to_table(filter=wanted).select(TYPES.names)) == as_set(expected)


def test_leaves_out_files_by_their_bounds(tmp_path: Path) -> None:
    files = [[{"part": "a", "n": n}] for n in (1, 2, 3)] + [[{"part": "b", "n": 3}, {"part": "b", "n": None}]]
    table = write_files(tmp_path / "t", files, ["part"])
    dataset = make_dataset(table, fs.SubTreeFileSystem(str(tmp_path / "t"), fs.LocalFileSystem()), ["n"])
    chosen = [part.path for part in dataset.get_fragments(filter=(ds.field("n") == 3) & (ds.field("part") == "a"))]
    assert len(chosen) == 1
    assert len(list(dataset.get_fragments(filter=ds.field("n").is_null()))) == 1
    assert len(list(dataset.get_fragments(filter=ds.field("n") >= 2))) == 3


def test_columns_added_later_are_null_in_older_files(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"a": [1]}))
    write_deltalake(tmp_path / "t", pa.table({"a": [2], "b": ["x"]}), mode="append", schema_mode="merge")
    dataset = make_dataset(DeltaTable(tmp_path / "t"), fs.SubTreeFileSystem(str(tmp_path / "t"), fs.LocalFileSystem()))
    assert as_set(dataset.to_table()) == as_set(pa.table({"a": [1, 2], "b": [None, "x"]}))


@pytest.mark.parametrize("partitions", [[], ["part"]])
def test_texts_are_found_in_files_that_deltalake_has_rewritten(tmp_path: Path, partitions: list[str]) -> None:
    """They have a type there that Arrow does not compare with a text."""
    path = str(tmp_path / "t")
    table = pa.table({"part": ["a", "a", "b"], "text": ["u", "v", "w"], "n": [1, 2, 3]})
    write_deltalake(path, table, partition_by=partitions)
    DeltaTable(path).delete("text = 'v'")
    DeltaTable(path).update({"n": "n + 10"}, predicate="text = 'w'")
    dataset = make_dataset(DeltaTable(path), fs.SubTreeFileSystem(path, fs.LocalFileSystem()))
    text, n = ds.field("text"), ds.field("n")
    assert read_rows(dataset, ["n"], text == "u").to_pydict() == {"n": [1]}
    assert read_rows(dataset, ["text", "part"], text.isin(["u", "x"])).to_pylist() == [{"text": "u", "part": "a"}]
    assert sorted(read_rows(dataset, None, (text >= "u") & (n > 0))["n"].to_pylist()) == [1, 13]
    assert read_rows(dataset, ["n"], text == "v").to_pylist() == []
    assert read_first_rows(dataset, 1, None, text == "w").to_pylist() == [{"part": "b", "text": "w", "n": 13}]
    assert read_first_rows(dataset, 9, ["n"], text > "a").num_rows == 2
    assert read_first_rows(dataset, 1, ["n"], text > "a").num_rows == 1
    parts = [read_file(file, dataset.schema, ["n"], text > "u") for file in dataset.get_fragments()]
    assert pa.concat_tables(parts).to_pydict() == {"n": [13]}


@pytest.mark.parametrize("is_last", [False, True])
def test_texts_are_counted_in_files_that_deltalake_has_rewritten(tmp_path: Path, is_last: bool) -> None:
    """With a file before it or after it that has texts of the usual type."""

    def rows_of(ids: str) -> pa.Table:
        return pa.table({"decision_id": list(ids), "feature": ["f"] * len(ids), "n": list(range(len(ids)))})

    path = str(tmp_path / "t")
    write_deltalake(path, rows_of("ad" if is_last else "abc"))
    if is_last:
        write_deltalake(path, rows_of("abc"), mode="append")
    DeltaTable(path).delete("decision_id = 'b'")
    if not is_last:
        write_deltalake(path, rows_of("ad"), mode="append")
    files = TableFiles(path)
    assert files.column_counts(["decision_id"]) == {("a",): 2, ("c",): 1, ("d",): 1}
    assert files.find_doubled(("decision_id", "feature")) == {"a"}
