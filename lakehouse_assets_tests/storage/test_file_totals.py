"""What a table's files add up to, kept from one look to the next, against the rows themselves."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse_assets.storage import delta
from lakehouse_assets.storage.delta_files import TableFiles
from lakehouse_assets_tests.support import rows_of

AT = datetime(2024, 1, 1, tzinfo=UTC)


def append(path: str, rng: np.random.Generator) -> None:
    """Rows of some windows, extractions and decisions; in some files one of each, in others several."""
    size = int(rng.integers(1, 8))
    varied = rng.random() < 0.5
    days, seqs, ids = (rng.integers(0, 3, size if varied else 1) for _ in range(3))
    rows = {
        "p_extracted_at": pa.array(np.resize([AT + timedelta(days=int(day)) for day in days], size), pa.timestamp("us", "UTC")),
        "extraction_seq": pa.array(np.resize(seqs, size), pa.int32()),
        "decision_id": [f"d{each}" for each in np.resize(ids, size)],
    }
    delta.append_arrow(pa.table(rows), path)


def assert_counted(path: str) -> None:
    files, rows = TableFiles(path), rows_of(path, ["p_extracted_at", "extraction_seq", "decision_id"])
    batches = Counter((row["p_extracted_at"], row["extraction_seq"]) for row in rows)
    assert files.rows_by_extraction() == {batch: rows for batch, (rows, _) in files.extractions().items()} == batches
    assert files.column_counts(["decision_id"]) == Counter((row["decision_id"],) for row in rows)
    windows = {(row["decision_id"], row["p_extracted_at"]) for row in rows}
    assert files.windows_by_source() == Counter(source for source, _ in windows)
    one = {AT: files.extractions([AT])}
    assert {batch: rows for batch, (rows, _) in one[AT].items() if batch[0] == AT} == {
        batch: rows for batch, rows in batches.items() if batch[0] == AT
    }


@pytest.mark.parametrize("seed", range(3))
def test_files_add_up_to_their_rows_whatever_is_done_to_them(tmp_path: Path, seed: int) -> None:
    path, rng = str(tmp_path / "t"), np.random.default_rng(seed)
    append(path, rng)
    for _ in range(25):
        match rng.integers(0, 10):
            case 0:
                DeltaTable(path).optimize.compact()
            case 1:
                DeltaTable(path).delete(f"extraction_seq = {rng.integers(0, 3)}")
            case 2:
                table = DeltaTable(path)
                table.restore(int(rng.integers(0, table.version() + 1)))
            case _:
                append(path, rng)
        assert_counted(path)


def test_a_lost_file_counts_no_more_until_it_is_back(tmp_path: Path) -> None:
    path, rng = str(tmp_path / "t"), np.random.default_rng(0)
    for _ in range(5):
        append(path, rng)
    before = dict(TableFiles(path).rows_by_extraction())
    file = next((tmp_path / "t").glob("*.parquet"))
    size = file.stat().st_size
    file.rename(tmp_path / "kept")
    less = TableFiles(path)
    assert sum(less.rows_by_extraction().values()) == less.state.rows - less.absent[0]["num_records"]
    (tmp_path / "kept").rename(file)
    assert file.stat().st_size == size
    assert TableFiles(path).rows_by_extraction() == before


def test_only_new_files_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rng, sizes = str(tmp_path / "t"), np.random.default_rng(0), []
    add_up = TableFiles._count_extractions
    monkeypatch.setattr(
        TableFiles, "_count_extractions", lambda self, files, total: (sizes.append(len(files)), add_up(self, files, total))[1]
    )
    for _ in range(3):
        append(path, rng)
        counted = TableFiles(path).rows_by_extraction()
        assert TableFiles(path).rows_by_extraction() is counted
    assert sizes == [1, 1, 1]
    DeltaTable(path).optimize.compact()
    assert TableFiles(path).rows_by_extraction() == counted
    assert sizes == [1, 1, 1, 1]
