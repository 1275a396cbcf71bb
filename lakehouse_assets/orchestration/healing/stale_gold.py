"""Stale gold: whether a gold table reflects its inputs, and the requests for one that does not.

Belongs here: gold that no condition requests. Does not: when it is asked for (retries), or a run of gold (pipeline).
"""

from collections.abc import Sequence

import dagster as dg

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import inputs_of, ruleset_hash
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.decisions import ledger
from lakehouse_assets.measures.error_text import plain_text
from lakehouse_assets.orchestration.asset_keys import asset_key, input_key
from lakehouse_assets.orchestration.dagster_internals import UNFINISHED
from lakehouse_assets.orchestration.healing.automation import automation_is_on
from lakehouse_assets.orchestration.healing.run_keys import next_run_key
from lakehouse_assets.pipeline.evidence import gold_lies_whole
from lakehouse_assets.pipeline.gold_inputs import input_path, inputs_now
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs

Golds = Sequence[tuple[GoldSpec, GoldQuery]]


def stale_gold_requests(
    instance: dg.DagsterInstance, settings: Settings, golds: Golds, warnings: list[str]
) -> list[dg.RunRequest]:
    """Return requests for gold that is stale and has no run queued: an input changed during gold's run, or that run was
    cancelled. The same inputs are requested once; a failed run is retried by its condition. Gold whose inputs cannot be read
    gets a line in ``warnings``.
    """
    if not golds or not automation_is_on(instance):
        return []
    busy = {key for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED)) for key in run.asset_selection or ()}
    requests = []
    for gold, query in golds:
        key = asset_key(gold, f"gold_{gold.name}")
        if busy & {key, *(input_key(gold, name) for name in inputs_of(gold, query))}:
            continue
        try:
            if not gold_is_current(settings, instance, gold, query):
                requests.append(dg.RunRequest(run_key=_gold_run_key(instance, settings, gold, query), asset_selection=[key]))
        except Exception as error:
            warnings.append(f"gold_{gold.name}: whether it is stale is asked again in an hour: {plain_text(error)}")
    return requests


def _gold_run_key(instance: dg.DagsterInstance, settings: Settings, gold: GoldSpec, query: GoldQuery) -> str:
    now = inputs_now(settings, gold, inputs_of(gold, query))
    versions = " ".join(f"{name} {version} {now.tables[name]}" for name, version in now.versions.items())
    # With the decisions so far: a table that is lost twice is requested twice.
    number = ledger.last_number(logs.decisions(settings, f"gold_{gold.name}"))
    run_key = f"gold_{gold.name} {ruleset_hash(gold, query)} {versions} {number}"
    return next_run_key(instance, run_key, [dg.DagsterRunStatus.CANCELED])


def gold_is_current(settings: Settings, instance: dg.DagsterInstance, gold: GoldSpec, query: GoldQuery) -> bool:
    """Whether gold was judged on today's input versions by today's rules and recorded, or an input does not exist yet."""
    name = f"gold_{gold.name}"
    inputs = inputs_of(gold, query)
    if not all(delta.exists(input_path(settings, gold, each)) for each in inputs):
        return True
    last = max(logs.decisions(settings, name), key=lambda d: d.number, default=None)
    if last is None or last.applied_at is None or instance.get_latest_materialization_event(asset_key(gold, name)) is None:
        return False
    if last.ruleset_hash != ruleset_hash(gold, query) or not gold_lies_whole(settings, name):
        return False
    return inputs_now(settings, gold, inputs).were_read_by(settings, last)
