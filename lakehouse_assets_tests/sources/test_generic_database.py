"""A table of a database that the project has no SQL for, read by standard SQL: H2's, on a server, by a driver of its own.

Belongs here: what generic SQL does, and what it lacks. Does not: PostgreSQL (test_jdbc) and MariaDB (test_mariadb).
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
from lakehouse_assets.sources.jdbc import JdbcReader
from lakehouse_assets.testing import verify_source
from lakehouse_assets_tests.e2e.database_servers import TestDatabase, h2_server
from lakehouse_assets_tests.sources.source_files import day


@pytest.fixture(scope="module")
def database(spark):
    with h2_server() as database:
        yield database


def settings_of(database: TestDatabase, **connection: Any) -> Settings:
    jdbc = {"SHOP": database.connection(**connection)}
    return Settings(root="/nowhere", landing="/nowhere", dagster_home="/nowhere", jdbc=jdbc)  # type: ignore[arg-type]


def source(**attributes: Any) -> JdbcSource:
    return JdbcSource.model_validate({"kind": "jdbc", "connection": "SHOP", "table": "T", "modified": "AT"} | attributes)


@pytest.fixture
def reader(database):
    def reader(**attributes: Any) -> JdbcReader:
        return JdbcReader(source(**attributes), settings_of(database))

    database.run("DROP TABLE IF EXISTS T")
    return reader


# Type, value as SQL, bronze's text, the Spark type that the schema contract compares.
VALUES = [
    ("varchar(20)", "'é\"😀'", 'é"😀', "string"),
    ("varchar(5)", "''", "", "string"),
    ("varchar(5)", "NULL", None, "string"),
    ("clob", "'long'", "long", "string"),
    ("numeric(38,2)", "-0.50", "-0.50", "decimal(38,2)"),
    ("double precision", "0.1", "0.1", "double"),
    ("real", "0.1", "0.10000000149011612", "double"),
    ("bigint", "-9223372036854775807", "-9223372036854775807", "bigint"),
    ("integer", "7", "7", "int"),
    ("boolean", "true", "true", "boolean"),
    ("timestamp(6)", "'2024-03-01 12:00:00.123456'", "2024-03-01T12:00:00.123456", "timestamp_ntz"),
    ("date", "'2024-03-01'", "2024-03-01", "date"),
    ("varbinary(200)", "X'" + "ff00" * 60 + "'", b64encode(b"\xff\x00" * 60).decode(), "binary"),
]


def test_values(spark, database, reader) -> None:
    columns = ", ".join(f"v{n} {kind}" for n, (kind, *_) in enumerate(VALUES))
    database.run(
        f"CREATE TABLE T (at timestamp, {columns})",
        f"INSERT INTO T VALUES ('2024-03-01 05:00', {', '.join(text for _, text, *_ in VALUES)})",
    )
    extraction = reader().read(spark, [day(1)])
    [row] = extraction.frame.collect()
    assert [row[f"V{n}"] for n in range(len(VALUES))] == [text for _, _, text, _ in VALUES]
    assert (row["p_extracted_at"].astimezone(UTC), row["_source_file"], row["_corrupt_record"]) == (
        day(1).start,
        "SHOP: T",
        None,
    )
    assert row["_columns"] == list(extraction.columns[day(1)]) == ["AT", *(f"V{n}" for n in range(len(VALUES)))]
    types = extraction.types[day(1)]
    assert [types[f"V{n}"] for n in range(len(VALUES))] == [kind for *_, kind in VALUES]


def test_hostile_names(spark, database, reader) -> None:
    database.run(
        'CREATE SCHEMA IF NOT EXISTS "S; x"',
        'DROP TABLE IF EXISTS "S; x"."t\'s"',
        'CREATE TABLE "S; x"."t\'s" ("a""b`c" varchar, "_id" int, "select" int, "At $1" date, "lakehouse_c0" int)',
        """INSERT INTO "S; x"."t's" VALUES ('x', 1, 2, '2024-03-02', 3)""",
    )
    extraction = reader(table="S; x.t's", modified="At $1").read(spark, [day(1), day(2)])
    assert [tuple(row)[4:] for row in extraction.frame.collect()] == [("x", "1", "2", "2024-03-02", "3")]


def fill(database: TestDatabase) -> None:
    """A row each three hours from 2024-02-29T21:00 on, six days long."""
    database.run(
        "CREATE TABLE T (id int primary key, at timestamp(6), v varchar)",
        "INSERT INTO T SELECT x, DATEADD('HOUR', x * 3, TIMESTAMP '2024-02-29 21:00:00'), 'v' || x FROM SYSTEM_RANGE(0, 47)",
        "INSERT INTO T VALUES (99, NULL, 'timeless')",
    )


def expected(*windows: Window, shift: timedelta = timedelta()) -> list[tuple[datetime, str]]:
    first = datetime(2024, 2, 29, 21, tzinfo=UTC) + shift
    times = {n: first + n * timedelta(hours=3) for n in range(48)}
    return sorted((w.start, str(n)) for n, at in times.items() for w in windows if w.start <= at < w.end)


def read_rows(extraction) -> list[tuple[datetime, str]]:
    return sorted((row[0].astimezone(UTC), row[1]) for row in extraction.frame.select("p_extracted_at", "ID").collect())


@pytest.mark.parametrize(("partitions", "timezone"), [(1, "UTC"), (3, "America/New_York")])
def test_windows_have_their_rows(spark, database, reader, partitions, timezone) -> None:
    fill(database)
    windows = [day(1), day(2), day(4)]
    shift = timedelta(hours=0 if timezone == "UTC" else 5)
    assert read_rows(reader(partitions=partitions, timezone=timezone).read(spark, windows)) == expected(*windows, shift=shift)


def test_a_watermark_reads_everything_before_its_first_window_s_end(spark, database, reader) -> None:
    fill(database)
    watermark = {"history": "watermark", "overlap_minutes": 0}
    recorded = {window.start: text for window, text in reader(**watermark).positions([day(1)]).items()}
    look = JdbcReader(source(**watermark), settings_of(database), (), recorded)
    assert sorted(int(number) for _, number in read_rows(look.read(spark, [day(1)]))) == list(range(9))


def test_fingerprints_follow_count_and_bounds_only(database, reader) -> None:
    fill(database)
    windows = [day(1), day(2), day(9)]
    first = reader().fingerprints(windows)
    assert sorted(first) == windows[:2] and reader().fingerprints(windows) == first
    noticed = {
        "INSERT INTO T VALUES (100, '2024-03-01 12:34:56', 'late')": True,
        "UPDATE T SET at = '2024-03-01 12:34:57' WHERE id = 100": False,  # neither first nor last: not seen, and documented
        "UPDATE T SET at = '2024-03-01 23:59:59.5' WHERE id = 100": True,
        "DELETE FROM T WHERE id = 100": True,
    }
    last = first
    for statement, is_noticed in noticed.items():
        database.run(statement)
        now = reader().fingerprints(windows)
        assert ((now[day(1)] != last[day(1)]), now[day(2)]) == (is_noticed, first[day(2)]), statement
        last = now
    hours = [window_at(datetime(2024, 2, 25, tzinfo=UTC) + timedelta(hours=n), "hourly") for n in range(300)]
    assert len(reader().fingerprints(hours)) == 48, "three queries"


def test_control_totals(spark, database, reader) -> None:
    fill(database)
    totals = reader(control={"rows": "count(*)", "ids": "sum(ID)"}).read(spark, [day(1), day(20)]).control
    assert [list(totals[window].figures.values()) for window in (day(1), day(20))] == [[8.0, 36.0], [0.0, None]]
    with pytest.raises(SourceError, match=r"source.control.n: V is CHARACTER VARYING, and no number"):
        reader(control={"n": "sum(V)"}).read(spark, [day(1)])


def test_a_snapshot_has_the_whole_table(spark, database, reader) -> None:
    fill(database)
    present = reader(history="none", modified=None)
    assert sorted(present.fingerprints([day(1), day(2)])) == [day(2)]
    extraction = present.read(spark, [day(2)])
    assert sorted(int(n) for _, n in read_rows(extraction)) == [*range(48), 99]
    assert extraction.types[day(2)]["AT"] == "timestamp_ntz"


@pytest.mark.exhaustive(seconds=5)
def test_the_contract_of_a_source_kind(spark, database, reader) -> None:
    fill(database)
    settings = settings_of(database)

    def change(window: Window) -> None:
        database.run(f"INSERT INTO T VALUES (100, '{window.start:%Y-%m-%d}', 'late')")

    verify_source(spark, lambda _: JdbcReader(source(), settings), [day(1), day(2)], day(20), change)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"table": "NONE"}, 'Table "NONE" not found'),
        ({"modified": "WHEN"}, "no column 'WHEN'; it has ID, AT, V"),
        ({"modified": "V"}, "V is CHARACTER VARYING, and no time"),
        ({"fingerprint": "content"}, "content needs a hash, which standard SQL lacks"),
    ],
)
def test_what_generic_sql_lacks_is_refused(database, reader, attributes, message) -> None:
    fill(database)
    with pytest.raises(SourceError, match=f"SHOP: .*{message}"):
        reader(**attributes).fingerprints([day(1)])


def test_a_time_with_a_zone_is_refused_with_the_way_out(database, reader) -> None:
    database.run("CREATE TABLE T (at timestamp with time zone)")
    with pytest.raises(SourceError, match=r"AT is TIMESTAMP WITH TIME ZONE, .* read a view"):
        reader().fingerprints([day(1)])


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"URL": "jdbc:nodb://h/d"}, "LAKEHOUSE_JDBC_SHOP_JARS names no driver of jdbc:nodb: set it to the path"),
        ({"URL": "jdbc:nodb://h/d", "JARS": "/no.jar"}, "LAKEHOUSE_JDBC_SHOP_JARS names /no.jar, which is not a file"),
        ({"URL": "jdbc:nodb://h/d;user=me;password=word"}, "holds a user or a password"),
        ({"URL": "jdbc:nodb:me/word@//h:1/d"}, "holds a user or a password"),
        ({"URL": "jdbc:nodb://me:word@h/d"}, "holds a user or a password"),
    ],
)
def test_addresses_that_are_refused(environment, message) -> None:
    settings = Settings.from_environment({f"LAKEHOUSE_JDBC_SHOP_{name}": value for name, value in environment.items()})
    with pytest.raises(EnvironmentMissing, match=message) as caught:
        JdbcReader(source(), settings).fingerprints([day(1)])
    assert "word@" not in str(caught.value) and "=word" not in str(caught.value)


def test_a_jar_without_a_driver_of_the_address_is_named(database) -> None:
    settings = settings_of(database, url="jdbc:nodb://h/d")
    with pytest.raises(EnvironmentMissing, match="LAKEHOUSE_JDBC_SHOP_JARS names no driver of jdbc:nodb"):
        JdbcReader(source(), settings).fingerprints([day(1)])


def test_nothing_of_the_connection_is_shown(spark, database, reader) -> None:
    fill(database)
    shown = [reader().read(spark, [day(1)]).frame._jdf.queryExecution().toString()]
    unreachable = settings_of(database, url="jdbc:h2:tcp://127.0.0.1:1/shop")
    for wrong in (settings_of(database, password="another-password"), unreachable):
        broken = JdbcReader(source(), wrong)
        for call in (lambda r=broken: r.fingerprints([day(1)]), lambda r=broken: r.read(spark, [day(1)])):
            with pytest.raises(SourceError) as caught:
                call()
            shown.append(str(caught.value))
    text = " ".join(shown)
    hidden = (database.password, "another-password", database.user, f"{database.port}/", "127.0.0.1")
    assert not [value for value in hidden if value in text], text


def test_a_database_that_quotes_no_row(database) -> None:
    personal = JdbcReader(source(table="NONE"), settings_of(database), personal=True)
    with pytest.raises(SourceError, match=r"stops with SQLSTATE 42S\d\d \(masked: pii\)"):
        personal.fingerprints([day(1)])


def test_the_driver_s_java_ends_and_is_started_again(database, reader) -> None:
    fill(database)
    before = reader().fingerprints([day(1)])
    from lakehouse_assets.sources.jdbc_gateway import Gateway

    gateway = Gateway.of(database.jars)
    gateway.process.kill()
    gateway.process.wait()
    assert reader().fingerprints([day(1)]) == before
    assert Gateway.of(database.jars) is not gateway
    assert Path(f"/proc/{gateway.process.pid}").exists() is False
