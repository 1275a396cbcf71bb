"""The requests for gold that is stale: once for the same inputs, and again after a cancelled run or another loss. Gold whose
inputs cannot be read stops nothing else.

Belongs here: run keys, and errors. Does not: when gold is stale (pipeline/test_gold, e2e).
"""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import dagster as dg
import pytest

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import silver_schemas
from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.orchestration.healing import foreground, stale_gold
from lakehouse_assets.orchestration.healing.run_keys import FINISHED, RUN_KEY, next_run_key
from lakehouse_assets.pipeline.gold_inputs import GoldInputs
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import readings

GOLD = GoldSpec.model_validate({"name": "days", "sql": "days.sql", "key": ["sensor"]})
QUERY = read_gold("select sensor from silver_readings", "days.sql", silver_schemas([readings()]))


@pytest.fixture
def lake(settings, monkeypatch):
    """Stale gold: ``table`` is the id of silver. Gives the key of the only request."""
    state = SimpleNamespace(table="a")
    monkeypatch.setattr(stale_gold, "automation_is_on", lambda _: True)
    monkeypatch.setattr(stale_gold, "gold_is_current", lambda *_: False)
    monkeypatch.setattr(
        stale_gold, "inputs_now", lambda *_: GoldInputs({"silver_readings": 4}, {"silver_readings": state.table})
    )
    with dg.DagsterInstance.ephemeral() as instance:
        state.instance = instance

        def key() -> str:
            [request] = stale_gold.stale_gold_requests(instance, settings, [(GOLD, QUERY)], [])
            return request.run_key

        state.key = key
        yield state


def end(lake, run_key: str, status: dg.DagsterRunStatus) -> None:
    lake.instance.add_run(dg.DagsterRun(job_name="job", tags={RUN_KEY: run_key}, status=status))


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


def test_a_key_follows_a_run_that_ended_before_a_time(lake):
    now = datetime.now(UTC)
    end(lake, "key", dg.DagsterRunStatus.SUCCESS)
    [run] = lake.instance.get_runs()
    assert next_run_key(lake.instance, "key", FINISHED, now - timedelta(hours=1)) == "key"
    following = next_run_key(lake.instance, "key", FINISHED, now + timedelta(hours=1))
    assert following == f"key {run.run_id}"
    end(lake, following, dg.DagsterRunStatus.STARTED)
    assert next_run_key(lake.instance, "key", FINISHED, now + timedelta(hours=1)) == following, "it has not ended"


BROKEN = GOLD.model_copy(update={"name": "broken"})


def is_current(*arguments) -> bool:
    """The inputs of the broken gold cannot be read."""
    if BROKEN in arguments:
        raise OSError("a part of its log is not there")
    return False


def test_an_input_that_cannot_be_read_stops_no_other_gold(lake, settings, monkeypatch):
    monkeypatch.setattr(stale_gold, "gold_is_current", is_current)
    warnings: list[str] = []
    golds = [(BROKEN, QUERY), (GOLD, QUERY)]
    requests = stale_gold.stale_gold_requests(lake.instance, settings, golds, warnings)
    assert [request.asset_selection for request in requests] == [[dg.AssetKey("gold_days")]]
    [warning] = warnings
    assert warning.startswith("gold_broken: ")
    assert "a part of its log is not there" in warning


def test_a_command_rewrites_the_other_gold_and_fails(lake, settings, monkeypatch):
    monkeypatch.setattr(foreground, "gold_is_current", is_current)
    monkeypatch.setattr(foreground, "execute_assets", lambda *_: None)
    table = SimpleNamespace(spec=readings(gold=[BROKEN, GOLD]), query_of=lambda *_: QUERY)
    run = foreground.ForegroundRun(dg.Definitions(), lake.instance, settings, [])
    run._rewrite_gold(table, [])
    assert (run.report.gold, [name for name, _ in run.failures]) == (["gold_days"], ["gold_broken"])


def test_a_table_that_cannot_be_read_stops_no_other_of_a_command(lake, settings, monkeypatch):
    def read(_, __, spec, ___):
        if spec.name == "broken":
            raise OSError("a part of its log is not there")
        return []

    monkeypatch.setattr(foreground, "read_statuses", read)
    tables = [SimpleNamespace(spec=readings(name=name), query_of=lambda *_: QUERY) for name in ("broken", "whole")]
    run, names = foreground.ForegroundRun(dg.Definitions(), lake.instance, settings, tables), []
    monkeypatch.setattr(run, "_rewrite_gold", lambda table, _: names.append(table.spec.name))
    with pytest.raises(LakehouseError, match="broken: a part of its log is not there"):
        run.run()
    assert names == ["broken", "whole"]
