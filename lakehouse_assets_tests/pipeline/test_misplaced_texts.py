"""Personal values in a text column that is not marked: by a swapped header, with nothing that gives the rows away.

Belongs here: what the lake keeps and says of such windows. Does not: one search of everything (e2e/test_personal_token).
"""

import random
from pathlib import Path

import pytest

from lakehouse_assets.contracts.event import event_of
from lakehouse_assets.operations import baseline as requests
from lakehouse_assets.operations.replay import replay
from lakehouse_assets.reports.baselines import feature_rows
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.e2e.traces import traces
from lakehouse_assets_tests.support import heal, land, readings, runner, window

TOKEN = "qzx7personal"
LEVELS = {"hold_at": 0.05, "hold_from": 20, "warn_at": 0.05, "warn_from": 20, "sketch_k": 256, "lasting_at": 0, "remember": 40}
DAYS = range(1, 23)


def people():
    return readings(
        columns={"mail": {"type": "string", "pii": True}, "city": "string", "value": "double", "updated": "timestamp"},
        key=["mail"],
        checks=[{"check": "in_set", "column": "city", "values": ["Bonn"], "severity": "warning"}],
        drift={**LEVELS, "features": ["city", {"name": "by_city", "expr": "value", "by": "city"}]},
    )


def arrives(settings, day, header="mail,city,value,updated"):
    dice = random.Random(day)
    cities = dice.choices(["Bonn", "Rome"], [3, 1], k=40)
    rows = [f"m{n}{TOKEN}@x.org,{city},{n % 7},2024-01-{day:02d}T00:00:00Z" for n, city in enumerate(cities)]
    land(settings, day, rows, header)


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """A lake whose first window, which nothing compares, and whose last one have a swapped header."""
    home = tmp_path_factory.mktemp("misplaced")
    settings = Settings(root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home, spark_master="local[2]")
    for day in DAYS:
        arrives(settings, day, "city,mail,value,updated" if day in (1, 22) else "mail,city,value,updated")
    heal(spark, settings, DAYS, people())
    return settings


def test_a_swapped_header_puts_no_address_into_messages_records_events_or_the_baseline(lake):
    settings = lake
    decisions = logs.decisions(settings, "readings", evidence=True)
    last = next(d for d in decisions if d.p_extracted_at == window(22).start)
    [reason] = [reason for reason in last.reasons if reason.check == "drift"]
    assert "city has other shares" in reason.message and "Bonn" in reason.message and "new: #" in reason.message
    tables = [Path(settings.root) / layer for layer in ("bronze", "silver", "quarantine")]
    assert traces(Path(settings.root), TOKEN, tables) == {}
    assert TOKEN not in str([event_of(decision).model_dump_json() for decision in decisions])
    # It was there.
    assert traces(Path(settings.root), TOKEN)


def test_the_baseline_names_no_address_and_decisions_replay(spark, lake):
    settings = lake
    shown = requests.read_baseline_version(settings, people(), None)
    rows = feature_rows(shown.state.baseline, [entry.measured for entry in shown.entries])
    [city] = [row for row in rows if row["feature"] == "city"]
    assert city["categories"]["Bonn"] > 0.5 and TOKEN not in str(rows)
    for decision in logs.decisions(settings, "readings", evidence=True):
        if decision.p_extracted_at in (window(21).start, window(22).start):
            again = replay(runner(spark, settings, people()), decision)
            assert [getattr(again, name) for name in ("verdict", "drift", "profiles", "reasons")] == [
                getattr(decision, name) for name in ("verdict", "drift", "profiles", "reasons")
            ]
