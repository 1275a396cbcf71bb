"""A PostgreSQL table read by real Spark: values as text, windows, what reaches the server, fingerprints, what is never shown.

Belongs here: the reader by itself, on a real server. Does not: tables on it (e2e/test_jdbc).
"""

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from pydantic import ValidationError

from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.windows import Window, window_at
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.jdbc import JdbcReader
from lakehouse_assets.testing import verify_source
from lakehouse_assets_tests.e2e.servers import Database, postgres_server
from lakehouse_assets_tests.sources.source_files import day, rows


@pytest.fixture(scope="module")
def database():
    with postgres_server() as database:
        yield database


def settings_of(database: Database, **connection: Any) -> Settings:
    jdbc = {"SHOP": database.connection(**connection)}
    return Settings(root="/nowhere", landing="/nowhere", dagster_home="/nowhere", jdbc=jdbc)  # type: ignore[arg-type]


def source(**attributes: Any) -> JdbcSource:
    return JdbcSource.model_validate({"kind": "jdbc", "connection": "SHOP", "table": "t", "modified": "at"} | attributes)


@pytest.fixture
def reader(database):
    def reader(**attributes: Any) -> JdbcReader:
        return JdbcReader(source(**attributes), settings_of(database))

    database.run("DROP TABLE IF EXISTS t")
    return reader


VALUES = [
    ("text", "'é\n\"'", 'é\n"'),
    ("text", "''", ""),
    ("text", "NULL", None),
    (
        "numeric",
        "12345678901234567890123456789012345678901234567890.10",
        "12345678901234567890123456789012345678901234567890.10",
    ),
    ("numeric", "'NaN'", "NaN"),
    ("double precision", "0.1", "0.1"),
    ("bigint", "-9223372036854775808", "-9223372036854775808"),
    ("boolean", "true", "true"),
    ("timestamptz", "'2024-03-01T12:00:00.123456+02'", "2024-03-01T10:00:00.123456Z"),
    ("timestamptz", "'infinity'", "infinity"),
    ("timestamp", "'2024-03-01 12:00'", "2024-03-01T12:00:00.000000"),
    ("date", "'2024-03-01'", "2024-03-01"),
    ("timestamptz", "'0001-12-31 23:00:00+00 BC'", "0001-12-31 23:00:00BC"),
    ("timestamptz", "'0001-01-01 00:00:00+00'", "0001-01-01T00:00:00.000000Z"),
    ("timestamp", "'0044-03-15 12:00 BC'", "0044-03-15 12:00:00BC"),
    ("timestamp", "'-infinity'", "-infinity"),
    ("date", "'0044-03-15 BC'", "0044-03-15BC"),
    ("bytea", r"'\x" + "ff00" * 40 + "'", b64encode(b"\xff\x00" * 40).decode()),
    ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("jsonb", """'{"b": [1, 2.50], "a": null}'""", '{"a": null, "b": [1, 2.50]}'),
    ("int[]", "'{1,NULL,3}'", "[1,null,3]"),
    ("interval", "'1 day 2 hours'", "1 day 02:00:00"),
]


def test_values(spark, database, reader) -> None:
    columns = ", ".join(f"v{n} {kind}" for n, (kind, *_) in enumerate(VALUES))
    database.run(
        f"CREATE TABLE t (at timestamptz, {columns})",
        f"INSERT INTO t VALUES ('2024-03-01T05:00Z', {', '.join(text for _, text, _ in VALUES)})",
    )
    extraction = reader().read(spark, [day(1)])
    [row] = extraction.frame.collect()
    assert [row[f"v{n}"] for n in range(len(VALUES))] == [text for *_, text in VALUES]
    kinds = {"timestamptz": "timestamp", "timestamp": "timestamp_ntz", "date": "date"}
    casts = [f"try_cast(v{n} AS {kinds[kind]}) IS NULL" for n, (kind, *_) in enumerate(VALUES) if kind in kinds]
    outside = [text.endswith(("BC", "infinity")) for kind, _, text in VALUES if kind in kinds]
    assert [*extraction.frame.selectExpr(*casts).first()] == outside, "a time before Christ is none of silver"
    assert (row["p_extracted_at"].date(), row["_source_file"], row["_corrupt_record"]) == (day(1).start.date(), "SHOP: t", None)
    assert row["_columns"] == list(extraction.columns[day(1)]) == ["at", *(f"v{n}" for n in range(len(VALUES)))]


def test_hostile_names(spark, database, reader) -> None:
    database.run(
        'CREATE SCHEMA IF NOT EXISTS "S; x"',
        'DROP TABLE IF EXISTS "S; x"."t\'s"',
        'CREATE TABLE "S; x"."t\'s" ("a""b`c" text, "_id" int, "select" int, "At $1" timestamptz, lakehouse_c0 int)',
        """INSERT INTO "S; x"."t's" VALUES ('x', 1, 2, '2024-03-02Z', 3)""",
    )
    extraction = reader(table="S; x.t's", modified="At $1").read(spark, [day(2)])
    assert [tuple(row)[4:] for row in extraction.frame.collect()] == [("x", "1", "2", "2024-03-02T00:00:00.000000Z", "3")]
    assert extraction.columns[day(2)] == ('a"b`c', "x5f_id", "select", "At_x20_$1", "lakehouse_c0")


def fill(database: Database, kind: str = "timestamptz") -> None:
    """A row each three hours from 2024-02-29T21:00 on, six days long."""
    database.run(
        f"CREATE TABLE t (id int primary key, at {kind}, v text)",
        "INSERT INTO t SELECT n, '2024-02-29 21:00'::timestamp + n * interval '3 hours', 'v' || n"
        " FROM generate_series(0, 47) n",
        "INSERT INTO t VALUES (99, NULL, 'timeless')",
        "CREATE INDEX ON t (at)",
    )


def expected(*windows: Window, shift: timedelta = timedelta()) -> list[tuple[datetime, str]]:
    first = datetime(2024, 2, 29, 21, tzinfo=UTC) + shift
    times = {n: first + n * timedelta(hours=3) for n in range(48)}
    return sorted((w.start, str(n)) for n, at in times.items() for w in windows if w.start <= at < w.end)


def read_rows(extraction) -> list[tuple[datetime, str]]:
    return sorted((row[0].astimezone(UTC), row[1]) for row in extraction.frame.select("p_extracted_at", "id").collect())


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_range_of_windows_is_filtered_by_the_server(spark, database, reader, partitions) -> None:
    fill(database)
    windows = [day(1), day(2), day(4)]
    before = len(database.statements())
    assert read_rows(reader(partitions=partitions).read(spark, windows)) == expected(*windows)
    queries = [text for text in database.statements()[before:] if "lakehouse_c1" in text and "1=0" not in text]
    assert len(queries) == 2 * partitions, "days 1 and 2 are one range, day 4 another"
    assert all('("at" >= ' in text.partition(") q WHERE ")[2] and ' AND "at" < ' in text for text in queries), queries
    # On the column itself: the server's plan is an index's.
    database.run("ANALYZE t")
    query = queries[0].partition(": ")[2]
    plan = database.run("SET enable_seqscan = off", f"EXPLAIN {query}")
    assert any("Index Cond" in line for (line,) in plan), plan


def test_times_without_a_zone_are_the_source_s(spark, database, reader) -> None:
    fill(database, "timestamp")
    extraction = reader(timezone="America/New_York").read(spark, [day(1), day(2)])
    assert read_rows(extraction) == expected(day(1), day(2), shift=timedelta(hours=5))
    assert rows(extraction, "at")[0] == ("2024-02-29T21:00:00.000000",), "as it stands there"


@pytest.mark.parametrize("partitions", [2, 3, 7])
def test_each_hour_of_a_day_with_25_has_its_rows_once(spark, database, reader, partitions) -> None:
    """On the clocks of New York 01:30 is twice on 2024-11-03."""
    database.run("CREATE TABLE t (id int, at timestamp)")
    database.run("INSERT INTO t SELECT n, '2024-11-03'::timestamp + n * interval '30 minutes' FROM generate_series(0, 7) n")
    hours = [window_at(datetime(2024, 11, 3, hour, tzinfo=UTC), "hourly") for hour in range(3, 10)]
    rows_by_hour = read_rows(reader(timezone="America/New_York", partitions=partitions).read(spark, hours))
    assert sorted(int(number) for _, number in rows_by_hour) == list(range(8))


def prints(reader, *days: int) -> dict[int, str]:
    return {window.start.day: text for window, text in reader.fingerprints([day(n) for n in days]).items()}


@pytest.mark.parametrize("kind", ["modified", "content"])
def test_fingerprints_follow_the_rows(database, reader, kind) -> None:
    fill(database)
    look = reader(fingerprint=kind)
    first = prints(look, 1, 2, 3, 9)
    assert (sorted(first), prints(look, 1, 2, 3)) == ([1, 2, 3], first), "nothing on the 9th"
    database.run(
        "UPDATE t SET v = v || '' WHERE id = 2", "DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (1, '2024-03-01', 'v1')"
    )
    assert prints(look, 1, 2, 3) == first, "the order in which rows lie there is nothing"
    changes = {
        "a late row": "INSERT INTO t VALUES (100, '2024-03-01T23:59:59.999999Z', 'late')",
        "one row less": "DELETE FROM t WHERE id = 100",
        "another time, as many rows": "UPDATE t SET at = at + interval '1 microsecond' WHERE id = 2",
        "a value": "UPDATE t SET v = 'edited' WHERE id = 2",
    }
    last = first
    for what, statement in changes.items():
        database.run(statement)
        now = prints(look, 1, 2, 3)
        noticed = now[1] != last[1]
        assert noticed == (what != "a value" or kind == "content"), what
        assert (now[2], now[3]) == (first[2], first[3])
        last = now


def test_one_query_fingerprints_all_windows(database, reader) -> None:
    fill(database)
    look = reader()
    prints(look, 1)
    before = len(database.statements())
    hours = [window_at(datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=n), "hourly") for n in range(8760)]
    assert len(look.fingerprints(hours)) == 48
    assert len([text for text in database.statements()[before:] if "SELECT" in text]) == 1


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"table": "none"}, "no such table"),
        ({"modified": "when"}, "no column 'when'; it has id, at, v"),
        ({"modified": "v"}, "no time"),
    ],
)
def test_missing_tables_and_columns_are_named(database, reader, attributes, message) -> None:
    fill(database)
    with pytest.raises(SourceError, match=message):
        reader(**attributes).fingerprints([day(1)])


def test_nothing_of_the_connection_is_shown(spark, database, reader, capfd) -> None:
    fill(database)
    plan = reader().read(spark, [day(1)]).frame
    text = plan._jdf.queryExecution().toString()
    errors = []
    for wrong in (settings_of(database, password="another-password"), settings_of(Database(1, database.log))):
        broken = JdbcReader(source(), wrong)
        for call in (lambda r=broken: r.fingerprints([day(1)]), lambda r=broken: r.read(spark, [day(1)])):
            with pytest.raises(SourceError) as caught:
                call()
            errors.append(f"{caught.value!r} {caught.value.__cause__} {caught.value.__suppress_context__}")
    # Reached when it was planned, and not when it is read.
    late = JdbcReader(source(), settings_of(database))
    frame = late.read(spark, [day(1)]).frame
    database.run("DROP TABLE t")
    with pytest.raises(Exception):  # noqa: B017 (whatever Spark makes of it)
        frame.collect()
    with pytest.raises(SourceError) as caught:
        late.probe(spark, [day(1)])
    errors.append(str(caught.value))
    assert "SHOP: t: " in errors[0]
    text += (
        " ".join(errors) + repr(settings_of(database)) + settings_of(database).model_dump_json() + repr(database.connection())
    )
    text += "".join(capfd.readouterr())
    hidden = (database.password, "another-password", database.user, f"{database.port}/", "127.0.0.1")
    assert not [value for value in hidden if value in text], text


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://h/d", "is not written as jdbc:postgresql://"),
        ("jdbc:postgresql://h:5432", "is not written as"),
        ("jdbc:postgresql://h1:5432,h2:5432/d", "is not written as jdbc:postgresql://host:5432/database, of one host"),
        ("jdbc:postgresql://h:five/d", "is not written as"),
        ("jdbc:postgresql://[h/d", "is not written as"),
        ("jdbc:postgresql://h/d?user=me&password=word", "holds a user or a password"),
        ("jdbc:postgresql://me:word@h/d", "holds a user or a password"),
    ],
)
def test_addresses_that_are_refused(url, message) -> None:
    settings = Settings.from_environment({"LAKEHOUSE_JDBC_SHOP_URL": url})
    with pytest.raises(EnvironmentMissing, match=message) as caught:
        JdbcReader(source(), settings).fingerprints([day(1)])
    assert "word@" not in str(caught.value) and "=word" not in str(caught.value)


def test_waiting_for_a_lock_times_out(database, reader) -> None:
    reader()
    database.run("CREATE TABLE t (at timestamptz)", "INSERT INTO t VALUES ('2024-03-01')")
    settings = settings_of(database)
    hurried = JdbcReader(source(), settings, timeout_seconds=2)
    assert hurried.fingerprints([day(1)])
    where = {"host": "127.0.0.1", "port": database.port, "dbname": database.name}
    with psycopg.connect(**where, user=database.user, password=database.password) as holder:
        holder.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SourceError, match="SHOP: t: canceling statement due to lock timeout"):
            hurried.fingerprints([day(1)])
    assert hurried.fingerprints([day(1)]) == JdbcReader(source(), settings).fingerprints([day(1)])


def test_a_slow_query_times_out(database, reader) -> None:
    reader()
    database.run(
        "CREATE OR REPLACE FUNCTION slowly() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS "
        "$$ BEGIN PERFORM pg_sleep(20); RETURN '2024-03-01'; END $$",
        "CREATE OR REPLACE VIEW slow AS SELECT slowly() AS at",
    )
    with pytest.raises(SourceError, match="SHOP: slow: canceling statement due to statement timeout"):
        JdbcReader(source(table="slow"), settings_of(database), timeout_seconds=1).fingerprints([day(1)])
    database.run("DROP VIEW slow")


def test_an_unnamed_connection_is_refused() -> None:
    with pytest.raises(EnvironmentMissing, match="LAKEHOUSE_JDBC_SHOP_URL"):
        JdbcReader(source(), Settings.from_environment({})).fingerprints([day(1)])


def test_snapshots_have_the_whole_table_and_arrive_once(spark, database, reader) -> None:
    fill(database)
    present = {"history": "none", "modified": None}
    assert sorted(reader(**present).fingerprints([day(1), day(2)])) == [day(2)]
    read_windows = {day(2).start: "a", day(3).start: "b"}
    database.run("CREATE VIEW u AS SELECT id, v FROM t")
    try:
        extraction = reader(table="u", **present).read(spark, [day(2)])
        rows = extraction.frame.select("p_extracted_at", "id").collect()
        assert {row[0].astimezone(UTC) for row in rows} == {day(2).start}
        assert sorted(int(row[1]) for row in rows) == sorted(int(n) for (n,) in database.run("SELECT id FROM t"))
        assert extraction.columns[day(2)] == ("id", "v")
        opened = JdbcReader(source(**present), settings_of(database), (), read_windows, read_windows)
        verify_source(spark, lambda _: opened, [day(2), day(3)], day(1))
    finally:
        database.run("DROP VIEW u")
    with pytest.raises(SourceError, match="there is no such table"):
        reader(table="gone", **present).fingerprints([day(2)])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"connection": "jdbc:postgresql://h/d"}, "never an address"),
        ({"table": 'a"b'}, "without quotes"),
        ({"table": "a.b.c"}, "schema.table"),
        ({"history": "watermark"}, "overlap_minutes: needed"),
        ({"overlap_minutes": 5}, "applies only with history: watermark"),
        ({"modified": None}, "modified: needed, since it tells a row's window; or history: none"),
        ({"history": "none"}, "modified, partitions: with history: none one query reads the whole table"),
        ({"history": "none", "modified": None, "partitions": 2}, "modified, partitions: with history: none"),
        ({"history": "none", "modified": None, "fingerprint": "content"}, "a window is read once, and never compared"),
        ({"history": "none", "modified": None, "control": {"n": "count(*)"}}, "of another moment than the rows"),
    ],
)
def test_invalid_yaml_is_refused(attributes, message) -> None:
    with pytest.raises(ValidationError, match=message):
        source(**attributes)


def test_the_database_gives_control_totals_of_each_window(database, reader, spark) -> None:
    database.run(
        'CREATE TABLE t (at timestamptz, amount numeric(12,2), "odd name" double precision, t text)',
        "INSERT INTO t VALUES ('2024-03-01T05:00Z', 1.50, 2, 'a'), ('2024-03-01T23:59:59Z', NULL, 'NaN', 'b'),"
        " ('2024-03-02T00:00Z', 4.25, -1, NULL), ('2024-03-04T00:00Z', 9, 9, 'c')",
    )
    control = {
        "rows": "count(*)",
        "texts": "count(t)",
        "amount": "sum(amount)",
        "least": "min(odd name)",
        "mean": "avg(amount)",
    }
    windows = [day(1), day(2), day(3)]
    control_totals = reader(control=control).read(spark, windows).control
    assert [list(control_totals[window].figures) for window in windows] == [list(control)] * 3
    assert [list(control_totals[window].figures.values()) for window in windows] == [
        [2.0, 2.0, 1.5, 2.0, 1.5],
        [1.0, 0.0, 4.25, -1.0, 4.25],
        [0.0, 0.0, None, None, None],
    ]
    assert reader().read(spark, windows).control == {}


@pytest.mark.parametrize(("control", "why"), [("sum(no)", "there is no column 'no'"), ("sum(v)", "v is text, and no number")])
def test_impossible_control_totals_are_refused(spark, database, reader, control, why) -> None:
    fill(database)
    with pytest.raises(SourceError, match=f"SHOP: t: source.control.figure: {why}"):
        reader(control={"figure": control}).read(spark, [day(1)])


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"control": {"rows": "count(*); drop table t"}}, "is neither `count"),
        ({"control": {"rows": "sum(a + b)) from t --"}}, "is neither `count"),
        ({"control": {"rows": "sum(*)"}}, "is neither `count"),
        ({"control": {}}, "at least 1"),
        ({"control": {"rows": "count(*)"}, "history": "watermark", "overlap_minutes": 5}, "rows move on to other windows"),
    ],
)
def test_refused_control(attributes, why) -> None:
    with pytest.raises(ValidationError, match=why):
        source(**attributes)


def test_a_content_fingerprint_covers_all_columns_of_any_name(database, reader) -> None:
    database.run("CREATE TABLE t (at timestamptz, t text, v text)", "INSERT INTO t VALUES ('2024-03-01T05:00Z', 'same', 'a')")
    before = reader(fingerprint="content").fingerprints([day(1)])
    database.run("UPDATE t SET v = 'b'")
    assert reader(fingerprint="content").fingerprints([day(1)]) != before


def test_the_contract_of_a_source_kind(spark, database) -> None:
    database.run("DROP TABLE IF EXISTS t")
    fill(database)
    settings = settings_of(database)

    def change(window: Window) -> None:
        database.run(f"INSERT INTO t VALUES (100, '{window.start.isoformat()}', 'late')")

    verify_source(spark, lambda _: JdbcReader(source(), settings), [day(1), day(2)], day(20), change)


@pytest.mark.parametrize("personal", [True, False])
def test_a_database_quotes_no_row_of_a_table_with_personal_columns(spark, database, personal) -> None:
    database.run(
        "DROP VIEW IF EXISTS misread",
        "DROP TABLE IF EXISTS people",
        "CREATE TABLE people (mail text, at timestamptz)",
        "INSERT INTO people VALUES ('qzx7personal@example.com', '2024-03-01T05:00Z')",
        "CREATE VIEW misread AS SELECT mail::int AS mail, at FROM people",
    )
    reader = JdbcReader(source(table="misread", fingerprint="content"), settings_of(database), personal=personal)
    messages = []
    for attempt in (lambda: reader.fingerprints([day(1)]), lambda: reader.probe(spark, [day(1)])):
        with pytest.raises(SourceError, match="SHOP: misread: ") as caught:
            attempt()
        messages.append(str(caught.value))
    if personal:
        assert set(messages) == {"SHOP: misread: the database stops with SQLSTATE 22P02 (masked: pii)"}
    else:
        assert all('type integer: "qzx7personal@example.com"' in message for message in messages)
    # What quotes no row is still told.
    reader = JdbcReader(source(table="misread", modified="gone"), settings_of(database), personal=personal)
    with pytest.raises(SourceError, match="there is no column 'gone'"):
        reader.fingerprints([day(1)])
