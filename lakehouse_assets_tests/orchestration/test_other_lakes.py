"""Dagster's home beside another lake than the one it grew up with: lost, or an older copy, on either side. No JVM.

Belongs here: windows that one of the two has not on record. Does not: tries after failed runs (test_retries), or what lies in
the tables.
"""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from lakehouse_assets.storage import logs
from lakehouse_assets_tests.orchestration.healing.test_retries import Shop, of


@pytest.fixture
def shop(settings, monkeypatch):
    return Shop(settings, monkeypatch)


def numbers(shop) -> list[int]:
    return [d.number for d in logs.decisions(shop.settings, "readings")]


@pytest.mark.parametrize("lost", [".", "ops", "ops/extractions"])
def test_the_daemon_recreates_a_lost_lake(shop, lost):
    shop.arrives(range(1, 6))
    assert shop.tick() == of(1, 2, 3, 4, 5)
    assert shop.run_days(1, 5)
    shop.later = timedelta(hours=1)
    assert shop.tick_retries() == 0
    shutil.rmtree(Path(shop.settings.root) / lost)
    shop.later = timedelta(hours=8)
    assert set(shop.next().values()) == {"daemon"}
    assert shop.tick_retries() == 1
    assert shop.sizes == [5, 5]
    assert shop.next() == {}
    shop.later = timedelta(hours=20)
    assert shop.tick_retries() == 0


def test_lost_decisions_are_decided_again(shop):
    shop.arrives(range(1, 4))
    assert shop.run_days(1, 3)
    shutil.rmtree(Path(shop.settings.root) / "ops/decisions")
    shop.later = timedelta(hours=8)
    assert shop.tick_retries() == 1
    assert numbers(shop) == [1, 2, 3]


def test_an_older_copy_of_the_lake_beside_a_newer_home(shop, tmp_path):
    shop.arrives([1, 2])
    assert shop.run_days(1, 2)
    shutil.copytree(shop.settings.root, tmp_path / "copy")
    shop.arrives([3, 4])
    shop.arrives([2], "v2")
    assert shop.run_days(2, 4)
    shutil.rmtree(shop.settings.root)
    shutil.move(tmp_path / "copy", shop.settings.root)
    shop.later = timedelta(hours=8)
    assert shop.next() == {2: "daemon", 3: "daemon", 4: "daemon"}
    assert shop.tick_retries() == 1
    assert shop.next() == {}
    assert {r.fingerprint for r in logs.extractions(shop.settings, "readings")} == {"v1", "v2"}


def test_a_new_home_beside_a_lake_requests_unknown_windows_once(shop, monkeypatch):
    shop.arrives([1, 2, 3])
    assert shop.run_days(1, 3)
    other = Shop(shop.settings, monkeypatch)
    assert other.next() == {}, "it has not yet looked at the sources"
    other.arrives([1, 2, 3])
    assert set(other.next().values()) == {"daemon"}
    assert other.tick() == of(1, 2, 3)
    assert other.run_days(1, 3)
    assert other.next() == {}


def test_a_failed_run_counts_although_the_clock_was_set_back(shop):
    shop.later = timedelta(days=1)
    assert shop.tick_retries() == 0
    shop.arrives([1])
    shop.poisoned = {1}
    assert not shop.run_days(1, 1)
    shop.poisoned, shop.later = set(), timedelta()
    assert shop.tick_retries() == 0, "ten minutes first"
    shop.later = timedelta(minutes=11)
    assert shop.tick_retries() == 1
    assert shop.next() == {}
