"""A foreign Delta table, from its versions to silver: whatever its owner does to it, silver is the table at the last window.

Belongs here: whole runs against an oracle in plain Python, stopped at steps. Does not: how versions are read (sources).
"""

import random
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import Killed, heal_windows, rows_of, runner, window
from lakehouse_assets_tests.timed_commits import run_at

FEED = "create table {t} (id bigint, text string) using delta tblproperties (delta.enableChangeDataFeed = true)"
KILLS = ("positions_recorded", "extracting", "bronze_committed", "extraction_recorded", "write_done", "mark_applied_done")
DAYS = 8


def orders(mode: str, **changes) -> TableSpec:
    own = {"change": {"type": "string", "from": "delta_change"}, "position": {"type": "bigint", "from": "delta_order"}}
    feed = {"changes": "feed"} if mode == "feed" else {}
    upsert = {"mode": "upsert", "delete_when": "change = 'delete'"}
    attributes = {
        "name": "orders",
        "source": {"kind": "delta", "path": "shop/orders", **feed},
        "extraction": {"cadence": "daily", "start": "2024-01-01", "end": "2024-01-09"}
        | (upsert if mode == "feed" else {"mode": mode}),
        "key": ["id"],
        "columns": {"id": "bigint", "text": "string", **(own if mode == "feed" else {})},
        "supersede": "any",
    } | ({"last_modified": "position"} if mode == "feed" else {})
    return TableSpec.model_validate({**attributes, **changes})


def silver(settings) -> dict[int, str]:
    rows = rows_of(settings.path("silver", "orders"), ["id", "text"])
    assert len(rows) == len({row["id"] for row in rows})
    return {row["id"]: row["text"] for row in rows}


class Owner:
    """Somebody who writes the table, and remembers what is in each version."""

    def __init__(self, spark, path: Path, seed: int) -> None:
        self.spark, self.path, self.random = spark, path, random.Random(seed)
        self.rows: dict[int, str] = {}
        self.versions: dict[int, dict[int, str]] = {}
        self.next_id = 1

    def run(self, moment: datetime, statement: str, rows: dict[int, str]) -> None:
        run_at(self.spark, self.path, moment, statement)
        self.rows = rows
        self.versions[DeltaTable(str(self.path)).version()] = rows

    def change_table(self, moment: datetime) -> None:
        """Do anything."""
        ids = sorted(self.rows)
        one = self.random.choice(ids) if ids else 0
        new, self.next_id = self.next_id, self.next_id + 1
        text = f"v{new}"
        others = {n: t for n, t in self.rows.items() if n != one}
        replaced = {n: f"o{new}-{n}" for n in (one, new, new + 100)}
        values = ", ".join(f"({n}, '{t}')" for n, t in replaced.items())
        target = self.random.choice(sorted(self.versions))
        merge = (
            f"merge into {{t}} t using (select {one} id, '{text}' text union all select {new}, '{text}') s on t.id = s.id"
            " when matched then update set text = s.text when not matched then insert (id, text) values (s.id, s.text)"
        )
        statement, rows = self.random.choice(
            [
                (f"insert into {{t}} (id, text) values ({new}, '{text}')", {**self.rows, new: text}),
                (f"update {{t}} set text = '{text}' where id = {one}", {**self.rows, **({one: text} if ids else {})}),
                (f"update {{t}} set id = {new} where id = {one}", {**others, **({new: self.rows[one]} if ids else {})}),
                (f"delete from {{t}} where id = {one}", others),
                (merge, {**self.rows, one: text, new: text}),
                (f"insert overwrite {{t}} (id, text) values {values}", replaced),
                (f"restore table {{t}} to version as of {target}", self.versions[target]),
                ("optimize {t}", self.rows),
            ]
        )
        self.run(moment, statement, rows)


@pytest.mark.exhaustive(seconds=60)
def test_updates_and_deletions_of_the_owner_reach_silver(spark, settings):
    path = Path(settings.landing) / "shop" / "orders"
    moment = window(1).start + timedelta(hours=3)
    run_at(spark, path, moment, FEED, "insert into {t} values (1, 'a'), (2, 'b'), (3, 'c')")
    run_at(spark, path, moment + timedelta(days=1), "update {t} set text = 'z' where id = 1", "delete from {t} where id = 2")
    heal_windows(spark, settings, [window(1), window(2), window(3)], orders("feed"))
    assert silver(settings) == {1: "z", 3: "c"}
    run_at(spark, path, moment + timedelta(days=2), "restore table {t} to version as of 1")
    heal_windows(spark, settings, [window(1), window(2), window(3)], orders("feed"))
    assert silver(settings) == {1: "a", 2: "b", 3: "c"}, "silver follows a restored table"


@pytest.mark.exhaustive(seconds=80)
def test_a_table_is_polled_and_read_as_it_changes(spark, tmp_path):
    path = tmp_path / "landing" / "shop" / "orders"
    world = World(spark, tmp_path, [LakehouseTable(orders("feed"), tmp_path)])
    report = world.run()
    assert report.ranges == [] and not path.exists()
    moment = window(1).start + timedelta(hours=3)
    run_at(spark, path, moment, FEED, "insert into {t} values (1, 'a'), (2, 'b'), (3, 'c')")
    world.run()
    assert silver(world.settings) == {1: "a", 2: "b", 3: "c"}
    run_at(spark, path, moment + timedelta(days=2), "update {t} set text = 'z' where id = 1", "delete from {t} where id = 2")
    report = world.run()
    assert [r[1:3] for r in report.ranges] == [("2024-01-03", "2024-01-03")]
    assert silver(world.settings) == {1: "z", 3: "c"}
    assert world.run().ranges == []


@pytest.mark.exhaustive(seconds=150)
@pytest.mark.parametrize(("mode", "seed"), [("feed", 1), ("feed", 2), ("snapshot", 3)])
def test_silver_is_the_table_whatever_its_owner_does(spark, settings, mode, seed):
    owner = Owner(spark, Path(settings.landing) / "shop" / "orders", seed)
    spec, kills, last = orders(mode), list(KILLS), 0
    owner.run(window(1).start, FEED, {})
    for day in range(1, DAYS + 1):
        for hour in range(owner.random.choice((1, 2, 2, 3))):
            owner.change_table(window(day).start + timedelta(hours=1 + hour))
        if day == 4:
            owner.run(window(day).start + timedelta(hours=9), "alter table {t} add columns (note string)", owner.rows)
        if day < DAYS and owner.random.random() < 0.5:
            continue
        days, last = [window(n) for n in range(last + 1, day + 1)], day
        if kills:
            step = kills.pop(0)

            def kill(name: str, step: str = step) -> None:
                if name == step:
                    raise Killed

            try:
                run = runner(spark, settings, spec, kill)
                extract(run, days)
                publish(run, days)
            except Killed:
                pass
        heal_windows(spark, settings, days, spec)
        assert silver(settings) == owner.rows, f"after day {day}"
    heal_windows(spark, settings, [window(n) for n in range(1, DAYS + 1)], spec)
    assert silver(settings) == owner.rows
    rebuild(runner(spark, settings, spec))
    assert silver(settings) == owner.rows, "the bronze of all windows gives the same"
