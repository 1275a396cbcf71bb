"""A shop's orders in PostgreSQL, from the database to silver: late, changed, deleted rows; a table of the present only.

Belongs here: whole runs, compared with what plain Python makes of the rows. Does not: how they are read (sources/test_jdbc).
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.operations.release import release
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.e2e.servers import Database, postgres_server
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import rows_of, runner, window

Row = tuple[int, datetime, str, float | None]


@pytest.fixture(scope="module")
def database():
    with postgres_server() as database:
        yield database


def orders(**source) -> TableSpec:
    return TableSpec.model_validate(
        {
            "name": "orders",
            "source": {"kind": "jdbc", "connection": "SHOP", "table": "shop.orders", "modified": "updated_at", **source},
            "extraction": {"cadence": "daily", "start": "2024-01-01", "end": "2024-01-05", "mode": "upsert"},
            "key": ["id"],
            "last_modified": "updated_at",
            "columns": {"id": "bigint", "updated_at": "timestamp", "state": "string", "amount": "decimal(12,2)"},
            "checks": [{"check": "in_range", "column": "amount", "min": 0}],
        }
    )


def at(day: int, hour: int = 0) -> datetime:
    return datetime(2024, 1, day, hour, tzinfo=UTC)


def fill(database: Database, rows: Iterable[Row]) -> None:
    database.run(
        "CREATE SCHEMA IF NOT EXISTS shop",
        "DROP TABLE IF EXISTS shop.orders",
        "CREATE TABLE shop.orders (id bigint, updated_at timestamptz, state text, amount numeric)",
    )
    put(database, rows)


def put(database: Database, rows: Iterable[Row]) -> None:
    values = ", ".join(f"({n}, '{at.isoformat()}', '{s}', {'NULL' if a is None else a})" for n, at, s, a in rows)
    database.run(f"INSERT INTO shop.orders VALUES {values}")


def silver(world: World) -> dict[int, tuple]:
    columns = ["id", "updated_at", "state", "amount", "p_extracted_at"]
    rows = rows_of(world.settings.path("silver", "orders"), columns)
    assert len(rows) == len({row["id"] for row in rows})
    amount = {row["id"]: None if row["amount"] is None else float(row["amount"]) for row in rows}
    return {row["id"]: (row["updated_at"], row["state"], amount[row["id"]], row["p_extracted_at"]) for row in rows}


def newest(rows: Iterable[Row]) -> dict[int, tuple]:
    """The oracle: of each id the row that was modified last, in the day of that; a negative amount is held."""
    newest_rows: dict[int, tuple] = {}
    for n, moment, state, amount in sorted(rows, key=lambda row: row[1]):
        if amount is None or amount >= 0:
            newest_rows[n] = (moment, state, amount, moment.replace(hour=0))
    return newest_rows


@pytest.mark.exhaustive(seconds=30)
def test_rows_are_read_by_time_and_changes_heal(spark, database, tmp_path):
    table = [(n, at(1 + n % 3, n % 24), "new", n * 1.25) for n in range(60) if n % 3 != 1]
    table += [(3, at(3, 22), "paid", None), (6, at(3, 23), "paid", -1.0)]
    fill(database, table)
    world = World(spark, tmp_path, [LakehouseTable(orders(partitions=2), tmp_path)], jdbc={"SHOP": database.connection()})
    report = world.run()
    assert (report.reported, [r[3] for r in report.ranges]) == (2, [1, 1]), "nothing was modified on the 2nd"
    assert silver(world) == newest(table)
    # A late row, a day that had none, a row less (and its key is in no other row), another time.
    put(database, late := [(100, at(1, 23), "late", 7.0), (101, at(2, 1), "late", 8.0)])
    database.run("DELETE FROM shop.orders WHERE id = 9", "UPDATE shop.orders SET updated_at = '2024-01-02T12:00Z' WHERE id = 8")
    table = [row for row in [*table, *late] if row[0] != 9]
    table = [(n, at(2, 12) if n == 8 else moment, *rest) for n, moment, *rest in table]
    report = world.run()
    assert (report.reported, [r[1:3] for r in report.ranges]) == (3, [("2024-01-01", "2024-01-03")])
    assert silver(world) == newest(table)
    assert world.run().ranges == []
    records = {(r.p_extracted_at.day, r.extraction_seq): r.rows for r in logs.extractions(world.settings, "orders")}
    counts = {day: sum(moment.day == day for _, moment, *_ in table) for day in (1, 2, 3)}
    assert (records[1, 2], records[2, 1], records[3, 2]) == tuple(counts.values())
    written_text = "".join(path.read_text(errors="ignore") for path in tmp_path.rglob("*") if path.is_file())
    assert (
        database.password not in written_text and database.user not in written_text and f":{database.port}/" not in written_text
    )


@pytest.mark.exhaustive(seconds=20)
def test_a_window_of_which_every_row_is_deleted(spark, database, settings):
    settings = settings.model_copy(update={"jdbc": {"SHOP": database.connection()}})
    fill(database, [(1, at(1), "new", 1.0), (2, at(2), "new", 1.0)])
    days = [window(1), window(2), window(3)]
    for expected in ({(1, 1): 1, (2, 1): 1}, {(1, 1): 1, (2, 1): 1, (2, 2): 0}):
        run = runner(spark, settings, orders())
        extract(run, days)
        publish(run, days)
        assert {(r.p_extracted_at.day, r.extraction_seq): r.rows for r in logs.extractions(settings, "orders")} == expected
        database.run("DELETE FROM shop.orders WHERE id = 2")
    # Whether the source means it is a person's to say.
    assert [row["id"] for row in rows_of(settings.path("silver", "orders"))] == [1, 2]
    release(runner(spark, settings, orders()), window(2).start, None, waived=["supersede"], by="me", because="deleted")
    assert [row["id"] for row in rows_of(settings.path("silver", "orders"))] == [1]


@pytest.mark.exhaustive(seconds=20)
def test_a_source_without_history_is_read_once_and_missed_windows_are_empty(spark, database, tmp_path):
    """As the days go: rows are updated in place, so that what was not taken in time is gone; the last state never is."""
    fill(database, first := [(n, at(1, n), "new", 1.0 * n) for n in range(6)])
    spec = orders(history="watermark", overlap_minutes=90)
    world = World(spark, tmp_path, [LakehouseTable(spec, tmp_path)], jdbc={"SHOP": database.connection()})
    run = runner(spark, world.settings, spec)

    def take(*days: int) -> dict[int, int]:
        windows = [window(day) for day in days]
        extract(run, windows)
        publish(run, windows)
        return {r.p_extracted_at.day: r.rows for r in logs.extractions(world.settings, "orders")}

    assert take(1) == {1: 6}
    # On the 2nd, 3rd and 4th nobody comes by. Row 0 is updated twice, row 1 once; one is stamped before and committed after.
    database.run("UPDATE shop.orders SET state = 'paid', updated_at = '2024-01-02T10:00Z' WHERE id = 0")
    database.run("UPDATE shop.orders SET state = 'sent', updated_at = '2024-01-04T10:00Z' WHERE id = 0")
    database.run("UPDATE shop.orders SET state = 'paid', updated_at = '2024-01-03T10:00Z' WHERE id = 1")
    put(database, [(50, at(1, 23), "stamped early", 1.0)])
    assert take(3, 4) == {1: 6, 3: 0, 4: 3}, "the newest takes all since the 1st, an hour and a half of it again"
    assert take(2) == {1: 6, 2: 0, 3: 0, 4: 3}, "covered by then"
    expected = {n: (moment, state, amount, at(1)) for n, moment, state, amount in first}
    expected |= {0: (at(4, 10), "sent", 0.0, at(4)), 1: (at(3, 10), "paid", 1.0, at(4))}
    expected |= {50: (at(1, 23), "stamped early", 1.0, at(4))}
    assert silver(world) == expected
    # The source forgets it all. What was taken stays, by any rerun.
    database.run("TRUNCATE shop.orders")
    assert take(1, 2, 3, 4) == {1: 6, 2: 0, 3: 0, 4: 3}
    rebuild(run)
    assert silver(world) == expected
    # Nor does it matter how the table is called from now on.
    database.run("CREATE OR REPLACE VIEW shop.purchases AS TABLE shop.orders")
    run = runner(spark, world.settings, orders(history="watermark", overlap_minutes=90, table="shop.purchases"))
    assert take(1, 2, 3, 4) == {1: 6, 2: 0, 3: 0, 4: 3}
    database.run("DROP VIEW shop.purchases")
    assert silver(world) == expected
    assert all(r.extraction_seq == 1 for r in logs.extractions(world.settings, "orders"))


@pytest.mark.parametrize("died_at", ["positions_recorded", "bronze_committed"])
def test_ingested_rows_survive_a_crash(spark, database, tmp_path, settings, died_at):
    fill(database, [(n, at(1, n), "new", 1.0) for n in range(3)])
    settings = settings.model_copy(update={"jdbc": {"SHOP": database.connection()}})
    spec = orders(history="watermark", overlap_minutes=0)

    def die(step: str) -> None:
        if step == died_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(runner(spark, settings, spec, die), [window(1)])
    database.run("UPDATE shop.orders SET state = 'paid', updated_at = '2024-01-02T05:00Z' WHERE id = 0")
    run = runner(spark, settings, spec)
    extract(run, [window(1)])
    extract(run, [window(2)])
    bronze = rows_of(settings.path("bronze", "orders"), ["p_extracted_at", "id", "state"])
    ingested_rows = {(row["p_extracted_at"].day, row["id"], row["state"]) for row in bronze}
    first = {(1, "1", "new"), (1, "2", "new"), (2, "0", "paid")}
    # What bronze had is its only copy; what it had not yet, the present still has.
    assert ingested_rows == (first | {(1, "0", "new")} if died_at == "bronze_committed" else first)
    assert len(bronze) == len(ingested_rows)


def test_the_daemon_s_way_with_a_watermark(spark, database, tmp_path):
    fill(database, rows := [(n, at(1 + n % 3, n), "new", 1.0) for n in range(9)])
    spec = orders(history="watermark", overlap_minutes=5)
    world = World(spark, tmp_path, [LakehouseTable(spec, tmp_path)], jdbc={"SHOP": database.connection()})
    report = world.run()
    assert (report.reported, [r[3] for r in report.ranges]) == (4, [4])
    last = at(4)
    assert silver(world) == {n: (moment, state, amount, last) for n, moment, state, amount in rows}
    assert world.run().ranges == []
    assert [d.verdict for d in sorted(world.current_decisions("orders").values(), key=lambda d: str(d.p_extracted_at))] == [
        "published"
    ] * 4
    assert last + timedelta(days=1) == spec.extraction.end
