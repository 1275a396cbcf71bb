"""A guard that publishes, against an oracle that shares no code: random versions, releases, and runs killed at each step.

Belongs here: the clean table over many versions. Does not: single rules (guards/test_publish), or verdicts (test_guard).
"""

import os
import random
import subprocess
import sys
from dataclasses import dataclass, field

import pytest

from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decide import JudgementRequest
from lakehouse_assets.guards.observed_table import GuardState
from lakehouse_assets.guards.run import STEPS
from lakehouse_assets.guards.settlement import settle_version
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.guards.guarded_orders import ForeignOrders, guard_run, judge, orders_guard
from lakehouse_assets_tests.laws.child import at, jvm_for_children
from lakehouse_assets_tests.support import rows_of

POINTS = ["observed_done", *(f"{step.__name__}_done" for step in STEPS)]
CHECKS = [
    {"check": "in_range", "column": "amount", "min": 0, "on_fail": "quarantine_batch"},
    {"check": "not_null", "column": "country", "on_fail": "quarantine_rows"},
]
FEED = "ALTER TABLE {T} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"


def is_faulty(rows):
    return any(amount < 0 for _, amount, _ in rows)


@dataclass
class Version:
    """One version of the oracle's table: all its rows, those that it brought, and the keys that it removed or replaced."""

    number: int
    rows: list[tuple]
    arrived: list[tuple]
    removed: set[int]
    is_append: bool
    reads_all: bool = False
    is_quarantined: bool = False
    has_quarantined_rows: bool = False


@dataclass
class Oracle:
    """The table, and the clean table that the documented rules make of it: rows with the version that published each."""

    has_key: bool
    versions: list[Version] = field(default_factory=list)
    clean: list[tuple[int, tuple]] = field(default_factory=list)

    @property
    def now(self):
        return self.versions[-1].rows if self.versions else []

    @property
    def quarantined(self):
        return [v for v in self.versions if v.is_quarantined or v.has_quarantined_rows]

    def change(self, rows, arrived, removed, is_append=False, is_whole=False):
        version = Version(len(self.versions), rows, arrived, removed, is_append)
        by_rows = is_append or (self.has_key and not is_whole and not self.quarantined)
        self.versions.append(version)
        version.reads_all = not by_rows
        batch = rows if version.reads_all else arrived
        version.is_quarantined = is_faulty(batch)
        if not version.is_quarantined:
            if version.reads_all:
                for other in self.quarantined:
                    other.is_quarantined = other.has_quarantined_rows = False
            version.has_quarantined_rows = any(country is None for *_, country in batch)
            self.publish(version, lambda row: row[2] is not None)

    def release(self, version):
        version.is_quarantined = version.has_quarantined_rows = False
        self.publish(version, lambda row: True)

    def publish(self, version, is_clean):
        number = version.number
        batch = version.rows if version.reads_all else version.arrived
        rows = [(number, row) for row in batch if is_clean(row)]
        if version.reads_all:
            self.clean = [(n, row) for n, row in self.clean if n > number]
        elif not self.has_key:
            self.clean = [(n, row) for n, row in self.clean if n != number]
        else:
            removed = version.removed - {row[0] for row in version.arrived}
            self.clean = [(n, row) for n, row in self.clean if n > number or row[0] not in removed]
        if self.has_key:
            newer = {row[0] for n, row in self.clean if n > number}
            replaced = {row[0] for _, row in rows} - newer
            self.clean = [(n, row) for n, row in self.clean if row[0] not in replaced]
            rows = [(n, row) for n, row in rows if row[0] not in newer]
        self.clean += rows


class Story:
    """The foreign table, its oracle, and random changes of both."""

    def __init__(self, spark, path, seed, has_key):
        self.table, self.oracle, self.random = ForeignOrders(spark, path), Oracle(has_key), random.Random(seed)
        self.next_id = 1

    def new_rows(self):
        rows = []
        for _ in range(self.random.randint(1, 3)):
            amount = -1.0 if self.random.random() < 0.15 else float(self.random.randint(0, 99))
            rows.append((self.next_id, amount, self.random.choice(["DE", "FR", "IT", None])))
            self.next_id += 1
        return rows

    def step(self):
        now, oracle = self.oracle.now, self.oracle
        kind = self.random.choice(["append", "append", "append", "merge", "merge", "delete", "overwrite", "correct"])
        if kind == "append" or not now:
            rows = self.new_rows()
            self.table.append(*rows)
            oracle.change([*now, *rows], rows, set(), is_append=True)
        elif kind == "merge":
            old = self.random.sample(now, min(2, len(now)))
            rows = [(number, float(self.random.randint(0, 99)), "ES") for number, *_ in old] + self.new_rows()
            self.table.merge(*rows)
            keys = {row[0] for row in old}
            oracle.change([row for row in now if row[0] not in keys] + rows, rows, keys)
        elif kind == "delete":
            key = self.random.choice(now)[0]
            self.table.run(f"DELETE FROM {{T}} WHERE id = {key}")
            oracle.change([row for row in now if row[0] != key], [], {key})
        elif kind == "overwrite":
            rows = self.new_rows()
            self.table.append(*rows, mode="overwrite")
            oracle.change(rows, rows, set(), is_whole=True)
        elif any(amount < 0 or country is None for _, amount, country in now):
            bad = {number for number, amount, country in now if amount < 0 or country is None}
            self.table.run("UPDATE {T} SET amount = 5, country = 'PT' WHERE amount < 0 OR country IS NULL")
            rows = [(number, 5.0, "PT") if number in bad else (number, amount, c) for number, amount, c in now]
            oracle.change(rows, [row for row in rows if row[0] in bad], bad)


@pytest.mark.exhaustive(seconds=240)
@pytest.mark.parametrize("has_key", [False, True], ids=["without_key", "by_key"])
def test_the_clean_table_is_what_an_oracle_makes_of_the_accepted_versions(has_key, spark, settings, tmp_path):
    seed = 7 if has_key else 3
    story, clean = Story(spark, tmp_path / "theirs", seed, has_key), tmp_path / "clean"
    key = ["id"] if has_key else []
    guard = orders_guard(tmp_path / "theirs", key=key, checks=CHECKS, publish={"to": str(clean)})
    oracle = story.oracle
    first = [(number, float(number), "DE") for number in range(900, 910)]
    story.table.append(*first)
    oracle.change(first, first, set(), is_append=True)
    if has_key:
        story.table.run(FEED)
        oracle.versions.append(Version(1, first, [], set(), is_append=True))
    for round_of_versions in range(5):
        for _ in range(3):
            story.step()
        judge(spark, settings, guard)
        if oracle.quarantined and round_of_versions % 2:
            version = story.random.choice(oracle.quarantined)
            request = JudgementRequest(kind="released", waived=("*",), by="me", because="so", operation=str(round_of_versions))
            settle_version(guard_run(spark, settings, guard), version.number, request)
            oracle.release(version)
        quarantined = {d.bronze_version for d in GuardState.read(settings, guard).quarantined}
        assert quarantined == {version.number for version in oracle.quarantined}
        rows = sorted((row["id"], row["amount"], row["country"]) for row in rows_of(str(clean)))
        assert rows == sorted((row for _, row in oracle.clean), key=lambda row: row[0])


@pytest.fixture(scope="module")
def jvm(tmp_path_factory):
    """The variables of the JVM on which one child after the other is killed."""
    with jvm_for_children(tmp_path_factory.mktemp("children")) as variables:
        yield variables


@pytest.mark.exhaustive(seconds=60)
@pytest.mark.parametrize("has_key", [False, True], ids=["without_key", "by_key"])
@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_is_killed_publishes_each_row_once(point, has_key, spark, jvm, tmp_path):
    table, clean = ForeignOrders(spark, tmp_path / "theirs"), tmp_path / "clean"
    table.append((1, 1.0, "DE"), (2, 2.0, "DE"))
    settings = at(tmp_path)
    key = ["id"] if has_key else []
    guard = orders_guard(tmp_path / "theirs", key=key, checks=CHECKS, publish={"to": str(clean)})
    (tmp_path / "guard.json").write_text(guard.model_dump_json(by_alias=True))
    judge(spark, settings, guard)
    table.append((3, 3.0, "DE"), (1, 11.0, "DE") if has_key else (4, 4.0, "DE"), (5, 5.0, None))
    table.append((6, -6.0, "DE"))
    command = [sys.executable, "-m", "lakehouse_assets_tests.guards.child", str(tmp_path), point]
    child = subprocess.run(command, env=os.environ | jvm, capture_output=True, text=True, timeout=500, check=False)
    assert child.returncode == -9, child.stderr[-2000:]
    judge(spark, settings, guard)
    assert judge(spark, settings, guard).new == []
    rows = sorted((row["id"], row["amount"]) for row in rows_of(str(clean)))
    assert rows == ([(1, 11.0), (2, 2.0), (3, 3.0)] if has_key else [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)])
    assert len(rows_of(settings.path("quarantine", "orders"))) == 2
    log = logs.decisions(settings, "orders")
    assert [(d.bronze_version, d.verdict, d.silver_version) for d in log] == [
        (0, "published", 0),
        (1, "published_with_warnings", 1),
        (2, "quarantined", None),
    ]
    assert ledger.unapplied_decisions(log) == []
