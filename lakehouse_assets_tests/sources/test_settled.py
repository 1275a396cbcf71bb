"""`source.settled` on real folders, local ones and an object store's.

Belongs here: which windows one poll settles. Does not: the rule by itself (contracts/test_settling.py).
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.pipeline.read_windows import why_nothing_arrived
from lakehouse_assets.sources import FilesReader
from lakehouse_assets_tests.sources.source_files import csv_source, day, land
from lakehouse_assets_tests.support import lake_settings

NOW = datetime(2024, 3, 9, tzinfo=UTC)
DAYS = [day(1), day(2), day(3)]


def observed(folder, settled, path="t/{window:%Y-%m-%d}/*.csv", remote=False, control=None):
    reader = FilesReader(csv_source(path=path, settled=settled, control=control), str(folder))
    if remote:  # listed as an object store is: by pyarrow, without the operating system
        landing = reader._landing
        landing.local, landing.root = False, "."
        landing.filesystem = SubTreeFileSystem(str(folder), LocalFileSystem())
    observation = reader.observe(DAYS, NOW)
    assert observation.fingerprints == reader.fingerprints(DAYS)
    return {window.start.day: observation.settlements.get(window) for window in observation.fingerprints}


def put(folder, path, ago=timedelta(hours=1), text="a\n1\n"):
    file = land(folder, path, text)
    at = (NOW - ago).timestamp()
    os.utime(file, (at, at))
    return file


def test_without_the_key_two_polls_must_agree(tmp_path):
    put(tmp_path, "t/2024-03-01/a.csv")
    assert observed(tmp_path, None) == {1: None}


@pytest.mark.parametrize("remote", [False, True])
def test_a_marker_settles_its_folder(tmp_path, remote):
    for number in (1, 2):
        put(tmp_path, f"t/2024-03-0{number}/a.csv")
    put(tmp_path, "t/2024-03-03/_SUCCESS", text="")  # nothing arrived
    marker = put(tmp_path, "t/2024-03-01/_SUCCESS", ago=timedelta(minutes=50), text="")
    settled = {"marker": "_SUCCESS"}
    assert observed(tmp_path, settled, remote=remote) == {1: "whole", 2: "waits"}
    put(tmp_path, "t/2024-03-01/b.csv", ago=timedelta(minutes=40))
    assert observed(tmp_path, settled, remote=remote)[1] == "unchanged"
    marker.unlink()
    assert observed(tmp_path, settled, remote=remote)[1] == "waits"


def test_a_marker_is_no_part_of_the_fingerprint_and_no_folder(tmp_path):
    put(tmp_path, "t/2024-03-01/a.csv")
    reader = FilesReader(csv_source(path="t/{window:%Y-%m-%d}/*.csv", settled={"marker": "_SUCCESS"}), str(tmp_path))
    before = reader.fingerprints(DAYS)
    (tmp_path / "t/2024-03-01/_SUCCESS").mkdir()
    assert observed(tmp_path, {"marker": "_SUCCESS"}) == {1: "waits"}
    (tmp_path / "t/2024-03-01/_SUCCESS").rmdir()
    put(tmp_path, "t/2024-03-01/_SUCCESS", text="")
    assert observed(tmp_path, {"marker": "_SUCCESS"}) == {1: "whole"}
    assert reader.fingerprints(DAYS) == before


def test_a_marker_by_its_path_and_a_control_file(tmp_path):
    settled, control = {"marker": "done/{window:%Y-%m-%d}"}, "c/{window:%Y-%m-%d}.json"
    put(tmp_path, "t/2024-03-01.csv")
    put(tmp_path, "c/2024-03-01.json", text="{}")
    path = "t/{window:%Y-%m-%d}.csv"
    assert observed(tmp_path, settled, path, control=control) == {1: "waits"}
    put(tmp_path, "done/2024-03-01", ago=timedelta(minutes=1), text="")
    assert observed(tmp_path, settled, path, control=control) == {1: "whole"}
    put(tmp_path, "c/2024-03-01.json", ago=timedelta(0), text='{"rows": 1}')
    assert observed(tmp_path, settled, path, control=control) == {1: "unchanged"}


def test_each_folder_of_a_window_needs_its_marker(tmp_path):
    settled, path = {"marker": "_SUCCESS"}, "t/{window:%Y-%m-%d}/*/*.csv"
    for region in ("north", "south"):
        put(tmp_path, f"t/2024-03-01/{region}/a.csv")
    put(tmp_path, "t/2024-03-01/north/_SUCCESS", ago=timedelta(0), text="")
    assert observed(tmp_path, settled, path) == {1: "waits"}
    put(tmp_path, "t/2024-03-01/south/_SUCCESS", ago=timedelta(0), text="")
    assert observed(tmp_path, settled, path) == {1: "whole"}


@pytest.mark.parametrize("remote", [False, True])
def test_a_file_is_whole_once_it_is_quiet(tmp_path, remote):
    put(tmp_path, "t/2024-03-01/a.csv", ago=timedelta(seconds=6))
    put(tmp_path, "t/2024-03-02/a.csv", ago=timedelta(seconds=4))
    put(tmp_path, "t/2024-03-03/a.csv", ago=timedelta(seconds=-6))
    assert observed(tmp_path, {"seconds": 5}, remote=remote) == {1: "whole", 2: "waits", 3: "waits"}


@pytest.mark.parametrize("remote", [False, True])
def test_a_renamed_file_is_whole_and_others_are_not_read(spark, tmp_path, remote):
    put(tmp_path, "t/2024-03-01.csv")
    for name in ("2024-03-01.csv.part", "2024-03-02.csv.crdownload", "2024-03-03.csv~", ".2024-03-03.csv"):
        put(tmp_path, f"t/{name}", text="a\nhalf")
    path = "t/{window:%Y-%m-%d}*"
    assert observed(tmp_path, "rename", path, remote=remote) == {1: "whole"}
    if not remote:
        reader = FilesReader(csv_source(path=path, settled="rename"), str(tmp_path))
        assert [row["_source_file"] for row in reader.read(spark, DAYS).frame.collect()] == ["t/2024-03-01.csv"]
        assert set(observed(tmp_path, None, path)) == {1, 2, 3}


@pytest.mark.parametrize(
    ("settled", "names", "expected"),
    [
        ({"seconds": 5}, ["a.csv", "b.csv"], "2 files are not settled yet at t/… ({seconds: 5}: a file is younger than 5 s)"),
        (
            {"marker": "_SUCCESS"},
            ["a.csv"],
            "1 file is not settled yet at t/… ({marker: _SUCCESS}: there is no marker _SUCCESS)",
        ),
        ("rename", ["a.csv.part", "b.csv~"], "2 files are not settled yet at t/… (rename: they are still to be renamed)"),
        ({"seconds": 5}, [], "nothing has arrived at t/…"),
        ("rename", ["a.txt.part"], "nothing has arrived at t/…"),
        (None, ["a.txt"], "nothing has arrived at t/…"),
    ],
)
def test_files_that_are_not_settled_are_counted_with_their_rule(tmp_path, settled, names, expected):
    path = "t/{window:%Y-%m-%d}/*.csv"
    source = {"kind": "files", "path": path, "format": "csv", **({"settled": settled} if settled else {})}
    attributes = {"extraction": {"cadence": "daily", "start": "2024-03-01", "mode": "append"}, "columns": {"a": "string"}}
    table = TableSpec.model_validate({"name": "t", "description": "t", "source": source, **attributes})
    settings = lake_settings(tmp_path)
    for name in names:
        put(Path(settings.landing), f"t/2024-03-02/{name}", ago=timedelta(0))
    Path(settings.landing).mkdir(exist_ok=True)
    message = why_nothing_arrived(settings, table, DAYS, NOW)
    assert message.replace(f"at {table.source.location}", "at t/…").replace("source.settled is ", "") == expected
