"""Why no landed file belongs to a window: the nearest name, other windows; and files of another encoding. No Spark.

Belongs here: the sentences. Does not: the command that prints them (test_cli).
"""

from datetime import UTC, datetime

import pytest

from lakehouse_assets.contracts.path_pattern import PathPattern
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.sources.landing import Landing
from lakehouse_assets.sources.unmatched_path import Claims, explain_encoding, explain_no_match, explain_unclaimed

FIRST, LAST = (window_at(datetime(2024, 1, day, tzinfo=UTC), "daily") for day in (1, 9))


@pytest.mark.parametrize(
    ("path", "landed", "last", "expected"),
    [
        ("metres/red_{window:%Y%m%d}.csv", ["meters/read_20240101.csv"], LAST,
         "the landing folder has 'meters', not 'metres'"),
        ("meters/red_{window:%Y%m%d}.csv", ["meters/read_20240413.csv"], LAST,
         "meters has 'read_20240413.csv', not 'red_20240101.csv'"),
        ("m/{window:%Y/%m}/red-{window:%d}.csv", ["m/2024/05/read-02.csv"], LAST,
         "m/2024/05 has 'read-02.csv', not 'red-01.csv'"),
        ("a/{window:%Y%m%d}.csv", ["zzz/x", "yyy/x"], LAST, "the landing folder has 'yyy', 'zzz'"),
        ("a/{window:%Y%m%d}.csv", ["a/.part"], LAST, "a is empty"),
        ("a/{window:%Y%m%d}.csv", ["a/20230601.csv", "a/20230603.csv"], LAST,
         "of windows from 2023-06-01 to 2023-06-03; the table's windows go from 2024-01-01 to 2024-01-09"),
        ("{window:%Y/%m/%d}.csv", ["2023/06/01.csv"], None,
         "of windows from 2023-06-01 to 2023-06-01; its first window, 2024-01-01, has not ended"),
    ],
)  # fmt: skip
def test_the_nearest_name_or_the_other_windows_explain_why_no_file_matches(tmp_path, path, landed, last, expected):
    for name in landed:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    text = explain_no_match(Landing(str(tmp_path)), PathPattern(path), FIRST, last)
    assert repr(path) in text
    assert text.endswith(expected)


def test_an_empty_landing_folder_is_no_finding(tmp_path):
    assert explain_no_match(Landing(str(tmp_path)), PathPattern("a/{window:%Y%m%d}.csv"), FIRST, LAST) == ""


def files(path: str, **keys) -> FilesSource:
    return FilesSource.model_validate({"kind": "files", "path": path, "format": "csv"} | keys)


@pytest.mark.parametrize(
    ("source", "others", "landed", "unclaimed"),
    [
        (files("m/{window:%Y%m%d}.csv"), [], ["m/20240101.csv", "m/2024-01-02.csv"], ["m/2024-01-02.csv"]),
        (files("m/{window:%Y%m%d}.csv"), [], ["m/20240101.csv", "m/20240231.csv", "m/20240103.CSV"],
         ["m/20240103.CSV", "m/20240231.csv"]),
        (files("{window:%Y/%m/%d}/a*.csv"), [], ["2024/01/01/a1.csv", "2024/01/01/b1.csv", "2024/01/02/a.csv"],
         ["2024/01/01/b1.csv"]),
        (files("m/a*.csv"), [], ["m/a1.csv", "m/b1.csv", "m/a1.csv.gz"], ["m/a1.csv.gz", "m/b1.csv"]),
        # A path without a suffix could want any.
        (files("m/a_{window:%Y%m%d}*"), [], ["m/a_20240101.csv", "m/b.txt", "m/b.db"], ["m/b.txt"]),
        # A suffix that another table of the folder reads, and one of a table elsewhere.
        (files("m/a.csv"), [files("m/b.json"), files("n/c.txt")], ["m/x.json", "m/x.txt"], ["m/x.json"]),
        (files("m/{window:%Y%m%d}/a.csv"), [files("m/2024*/{window:%Y%m%d}.csv"), files("n/b.csv")],
         ["m/20240101/20240101.csv", "m/20240101/b.csv"], ["m/20240101/b.csv"]),
        # Other tables' files, control files, markers, hidden files, unfinished ones and folders.
        (files("m/a_{window:%Y%m%d}.csv", control="m/a_{window:%Y%m%d}.json", settled={"marker": "m/{window:%Y%m%d}.end"}),
         [files("m/b_{window:%Y%m%d}.csv")],
         ["m/a_20240101.csv", "m/a_20240101.json", "m/20240101.end", "m/b_20240101.csv", "m/_x", "m/.y", "m/z.csv.part",
          "m/a_20240101.csv.md5", "m/a.done", "m/older/x.csv"], []),
        # Files that come beside data.
        (files("m/a_{window:%Y%m%d}.csv"), [files("m/b.json"), files("m/b.txt"), files("m/b_{window:%Y%m%d}*")],
         ["m/README.md", "m/manifest.json", "m/Thumbs.db", "m/x.csv.flag", "m/done.txt", "m/readme.txt", "m/x.csv.manifest"],
         []),
        (files("m/a_{window:%Y%m%d}.csv"), [], ["m/notes.txt", "m/layout.pdf"], []),
    ],
)  # fmt: skip
def test_files_that_match_no_tables_path_are_named(tmp_path, source, others, landed, unclaimed):
    for name in landed:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    text = explain_unclaimed(Landing(str(tmp_path)), source, Claims([source, *others]), set())
    assert text.partition(" match")[0] == ", ".join(map(repr, unclaimed))
    assert text == "" or text.endswith(f"not read; this table's path is {source.path!r}")


def test_at_most_five_such_files_are_named_and_the_last_folders_listed(tmp_path):
    for number in range(1, 8):
        (tmp_path / f"{number}.csv").touch()
    source = files("{window:%Y%m%d}.csv")
    assert explain_unclaimed(Landing(str(tmp_path)), source, Claims([source]), set()).startswith(
        "'1.csv', '2.csv', '3.csv', '4.csv', '5.csv' and 2"
    )
    for day in range(1, 23):
        (tmp_path / f"d/202401{day:02}").mkdir(parents=True)
        (tmp_path / f"d/202401{day:02}/x.csv").touch()
    source = files("d/{window:%Y%m%d}/a.csv")
    text = explain_unclaimed(Landing(str(tmp_path)), source, Claims([source]), set())
    assert text.startswith("'d/20240103/x.csv', ") and "and 15 more match" in text


def test_a_folder_that_two_paths_reach_is_listed_once(tmp_path):
    (tmp_path / "m/2024").mkdir(parents=True)
    (tmp_path / "m/2024/x.csv").touch()
    sources = [files("m/{window:%Y}/a-{window:%Y%m%d}.csv"), files("m/20*/b-{window:%Y%m%d}.csv")]
    examined: set[str] = set()
    texts = [explain_unclaimed(Landing(str(tmp_path)), each, Claims(sources), examined) for each in sources]
    assert texts[0].startswith("'m/2024/x.csv' matches no table's path")
    assert (texts[1], examined) == ("", {"m/2024"})


@pytest.mark.parametrize(("encoding", "is_right"), [("utf-8", False), ("iso-8859-1", True)])
def test_a_file_of_another_encoding_is_named(tmp_path, encoding, is_right):
    (tmp_path / "20240101.csv").write_bytes("city,n\nKöln,1\n".encode("iso-8859-1"))
    source = FilesSource.model_validate({"kind": "files", "path": "{window:%Y%m%d}.csv", "format": "csv", "encoding": encoding})
    text = explain_encoding(Landing(str(tmp_path)), source, FIRST)
    assert text == (
        "" if is_right else "20240101.csv is not utf-8 (byte 9); set `encoding`, such as windows-1252 or iso-8859-1"
    )
