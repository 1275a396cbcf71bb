"""Listing: which files are a window's, when a fingerprint changes, and what is never opened.

Belongs here: fingerprints and the landing folder, without Spark. Does not: contents of files.
"""

import os
import socket
from pathlib import Path

import pytest

from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.errors import SourceError
from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets.sources.landing import Landing
from lakehouse_assets_tests.sources.source_files import csv_source, day, land, rows

DAYS = [day(n) for n in range(1, 6)]


def prints(landing: Path, source: FilesSource | None = None) -> dict[int, str]:
    fingerprints = FilesReader(source or csv_source(), str(landing)).fingerprints(DAYS)
    return {window.start.day: value for window, value in fingerprints.items()}


def test_only_existing_requested_windows_have_fingerprints(tmp_path: Path) -> None:
    for name in ("2024-03-01.csv", "2024-03-03.csv", "2024-03-09.csv", "2024-03-02.csv.tmp", "notes.txt"):
        land(tmp_path, f"t/{name}", "a\n1\n")
    (tmp_path / "t" / "folder").mkdir()
    os.mkfifo(tmp_path / "t" / "pipe")
    fingerprints = prints(tmp_path)
    assert sorted(fingerprints) == [1, 3]
    assert all(len(value) == 32 and int(value, 16) >= 0 for value in fingerprints.values())


def test_a_fingerprint_follows_size_time_and_files(tmp_path: Path) -> None:
    source = csv_source(path="{window:%Y-%m-%d}/*.csv")
    file = land(tmp_path, "2024-03-01/a.csv", "a\n1\n")
    first = prints(tmp_path, source)
    assert prints(tmp_path, source) == first
    os.utime(file, ns=(1, 1))
    second = prints(tmp_path, source)
    land(tmp_path, "2024-03-01/b.csv", "")
    third = prints(tmp_path, source)
    land(tmp_path, "2024-03-01/_temporary/c.csv", "a\n")
    land(tmp_path, "2024-03-01/.b.csv.crc", "a\n")
    land(tmp_path, "2024-03-01/_SUCCESS.csv", "a\n")
    assert prints(tmp_path, source) == third
    assert len({first[1], second[1], third[1]}) == 3


def test_globs_in_folders(tmp_path: Path) -> None:
    land(tmp_path, "station-a/2024-03-01.csv", "a\n1\n")
    land(tmp_path, "station-b/2024-03-01.csv", "a\n1\n")
    land(tmp_path, "other/2024-03-02.csv", "a\n1\n")
    source = csv_source(path="station-?/{window:%Y-%m-%d}.csv")
    assert [file.path for file in Landing(str(tmp_path)).files(source.pattern, DAYS)] == [
        "station-a/2024-03-01.csv",
        "station-b/2024-03-01.csv",
    ]


def test_a_link_that_leads_out_is_a_file_that_must_not_be_opened(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    land(landing, "t/2024-03-01.csv", "a\n1\n")
    secret = land(tmp_path, "secret.csv", "a\n1\n")
    (landing / "t" / "2024-03-02.csv").symlink_to(secret)
    (landing / "t" / "2024-03-03.csv").symlink_to(landing / "t" / "2024-03-01.csv")
    (landing / "t" / "2024-03-04.csv").symlink_to("nowhere")
    (landing / "t" / "loop").symlink_to(landing)
    (landing / "t" / "2024-03-05.csv").symlink_to("2024-03-01.csv/under_a_file")
    (landing / "t" / "2024-03-06.csv").symlink_to("2024-03-06.csv")
    (landing / "itself").symlink_to("itself")
    files = {file.window.start.day: file.refused for file in Landing(str(landing)).files(csv_source().pattern, DAYS)}
    assert files == {1: None, 2: "it is a link that leads out of the landing folder", 3: None}
    deep = csv_source(path="*/{window:%Y-%m-%d}.csv").pattern
    assert {file.path for file in Landing(str(landing)).files(deep, DAYS)} == {f"t/2024-03-0{n}.csv" for n in (1, 2, 3)}
    (tmp_path / "alias").symlink_to(landing)
    assert [file.refused for file in Landing(str(tmp_path / "alias")).files(csv_source().pattern, [day(1)])] == [None]


def test_a_link_that_cannot_be_followed_stops_its_own_window_only(tmp_path: Path) -> None:
    land(tmp_path, "t/2024-03-01.csv", "a\n1\n")
    (tmp_path / "t" / "2024-03-02.csv").symlink_to("x" * 300)  # longer than any name of a file
    (tmp_path / "t" / "other").symlink_to("x" * 300)
    files = {file.window.start.day: file.refused for file in Landing(str(tmp_path)).files(csv_source().pattern, DAYS)}
    assert files == {1: None, 2: "it is a link that cannot be followed, which is not opened"}


def test_a_folder_that_leads_out(tmp_path: Path) -> None:
    landing, outside = tmp_path / "landing", tmp_path / "outside"
    land(outside, "2024-03-01.csv", "a\n1\n")
    landing.mkdir()
    (landing / "t").symlink_to(outside)
    [file] = Landing(str(landing)).files(csv_source().pattern, DAYS)
    assert file.refused and "leads out" in file.refused


def test_permission_is_part_of_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    land(tmp_path, "t/2024-03-01.csv", "a\n1\n")
    allowed = prints(tmp_path)
    with monkeypatch.context() as patch:  # root may read everything
        patch.setattr(os, "access", lambda *_: False)
        [file] = Landing(str(tmp_path)).files(csv_source().pattern, DAYS)
        assert file.refused == "permission denied"
        assert prints(tmp_path) != allowed
    assert prints(tmp_path) == allowed


def test_names_that_spark_cannot_read_or_that_are_no_text(tmp_path: Path) -> None:
    source = csv_source(path="{window:%Y-%m-%d}/*.csv")
    land(tmp_path, "2024-03-01/a:b.csv", "a\n1\n")
    Path(os.fsdecode(os.fsencode(tmp_path / "2024-03-01") + b"/bad\xff.csv")).write_text("a\n1\n")
    for root in (str(tmp_path), tmp_path.as_uri()):
        file, *more = Landing(root).files(source.pattern, DAYS)
        assert file.path.endswith("a:b.csv") and file.refused and "colon" in file.refused
        refused = [(other.path, other.refused) for other in more]
        assert refused == [("2024-03-01/bad\\xff.csv", "its name is no UTF-8, which Spark cannot read")]


def test_a_path_that_is_no_regular_file_is_refused_unopened(spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a good file of another window. To open a pipe would wait for ever."""
    land(tmp_path, "t/2024-03-01.csv", "a\n1\n")
    (tmp_path / "t" / "2024-03-02.csv").mkdir()
    os.mkfifo(tmp_path / "t" / "2024-03-03.csv")
    (tmp_path / "t" / "2024-03-04.csv").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path / "t")  # a socket's whole path has at most 107 bytes
        server.bind("2024-03-05.csv")
    Path(os.fsdecode(os.fsencode(tmp_path / "t") + b"/2024-03-06\xff.csv")).write_text("a\n1\n")
    source, days = csv_source(path="t/{window:%Y-%m-%d}*.csv"), [day(n) for n in range(1, 7)]
    first = prints(tmp_path, source)
    assert sorted(first) == [1, 2, 3, 4, 5] and prints(tmp_path, source) == first
    extraction = FilesReader(source, str(tmp_path)).read(spark, days)
    assert rows(extraction, "_source_file", "_corrupt_record", "a") == [
        ("t/2024-03-01.csv", None, "1"),
        *(
            (path, f"unreadable file {path}: {why}", None)
            for path, why in {
                "t/2024-03-02.csv": "it is a folder (to read the files in it, let `path` name them: `…/*`)",
                "t/2024-03-03.csv": "it is a named pipe (FIFO), which is not opened",
                "t/2024-03-04.csv": "it is a device, which is not opened",
                "t/2024-03-05.csv": "it is a socket, which is not opened",
                "t/2024-03-06\\xff.csv": "its name is no UTF-8, which Spark cannot read",
            }.items()
        ),
    ]


def test_a_missing_landing_folder_names_the_variable(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"LAKEHOUSE_LANDING is .*does not exist: create it"):
        prints(tmp_path / "nowhere")
    with pytest.raises(SourceError, match="not a folder"):
        prints(land(tmp_path, "file", ""))
    with pytest.raises(SourceError, match="cannot be opened"):
        FilesReader(csv_source(), "gopher://x/y")


def test_a_landing_folder_without_this_tables_files(tmp_path: Path) -> None:
    assert prints(tmp_path) == {}
    land(tmp_path, "t", "a file where the folder should be")
    assert prints(tmp_path) == {}


def test_object_store_paths() -> None:
    landing = Landing.__new__(Landing)  # no store is asked
    landing.location, landing.local, landing.root = "s3://bucket/in", False, "bucket/in"
    assert landing.spark_path("t/a.csv") == "s3a://bucket/in/t/a.csv"
    assert landing.key("t/a.csv") == "bucket/in/t/a.csv"
