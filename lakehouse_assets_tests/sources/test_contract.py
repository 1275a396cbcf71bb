"""The contract of a source kind, by the functions that an extension's author calls (`lakehouse_assets.testing`).

Belongs here: our file sources keep it, and sources that break it are found. Does not: PostgreSQL (test_jdbc), Kafka (e2e).
"""

from collections.abc import Mapping

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakehouse_assets.sources.base import Extraction
from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets.testing import verify_source
from lakehouse_assets_tests.sources.source_files import csv_source, day, json_source, land

WINDOWS, ABSENT = [day(2), day(1)], day(9)


def csv(landing, window, text="a,we`ird 'name\n1,x\n2,\n"):
    land(landing, f"t/{window.key}.csv", text)


def json(landing, window, text='{"a": 1, "b.c": "x"}\n{"a": null}\n'):
    land(landing, f"t/{window.key}.json", text)


def test_csv(spark, tmp_path):
    for window in WINDOWS:
        csv(tmp_path, window)
    verify_source(
        spark, lambda _: FilesReader(csv_source(), str(tmp_path), []), WINDOWS, ABSENT,
        change=lambda window: csv(tmp_path, window, "a,b\n3,y\n"),
        corrupt=lambda window: csv(tmp_path, window, "a,we`ird 'name\n1,x\n2,\n1,2,3\n"),
    )  # fmt: skip


def test_json(spark, tmp_path):
    for window in WINDOWS:
        json(tmp_path, window)
    verify_source(
        spark, lambda _: FilesReader(json_source(), str(tmp_path), []), WINDOWS, ABSENT,
        change=lambda window: json(tmp_path, window, '{"a": 2}\n'),
        corrupt=lambda window: json(tmp_path, window, '{"a": 1, "b.c": "x"}\n{"a": null}\n{"a"\n'),
    )  # fmt: skip


def test_parquet(spark, tmp_path):
    (tmp_path / "t").mkdir()

    def write(window, values=(1, 2)):
        parquet.write_table(pa.table({"a": list(values)}), tmp_path / "t" / f"{window.key}.parquet")

    for window in WINDOWS:
        write(window)
    source = csv_source(path="t/{window:%Y-%m-%d}.parquet", format="parquet")
    verify_source(
        spark, lambda _: FilesReader(source, str(tmp_path), []), WINDOWS, ABSENT, change=lambda window: write(window, (7,))
    )


class Broken(FilesReader):
    """A source that breaks one promise."""

    promise = ""
    calls = 0

    def fingerprints(self, windows):
        prints = dict(super().fingerprints(windows))
        Broken.calls += 1
        if self.promise == "the same when asked again":
            return {window: f"{text}{Broken.calls}" for window, text in prints.items()}
        if self.promise == "no others":
            return {**prints, ABSENT: "x"}
        if self.promise == "is a text that is not empty":
            return dict.fromkeys(prints, "")
        if self.promise == "requested windows only":
            return dict(super().fingerprints(WINDOWS))
        return prints

    def read(self, spark, windows, unreadable: Mapping | None = None):
        extraction = super().read(spark, windows, unreadable)
        frame, columns = extraction.frame, extraction.columns
        if self.promise == "rows of exactly the requested windows":
            frame = super().read(spark, WINDOWS).frame
        if self.promise == "columns are strings":
            frame = frame.withColumn("a", frame.a.cast("int"))
        if self.promise == "the rows of each alone" and len(windows) > 1:
            frame = frame.limit(1)
        if self.promise == "exactly the requested windows":
            columns = {**columns, ABSENT: ()}
        if self.promise == "has no _corrupt_record":
            frame = frame.selectExpr("p_extracted_at", "_source_file", "_columns", "'x' as _corrupt_record")
        return Extraction(frame, {}, columns)


@pytest.mark.parametrize(
    "promise",
    [
        "the same when asked again", "no others", "is a text that is not empty", "requested windows only",
        "rows of exactly the requested windows", "columns are strings", "the rows of each alone",
        "exactly the requested windows", "has no _corrupt_record",
    ],
)  # fmt: skip
def test_a_broken_promise_is_found(spark, tmp_path, promise):
    for window in WINDOWS:
        csv(tmp_path, window, "a\n1\n2\n")
    reader = type("Reader", (Broken,), {"promise": promise})
    with pytest.raises(AssertionError, match=promise):
        verify_source(spark, lambda _: reader(csv_source(), str(tmp_path), []), WINDOWS, ABSENT)


def test_a_change_that_goes_unnoticed_is_found(spark, tmp_path):
    for window in WINDOWS:
        csv(tmp_path, window, "a\n1\n")
    with pytest.raises(AssertionError, match="a window that changed has another fingerprint"):
        verify_source(
            spark, lambda _: FilesReader(csv_source(), str(tmp_path), []), WINDOWS, ABSENT, change=lambda window: None
        )


class Forgetful(FilesReader):
    """It has positions to record, and reads past them."""

    def positions(self, windows):
        return dict.fromkeys(windows, "0 to 2")


def test_a_recorded_window_that_changes_is_found(spark, tmp_path):
    for window in WINDOWS:
        csv(tmp_path, window, "a\n1\n")
    with pytest.raises(AssertionError, match="a window whose position is recorded keeps its fingerprint"):
        verify_source(
            spark, lambda _: Forgetful(csv_source(), str(tmp_path), []), WINDOWS, ABSENT,
            change=lambda window: csv(tmp_path, window, "a\n1\n2\n"),
        )  # fmt: skip
