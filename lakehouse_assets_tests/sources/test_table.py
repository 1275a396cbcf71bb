"""The source kind `table`: what Spark's catalog or formats can read, by a column of time or as snapshots.

Belongs here: reading, polls and messages. Does not: a whole run (e2e/test_table_source).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from lakehouse_assets.contracts.source_kind import SourceOpening
from lakehouse_assets.contracts.spark_table import SparkTableSource
from lakehouse_assets.contracts.spark_types import parse_type, sql_type
from lakehouse_assets.contracts.windows import Window, window_at
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import table
from lakehouse_assets.sources.base import AnswerPending, type_text
from lakehouse_assets.sources.poll_queue import PollQueue
from lakehouse_assets.sources.table import TableReader
from lakehouse_assets.testing import verify_source
from lakehouse_assets_tests.sources.source_files import day


def source(**attributes: Any) -> SparkTableSource:
    return SparkTableSource.model_validate({"kind": "table", "modified": "at"} | attributes)


def reader(settings: Settings, recorded: Mapping[datetime, str] | None = None, personal: bool = False, **attributes: Any):
    recorded = recorded or {}
    opening = SourceOpening(settings, ["At", "n"], lambda _: [], recorded, recorded, None, personal)
    return TableReader(source(**attributes), opening)


@pytest.fixture
def shop(spark) -> Iterator[str]:
    spark.sql("CREATE SCHEMA shop_22")
    yield "shop_22"
    spark.sql("DROP SCHEMA shop_22 CASCADE")


def create(spark, name: str, rows: str, using: str = "parquet") -> None:
    spark.sql(f"CREATE OR REPLACE TEMP VIEW _rows AS {rows}")
    spark.sql(f"CREATE TABLE shop_22.`{name}` USING {using} AS SELECT * FROM _rows")


def hours(kind: str = "timestamp", days: int = 3) -> str:
    """A row each three hours from 2024-03-01 on, with its number, and one without a time."""
    at = "timestamp'2024-03-01 00:00:00.5' + make_interval(0,0,0,0,3) * id"
    return f"SELECT id AS n, CAST({at} AS {kind}) AS at FROM range({8 * days}) UNION ALL SELECT 99, NULL"


def numbers(extraction) -> list[tuple[int, int]]:
    return sorted((row[0].astimezone(UTC).day, int(row[1])) for row in extraction.frame.select("p_extracted_at", "n").collect())


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date"])
def test_windows_have_their_rows_by_each_type_of_time(spark, settings, shop, kind):
    create(spark, "t", hours(kind))
    opened = reader(settings, table="shop_22.t")
    extraction = opened.read(spark, [day(1), day(3)])
    assert numbers(extraction) == [(1, n) for n in range(8)] + [(3, n) for n in range(16, 24)]
    assert extraction.columns[day(1)] == ("n", "At") and extraction.types[day(1)] == {"n": "bigint", "At": kind}
    assert extraction.respelled[day(1)] == {"At": "at"}
    assert sorted(opened.fingerprints([day(1), day(2), day(9)])) == [day(1), day(2)]


def test_clocks_of_a_zone_and_months(spark, settings, shop):
    create(spark, "t", hours("timestamp_ntz"))
    here = reader(settings, table="shop_22.t", timezone="America/New_York").read(spark, [day(1), day(2)])
    # Midnight in UTC is 19:00 in New York: the first seven rows of a day are of the window before.
    assert numbers(here) == [(1, n) for n in range(7)] + [(2, n) for n in range(7, 15)]
    back = [window_at(datetime(2024, 11, 3, hour, tzinfo=UTC), "hourly") for hour in (5, 6)]
    create(spark, "clock", "SELECT 1 AS n, timestamp_ntz'2024-11-03 01:30:00' AS at")
    twice = reader(settings, table="shop_22.clock", timezone="America/New_York").read(spark, back)
    assert [row[0].astimezone(UTC).hour for row in twice.frame.select("p_extracted_at").collect()] == [6], "once"
    months = [window_at(datetime(2024, month, 1, tzinfo=UTC), "monthly") for month in (2, 3)]
    assert len(numbers(reader(settings, table="shop_22.t").read(spark, months))) == 24


@pytest.mark.exhaustive(seconds=30)
def test_the_contract_of_a_source_kind(spark, settings, shop):
    create(spark, "t", hours(), "delta")

    def change(window: Window) -> None:
        spark.sql(f"INSERT INTO shop_22.t VALUES (100, timestamp'{window.start:%Y-%m-%d} 05:00:00')")

    def opened(recorded: Mapping[datetime, str]) -> TableReader:
        return reader(settings, recorded, table="shop_22.t")

    verify_source(spark, opened, [day(1), day(2)], day(20), change)


def test_fingerprints_follow_times_or_every_value(spark, settings, shop):
    create(spark, "t", hours(), "delta")
    by = {
        how: reader(settings, {day(3).start: "before"}, table="shop_22.t", fingerprint=how) for how in ("modified", "content")
    }
    first = {how: opened.fingerprints([day(1), day(2)]) for how, opened in by.items()}
    spark.sql("UPDATE shop_22.t SET n = 1000 WHERE n = 3")
    now = {how: opened.fingerprints([day(1), day(2)]) for how, opened in by.items()}
    assert now["modified"] == first["modified"]
    assert now["content"][day(1)] != first["content"][day(1)] and now["content"][day(2)] == first["content"][day(2)]
    spark.sql("DELETE FROM shop_22.t WHERE n >= 16 AND n < 99")
    assert sorted(by["modified"].fingerprints([day(1), day(3), day(4)])) == [day(1), day(3)], "an emptied window has changed"


def test_a_format_with_options_and_values_of_every_type(spark, settings):
    folder = Path(settings.landing) / "theirs"
    spark.sql(
        "SELECT timestamp'2024-03-01 12:00:00' AS at, 1 AS n, named_struct('a', array(1, NULL)) AS s, X'ff00' AS b, "
        "map('k', 1.50) AS m, CAST(NULL AS string) AS nothing, 'x' AS `weird. name`, 2 AS p_extracted_at, 3 AS _c0"
    ).write.orc(str(folder))
    extraction = reader(settings, format="orc", path="theirs", options={"mergeSchema": "false"}).read(spark, [day(1)])
    [row] = extraction.frame.collect()
    assert row["p_extracted_at"].astimezone(UTC) == day(1).start and row["_source_file"] == "orc theirs"
    values = {name: row[name] for name in extraction.columns[day(1)]}
    assert values == {
        "At": "2024-03-01T12:00:00.000000Z", "n": "1", "s": '{"a":[1,null]}', "b": "/wA=", "m": '{"k":1.50}', "nothing": None,
        "weird._x20_name": "x", "x70__extracted_at": "2", "x5f_c0": "3",
    }  # fmt: skip


def test_types_are_texts_that_can_be_read_again(spark, settings, shop):
    create(spark, "t", "SELECT timestamp'2024-03-01' AS at, 1 AS n, array(named_struct('first name', 'x')) AS s, 1.5 AS d")
    types = reader(settings, table="shop_22.t").read(spark, [day(1)]).types[day(1)]
    assert types == {"At": "timestamp", "n": "int", "s": "array<struct<`first name`: string>>", "d": "decimal(2,1)"}
    assert [sql_type(parse_type(text)) for text in types.values()] == [*types.values()]


def test_a_text_keeps_its_collation_within_another_type():
    collated = StringType("UTF8_LCASE")
    fields = [
        StructField("a", collated),
        StructField("b c", ArrayType(MapType(StringType(), collated))),
        StructField("d", LongType()),
    ]
    text = "struct<a: string collate utf8_lcase, `b c`: array<map<string, string collate utf8_lcase>>, d: bigint>"
    assert (type_text(StructType(fields)), sql_type(parse_type(text))) == (text, text)
    assert type_text(ArrayType(StructType(fields))) == f"array<{text}>"


def test_snapshots_arrive_by_the_calendar_and_have_the_whole_table(spark, settings, shop):
    create(spark, "t", hours())
    present = {"modified": None, "history": "none", "table": "shop_22.t"}
    assert sorted(reader(settings, **present).fingerprints([day(1), day(2)])) == [day(2)]
    assert reader(settings, {day(3).start: "x"}, **present).fingerprints([day(2), day(3)]) == {day(3): "x"}
    extraction = reader(settings, **present).read(spark, [day(2)])
    assert numbers(extraction) == [(2, n) for n in [*range(24), 99]]
    read_windows = {day(2).start: "a", day(3).start: "b"}
    verify_source(spark, lambda _: reader(settings, read_windows, **present), [day(2), day(3)], day(1))


@pytest.mark.parametrize(
    ("attributes", "error", "message"),
    [
        ({"table": "no_orders"}, SourceError, "no_orders: source.table: Spark's catalog has no table of this name"),
        ({"table": "nowhere.orders"}, SourceError, "nowhere.orders: source.table: Spark's catalog has no table"),
        ({"table": "far.shop.orders"}, SourceError, "far.shop.orders: the catalog cannot be asked: .*NoSuchCatalog"),
        ({"format": "no_such"}, EnvironmentMissing, "source.format: Spark has no data source 'no_such': put its jar"),
        ({"format": "parquet", "path": "gone"}, SourceError, "parquet gone: source.path: there is nothing"),
        ({"table": "shop_22.t", "modified": "when"}, SourceError, "source.modified: there is no column 'when'; it has n, at"),
        ({"table": "shop_22.t", "modified": "n"}, SourceError, "source.modified: n is bigint, and no timestamp"),
        (
            {"format": "orc", "path": "x", "secret_options": {"key": "NONE"}},
            EnvironmentMissing,
            "SECRET_NONE; set",
        ),
    ],
)
def test_an_error_names_the_key_and_the_way_out(spark, settings, shop, attributes, error, message):
    create(spark, "t", hours())
    spark.conf.set("spark.sql.catalog.far", "org.example.NoSuchCatalog")
    try:
        for ask in (lambda r: r.fingerprints([day(1)]), lambda r: r.read(spark, [day(1)])):
            with pytest.raises(error, match=message):
                ask(reader(settings, **attributes))
    finally:
        spark.conf.unset("spark.sql.catalog.far")


def test_an_error_of_a_scan_shows_no_secret_and_no_row(spark, settings, shop):
    settings = settings.model_copy(update={"secrets": {"KEY": SecretStr("s3cr3t")}})
    folder = Path(settings.landing) / "s3cr3t"
    folder.mkdir()
    (folder / "part.parquet").write_bytes(b"PAR1 is no file PAR1")
    options = {"hidden": "KEY"}
    for personal in (False, True):
        with pytest.raises(SourceError) as raised:
            reader(settings, personal=personal, format="parquet", path="s3cr3t", secret_options=options).fingerprints([day(1)])
        assert "cannot be read" in str(raised.value)
        assert "s3cr3t" not in str(raised.value).removeprefix("parquet s3cr3t")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "either `table`, a name in Spark's catalog, or `format`"),
        ({"table": "a", "format": "orc"}, "either `table`"),
        ({"table": "a", "path": "/p"}, "path, options, secret_options: they belong to `format`"),
        ({"table": "a..b"}, "is not `table`, `schema.table`"),
        ({"table": "a`b"}, "is not `table`, `schema.table`"),
        ({"format": "jdbc"}, "format jdbc has a kind of its own: {kind: jdbc}"),
        ({"format": "orc; drop"}, "is no data source of Spark"),
        ({"format": "orc", "path": "../x"}, r"has `\.\.`"),
        ({"format": "x", "options": {"path": "/p"}}, "path is no option here; write source.path"),
        ({"format": "x", "options": {"password": "word"}}, "password holds a secret; write `secret_options: {password: NAME}`"),
        ({"format": "x", "secret_options": {"password": "word"}}, "password: write the NAME in LAKEHOUSE_SECRET_<NAME>"),
        ({"format": "x", "options": {"url": "a://me:word@h"}}, "url holds a secret; write"),
        ({"table": "a", "modified": None}, "modified: needed, since it tells a row's window"),
        ({"table": "a", "history": "none"}, "modified: with history: none a window has the whole table"),
        ({"table": "a", "modified": None, "history": "none", "fingerprint": "content"}, "read once, and never compared"),
    ],
)
def test_refused_declarations(attributes, message):
    with pytest.raises(ValidationError, match=message):
        source(**attributes)


def test_refused_modes():
    rows, present = source(table="a"), source(table="a", modified=None, history="none")
    rows.refuse_extraction("daily", "append", None)
    present.refuse_extraction("daily", "snapshot", None)
    with pytest.raises(ValueError, match=r"a window of a table source has only the rows modified in it; .*history: none"):
        rows.refuse_extraction("daily", "snapshot", None)
    with pytest.raises(ValueError, match="with history: none a window has the whole table; use snapshot"):
        present.refuse_extraction("daily", "upsert", None)


class Answered:
    """A question that a Spark of its own has answered by the time it is waited for."""

    began = 0.0

    def __init__(self, windows, numbers) -> None:
        self.keys, self.numbers = frozenset(window.key for window in windows), numbers
        self.wait = numbers

    def is_over(self) -> bool:
        return True


@pytest.fixture
def without_session(monkeypatch):
    """As in a process that polls: it has no Java, no answers and no questions."""
    monkeypatch.setattr(table.SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(table, "_ANSWERS", {})
    monkeypatch.setattr(table, "QUEUE", PollQueue())


@pytest.mark.usefixtures("without_session")
def test_an_error_of_a_poll_counts_as_long_as_an_answer(settings, monkeypatch):
    questions: list[str] = []

    def refuse(source, path, options, settings, windows, *_):
        def numbers():
            raise SourceError("t: source.table: Spark's catalog has no table of this name")

        questions.append(source.location)
        return Answered(windows, numbers)

    monkeypatch.setattr(table, "start_poll", refuse)
    for windows in ([day(1)], [day(1)], [day(1), day(2)]):
        with pytest.raises(SourceError, match="no table of this name"):
            reader(settings, table="t").fingerprints(windows)
    assert questions == ["t", "t"], "the third has a window that nobody has asked for"


def answer_at_once(monkeypatch) -> list[list[str]]:
    """Each question is answered when it is asked; returns the windows of each."""
    questions: list[list[str]] = []

    def start(source, path, options, settings, windows, personal, seconds):
        questions.append([window.key for window in windows])
        rows_by_window = {window.key: ["1", str(len(questions))] for window in windows}
        return Answered(windows, lambda: rows_by_window)

    monkeypatch.setattr(table, "start_poll", start)
    return questions


@pytest.mark.usefixtures("without_session")
def test_an_answer_counts_for_its_minutes_and_for_its_windows(settings, monkeypatch):
    questions = answer_at_once(monkeypatch)
    first = reader(settings, table="t").fingerprints([day(1)])
    assert reader(settings, table="t").fingerprints([day(1)]) == first and len(questions) == 1
    both = reader(settings, table="t").fingerprints([day(1), day(2)])
    assert sorted(both) == [day(1), day(2)] and len(questions) == 2, "a window that ended since is asked for at once"
    assert reader(settings, table="t").fingerprints([day(2)]) == {day(2): both[day(2)]} and len(questions) == 2
    reader(settings, table="other").fingerprints([day(1)])
    reader(settings, table="t", poll_minutes=0).fingerprints([day(1)])
    reader(settings, table="t", poll_minutes=0).fingerprints([day(1)])
    reader(settings, personal=True, table="t").fingerprints([day(1)])  # an error that quotes a row is not for it
    assert len(questions) == 6 and reader(settings, table="t").fingerprints([]) == {}


@pytest.mark.usefixtures("without_session")
@pytest.mark.parametrize("timeout_seconds", [None, 30])
@pytest.mark.parametrize(
    ("one", "other"), [("daily", "weekly"), ("weekly", "monthly"), ("monthly", "daily"), ("1min", "hourly")]
)
def test_an_answer_counts_for_windows_of_its_length(settings, monkeypatch, one, other, timeout_seconds):
    """Two tables of one source: a Monday that begins a month is a window of each, with one key."""
    questions = answer_at_once(monkeypatch)
    opened = reader(settings, table="t")
    opened._opening = replace(opened._opening, timeout_seconds=timeout_seconds)
    windows = [window_at(datetime(2024, 4, 1, tzinfo=UTC), cadence) for cadence in (one, other)]
    assert windows[0].key == windows[1].key
    for window in windows if timeout_seconds else ():
        with pytest.raises(AnswerPending, match="Spark is asked"):
            opened.fingerprints([window])
    first, second = [opened.fingerprints([window])[window] for window in windows]
    assert first != second and len(questions) == 2
    assert [opened.fingerprints([window])[window] for window in windows] == [first, second] and len(questions) == 2


@pytest.mark.usefixtures("without_session")
def test_whoever_has_some_seconds_only_is_answered_by_a_later_poll(settings, monkeypatch):
    questions = answer_at_once(monkeypatch)

    def poll(*days: int, minutes: int = 15, recorded=()):
        opened = reader(settings, table="t", poll_minutes=minutes)
        opened._opening = replace(opened._opening, timeout_seconds=30, recorded_positions=dict.fromkeys(recorded, "0"))
        return opened.fingerprints([day(each) for each in days])

    with pytest.raises(AnswerPending, match="Spark is asked"):
        poll(1)
    assert list(poll(1)) == [day(1)]
    assert list(poll(1)) == [day(1)] and questions == [[day(1).key]], "it counts for its minutes"
    with pytest.raises(AnswerPending):
        poll(1, 2)
    # The calendar went on while Spark answered: a window that nobody asked about is not known, and not empty either.
    assert list(poll(1, 2, 3, recorded=(day(3).start,))) == [day(1), day(2)]
    with pytest.raises(AnswerPending):
        poll(4, minutes=0)
    assert list(poll(4, minutes=0)) == [day(4)], "an answer that counts for no minute is still an answer"
