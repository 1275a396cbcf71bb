"""Reading the logs for the comparison: the same as the logs' own reader, in any folder, once for each file."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse_assets.storage import delta_files, evidence, folded_log, logs
from lakehouse_assets.storage.log_folds import find_double_records
from lakehouse_assets_tests import logbook


def test_entries_equal_the_log_and_each_file_is_read_once(settings, tmp_path, monkeypatch):
    """A folder's name may have a space; files that are read already are not read again, and new ones are."""
    here = settings.model_copy(update={"root": str(tmp_path / "a lake of mine")})
    for number in range(1, 4):
        logbook.write(here, [logbook.decided(number)])
    record, _ = evidence.measure_evidence(here, "readings", drift=False)
    own = logs.decisions(here, "readings")
    assert [d.decision_id for d in record.decisions] == [d.decision_id for d in own]
    assert [d.applied_at for d in record.decisions] == [d.applied_at for d in own]
    logbook.write(here, [logbook.decided(4)])
    paths: list[str] = []
    read = folded_log.TableLog.read
    monkeypatch.setattr(
        folded_log.TableLog, "read", lambda self, names, columns: (paths.extend(names), read(self, names, columns))[1]
    )
    record, _ = evidence.measure_evidence(here, "readings", drift=False)
    assert len(record.decisions) == 4
    assert len(paths) == 2  # the decision and its mark


AT = datetime(2024, 1, 1, tzinfo=UTC)


def test_the_same_row_twice_is_one_decision(settings):
    """The reply to a commit was lost, and it was made once more."""
    decision = logbook.decided(1)
    logbook.write(settings, [decision])
    logs.log_decisions(settings, [decision])
    assert len(logs.decisions(settings, "readings")) == 1
    assert len(evidence.measure_evidence(settings, "readings", drift=False)[0].decisions) == 1
    logs.log_decisions(settings, [logbook.decided(1, run_id="another")])
    assert len(logs.decisions(settings, "readings")) == 2


def test_recorded_twice_is_without_another_content_between():
    def rows(*prints):
        fields = {"p_extracted_at": AT, "extraction_seq": 1}
        return [
            {**fields, "fingerprint": name, "run_id": f"run-{index}", "extracted_at": AT + timedelta(seconds=index)}
            for index, name in enumerate(prints)
        ]

    assert find_double_records(rows("a", "b", "a")) == set()
    assert find_double_records(rows("a", "b", "b")) == {(AT, 1)}


def of_windows(path: str) -> delta_files.TableFiles:
    for seqs in ([1, 1, 2], [3]):
        rows = pa.table({"p_extracted_at": pa.array([AT] * len(seqs), pa.timestamp("us", "UTC")), "extraction_seq": seqs})
        delta_files.delta.append_arrow(rows, path, partition_by=["p_extracted_at"])
    return delta_files.TableFiles(path)


def test_a_file_with_several_extractions_is_counted_row_by_row(tmp_path):
    extractions = of_windows(str(tmp_path / "t")).extractions()
    assert {batch: rows for batch, (rows, _) in extractions.items()} == {(AT, 1): 2, (AT, 2): 1, (AT, 3): 1}


def test_a_cut_file_is_moved_aside_and_a_lost_one_is_forgotten(tmp_path):
    path = str(tmp_path / "t")
    of_windows(path)
    cut, lost = sorted((tmp_path / "t").rglob("*.parquet"), key=lambda file: file.stat().st_size)
    cut.write_bytes(cut.read_bytes()[:-10])
    lost.unlink()
    damaged = delta_files.TableFiles(path)
    # Named as they are called on the disk.
    assert set(damaged.state.absent) == {str(file.relative_to(path)) for file in (cut, lost)}
    delta_files.forget_lost_files(damaged)
    assert (delta_files.TableFiles(path).state.absent, DeltaTable(path).file_uris()) == ((), [])
    assert cut.with_name(f"{cut.name}.damaged").exists()


@pytest.mark.parametrize(("text", "corrupt"), [
    ("Kernel error: Json error: Truncated record whilst reading object", True),
    ("Kernel error: Generic delta kernel error: Expected contiguous commit files, but found gap", True),
    ("Kernel error: Arrow error: Parquet error: Invalid Parquet file. Corrupt footer", True),
    ("Kernel error: Arrow error: External: Generic S3 error: 503 Service Unavailable", False),
    ("Generic LocalFileSystem error: Unable to open file x.json: Permission denied (os error 13)", False),
    ("the token has expired", False),
])  # fmt: skip
def test_only_wrong_content_makes_a_log_unreadable(text, corrupt):
    assert delta_files.is_corrupt_log(delta_files.DeltaError(text)) is corrupt
