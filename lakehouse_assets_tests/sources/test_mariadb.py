"""A MariaDB table read by real Spark: values as text, windows, what reaches the server, fingerprints, what is never shown.

Belongs here: the reader by itself, on a real server. Does not: tables on it (e2e/test_mariadb), PostgreSQL (test_jdbc).
"""

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.windows import Window, window_at
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import mariadb
from lakehouse_assets.sources.jdbc import JdbcReader
from lakehouse_assets.testing import verify_source
from lakehouse_assets_tests.e2e.database_servers import TestDatabase, mariadb_server
from lakehouse_assets_tests.sources.source_files import day, rows


@pytest.fixture(scope="module")
def database(spark):
    with mariadb_server() as database:
        yield database


def settings_of(database: TestDatabase, **connection: Any) -> Settings:
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


# Type, value as SQL, bronze's text, the Spark type that the schema contract compares.
VALUES = [
    ("varchar(20) character set utf8mb4", "'é\n\"\\\\😀'", 'é\n"\\😀', "string"),
    ("text character set latin1", "'é '", "é ", "string"),
    ("char(10)", "'ab'", "ab", "string"),
    ("varchar(5)", "''", "", "string"),
    ("varchar(5)", "NULL", None, "string"),
    ("enum('a','b c')", "'b c'", "b c", "string"),
    ("set('a','b')", "'a,b'", "a,b", "string"),
    ("decimal(65,30)", "'12345678901234567890123456789012345.1'", "12345678901234567890123456789012345.1" + "0" * 29, None),
    ("decimal(12,2)", "'-0.50'", "-0.50", "decimal(12,2)"),
    ("double", "0.1", "0.1", "double"),
    ("double", "1e300", "1e300", "double"),
    ("float", "16777216", "16777216", "float"),
    ("bigint", "-9223372036854775808", "-9223372036854775808", "bigint"),
    ("bigint unsigned", "18446744073709551615", "18446744073709551615", "decimal(20,0)"),
    ("int unsigned", "4294967295", "4294967295", "bigint"),
    ("smallint unsigned", "65535", "65535", "int"),
    ("tinyint", "-128", "-128", "tinyint"),
    ("tinyint(1)", "2", "2", None),
    ("boolean", "true", "1", None),
    ("bit(1)", "b'1'", "1", None),
    ("bit(64)", "b'" + "1" * 64 + "'", "18446744073709551615", None),
    ("year", "2024", "2024", "smallint"),
    ("timestamp(6)", "'2024-03-01 12:00:00.123456'", "2024-03-01T12:00:00.123456Z", "timestamp"),
    ("datetime(6)", "'2024-03-01 12:00:00.123456'", "2024-03-01T12:00:00.123456", "timestamp_ntz"),
    ("datetime", "'0000-00-00'", "0000-00-00T00:00:00.000000", "timestamp_ntz"),
    ("date", "'2024-03-01'", "2024-03-01", "date"),
    ("date", "'2024-02-00'", "2024-02-00", "date"),
    ("time(3)", "'-838:59:59.123'", "-838:59:59.123", None),
    ("varbinary(200)", "X'" + "ff00" * 60 + "'", b64encode(b"\xff\x00" * 60).decode(), "binary"),
    ("binary(4)", "X'0a00'", b64encode(b"\x0a\x00\x00\x00").decode(), "binary"),
    ("longblob", "X'00'", "AA==", "binary"),
    ("json", """'{"b": [1, 2.50], "a": null}'""", '{"b": [1, 2.50], "a": null}', "string"),
    ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "string"),
    ("inet6", "'::1'", "::1", None),
    ("point", "ST_GeomFromText('POINT(1 2.5)')", "POINT(1 2.5)", None),
]


def test_values(spark, database, reader) -> None:
    columns = ", ".join(f"v{n} {kind} null" for n, (kind, *_) in enumerate(VALUES))
    database.run(
        f"CREATE TABLE t (at timestamp(6) null, {columns})",
        f"SET STATEMENT sql_mode='NO_BACKSLASH_ESCAPES' FOR INSERT INTO t VALUES ('2024-03-01 06:00', "
        f"{', '.join(text for _, text, *_ in VALUES)})",
    )
    extraction = reader().read(spark, [day(1)])
    [row] = extraction.frame.collect()
    # The server's clocks are at +05:30, and a session's zone decides what a TIMESTAMP is.
    values = {n: row[f"v{n}"] for n in range(len(VALUES))}
    expected_values = {n: text for n, (_, _, text, _) in enumerate(VALUES)}
    zoned = next(n for n, (kind, *_) in enumerate(VALUES) if kind == "timestamp(6)")
    expected_values[zoned] = "2024-03-01T06:30:00.123456Z"
    assert values == expected_values
    assert (row["_source_file"], row["_corrupt_record"]) == ("SHOP: t", None)
    assert row["_columns"] == list(extraction.columns[day(1)]) == ["at", *(f"v{n}" for n in range(len(VALUES)))]
    types = extraction.types[day(1)]
    assert [types.get(f"v{n}") for n in range(len(VALUES))] == [kind for *_, kind in VALUES]


def test_hostile_names(spark, database, reader) -> None:
    database.run(
        "CREATE DATABASE IF NOT EXISTS `S; x`",
        "DROP TABLE IF EXISTS `S; x`.`t's`",
        "CREATE TABLE `S; x`.`t's` (`a\"b``c` text, `_id` int, `select` int, `At $1` datetime, lakehouse_c0 int)",
        "INSERT INTO `S; x`.`t's` VALUES ('x', 1, 2, '2024-03-02', 3)",
    )
    extraction = reader(table="S; x.t's", modified="At $1").read(spark, [day(2)])
    assert [tuple(row)[4:] for row in extraction.frame.collect()] == [("x", "1", "2", "2024-03-02T00:00:00.000000", "3")]
    assert extraction.columns[day(2)] == ('a"b`c', "x5f_id", "select", "At_x20_$1", "lakehouse_c0")


def fill(database: TestDatabase, kind: str = "datetime(6)") -> None:
    """A row each three hours from 2024-02-29T21:00 on, six days long; one without a time, and one with a zero date."""
    database.run(
        f"CREATE TABLE t (id int primary key, at {kind} null, v text, KEY (at))",
        "SET STATEMENT time_zone='+00:00' FOR INSERT INTO t SELECT seq, '2024-02-29 21:00' + INTERVAL seq * 3 HOUR,"
        " CONCAT('v', seq) FROM seq_0_to_47",
        "INSERT INTO t VALUES (99, NULL, 'timeless'), (98, '0000-00-00', 'zero')",
    )


def expected(*windows: Window, shift: timedelta = timedelta()) -> list[tuple[datetime, str]]:
    first = datetime(2024, 2, 29, 21, tzinfo=UTC) + shift
    times = {n: first + n * timedelta(hours=3) for n in range(48)}
    return sorted((w.start, str(n)) for n, at in times.items() for w in windows if w.start <= at < w.end)


def read_rows(extraction) -> list[tuple[datetime, str]]:
    return sorted((row[0].astimezone(UTC), row[1]) for row in extraction.frame.select("p_extracted_at", "id").collect())


@pytest.mark.parametrize(("kind", "partitions"), [("timestamp(6)", 1), ("datetime(6)", 3)])
def test_a_range_of_windows_is_filtered_by_the_server(spark, database, reader, kind, partitions) -> None:
    fill(database, kind)
    windows = [day(1), day(2), day(4)]
    before = len(database.statements())
    assert read_rows(reader(partitions=partitions).read(spark, windows)) == expected(*windows)
    queries = [text for text in database.statements()[before:] if "lakehouse_c1" in text and "1=0" not in text]
    assert len(queries) == 2 * partitions, "days 1 and 2 are one range, day 4 another"
    assert all('("at" >= ' in text.partition(") q WHERE ")[2] and ' AND "at" < ' in text for text in queries), queries
    # On the column itself: the server's plan is an index's.
    with database.session() as session:
        session.execute("SET sql_mode='ANSI_QUOTES'")
        [plan, *_] = session.query(f"EXPLAIN {queries[0]}")
    assert "at" in (plan[4] or ""), plan


def test_times_without_a_zone_are_the_source_s(spark, database, reader) -> None:
    fill(database)
    extraction = reader(timezone="America/New_York").read(spark, [day(1), day(2)])
    assert read_rows(extraction) == expected(day(1), day(2), shift=timedelta(hours=5))
    assert rows(extraction, "at")[0] == ("2024-02-29T21:00:00.000000",), "as it stands there"


@pytest.mark.parametrize("partitions", [2, 3, 7])
def test_each_hour_of_a_day_with_25_has_its_rows_once(spark, database, reader, partitions) -> None:
    """On the clocks of New York 01:30 is twice on 2024-11-03."""
    database.run("CREATE TABLE t (id int, at datetime)")
    database.run("INSERT INTO t SELECT seq, '2024-11-03' + INTERVAL seq * 30 MINUTE FROM seq_0_to_7")
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
    database.run("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (1, '2024-03-01', 'v1')")
    assert prints(look, 1, 2, 3) == first, "the order in which rows lie there is nothing"
    changes = {
        "a late row": "INSERT INTO t VALUES (100, '2024-03-01 23:59:59.999999', 'late')",
        "one row less": "DELETE FROM t WHERE id = 100",
        "another time, as many rows": "UPDATE t SET at = at + INTERVAL 1 MICROSECOND WHERE id = 2",
        "a value": "UPDATE t SET v = 'edited' WHERE id = 2",
        "no value": "UPDATE t SET v = NULL WHERE id = 2",
    }
    last = first
    for what, statement in changes.items():
        database.run(statement)
        now = prints(look, 1, 2, 3)
        noticed = now[1] != last[1]
        assert noticed == ("value" not in what or kind == "content"), what
        assert (now[2], now[3]) == (first[2], first[3])
        last = now


def test_one_query_fingerprints_all_windows(database, reader) -> None:
    fill(database)
    look = reader()
    prints(look, 1)
    before = len(database.statements())
    hours = [window_at(datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=n), "hourly") for n in range(8760)]
    assert len(look.fingerprints(hours)) == 48
    assert len([text for text in database.statements()[before:] if "COUNT(*)" in text]) == 1


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"table": "none"}, "doesn't exist"),
        ({"modified": "when"}, "no column 'when'; it has id, at, v"),
        ({"modified": "v"}, "v is text, and no time"),
    ],
)
def test_missing_tables_and_columns_are_named(database, reader, attributes, message) -> None:
    fill(database)
    with pytest.raises(SourceError, match=message):
        reader(**attributes).fingerprints([day(1)])


def test_nothing_of_the_connection_is_shown(spark, database, reader, capfd) -> None:
    fill(database)
    text = reader().read(spark, [day(1)]).frame._jdf.queryExecution().toString()
    errors = []
    unreachable = settings_of(database, url="jdbc:mariadb://127.0.0.1:1/shop")
    for wrong in (settings_of(database, password="another-password"), unreachable):
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
    assert "SHOP: t: " in errors[0] and "Access denied" in errors[0] and "onnect" in errors[2]
    text += " ".join(errors) + repr(settings_of(database)) + settings_of(database).model_dump_json()
    text += "".join(capfd.readouterr())
    hidden = (database.password, "another-password", database.user, f"{database.port}/", "127.0.0.1")
    assert not [value for value in hidden if value in text], text


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("jdbc:mariadb://h:3306", "is not written as jdbc:mariadb://host:3306/database, of one host"),
        ("jdbc:mysql://h1:3306,h2:3306/d", "is not written as jdbc:mysql://host:3306/database, of one host"),
        ("jdbc:mariadb:replication://h/d", "is not written as"),
        ("jdbc:mariadb://h/d?user=me&password=word", "holds a user or a password"),
        ("jdbc:mariadb://h/d?keyStorePassword=word", "holds a user or a password"),
        ("jdbc:mariadb://me:word@h/d", "holds a user or a password"),
        ("jdbc:mariadb://h/d?sessionVariables=x", "has the option sessionVariables, which the lakehouse sets itself"),
    ],
)
def test_addresses_that_are_refused(url, message) -> None:
    settings = Settings.from_environment({"LAKEHOUSE_JDBC_SHOP_URL": url})
    with pytest.raises(EnvironmentMissing, match=message) as caught:
        JdbcReader(source(), settings).fingerprints([day(1)])
    assert "word@" not in str(caught.value) and "=word" not in str(caught.value)


def test_a_missing_driver_is_named_with_the_way_out(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(mariadb, "JARS_FOR_JDBC", tmp_path)
    environment = {"LAKEHOUSE_JDBC_SHOP_URL": "jdbc:mariadb://h/d"}
    for extra, message in (
        ({}, "MariaDB's driver is missing: `python -m lakehouse_assets.storage.session` fetches it"),
        ({"LAKEHOUSE_JDBC_SHOP_JARS": "/no/driver.jar"}, "LAKEHOUSE_JDBC_SHOP_JARS names /no/driver.jar, which is not a file"),
    ):
        settings = Settings.from_environment(environment | extra)
        with pytest.raises(EnvironmentMissing, match=message):
            JdbcReader(source(), settings).fingerprints([day(1)])


def test_mysql_s_addresses_are_read_by_the_same_driver(database, reader) -> None:
    fill(database)
    settings = settings_of(database, url=database.url.replace("mariadb", "mysql"))
    assert prints(JdbcReader(source(), settings), 1) == prints(JdbcReader(source(), settings_of(database)), 1)


def test_waiting_for_a_lock_times_out(database, reader) -> None:
    reader()
    database.run("CREATE TABLE t (at datetime)", "INSERT INTO t VALUES ('2024-03-01')")
    hurried = JdbcReader(source(), settings_of(database), timeout_seconds=4)
    assert hurried.fingerprints([day(1)])
    with database.session() as holder:
        holder.execute("LOCK TABLE t WRITE")
        with pytest.raises(SourceError, match=r"SHOP: t: .*Lock wait timeout exceeded"):
            hurried.fingerprints([day(1)])
    assert hurried.fingerprints([day(1)])


def test_a_slow_query_times_out(database, reader) -> None:
    reader()
    database.run("CREATE TABLE t (at datetime)", "INSERT INTO t VALUES ('2024-03-01')")
    database.run("CREATE OR REPLACE VIEW slow AS SELECT at FROM t WHERE SLEEP(20) = 0")
    with pytest.raises(SourceError, match=r"SHOP: slow: .*(max_statement_time|timed out|timeout)"):
        JdbcReader(source(table="slow"), settings_of(database), timeout_seconds=1).fingerprints([day(1)])
    database.run("DROP VIEW slow")


def test_the_database_gives_control_totals_of_each_window(database, reader, spark) -> None:
    database.run(
        "CREATE TABLE t (at datetime, amount decimal(12,2), `odd name` double, n int unsigned, v text)",
        "INSERT INTO t VALUES ('2024-03-01 05:00', 1.50, 2, 1, 'a'), ('2024-03-01 23:59:59', NULL, 3, 2, 'b'),"
        " ('2024-03-02', 4.25, -1, 3, NULL), ('2024-03-04', 9, 9, 4, 'c')",
    )
    control = {"rows": "count(*)", "texts": "count(v)", "amount": "sum(amount)", "least": "min(odd name)", "n": "avg(n)"}
    windows = [day(1), day(2), day(3)]
    control_totals = reader(control=control).read(spark, windows).control
    assert [list(control_totals[window].figures.values()) for window in windows] == [
        [2.0, 2.0, 1.5, 2.0, 1.5],
        [1.0, 0.0, 4.25, -1.0, 3.0],
        [0.0, 0.0, None, None, None],
    ]
    with pytest.raises(SourceError, match=r"SHOP: t: source.control.figure: v is text, and no number"):
        reader(control={"figure": "sum(v)"}).read(spark, windows)


@pytest.mark.exhaustive(seconds=5)
def test_the_contract_of_a_source_kind(spark, database, reader) -> None:
    reader()
    fill(database)
    settings = settings_of(database)

    def change(window: Window) -> None:
        database.run(f"INSERT INTO t VALUES (100, '{window.start:%Y-%m-%d}', 'late')")

    verify_source(spark, lambda _: JdbcReader(source(), settings), [day(1), day(2)], day(20), change)


def test_the_first_window_of_a_watermark_has_zero_dates(spark, database, reader) -> None:
    """They are before all others; silver's cast then names them."""
    fill(database)
    look = reader(history="watermark", overlap_minutes=0)
    positions = look.positions([day(1)])
    recorded = {window.start: text for window, text in positions.items()}
    look = JdbcReader(source(history="watermark", overlap_minutes=0), settings_of(database), (), recorded)
    ids = [number for _, number in read_rows(look.read(spark, [day(1)]))]
    assert sorted(map(int, ids)) == [*range(9), 98]


@pytest.mark.parametrize("personal", [True, False])
def test_a_database_quotes_no_row_of_a_table_with_personal_columns(spark, database, reader, personal) -> None:
    reader()
    database.run(
        "DROP TABLE IF EXISTS people",
        "CREATE TABLE people (mail text, at datetime)",
        "INSERT INTO people VALUES ('qzx7personal', '2024-03-01 05:00')",
        "CREATE OR REPLACE FUNCTION refuse(value text) RETURNS text DETERMINISTIC BEGIN"
        " SIGNAL SQLSTATE '22018' SET MESSAGE_TEXT = value; RETURN value; END",
        "CREATE OR REPLACE VIEW misread AS SELECT refuse(mail) AS mail, at FROM people",
    )
    misread = JdbcReader(source(table="misread", fingerprint="content"), settings_of(database), personal=personal)
    messages = []
    for attempt in (lambda: misread.fingerprints([day(1)]), lambda: misread.probe(spark, [day(1)])):
        with pytest.raises(SourceError, match="SHOP: misread: ") as caught:
            attempt()
        messages.append(str(caught.value))
    if personal:
        assert set(messages) == {"SHOP: misread: the database stops with SQLSTATE 22018 (masked: pii)"}
    else:
        assert all("qzx7personal" in message for message in messages)
    database.run("DROP VIEW misread")


def test_jars_of_a_driver_come_from_the_environment() -> None:
    settings = Settings.from_environment({"LAKEHOUSE_JDBC_X_URL": "jdbc:x:y", "LAKEHOUSE_JDBC_X_JARS": "/a.jar:/b.jar"})
    assert settings.connection("X").jars == (Path("/a.jar"), Path("/b.jar"))
