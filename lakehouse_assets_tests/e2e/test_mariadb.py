"""A shop's orders in MariaDB, from the database to silver: late, changed, deleted rows; a table of the present only; crashes.

Belongs here: whole runs, compared with what plain Python makes of the rows. Does not: how they are read (sources/test_mariadb).
"""

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.e2e.database_servers import TestDatabase, mariadb_server
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import Killed, rows_of, runner, window

Row = tuple[int, datetime, str, float | None]
KILLS = ("extracting", "bronze_committed", "extraction_recorded", "log_done", "write_done", "mark_applied_done")


@pytest.fixture(scope="module")
def database(spark):
    with mariadb_server() as database:
        yield database


def orders(**source) -> TableSpec:
    return TableSpec.model_validate(
        {
            "name": "orders",
            "source": {"kind": "jdbc", "connection": "SHOP", "table": "orders", "modified": "updated_at", **source},
            "extraction": {"cadence": "daily", "start": "2024-01-01", "end": "2024-01-05", "mode": "upsert"},
            "key": ["id"],
            "last_modified": "updated_at",
            "columns": {
                "id": "bigint",
                "updated_at": "timestamp",
                "state": "string",
                "amount": "decimal(12,2)",
                "paid": "boolean",
            },
            "checks": [{"check": "in_range", "column": "amount", "min": 0}],
            "supersede": "any",
        }
    )


def at(day: int, hour: int = 0) -> datetime:
    return datetime(2024, 1, day, hour, tzinfo=UTC)


def fill(database: TestDatabase, rows: Iterable[Row]) -> None:
    database.run(
        "DROP TABLE IF EXISTS orders",
        "CREATE TABLE orders (id bigint unsigned, updated_at datetime(6), state varchar(60), amount decimal(12,2),"
        " paid tinyint(1) default 1, KEY (updated_at))",
    )
    put(database, rows)


def put(database: TestDatabase, rows: Iterable[Row]) -> None:
    values = ", ".join(f"({n}, '{at:%Y-%m-%d %H:%M}', '{s}', {'NULL' if a is None else a})" for n, at, s, a in rows)
    database.run(f"INSERT INTO orders (id, updated_at, state, amount) VALUES {values}")


def silver(settings: Settings) -> dict[int, tuple]:
    columns = ["id", "updated_at", "state", "amount", "paid", "p_extracted_at"]
    rows = rows_of(settings.path("silver", "orders"), columns)
    assert len(rows) == len({row["id"] for row in rows}) and all(row["paid"] is True for row in rows)
    amount = {row["id"]: None if row["amount"] is None else float(row["amount"]) for row in rows}
    return {row["id"]: (row["updated_at"], row["state"], amount[row["id"]], row["p_extracted_at"]) for row in rows}


def newest(rows: Iterable[Row]) -> dict[int, tuple]:
    """The oracle: of each id the row that was modified last, in the day of that; a negative amount is quarantined."""
    newest_rows: dict[int, tuple] = {}
    for n, moment, state, amount in sorted(rows, key=lambda row: row[1]):
        if amount is None or amount >= 0:
            newest_rows[n] = (moment, state, amount, moment.replace(hour=0))
    return newest_rows


@pytest.mark.exhaustive(seconds=30)
def test_late_changed_and_deleted_rows_heal(spark, database, settings):
    settings = settings.model_copy(update={"jdbc": {"SHOP": database.connection()}})
    table = [(1, at(1), "née 😀", 1.25), (2, at(1, 5), "new", None), (3, at(2), "new", -1.0), (4, at(2), "new", 4.0)]
    fill(database, table)
    for statements, rows in (
        ([], table),
        (
            ["DELETE FROM orders WHERE id = 4", "UPDATE orders SET updated_at = '2024-01-02 12:00' WHERE id = 2"],
            [table[0], (2, at(2, 12), "new", None), table[2]],
        ),
    ):
        database.run(*statements)
        run = runner(spark, settings, orders())
        extract(run, [window(1), window(2)])
        publish(run, [window(1), window(2)])
        assert silver(settings) == newest(rows)


@pytest.mark.exhaustive(seconds=60)
def test_the_daemon_s_way_from_the_database_to_silver(spark, database, tmp_path):
    table = [(n, at(1 + n % 3, n % 24), "née 😀", n * 1.25) for n in range(60) if n % 3 != 1]
    table += [(3, at(3, 22), "paid", None), (6, at(3, 23), "paid", -1.0)]
    fill(database, table)
    world = World(spark, tmp_path, [LakehouseTable(orders(partitions=2), tmp_path)], jdbc={"SHOP": database.connection()})
    report = world.run()
    assert (report.reported, [r[3] for r in report.ranges]) == (2, [1, 1]), "nothing was modified on the 2nd"
    assert silver(world.settings) == newest(table)
    # A late row, a day that had none, a row less (and its key is in no other row), another time.
    put(database, late := [(100, at(1, 23), "late", 7.0), (101, at(2, 1), "late", 8.0)])
    database.run("DELETE FROM orders WHERE id = 9", "UPDATE orders SET updated_at = '2024-01-02 12:00' WHERE id = 8")
    table = [row for row in [*table, *late] if row[0] != 9]
    table = [(n, at(2, 12) if n == 8 else moment, *rest) for n, moment, *rest in table]
    report = world.run()
    assert (report.reported, [r[1:3] for r in report.ranges]) == (3, [("2024-01-01", "2024-01-03")])
    assert silver(world.settings) == newest(table)
    assert world.run().ranges == []
    written_text = "".join(path.read_text(errors="ignore") for path in tmp_path.rglob("*") if path.is_file())
    hidden = (database.password, database.user, f":{database.port}/")
    assert not [value for value in hidden if value in written_text]


@pytest.mark.exhaustive(seconds=60)
def test_a_random_owner_and_runs_stopped_at_each_step(spark, database, tmp_path, settings):
    """After each change the windows are read again, one run stopped at a step; silver is what the table has."""
    chance = random.Random(22)
    settings = settings.model_copy(update={"jdbc": {"SHOP": database.connection()}})
    table = {n: (at(chance.randint(1, 4), chance.randint(0, 23)), "new", float(n)) for n in range(30)}
    fill(database, [(n, *row) for n, row in table.items()])
    days = [window(day) for day in (1, 2, 3, 4)]
    for step in ("", *KILLS):

        def stop(passed: str, step: str = step) -> None:
            if passed == step:
                raise Killed

        if step:
            with pytest.raises(Killed):
                stopped = runner(spark, settings, orders(fingerprint="content"), stop)
                extract(stopped, days)
                publish(stopped, days)
        for _ in range(2):
            run = runner(spark, settings, orders(fingerprint="content"))
            extract(run, days)
            publish(run, days)
            assert silver(settings) == newest([(n, *row) for n, row in table.items()]), step
        for n in chance.sample(sorted(table), 4):
            if chance.random() < 0.5:
                table[n] = (table[n][0], f"edited after {step}", table[n][2])
            else:
                table[n] = (at(chance.randint(1, 4), chance.randint(0, 23)), "moved", float(n))
            moment, state, amount = table[n]
            database.run(
                f"UPDATE orders SET updated_at = '{moment:%Y-%m-%d %H:%M}', state = '{state}', amount = {amount} WHERE id = {n}"
            )
    before = silver(settings)
    rebuild(runner(spark, settings, orders(fingerprint="content")))
    assert silver(settings) == before


@pytest.mark.exhaustive(seconds=30)
def test_a_source_without_history_is_read_once(spark, database, tmp_path):
    """As the days go: rows are updated in place; the last state is never lost, whoever comes when."""
    fill(database, first := [(n, at(1, n), "new", 1.0 * n) for n in range(6)])
    spec = orders(history="watermark", overlap_minutes=90)
    world = World(spark, tmp_path, [LakehouseTable(spec, tmp_path)], jdbc={"SHOP": database.connection()})
    run = runner(spark, world.settings, spec)

    def ingest(*days: int) -> dict[int, int]:
        windows = [window(day) for day in days]
        extract(run, windows)
        publish(run, windows)
        return {r.p_extracted_at.day: r.rows for r in logs.extractions(world.settings, "orders")}

    assert ingest(1) == {1: 6}
    database.run("UPDATE orders SET state = 'sent', updated_at = '2024-01-04 10:00' WHERE id = 0")
    database.run("UPDATE orders SET state = 'paid', updated_at = '2024-01-03 10:00' WHERE id = 1")
    put(database, [(50, at(1, 23), "stamped early", 1.0)])
    assert ingest(3, 4) == {1: 6, 3: 0, 4: 3}, "the newest reads all since the 1st, an hour and a half of it again"
    expected = {n: (moment, state, amount, at(1)) for n, moment, state, amount in first}
    expected |= {0: (at(4, 10), "sent", 0.0, at(4)), 1: (at(3, 10), "paid", 1.0, at(4))}
    expected |= {50: (at(1, 23), "stamped early", 1.0, at(4))}
    assert silver(world.settings) == expected
    database.run("TRUNCATE orders")
    assert ingest(1, 2, 3, 4) == {1: 6, 2: 0, 3: 0, 4: 3}
    rebuild(run)
    assert silver(world.settings) == expected
    assert at(4) + timedelta(days=1) == spec.extraction.end
