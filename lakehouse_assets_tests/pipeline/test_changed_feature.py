"""A drift feature whose meaning changes under the same name: what was measured before says nothing of it any more.

Belongs here: the baseline after a change of the YAML. Does not: which changes count (decisions/drift/test_declared_drift).
"""

import random

import pytest

from lakehouse_assets_tests.support import copy_lake, heal, lake_settings, land, readings, window

BASELINE_WINDOWS = 20  # as many as only warn: one of twenty more could be held by chance
DRIFT = {"hold_at": 0.05, "hold_from": 20, "warn_at": 0.05, "warn_from": 20, "sketch_k": 256}


def featured(expr: str):
    return readings(checks=[{"check": "not_empty"}], drift={**DRIFT, "features": [{"name": "level", "expr": expr}, "hour"]})


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    settings = lake_settings(tmp_path_factory.mktemp("learnt") / "lake")
    dice = random.Random(7)
    for day in range(1, BASELINE_WINDOWS + 3):
        rows = [f"s{n},{n % 24},{dice.gauss(10, 1):.4f},2024-01-{day:02d}T00:00:00Z" for n in range(200)]
        land(settings, day, rows)
    published = heal(spark, settings, range(1, BASELINE_WINDOWS + 1), featured("value"))
    assert all(decision.accepted for decision in published.current.values())
    return settings


@pytest.fixture
def learnt(template, tmp_path):
    return copy_lake(template, tmp_path)


@pytest.mark.exhaustive(seconds=15)
def test_profiles_of_an_earlier_meaning_are_ignored(spark, learnt):
    published = heal(spark, learnt, [BASELINE_WINDOWS + 1], featured("value * 1000"))
    decision = published.current[window(BASELINE_WINDOWS + 1)]
    assert decision.accepted
    assert decision.drift is not None
    assert {feature for feature, *_ in decision.drift["statistics"]} == {"hour", "volume"}


@pytest.mark.exhaustive(seconds=15)
def test_the_same_change_in_the_data_is_quarantined(spark, learnt):
    """The counterpart: were the old measurements believed, the changed feature would look like this."""
    rows = [f"s{n},{n % 24},{10_000 + n},2024-01-{BASELINE_WINDOWS + 2:02d}T00:00:00Z" for n in range(200)]
    land(learnt, BASELINE_WINDOWS + 2, rows)
    published = heal(spark, learnt, [BASELINE_WINDOWS + 2], featured("value"))
    assert published.current[window(BASELINE_WINDOWS + 2)].verdict == "quarantined"
