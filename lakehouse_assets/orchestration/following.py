"""Whether gold is what its inputs make of it, and the request for gold that was overlooked.

Belongs here: comparing a gold table's last decision with its inputs. Does not: when gold follows by itself (automation).
"""

from collections.abc import Sequence

import dagster as dg
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.layers.gold_batch import inputs_of, ruleset_hash
from lakehouse_assets.orchestration.healer import is_healed
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs

Golds = Sequence[tuple[GoldSpec, GoldQuery]]


def overlooked_gold(instance: dg.DagsterInstance, settings: Settings, golds: Golds) -> list[dg.RunRequest]:
    """Runs of gold tables that are not what their inputs make of them though nothing is on its way: an input changed while gold
    was being derived, or that run was cancelled. Of the same inputs, one is asked for once; one that fails is tried again by
    its condition.
    """
    if not golds or not is_healed(instance):
        return []
    busy = {
        key for run in instance.get_runs(dg.RunsFilter(statuses=NOT_FINISHED_STATUSES)) for key in run.asset_selection or ()
    }
    found = []
    for gold, query in golds:
        key, inputs = dg.AssetKey(f"gold_{gold.name}"), inputs_of(gold, query)
        if busy & {key, *map(dg.AssetKey, inputs)} or gold_is_current(settings, instance, gold, query):
            continue
        versions = " ".join(f"{name} {delta.version(settings.path(*name.split('_', 1)))}" for name in inputs)
        run_key = f"gold_{gold.name} {ruleset_hash(gold, query)} {versions}"
        found.append(dg.RunRequest(run_key=run_key, asset_selection=[key]))
    return found


def gold_is_current(settings: Settings, instance: dg.DagsterInstance, gold: GoldSpec, query: GoldQuery) -> bool:
    """Whether gold was judged on today's input versions by today's rules, and is on record; or cannot be made yet."""
    name = f"gold_{gold.name}"
    places = {i: settings.path(*i.split("_", 1)) for i in inputs_of(gold, query)}
    if not all(delta.exists(path) for path in places.values()):
        return True
    last = max(logs.decisions(settings, name, evidence=False), key=lambda d: d.number, default=None)
    if last is None or last.applied_at is None or instance.get_latest_materialization_event(dg.AssetKey(name)) is None:
        return False
    if last.ruleset_hash != ruleset_hash(gold, query):
        return False
    return last.inputs == {i: delta.version(path) for i, path in places.items()}
