"""Files that change, come and go while they are read; failures that are no file's fault.

Belongs here: what is on record, in bronze and in silver afterwards. Does not: files that never were readable (test_bad_input).
"""

import os
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lakehouse_assets.errors import SourceError
from lakehouse_assets.pipeline import extract as bronze
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.pipeline.read_windows import CHANGED, MISSING_FILES
from lakehouse_assets.pipeline.table_source import source_of
from lakehouse_assets.sources import SCAN_ERRORS
from lakehouse_assets.sources.file_scans import find_unscannable_files, is_environmental
from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.support import Killed, land, readings, rows_of, runner, silver, window

numbers = count(2)


def lines(day: int, value: int) -> list[str]:
    return [f"s{day},{hour},{value},2024-01-{day:02d}T0{hour}:00:00Z" for hour in (1, 2)]


def test_the_record_describes_the_read_rows(spark, settings) -> None:
    """Day 2 changes after its fingerprint was taken, 3 after it was read, 4 whenever it was read, 5 and 6 go away, 7 gets
    another header between the look at it and the scan.
    """
    for day in range(1, 9):
        land(settings, day, lines(day, 1))
    folder = Path(settings.landing) / "readings"
    observed: list[str] = []

    def step(name: str) -> None:
        observed.append(name)
        if name == "extracting":
            land(settings, 2, lines(2, 20))
            (folder / "2024-01-06.csv").unlink()
        if name == "bronze_committed":
            land(settings, 4, [*lines(4, 4)] * next(numbers))
            if observed.count(name) == 1:
                land(settings, 3, lines(3, 30)[:1])
                (folder / "2024-01-05.csv").unlink()

    read = FilesReader.read

    def then_another_header(self, *arguments: Any, **more: Any):
        extraction = read(self, *arguments, **more)
        if "7" not in observed:
            observed.append("7")
            land(settings, 7, ["70,s7,1,2024-01-07T01:00:00Z"], header="value,sensor,hour,updated")
        return extraction

    run, windows = runner(spark, settings, step=step), [window(day) for day in range(1, 9)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FilesReader, "read", then_another_header)
        records = extract(run, windows)
    published = publish(run, windows)
    verdicts = {w.start.day: decision.verdict for w, decision in published.current.items()}
    good = dict.fromkeys((1, 2, 3, 7, 8), "published")
    assert verdicts == {**good, **dict.fromkeys((4, 5, 6), "quarantined")}
    values = {(row["sensor"], row["hour"]): row["value"] for row in silver(settings)}
    expected = {("s1", 1): 1.0, ("s1", 2): 1.0, ("s2", 1): 20.0, ("s2", 2): 20.0, ("s3", 1): 30.0, ("s7", 1): 70.0}
    assert values == {**expected, ("s8", 1): 1.0, ("s8", 2): 1.0}, "never half old, half new"
    now = source_of(run.spec, settings).fingerprints(windows)
    assert all(records[window(day)].fingerprint == now[window(day)] for day in good)
    assert records[window(4)].fingerprint != now[window(4)], "so that it is read again"
    corrupt = [row["_corrupt_record"] for row in rows_of(settings.path("bronze", "readings")) if row["_corrupt_record"]]
    assert {text for text in corrupt if "2024-01-04" in text} == {f"unreadable window 2024-01-04: {CHANGED}"}
    assert {text for text in corrupt if "2024-01-05" in text} == {f"unreadable window 2024-01-05: {MISSING_FILES}"}

    again = extract(runner(spark, settings), windows)
    assert {w.start.day for w in windows if again.get(w) != records.get(w)} == {4}
    assert again[window(4)].fingerprint == now[window(4)]


def java_error(spark, name: str, message: str) -> Exception:
    """What Spark raises of a task that met this error."""
    jvm = spark._jvm
    cause = getattr(jvm.java.io if name == "IOException" else jvm.java.lang if "Memory" in name else jvm.java.net, name)(
        message
    )
    error = RuntimeError(message)
    error.java_exception = jvm.org.apache.spark.SparkException(f"Job aborted: {message}", cause)  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("name", "message", "environmental"),
    [
        ("IOException", "No space left on device", True),
        ("IOException", "Input/output error", True),
        ("OutOfMemoryError", "Java heap space", True),
        ("UnknownHostException", "bucket.example", True),
        ("SocketTimeoutException", "Read timed out", True),
        ("IOException", "could not decompress page", False),
        ("IOException", "Unexpected end of input stream", False),
    ],
)
def test_environmental_errors_are_no_fault_of_the_data(spark, name: str, message: str, environmental: bool) -> None:
    assert is_environmental(java_error(spark, name, message)) == environmental


@pytest.mark.parametrize("works", [True, False])
def test_halving_finds_a_file_that_no_error_names(spark, tmp_path, works: bool) -> None:
    """And blamed only if it fails again, while Spark and the storage answer."""
    good = tmp_path / "good.txt"
    good.write_text("x")

    def rows(paths):
        frame = spark.read.text(str(good))
        return frame.selectExpr("raise_error('no name')") if "bad" in paths else frame

    paths = ["a", "b", "bad", "c"]
    if works:
        unscannable = find_unscannable_files(paths, rows, {})
        assert list(unscannable) == ["bad"] and "no name" in unscannable["bad"]
        return
    with pytest.raises(SCAN_ERRORS, match="no name"):
        find_unscannable_files(paths, rows, {}, lambda _: False)


def test_a_write_that_fails_marks_no_file(spark, settings, monkeypatch) -> None:
    """The scan is well, and so is each window: the disk of bronze, say, is not. What it raised fails the run."""
    for day in (1, 2):
        land(settings, day, lines(day, 1))

    def full(*_: Any, **__: Any) -> None:
        spark.range(1).selectExpr("raise_error('the disk of bronze')").collect()

    with monkeypatch.context() as patch:
        patch.setattr(bronze.delta_writes, "append", full)
        with pytest.raises(SCAN_ERRORS, match="the disk of bronze"):
            extract(runner(spark, settings), [window(1), window(2)])
    assert logs.extractions(settings, "readings") == []
    assert {r.rows for r in extract(runner(spark, settings), [window(1), window(2)]).values()} == {2}


def test_a_window_that_fails_for_a_reason_of_no_file_is_one_corrupt_row(spark, settings, monkeypatch) -> None:
    """Whatever stops it, when it is planned or run: the others go in, in the same run."""
    for day in (1, 2, 3):
        land(settings, day, lines(day, 1))
    read = FilesReader.read

    def stumbling(self, session, windows, unreadable=None):
        if window(2) in windows and len(windows) > 1:
            session.sql("select no_such_column").collect()  # fails while it is planned
        extraction = read(self, session, windows, unreadable=unreadable)
        if window(2) in windows:
            session.range(1).selectExpr("raise_error('of day 2')").collect()
        return extraction

    monkeypatch.setattr(FilesReader, "read", stumbling)
    records = extract(runner(spark, settings), [window(day) for day in (1, 2, 3)])
    assert {w.start.day: record.rows for w, record in records.items()} == {1: 2, 2: 1, 3: 2}
    [text] = [row["_corrupt_record"] for row in rows_of(settings.path("bronze", "readings")) if row["_corrupt_record"]]
    assert text.startswith("unreadable window 2024-01-02: ") and "of day 2" in text
    now = source_of(readings(), settings).fingerprints([window(2)])
    assert records[window(2)].fingerprint == now[window(2)], "a new file heals it, and nothing else"


@pytest.mark.parametrize("alike", [False, True])
def test_windows_missing_at_the_source_delay_no_other(spark, settings, monkeypatch, alike: bool) -> None:
    """As of a topic whose messages are gone. Where single windows fail alike as well, it is the source."""
    for day in range(1, 9):
        land(settings, day, lines(day, 1))
    read, reads = FilesReader.read, []

    def refusing(self, session, windows, unreadable=None):
        reads.append(len(windows))
        if alike or window(5) in windows:
            raise SourceError("no such column" if alike else "messages of 2024-01-05 were deleted")
        return read(self, session, windows, unreadable=unreadable)

    monkeypatch.setattr(FilesReader, "read", refusing)
    message = "no such column .*2024-01-01.* not read" if alike else r"2024-01-05 were deleted \(2024-01-05 not read\)$"
    with pytest.raises(SourceError, match=message):
        extract(runner(spark, settings), [window(day) for day in range(1, 9)])
    there = [record.p_extracted_at.day for record in logs.extractions(settings, "readings")]
    assert sorted(there) == ([] if alike else [1, 2, 3, 4, 6, 7, 8])
    assert reads == ([8, 4, 4, 2, *[1] * 8] if alike else [8, 4, 4, 2, 2, 1, 1])


@pytest.mark.parametrize("rows", [1, 2], ids=["fewer", "as many"])
def test_a_file_that_is_as_before_again_is_read_again_after_a_kill(spark, settings, rows) -> None:
    """A run is killed after it has put other content of an undecided window into bronze, and before it records so. Then the
    source has the first content again, whose fingerprint is on record.
    """
    path, run = land(settings, 1, lines(1, 1)), runner(spark, settings)
    before = path.read_bytes(), path.stat()
    extract(run, [window(1)])
    path.write_bytes(b"\n".join(before[0].replace(b",1,2024", b",7,2024").split(b"\n")[: rows + 1]) + b"\n")

    def die(step: str) -> None:
        if step == "bronze_committed":
            raise Killed

    with pytest.raises(Killed):
        extract(runner(spark, settings, step=die), [window(1)])
    path.write_bytes(before[0])
    os.utime(path, ns=(before[1].st_atime_ns, before[1].st_mtime_ns))
    run = runner(spark, settings)
    extract(run, [window(1)])
    assert publish(run, [window(1)]).current[window(1)].counts.rows_published == 2
    assert [row["value"] for row in silver(settings)] == [1, 1]
    assert [record.fingerprint for record in logs.extractions(settings, "readings")][-1] == source_fingerprint(run)


def source_fingerprint(run) -> str:
    return source_of(run.spec, run.settings).fingerprints([window(1)])[window(1)]
