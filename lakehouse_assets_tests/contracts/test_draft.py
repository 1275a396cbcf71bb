"""`lakehouse init`: a draft that loads, from what a file shows; and what it says where it cannot guess."""

import bz2
import gzip
import time
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet

from lakehouse_assets.contracts.draft import draft_table
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError

TIMES = "2024-05-01T00:00,2024-05-02T00:00"
WEATHER = "origin,time_hour,temp\n" + "".join(f"{o},2013-01-01T{h:02d}:00:00Z,39.{h}\n" for o in "XYZ" for h in range(24))


def spec_of(text: str) -> TableSpec:
    assert not any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)), "load_tables refuses aliases"
    return TableSpec.model_validate(yaml.safe_load(text)["attributes"])


def draft(folder, name: str, content: str | bytes, start: str | None = None) -> tuple[TableSpec, str, list[str]]:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    text, advice = draft_table("t", file, folder, start)
    return spec_of(text), text, advice


def test_a_csv(tmp_path):
    rows = "1,2024-05-01T08:00:00Z,1.5,NA\n2,2024-05-01T09:00:00Z,2,it's: {odd}\n"
    spec, text, advice = draft(tmp_path, "orders/2024-05-01.csv", "Order Id,ordered_at,amount,note\n" + rows)
    assert spec.source.path == "orders/{window:%Y-%m-%d}.csv"
    assert (spec.extraction.cadence, spec.extraction.first.key, spec.extraction.mode) == ("daily", "2024-05-01", "upsert")
    assert {n: c.type for n, c in spec.columns.items()} == {
        "order_id": "bigint", "ordered_at": "timestamp", "amount": "double", "note": "string",
    }  # fmt: skip
    assert spec.columns["order_id"].source_name == "Order Id"
    assert (spec.key, spec.last_modified, spec.source.nulls) == (("order_id",), "ordered_at", ("NA",))
    assert [check.id for check in spec.checks] == ["not_empty", "not_null_order_id", "unique_order_id"]
    assert "key: order_id, guessed from 2 rows; check it" in advice
    assert any(line.startswith("nulls: NA") for line in advice)
    assert "# A guess: unique in 2 rows" in text


def test_texts_with_line_breaks_are_read_as_one_piece(tmp_path):
    spec, text, advice = draft(tmp_path, "notes/2024-05-01.csv", 'id,note\r\n1,"two\nlines"\r\n2,one\r\n')
    assert spec.source.multiline
    assert any(line.startswith("multiline: texts contain line breaks") for line in advice)
    spec, text, advice = draft(tmp_path, "notes/2024-05-01.csv", "id,note\r\n1,a\r\n2,b\r\n")
    assert not spec.source.multiline
    assert "multiline" not in text + "".join(advice)


def test_gzip_json_lines_by_hour_without_a_key(tmp_path):
    content = gzip.compress(b'{"v": 1, "n": {"x": 2}}\n{"v": 1, "w": null}\n')
    spec, _, advice = draft(tmp_path, "e-2024-05-01T07.json.gz", content)
    assert (spec.source.format, spec.extraction.cadence, spec.extraction.mode, spec.key) == ("json", "hourly", "append", ())
    assert spec.source.path == "e-{window:%Y-%m-%dT%H}.json.gz"
    assert {n: c.type for n, c in spec.columns.items()} == {"v": "bigint", "n": "string", "w": "string"}
    assert any(line.startswith("key: none was found") for line in advice)
    assert any(line.startswith("types: w had no value") for line in advice)


def test_a_draft_takes_types_from_parquet(tmp_path):
    rows = {
        "order_id": pa.array([1, 2]),
        "paid": pa.array([Decimal("12.50"), None], pa.decimal128(12, 2)),
        "updated_at": pa.array([datetime(2024, 5, 1, n, tzinfo=UTC) for n in (8, 9)]),
        "tags": pa.array([["a"], []]),
        "code": pa.array(["1", "2"]),
        "raw": pa.array([b"x", None]),
    }
    parquet.write_table(pa.table(rows), tmp_path / "made.parquet")
    spec, _, _ = draft(tmp_path, "orders/2024-05-01.parquet", (tmp_path / "made.parquet").read_bytes())
    assert (spec.source.format, spec.source.path, spec.key) == ("parquet", "orders/{window:%Y-%m-%d}.parquet", ("order_id",))
    kinds = ["bigint", "decimal(12,2)", "timestamp", "string", "string", "binary"]
    assert {n: c.type for n, c in spec.columns.items()} == dict(zip(rows, kinds, strict=True))
    with pytest.raises(ConfigError, match="cannot be read as Parquet"):
        draft(tmp_path, "orders/2024-05-02.parquet", "a,b\n")


@pytest.mark.parametrize(
    ("name", "path", "cadence", "first"),
    [
        ("a/20240501.csv", "a/{window:%Y%m%d}.csv", "daily", "2024-05-01"),
        ("2024/05/01/a.csv", "{window:%Y/%m/%d}/a.csv", "daily", "2024-05-01"),
        ("2024/05/2024-05-01.csv", "{window:%Y/%m}/{window:%Y-%m-%d}.csv", "daily", "2024-05-01"),
        ("2024/a-20240501.csv", "{window:%Y}/a-{window:%Y%m%d}.csv", "daily", "2024-05-01"),
        ("dt=2024-05-01/a.csv", "dt={window:%Y-%m-%d}/a.csv", "daily", "2024-05-01"),
        ("year=2024/month=05/day=01/a.csv", "{window:year=%Y/month=%m/day=%d}/a.csv", "daily", "2024-05-01"),
        ("2024/05/01/07.csv", "{window:%Y/%m/%d/%H}.csv", "hourly", "2024-05-01-00:00"),
        ("a-2024050107.csv", "a-{window:%Y%m%d%H}.csv", "hourly", "2024-05-01-00:00"),
        ("a-20240501T07.csv", "a-{window:%Y%m%dT%H}.csv", "hourly", "2024-05-01-00:00"),
        ("2024-05-01/07/a.csv", "{window:%Y-%m-%d/%H}/a.csv", "hourly", "2024-05-01-00:00"),
        ("2024-05-01_99.csv", "{window:%Y-%m-%d}_99.csv", "daily", "2024-05-01"),
        ("a_2024_05_01.csv", "a_{window:%Y_%m_%d}.csv", "daily", "2024-05-01"),
        ("a-2024-05.csv", "a-{window:%Y-%m}.csv", "monthly", "2024-05-01"),
        ("v20991399/2024-05-01.csv", "v20991399/{window:%Y-%m-%d}.csv", "daily", "2024-05-01"),
    ],
)
def test_the_window_in_a_path(tmp_path, name, path, cadence, first):
    spec, _, _ = draft(tmp_path, name, "a\n1\n")
    assert (spec.source.path, spec.extraction.cadence, spec.extraction.first.key) == (path, cadence, first)
    assert spec.source.pattern.window_start(name) is not None, "the pattern must find the very file again"


@pytest.mark.parametrize(
    ("names", "path", "cadence"),
    [
        (["r/readings-2024-05-01-13-05.csv"], "r/readings-{window:%Y-%m-%d-%H-%M}.csv", "5min"),
        (["20240501T1305.csv"], "{window:%Y%m%dT%H%M}.csv", "5min"),
        (["2024-05-01T1307Z.csv"], "{window:%Y-%m-%dT%H%M}Z.csv", "1min"),
        (["a_2024_05_01_13_45.csv"], "a_{window:%Y_%m_%d_%H_%M}.csv", "15min"),
        (["202405011345.csv"], "{window:%Y%m%d%H%M}.csv", "15min"),
        (["2024/05/01/13/15/a.csv"], "{window:%Y/%m/%d/%H/%M}/a.csv", "15min"),
        (["2024-05-01/13-15.csv"], "{window:%Y-%m-%d/%H-%M}.csv", "15min"),
        (["2024/05/01/20240501T1315.csv"], "{window:%Y/%m/%d}/{window:%Y%m%dT%H%M}.csv", "15min"),
        (
            ["year=2024/month=05/day=01/hour=13/minute=15/a.csv"],
            "{window:year=%Y/month=%m/day=%d/hour=%H/minute=%M}/a.csv",
            "15min",
        ),
        # The other files show the cadence; files of another name do not.
        (["2024-05-01-13-00.csv"], "{window:%Y-%m-%d-%H-%M}.csv", "hourly"),
        (["2024-05-01-13-00.csv", "2024-05-02-07-00.csv"], "{window:%Y-%m-%d-%H-%M}.csv", "hourly"),
        (["2024-05-01-13-00.csv", "2024-05-01-13-30.csv", "b-2024-05-01-13-07.csv"], "{window:%Y-%m-%d-%H-%M}.csv", "15min"),
        (["2024-05-01-13-00.csv", "2024-05-01-13-05.csv", "x/2024-05-01-13-07.csv"], "{window:%Y-%m-%d-%H-%M}.csv", "5min"),
        (["2024-05-01-13-00.csv", "2024-05-01-13-07.csv"], "{window:%Y-%m-%d-%H-%M}.csv", "1min"),
        (["2024-05-01/13-00.csv", "2024-05-02/13-05.csv"], "{window:%Y-%m-%d/%H-%M}.csv", "5min"),
        # No minute.
        (["2024-05-01-13-99.csv"], "{window:%Y-%m-%d-%H}-99.csv", "hourly"),
        (["2024-05-01T13-051.csv"], "{window:%Y-%m-%dT%H}-051.csv", "hourly"),
        (["a_2024_05_01_13.csv"], "a_{window:%Y_%m_%d_%H}.csv", "hourly"),
    ],
)
def test_minutes_in_names_show_the_cadence(tmp_path, names, path, cadence):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a\n1\n")
    spec, _, advice = draft(tmp_path, names[0], "a\n1\n")
    assert (spec.source.path, spec.extraction.cadence, spec.extraction.first.key) == (path, cadence, "2024-05-01-00:00")
    assert spec.source.pattern.window_start(names[0]) is not None, "the pattern must find the very file again"
    guess = ", guessed from the minutes in " if "%M" in path else ""
    assert advice[0].startswith(f"path: {path}, {cadence}{guess}")


UUIDS = ("0b1e3b3c-9d5f-4f0e-8a52-6f2f4b7c1d00", "7c9e6679-7425-40de-944b-e07fc1f90ae7")
DAY = "{window:%Y/%m/%d}"


@pytest.mark.parametrize(
    ("names", "path", "files"),
    [
        (["2024/05/01/part-0000.csv", "2024/05/01/part-0001.csv"], f"{DAY}/part-*.csv", "2 files of this window match; check"),
        (["2024/05/01/part-9.csv", "2024/05/01/part-10.csv"], f"{DAY}/part-*.csv", "2 files"),
        (["2024/05/01/v2-a-1.csv", "2024/05/01/v2-a-2.csv"], f"{DAY}/v2-a-*.csv", "2 files"),
        ([f"2024/05/01/p-0-{UUIDS[0]}-c0.csv", f"2024/05/01/p-1-{UUIDS[1]}-c0.csv"], f"{DAY}/p-*-*-c0.csv", "2 files"),
        ([f"2024/05/01/{UUIDS[0]}.csv"], f"{DAY}/*.csv", ""),
        (["2024/05/01/a_1f00ba9c.csv", "2024/05/01/a_abcdefab.csv"], f"{DAY}/a_*.csv", "2 files"),
        (["shop1-2024-05-01.csv", "shop2-2024-05-01.csv"], "shop*-{window:%Y-%m-%d}.csv", "2 files"),
        (["a-20240501_1.csv", "a-20240501_2.csv", "a-20240502_2.csv"], "a-{window:%Y%m%d}_*.csv", "2 files"),
        (["2024/05/01_1.csv", "2024/05/01_2.csv", "2024/05/02_2.csv"], "{window:%Y/%m/%d}_*.csv", "2 files"),
        # Other kinds of files, hidden ones and other days count for nothing.
        (["2024/05/01/part-0.csv", "2024/05/01/_part-1.csv", "2024/05/01/part-0.done"], f"{DAY}/part-0.csv", ""),
        (["a-2024-05-01.csv", "a-2024-05-02.csv"], "a-{window:%Y-%m-%d}.csv", ""),
        (["2024/05/01/a.csv", "2024/05/01/b.csv"], f"{DAY}/a.csv",
         "1 of 2 files of this window matches; 'b.csv' would not be read"),
        (["2024/05/01/p-1.csv", "2024/05/01/p-2.csv", "2024/05/01/p-2.csv.gz"], f"{DAY}/p-*.csv",
         "2 of 3 files of this window match; 'p-2.csv.gz' would not be read"),
        (["20240501T130530.csv", "20240501T130531.csv"], "{window:%Y%m%dT%H%M}30.csv", "1 of 2 files of this window matches"),
    ],
)  # fmt: skip
def test_the_other_files_of_a_window_are_matched_or_named(tmp_path, names, path, files):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a\n1\n")
    spec, _, advice = draft(tmp_path, names[0], "a\n1\n")
    assert spec.source.path == path
    assert spec.source.pattern.window_start(names[0]) is not None, "the pattern must find the very file again"
    lines = [line.removeprefix("files: ") for line in advice if line.startswith("files: ")]
    assert [line[: len(files)] for line in lines] == ([files] if files else [])


@pytest.mark.parametrize(
    ("names", "path", "not_read"),
    [
        (["20240501/1.json", "20240501/2.json", "20240501/orders.json"], "{window:%Y%m%d}/1.json", ["2.json", "orders.json"]),
        (["sales1-20240501.csv", "sales2-20240501.csv", "sales-returns-20240501.csv"], "sales1-{window:%Y%m%d}.csv",
         ["sales-returns-20240501.csv", "sales2-20240501.csv"]),
        (["20240501/part-0000.json", "20240501/part-0001.json", "20240501/part-returns-0001.json"],
         "{window:%Y%m%d}/part-0000.json", ["part-0001.json", "part-returns-0001.json"]),
        ([f"20240501/{UUIDS[0]}.json", f"20240501/orders-{UUIDS[1]}.json"], f"{{window:%Y%m%d}}/{UUIDS[0]}.json",
         [f"orders-{UUIDS[1]}.json"]),
        # Of another day, of another kind, with another date before the window's.
        (["sales1-20240501.csv", "sales2-20240501.csv", "sales-returns-20240502.csv"], "sales1-{window:%Y%m%d}.csv",
         ["sales2-20240501.csv"]),
        (["20240501/part-1", "20240501/part-2", "20240501/part-2.txt"], "{window:%Y%m%d}/part-1", ["part-2"]),
        (["shop1-20240501.csv", "shop2-20240501.csv", "shop-20240502-20240501.csv"], "shop1-{window:%Y%m%d}.csv",
         ["shop2-20240501.csv"]),
    ],
)  # fmt: skip
def test_a_glob_that_would_match_a_file_of_another_name_is_advice_only(tmp_path, names, path, not_read):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"a": 1}\n' if name.endswith("json") else "a\n1\n")
    spec, _, advice = draft(tmp_path, names[0], (tmp_path / names[0]).read_text())
    assert spec.source.path == path
    assert [name for name in names if spec.source.pattern.window_start(name) is not None] == names[:1]
    line = next(line for line in advice if line.startswith("files: "))
    listed = ", ".join(map(repr, not_read))
    assert line.startswith(f"files: 1 of {len(not_read) + 1} files of this window matches; {listed} would not be read; ")
    assert f" would match {names[-1].rpartition('/')[2]!r}, too: write it if all are of this table" in line


def test_a_file_in_other_capitals_is_not_counted_as_one_that_the_glob_matches(tmp_path):
    for name in ("20240501/p-1.csv", "20240501/p-2.csv", "20240501/P-3.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a\n1\n")
    spec, _, advice = draft(tmp_path, "20240501/p-1.csv", "a\n1\n")
    assert spec.source.path == "{window:%Y%m%d}/p-*.csv"
    assert any(line.startswith("files: 2 of 3 files of this window match; 'P-3.csv' would not be read") for line in advice)


@pytest.mark.parametrize(
    ("name", "path", "digits", "globs"),
    [
        ("20240501T130530.csv", "{window:%Y%m%dT%H%M}30.csv", "30", "??"),
        ("2024-05-01-13-05-30.csv", "{window:%Y-%m-%d-%H-%M}-30.csv", "-30", "-??"),
        ("20240501130500.csv", "{window:%Y%m%d%H%M}00.csv", "00", "??"),
    ],
)
def test_seconds_stay_as_they_are_and_the_advice_is_a_glob(tmp_path, name, path, digits, globs):
    spec, _, advice = draft(tmp_path, name, "a\n1\n")
    assert (spec.source.path, spec.extraction.cadence) == (path, "5min")
    assert (
        f"seconds: only names with '{digits}' after the minutes are read; if it differs, write '{globs}' in its place" in advice
    )
    source = {"kind": "files", "path": path.replace(f"}}{digits}", f"}}{globs}"), "format": "csv"}
    attributes = {"source": source, "extraction": {"cadence": "5min", "start": "2024-05-01", "mode": "append"}}
    assert TableSpec.model_validate({"name": "t", "description": "t", "columns": {"a": "string"}, **attributes})


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "-2", "0"], "bigint"),
        (["1.5", "2", "1e3"], "double"),
        (["01234", "99999"], "string"),
        (["12345678901234567890", "1"], "string"),
        (["true", "FALSE"], "boolean"),
        (["2024-05-01", "2024-05-02"], "date"),
        (["2024-05-01 08:00", "2024-05-01T08:00:00.123+02:00"], "timestamp"),
        (["1", "x"], "string"),
        (["NA", "-", "7", ""], "bigint"),
    ],
)
def test_types(tmp_path, values, type_):
    spec, _, _ = draft(tmp_path, "2024-05-01.csv", "v,w\n" + "".join(f"{value},\n" for value in values))
    assert spec.columns["v"].type == type_


@pytest.mark.parametrize(
    ("content", "key", "modified"),
    [
        (WEATHER, ("origin", "time_hour"), "time_hour"),
        (f"created_at,updated_at,id\n{TIMES},1\n{TIMES},2\n", ("id",), "updated_at"),
        ("sensor_id,day,v\n1,2024-05-01,1\n1,2024-05-02,1\n2,2024-05-01,1\n", ("sensor_id", "day"), None),
        ("id,v\n1,1\n,2\n3,3\n", (), None),
        ("temp,hum\n1.5,3.5\n1.6,3.6\n", (), None),
        ("id\n1\n", (), None),
        ("id,v\n", (), None),
    ],
)
def test_keys(tmp_path, content, key, modified):
    spec, _, _ = draft(tmp_path, "2013-01-01.csv", content)
    assert (spec.key, spec.last_modified) == (key, modified)
    assert spec.extraction.mode == ("upsert" if key else "append")


def test_names_that_silver_cannot_have(tmp_path):
    names = ["_id", "a b", "a_b", "2x", "p_extracted_at", "größe (m²)", "日本", "x: {y}", "#note", "'q", "windSpeed", "{{ z }}"]
    spec, _, _ = draft(tmp_path, "2024-05-01.csv", ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    assert [spec.source_column(name) for name in spec.columns] == names
    assert list(spec.columns) == [
        "id", "a_b", "a_b_2", "c_2x", "c_p_extracted_at", "gro_e_m2", "column_7", "x_y", "note", "q", "wind_speed", "z",
    ]  # fmt: skip


def test_a_header_with_a_line_break_and_a_files_name_with_markup(tmp_path):
    spec, _, _ = draft(tmp_path, "a'\"# x-2024-05-01.csv", b'"two\nlines",b\n1,2\n')
    assert spec.source_column("two_lines") == "two\nlines"


@pytest.mark.parametrize("delimiter", [";", "\t", "|", ","])
def test_delimiters(tmp_path, delimiter):
    spec, _, _ = draft(tmp_path, "2024-05-01.csv", f"a{delimiter}b\n1{delimiter}2\n")
    assert (spec.source.delimiter, list(spec.columns)) == (delimiter, ["a", "b"])


def test_bz2_a_byte_order_mark_and_a_start(tmp_path):
    spec, _, _ = draft(tmp_path, "2024-05-01.csv.bz2", bz2.compress("\ufeffid,v\n1,2\n2,2\n".encode()), "2024-01-01")
    assert (list(spec.columns), spec.extraction.first.key) == (["id", "v"], "2024-01-01")


def test_a_wide_file_and_a_long_one_are_bounded(tmp_path):
    wide = ",".join(f"c{n}_id" for n in range(400))
    began = time.monotonic()
    draft(tmp_path, "2024-05-01.csv", wide + "\n" + (",".join("7" for _ in range(400)) + "\n") * 1500)
    assert time.monotonic() - began < 60
    _, _, advice = draft(tmp_path, "2024-05-02.csv", "id\n" + "".join(f"{n}\n" for n in range(5000)))
    assert "key: id, guessed from 1,000 rows; check it" in advice


def test_a_draft_notes_times_without_a_zone(tmp_path):
    _, _, advice = draft(tmp_path, "2024-05-01.csv", "id,at\n1,2024-05-01 08:00:00\n")
    assert any(line.startswith("timezone: at name no zone") for line in advice)


@pytest.mark.parametrize(
    ("table", "name", "content", "message"),
    [
        ("Bad Name", "2024-05-01.csv", "a\n1\n", "not a table name"),
        ("t", "nodate.csv", "a\n1\n", "no date was found"),
        ("t", "2024-05-01.csv", "", "the file is empty"),
        ("t", "2024-05-01.csv", None, "no such file"),
        ("t", "2024-13-41.csv", "a\n1\n", "no date was found"),
        ("t", "2024-02-30.csv", "a\n1\n", "no date was found"),
        ("t", "2024-05-01.csv", "a,,c\n1,2,3\n", "column 2 has no name"),
        ("t", "2024-05-01.csv", "Temp,temp\n1,2\n", "two columns are called 'temp'"),
        ("t", "2024-05-01.json", "[1]\n", "cannot be read as UTF-8 or iso-8859-1 CSV, or as JSON lines"),
        ("t", "2024-05-01.csv.gz", "a\n1\n", "cannot be read as UTF-8 or iso-8859-1 CSV, or as JSON lines"),
        ("t", "2024-05-01.csv", "a\n\xe9\n".encode("utf-16"), "it is no text; convert it to UTF-8"),
        ("t", "_2024-05-01.csv", "a\n1\n", "would not load: source.path: .*hidden"),
        ("t", "a[1]-2024-05-01.csv", "a\n1\n", "would not load: source.path: .*globs"),
        ("t", "a**-2024-05-01-13-05.csv", "a\n1\n", "would not load: source.path: .*globs"),
        ("t", "2024-05-01T13:05.csv", "a\n1\n", r"would not load: source.path: .*%M\}.* colon in a file's name"),
    ],
)
def test_a_draft_that_cannot_be_guessed_is_refused(tmp_path, table, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=message):
        draft_table(table, tmp_path / name, tmp_path, None)


def test_a_start_that_is_no_date(tmp_path):
    with pytest.raises(ConfigError, match=r"would not load: extraction\.start"):
        draft(tmp_path, "2024-05-01.csv", "a\n1\n", "soon")


def test_a_file_outside_the_landing_folder(tmp_path):
    (tmp_path / "2024-05-01.csv").write_text("a\n1\n")
    (tmp_path / "landing").mkdir()
    with pytest.raises(ConfigError, match="must be in the landing folder"):
        draft_table("t", tmp_path / "2024-05-01.csv", tmp_path / "landing", None)


EUROPEAN = """\
Nr;Kunde;Betrag;Menge;Gebucht am;Datum
1;Müller;1.013,84;1.200;31.01.2024 08:00;01.02.2024
2;Jäger;7,5;30;01.02.2024 09:30;02.02.2024
"""


def test_a_european_csv_shows_encoding_marks_and_formats(tmp_path):
    spec, _, advice = draft(tmp_path, "orders/2024-05-01.csv", EUROPEAN.encode("latin-1"))
    assert (spec.source.encoding, spec.source.delimiter) == ("iso-8859-1", ";")
    assert (spec.source.decimal, spec.source.thousands) == (",", ".")
    assert {name: (column.type, column.format) for name, column in spec.columns.items()} == {
        "nr": ("bigint", None), "kunde": ("string", None), "betrag": ("double", None), "menge": ("bigint", None),
        "gebucht_am": ("timestamp", "dd.MM.yyyy HH:mm"), "datum": ("date", "dd.MM.yyyy"),
    }  # fmt: skip
    assert "decimal: numbers are read with decimal ',', thousands '.', guessed; check it" in advice
    checks = "check umlauts and accents; with € or „ in other files, write windows-1252"
    assert f"encoding: the file is not UTF-8, and iso-8859-1 reads any file; {checks}" in advice
    assert "format: gebucht_am is read as dd.MM.yyyy HH:mm; datum is read as dd.MM.yyyy" in advice


@pytest.mark.parametrize("content", ["id,Preis €\n1,5\n", "id,Preis\n1,5 €\n"])
def test_characters_of_windows_in_names_and_values_show_the_encoding(tmp_path, content):
    spec, text, advice = draft(tmp_path, "2024-05-01.csv", content.encode("cp1252"))
    assert spec.source.encoding == "windows-1252"
    assert ("€" in text) == ("€" in content.splitlines()[0])
    assert any("has characters of windows-1252" in line for line in advice)


def test_control_characters_that_windows_does_not_have_are_noted(tmp_path):
    spec, _, advice = draft(tmp_path, "2024-05-01.csv", "id,Käufer\n1,ü\n".encode("cp850"))
    assert spec.source.encoding == "iso-8859-1"
    assert any("it has control characters" in line for line in advice)


@pytest.mark.parametrize(
    ("values", "marks", "type_"),
    [
        (["1,5", "2"], (",", None), "double"),
        (["1.013,5", "2"], (",", "."), "double"),
        (["1,234,567"], (".", ","), "bigint"),
        (["1 013,5"], (",", " "), "double"),
        (["1.0,5"], (".", None), "string"),
        (["01,5"], (".", None), "string"),
        (["1.5"], (".", None), "double"),
        (["1,234", "2,500"], (".", None), "string"),
        (["1,234", "0,512"], (",", None), "double"),
        (["1,234", "1,234,567"], (".", ","), "bigint"),
        (["1,234", "2.5"], (".", ","), "double"),
        (["1'234"], (".", "'"), "bigint"),
        (["1'234,5"], (",", "'"), "double"),
        (["1 234"], (".", " "), "bigint"),
        (["a,b"], (".", None), "string"),
    ],
)
def test_marks_of_numbers(tmp_path, values, marks, type_):
    spec, _, _ = draft(tmp_path, "2024-05-01.csv", "v;w\n" + "".join(f"{value};\n" for value in values))
    assert (spec.source.decimal, spec.source.thousands, spec.columns["v"].type) == (*marks, type_)


def test_marks_that_would_make_another_column_a_text_are_not_guessed(tmp_path):
    spec, _, _ = draft(tmp_path, "2024-05-01.csv", "v;w\n1,5;1.5\n")
    assert (spec.source.decimal, spec.columns["v"].type, spec.columns["w"].type) == (".", "string", "double")


def test_a_comma_before_the_fraction_or_between_thousands_is_not_guessed(tmp_path):
    _, _, advice = draft(tmp_path, "2024-05-01.csv", "v;w\n1,234;x\n2,500;y\n")
    either = "v may have a mark before the fraction or between thousands, and stays text"
    assert f"decimal: {either}: declare a type, and source.decimal or source.thousands" in advice
    spec, _, _ = draft(tmp_path, "2024-05-01.csv", "v;w\n1,234;1,5\n")
    assert (spec.source.decimal, [column.type for column in spec.columns.values()]) == (",", ["double", "double"])


def test_a_date_whose_day_may_be_the_month_stays_text(tmp_path):
    spec, _, advice = draft(tmp_path, "2024-05-01.csv", "a,b\n01/02/2024,01/31/2024\n")
    assert [(column.type, column.format) for column in spec.columns.values()] == [("string", None), ("date", "MM/dd/yyyy")]
    assert any("a may have the day or the month first, and stays text" in line for line in advice)


def test_the_note_on_a_key_reads_the_other_files_of_a_window(tmp_path):
    (tmp_path / "2024/05/01").mkdir(parents=True)
    (tmp_path / "2024/05/01/part-1.csv").write_text("id,v\n1,a\n2,b\n")
    _, _, advice = draft(tmp_path, "2024/05/01/part-0.csv", "id,v\n1,a\n2,b\n")
    assert any("2 keys come again in 1 other file(s)" in line for line in advice)


def test_the_note_on_a_key_that_comes_again_in_other_files(tmp_path):
    (tmp_path / "2024-05-02.csv").write_text("id,v\n2,x\n3,y\n")
    _, _, advice = draft(tmp_path, "2024-05-01.csv", "id,v\n1,x\n2,y\n")
    assert (
        "key: id, guessed from 2 rows; check it; it is unique within a file only: 1 keys come again in 1 other file(s), and the"
        " newest row of each stays" in advice
    )


@pytest.mark.parametrize(
    "other",
    ["id,v\n,x\nNA,y\n", "v,id\nx,\ny,NA\n", "other\n1\n2\n", '"\n'],
    ids=["no key", "no key in another order", "another header", "an open quote"],
)
def test_the_note_on_a_key_leaves_out_rows_without_a_key(tmp_path, other):
    for day in (2, 3):
        (tmp_path / f"2024-05-0{day}.csv").write_text(other)
    _, _, advice = draft(tmp_path, "2024-05-01.csv", "id,v\n1,x\n2,y\n")
    assert "key: id, guessed from 2 rows; check it" in advice


@pytest.mark.parametrize(
    ("suffix", "first", "other"),
    [
        ("csv.gz", gzip.compress(b"id,v\n1,x\n2,y\n"), gzip.compress(b"id,v\n1,x\n")[:10] + b"\xff" * 40),
        ("json", b'{"id": 1}\n{"id": 2}\n', b"[" * 100_000),
    ],
    ids=["damaged gzip", "too deeply nested"],
)
def test_the_note_on_a_key_leaves_out_files_that_cannot_be_read(tmp_path, suffix, first, other):
    (tmp_path / f"2024-05-02.{suffix}").write_bytes(other)
    _, _, advice = draft(tmp_path, f"2024-05-01.{suffix}", first)
    assert "key: id, guessed from 2 rows; check it" in advice
