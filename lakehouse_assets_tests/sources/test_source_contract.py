"""`source:` as it is written: what a path pattern may be, and names that go into bronze and back.

Belongs here: contracts/source.py, without Spark or files. Does not: reading.
"""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakehouse_assets.contracts.source import REFUSED_BY_DELTA, safe_name, source_name
from lakehouse_assets_tests.sources.source_files import csv_source, json_source

AWKWARD = st.text(st.sampled_from("_xX2057f8 a,peP\t\né."), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/abs/{window:%Y-%m-%d}.csv", "absolute"),
        ("s3://bucket/{window:%Y-%m-%d}.csv", "absolute"),
        ("~/{window:%Y-%m-%d}.csv", "absolute"),
        ("a/../{window:%Y-%m-%d}.csv", "leaves the landing folder"),
        ("{window}.csv", "besides {window:...} only the globs"),
        ("a//{window:%Y-%m-%d}.csv", "empty segment"),
        ("{window:%Y-%m-%d}/**/x.csv", "only the globs"),
        ("{window:%Y-%m-%d}/[ab].csv", "only the globs"),
        ("{window:%Y-%m-%d}/{other}.csv", "only the globs"),
        ("{window:%Y-%m-%dT%H:%M}.csv", "colon"),
        ("t/_{window:%Y-%m-%d}.csv", "hidden"),
        ("{window:%Y-%b-%d}.csv", "cannot be read back"),
        ("{window:%y%m%d}.csv", "cannot be read back"),
        ("{window:2024}.csv", "cannot be read back"),
        ("{window:%Y-%m-%}.csv", "cannot be read back"),
        ("{window:%Y-%d}.csv", "does not name one window"),
        ("{window:%m-%d}.csv", "does not name one window"),
        ("{window:%Y}.csv", "does not name one window"),
        ("{window:%Y-%m-%d-%M}.csv", "does not name one window"),
        ("{window:%Y-%m-%H}.csv", "does not name one window"),
    ],
)
def test_refused_paths(path: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message.replace("{", r"\{").replace("}", r"\}")):
        csv_source(path=path)


def test_only_a_stream_has_a_path_without_a_window() -> None:
    source = csv_source(path="weather.csv")
    with pytest.raises(ValueError, match=r"source\.path: 'weather\.csv' has no \{window:\.\.\.\} placeholder"):
        source.refuse_extraction("daily", "append", None)
    source.refuse_stream("append", None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"timezone": "Mars/Base"}, "not an IANA zone"),
        ({"timezone": "../etc/passwd"}, "not an IANA zone"),
        ({"encoding": "utf-16"}, "convert the files"),
        ({"delimiter": "||"}, "one character"),
        ({"quote": ""}, "one character"),
        ({"delimiter": '"'}, "both"),
        ({"format": "json", "encoding": "latin-1"}, "JSON is UTF-8"),
        ({"format": "orc"}, "csv"),
        ({"decimal": ";"}, "a point or a comma"),
        ({"thousands": "3"}, "must be one of"),
        ({"thousands": "."}, "decimal ','"),
        ({"decimal": ",", "thousands": ","}, "both ','"),
        ({"format": "json", "decimal": ","}, "csv and fixed only"),
        ({"seperator": ","}, "not known here"),
    ],
)
def test_refused_settings(settings: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        csv_source(**settings)


@pytest.mark.parametrize(
    ("path", "file", "start"),
    [
        ("w/{window:%Y-%m-%d}.csv", "w/2024-03-01.csv", datetime(2024, 3, 1, tzinfo=UTC)),
        ("w/{window:%Y-%m-%d}.csv", "w/2024-02-30.csv", None),
        ("w/{window:%Y-%m-%d}.csv", "w/2024-03-01Xcsv", None),
        ("w/{window:%Y-%m-%d}.csv", "w/2024-03-01.csv.gz", None),
        ("{window:%Y}/{window:%m}/{window:%d}.csv", "2024/03/05.csv", datetime(2024, 3, 5, tzinfo=UTC)),
        ("{window:%Y/%m/%d}/p*.csv.gz", "2024/03/05/p-1.csv.gz", datetime(2024, 3, 5, tzinfo=UTC)),
        ("{window:%Y}/{window:%Y-%m-%d}.csv", "2023/2024-03-05.csv", None),
        ("{window:%Y-%j}.csv", "2024-366.csv", datetime(2024, 12, 31, tzinfo=UTC)),
        ("{window:%Y-%j}.csv", "2023-366.csv", None),
        ("{window:%Y-%j}.csv", "9999-999.csv", None),
        ("{window:%Y-%j}.csv", "0001-000.csv", None),
        ("{window:%Y%m%d%H}?.csv", "2024030523x.csv", datetime(2024, 3, 5, 23, tzinfo=UTC)),
        ("{window:%Y%m%d%H}.csv", "2024030524.csv", None),
        ("{window:%Y-%m-%d}/*.csv", "2024-03-05/a/b.csv", None),
    ],
)
def test_window_of_a_file(path: str, file: str, start: datetime | None) -> None:
    assert csv_source(path=path).pattern.window_start(file) == start


def test_a_cadence_finer_than_the_names_is_refused() -> None:
    monthly, daily = csv_source(path="{window:%Y-%m}.csv"), csv_source()
    monthly.refuse_extraction("monthly", "append", None)
    daily.refuse_extraction("weekly", "append", None)
    with pytest.raises(ValueError, match="daily windows would share their files"):
        monthly.refuse_extraction("daily", "append", None)
    with pytest.raises(ValueError, match="has no %H"):
        daily.refuse_extraction("hourly", "append", None)


def test_spellings_of_encodings() -> None:
    assert [csv_source(encoding=e).encoding for e in ("UTF8", "latin-1", "ascii")] == ["utf-8", "iso-8859-1", "us-ascii"]
    assert [csv_source(encoding=e).encoding for e in ("windows-1252", "CP1252")] == ["windows-1252"] * 2
    assert json_source().encoding == "utf-8"
    with pytest.raises(ValueError, match="delimiter '→' is no character of windows-1252"):
        csv_source(encoding="windows-1252", delimiter="→")
    with pytest.raises(ValueError, match="as by `iconv -f cp1250 -t utf-8`"):
        csv_source(encoding="cp1250")


@given(AWKWARD)
def test_safe_names_come_back(name: str) -> None:
    safe = safe_name(name)
    assert source_name(safe) == name
    assert not safe.startswith("_")
    assert not set(safe) & set(REFUSED_BY_DELTA)
    assert safe.lower() not in ("p_extracted_at", "extraction_seq")


@given(AWKWARD, AWKWARD)
def test_safe_names_keep_columns_apart(one: str, other: str) -> None:
    if safe_name(one).lower() == safe_name(other).lower():
        assert one.lower() == other.lower()


@pytest.mark.parametrize("name", ["temp", "a.b", "a`b", "x", "<script>", "😀", "é", "../../x", "select", "x" * 300])
def test_most_names_stay(name: str) -> None:
    assert safe_name(name) == name
