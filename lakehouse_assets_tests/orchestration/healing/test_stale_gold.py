"""The requests for gold that is stale: once for the same inputs, and again after a cancelled run or another loss.

Belongs here: run keys. Does not: when gold is stale (pipeline/test_gold, e2e).
"""

from types import SimpleNamespace

import dagster as dg
import pytest

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import silver_schemas
from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.orchestration.healing import retries
from lakehouse_assets.pipeline.gold_inputs import GoldInputs
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import readings

GOLD = GoldSpec.model_validate({"name": "days", "sql": "days.sql", "key": ["sensor"]})
QUERY = read_gold("select sensor from silver_readings", "days.sql", silver_schemas([readings()]))


@pytest.fixture
def lake(settings, monkeypatch):
    """Stale gold: ``table`` is the id of silver. Gives the key of the only request."""
    state = SimpleNamespace(table="a")
    monkeypatch.setattr(retries, "automation_is_on", lambda _: True)
    monkeypatch.setattr(retries, "gold_is_current", lambda *_: False)
    monkeypatch.setattr(retries, "inputs_now", lambda *_: GoldInputs({"silver_readings": 4}, {"silver_readings": state.table}))
    with dg.DagsterInstance.ephemeral() as instance:
        state.instance = instance

        def key() -> str:
            [request] = retries.stale_gold_requests(instance, settings, [(GOLD, QUERY)])
            return request.run_key

        state.key = key
        yield state


def end(lake, run_key: str, status: dg.DagsterRunStatus) -> None:
    lake.instance.add_run(dg.DagsterRun(job_name="job", tags={retries.RUN_KEY: run_key}, status=status))


def test_the_same_inputs_are_requested_once(lake):
    first = lake.key()
    assert lake.key() == first
    end(lake, first, dg.DagsterRunStatus.FAILURE)
    assert lake.key() == first, "its condition tries it again"


def test_a_cancelled_run_is_requested_again_each_time(lake):
    keys = []
    for _ in range(3):
        keys.append(lake.key())
        end(lake, keys[-1], dg.DagsterRunStatus.CANCELED)
    assert len({*keys, lake.key()}) == 4


def test_another_table_and_another_loss_are_requested(lake, settings):
    first = lake.key()
    lake.table = "b"
    assert lake.key() != first
    lake.table = "a"
    logbook.write(settings, [logbook.decided(1, "gold_days")])
    assert lake.key() != first, "gold was made since, and is lost again"
