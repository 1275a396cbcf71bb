"""`source.settled`: its three forms, refused ones, and whether a window's files are whole.

Belongs here: the pure rule. Does not: files (sources/test_settled.py), or polls (orchestration/healing).
"""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from lakehouse_assets.checks.strict_model import RECORDED
from lakehouse_assets.contracts.settling import Settling, is_temporary, settlement
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.source_kinds import BUILT_IN
from lakehouse_assets.contracts.table import TableSpec

BY_DAY, BY_FILE = "t/{window:%Y-%m-%d}/*.csv", "t/{window:%Y-%m-%d}.csv"
NOW = datetime(2024, 5, 2, 12, tzinfo=UTC)
NS = int(NOW.timestamp() * 1e9)
SECOND = 1_000_000_000


def source(settled, path=BY_DAY):
    return FilesSource(kind="files", path=path, format="csv", settled=settled)


@pytest.mark.parametrize(
    ("settled", "path"),
    [
        ("rename", BY_FILE),
        ({"marker": "_SUCCESS"}, BY_DAY),
        ({"marker": "done"}, BY_DAY),
        ({"marker": "_SUCCESS"}, "t/{window:%Y-%m-%d}/*/x*.csv"),
        ({"marker": "t/{window:%Y-%m-%d}.done"}, BY_FILE),
        ({"marker": "m/{window:%Y-%m-%d}/_SUCCESS"}, BY_FILE),
        ({"seconds": 5}, BY_FILE),
        ({"seconds": 0.5}, BY_DAY),
    ],
)
def test_what_is_written_is_what_is_recorded(settled, path):
    model = source(settled, path)
    assert model.model_dump()["settled"] == settled
    assert FilesSource.model_validate(model.model_dump(), context={RECORDED: True}) == model


def test_without_the_key_nothing_is_recorded():
    assert "settled" not in source(None).model_dump()


@pytest.mark.parametrize(
    ("settled", "path", "text"),
    [
        ("renamed", BY_DAY, "'renamed' is not one of the three ways; write `rename`, `{marker: _SUCCESS}`"),
        ({}, BY_DAY, "not one of the three ways"),
        (True, BY_DAY, "not one of the three ways"),
        ([], BY_DAY, "not one of the three ways"),
        ({"rename": True}, BY_DAY, "not one of the three ways"),
        ({"marker": "_S", "seconds": 5}, BY_DAY, "not one of the three ways"),
        ({"marker": None}, BY_DAY, "not one of the three ways"),
        ({"seconds": 0}, BY_DAY, "greater than 0"),
        ({"seconds": True}, BY_DAY, "true is no number"),
        ({"seconds": 10**9}, BY_DAY, "less than or equal to 86400"),
        ({"marker": ""}, BY_DAY, "must be the name or the path of one file"),
        ({"marker": "*.done"}, BY_DAY, "without globs"),
        ({"marker": ".."}, BY_DAY, "must be the name"),
        ({"marker": "_SUCCESS"}, BY_FILE, "such as 't/{window:%Y-%m-%d}.done'"),
        ({"marker": "_SUCCESS"}, "{window:%Y-%m-%d}.csv", "such as '{window:%Y-%m-%d}.done'"),
        ({"marker": "t/_SUCCESS"}, BY_FILE, "settled: the marker: 't/_SUCCESS' has no {window:...}"),
        ({"marker": "../{window:%Y-%m-%d}"}, BY_FILE, "leaves the landing folder"),
        ({"marker": "t/{window:%d}.done"}, BY_FILE, "does not name one window"),
        ({"marker": "ready.csv"}, BY_DAY, "is also one of `path`"),
        ({"marker": "t/{window:%Y-%m-%d}.csv"}, BY_FILE, "is also one of `path`"),
        ("rename", "t/{window:%Y-%m-%d}.part", "rename ignores names such as"),
    ],
)
def test_a_form_that_cannot_work_is_refused(settled, path, text):
    with pytest.raises(ValidationError) as refused:
        source(settled, path)
    assert text in str(refused.value)


def test_a_marker_that_windows_would_share_is_refused():
    table = {
        "name": "t",
        "source": {"kind": "files", "path": "t/{window:%Y-%m-%d}/{window:%H}.csv", "format": "csv"},
        "extraction": {"cadence": "hourly", "start": "2024-05-01"},
        "key": ["id"],
        "columns": {"id": "bigint"},
    }
    TableSpec.model_validate(table)
    table["source"]["settled"] = {"marker": "_SUCCESS"}
    with pytest.raises(
        ValidationError, match=r"source.settled: the marker .* has no %H, so that hourly windows would share it"
    ):
        TableSpec.model_validate(table)


def test_no_other_kind_has_the_key():
    others = [kind for kind in BUILT_IN if kind is not FilesSource]
    assert others
    for kind in others:
        with pytest.raises(ValidationError) as refused:
            kind.model_validate({"settled": "rename"})
        assert "settled: only files of `kind: files` have it" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, False) for name in ("a.csv", "part-0001.csv", "tmp", "a.tmp.csv", "temp.csv", "a.parts", "download", "")),
        *((name, True) for name in ("a.csv.tmp", "A.PART", "a.csv.crdownload", "a~", "~a.csv", "a.inprogress", "a\n.tmp")),
    ],
)
def test_names_of_files_that_are_not_whole_yet(name, expected):
    assert is_temporary(name) is expected


@pytest.mark.parametrize(
    ("settled", "files", "markers", "control", "expected"),
    [
        ("rename", {"d/a": 3 * NS}, {}, 0, "whole"),
        ({"seconds": 5}, {"d/a": NS - 5 * SECOND}, {}, 0, "whole"),
        ({"seconds": 5}, {"d/a": NS - 5 * SECOND + 1}, {}, 0, "waits"),
        ({"seconds": 5}, {"d/a": 0, "d/b": NS}, {}, 0, "waits"),
        ({"seconds": 5}, {"d/a": NS + 1}, {}, 0, "waits"),
        ({"seconds": 5}, {"d/a": 0}, {}, NS - SECOND, "waits"),
        ({"marker": "_S"}, {"d/a": 5}, {}, 0, "waits"),
        ({"marker": "_S"}, {"d/a": 5}, {"d/_S": 5}, 0, "whole"),
        ({"marker": "_S"}, {"d/a": 5}, {"e/_S": 9}, 0, "waits"),
        ({"marker": "_S"}, {"d/a": 5, "e/a": 5}, {"d/_S": 9}, 0, "waits"),
        ({"marker": "_S"}, {"d/a": 5, "e/a": 5}, {"d/_S": 9, "e/_S": 9, "f/_S": 1}, 0, "whole"),
        ({"marker": "_S"}, {"d/a": 5, "d/b": 6}, {"d/_S": 5}, 0, "unchanged"),
        ({"marker": "_S"}, {"d/a": 5}, {"d/_S": 5}, 6, "unchanged"),
        ({"marker": "m/{window:%Y-%m-%d}"}, {"d/a": 5, "e/a": 5}, {"m/2024-05-01": 5}, 0, "whole"),
        ({"marker": "m/{window:%Y-%m-%d}"}, {"d/a": 5}, {}, 0, "waits"),
        ({"marker": "m/{window:%Y-%m-%d}"}, {"d/a": 7}, {"m/2024-05-01": 5}, 0, "unchanged"),
    ],
)
def test_whether_one_poll_is_enough(settled, files, markers, control, expected):
    outcome, reason = settlement(Settling.model_validate(settled), files, markers, NOW, control)
    assert outcome == expected
    assert bool(reason) == (expected == "waits")


@pytest.mark.parametrize(
    ("ahead", "reason"),
    [(-1, "a file is younger than 5 s"), (60, "a file is younger than 5 s"), (61, "a file's time is in the future")],
)
def test_why_a_file_is_not_quiet(ahead, reason):
    assert settlement(Settling(seconds=5), {"d/a": NS + ahead * SECOND}, {}, NOW) == ("waits", reason)
