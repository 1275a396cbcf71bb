"""Retries: the sensor `retry_failed` for failed windows and stale gold, and the check of windows whose tries are used up.

Belongs here: when a failed window runs again, and whether gold reflects its inputs. Does not: a first run (automation), or the
judgement of windows (decisions.healing).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import inputs_of, ruleset_hash
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.healing import WindowStatus, due_ranges
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.orchestration.asset_keys import asset_key, input_key
from lakehouse_assets.orchestration.assets.metadata import evaluation
from lakehouse_assets.orchestration.assets.window_checks import silver_check_specs
from lakehouse_assets.orchestration.dagster_internals import UNFINISHED
from lakehouse_assets.orchestration.healing import window_state
from lakehouse_assets.orchestration.healing.automation import automation_is_on
from lakehouse_assets.orchestration.healing.one_process import in_one_process
from lakehouse_assets.orchestration.healing.ranges import partitions_of_ranges, range_tags
from lakehouse_assets.orchestration.step_boundary import masked_check
from lakehouse_assets.pipeline.evidence import gold_lies_whole
from lakehouse_assets.pipeline.gold_inputs import input_path, inputs_now
from lakehouse_assets.reports.healing_status import status_rows
from lakehouse_assets.reports.markdown import escape_controls
from lakehouse_assets.reports.markdown import table as markdown_table
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs

CHECK = "no_window_left_failed"
SHOWN = 50
# The end of a run is recorded late, and clocks differ.
SLACK = timedelta(minutes=5)
RUN_KEY = "dagster/run_key"  # Dagster's tag of a run that a sensor asked for
Golds = Sequence[tuple[GoldSpec, GoldQuery]]


def window_check_keys(spec: TableSpec) -> list[dg.AssetCheckKey]:
    """Return the checks of a window's run. The audit is not among them: it reads the whole table on a schedule of its own."""
    silver = asset_key(spec, f"silver_{spec.name}")
    return [dg.AssetCheckKey(silver, name) for name in [*(check.name for check in silver_check_specs(spec)), CHECK]]


def run_request(spec: TableSpec, windows: Sequence[Window], why: str, tags: dict[str, str]) -> dg.RunRequest:
    """Return a request for one run of these windows, which must be unbroken. The same ``why`` is requested once."""
    return dg.RunRequest(
        run_key=f"{spec.name} {windows[0].key}..{windows[-1].key} {why}",
        asset_selection=window_state.window_assets(spec),
        asset_check_keys=window_check_keys(spec),
        tags={**range_tags(spec, windows), **tags},
    )


@dataclass
class RetryPlan:
    """The requests and check results of one tick. ``cursor``: since when failed runs count as new, the hour of the last search
    for overlooked windows, and the tables with failed windows, each with those whose tries are used up.
    """

    cursor: str = ""
    requests: list[dg.RunRequest] = field(default_factory=list)
    evaluations: list[dg.AssetCheckEvaluation] = field(default_factory=list)
    waiting: int = 0


def plan_retries(
    instance: dg.DagsterInstance,
    settings: Settings,
    specs: Sequence[TableSpec],
    cursor: str | None,
    now: datetime,
    golds: Golds = (),
) -> RetryPlan:
    """Return the windows to run again now. Where no run has failed, this costs one query; once an hour some more, and a read of
    the logs, for windows and gold that were overlooked.
    """
    by_name = {spec.name: spec for spec in specs}
    before = json.loads(cursor) if cursor else {"since": None, "hour": None, "left": {}}
    plan = RetryPlan()
    stopped_by_table: dict[str, list[str]] = {}
    hour = f"{now:%Y-%m-%dT%H}"
    # Where the clock was set back, nothing has been searched for from now on.
    since = min(before["since"], (now - SLACK).isoformat()) if before["since"] else None
    names = {*before["left"], *_tables_with_failures(instance, specs, since)} & set(by_name)
    if hour != before["hour"]:
        names |= {name for name, spec in by_name.items() if window_state.may_be_overlooked(instance, settings, spec)}
        plan.requests += stale_gold_requests(instance, settings, golds)
    for name in sorted(names):
        spec = by_name[name]
        statuses = window_state.read_statuses(instance, settings, spec, now)
        failed = [s for s in statuses if s.failed_tries]
        stopped = [s.window.key for s in failed if s.next_step == "stopped"]
        due = partitions_of_ranges(spec, due_ranges(statuses, now))
        plan.requests += [_request(settings, spec, windows, statuses) for windows in due]
        plan.waiting += len(failed) - len(stopped)
        if stopped != before["left"].get(name, []):
            plan.evaluations.append(stopped_evaluation(spec, statuses))
        if failed:
            stopped_by_table[name] = stopped
    state = {"since": (now - SLACK).isoformat(), "hour": hour, "left": stopped_by_table}
    plan.cursor = json.dumps(state, sort_keys=True)
    return plan


def retry_sensor(settings: Settings, specs: Sequence[TableSpec], golds: Golds = ()) -> dg.SensorDefinition:
    """Return the sensor `retry_failed`, on by default."""
    requested = window_state.window_asset_selection(specs)
    if golds:
        requested |= dg.AssetSelection.assets(*(asset_key(gold, f"gold_{gold.name}") for gold, _ in golds))

    @dg.sensor(
        name="retry_failed",
        asset_selection=requested,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Runs failed windows again, later each time and in ever smaller ranges, until their tries are used up; and "
        "windows that have had no run for six hours, and stale gold.",
    )
    def retry_failed(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        plan = plan_retries(context.instance, settings, specs, context.cursor, datetime.now(UTC), golds)
        if not plan.requests and not plan.evaluations:
            context.update_cursor(plan.cursor)
            return dg.SkipReason(
                f"{plan.waiting} failed windows wait for their next try" if plan.waiting else "nothing to try again"
            )
        requests = in_one_process(plan.requests, context.repository_def)
        return dg.SensorResult(run_requests=requests, asset_events=plan.evaluations, cursor=plan.cursor)

    return retry_failed


def _request(settings: Settings, spec: TableSpec, windows: Sequence[Window], statuses: Sequence[WindowStatus]) -> dg.RunRequest:
    of_first = [s for s in statuses if spec.extraction.partition(s.window) == windows[0]]
    status = max(of_first, key=lambda s: s.failed_tries)
    # The same try of the same windows is requested once, even if a tick is repeated.
    why = f"{status.failed_tries} {status.due_at}"
    if not status.failed_tries:
        # An overlooked window follows a decision that was not applied, or a change: there may be several of these.
        why += f" {ledger.last_number(logs.decisions(settings, spec.name))}"
    return run_request(spec, windows, why, {"lakehouse/try": str(status.failed_tries + 1)})


def _tables_with_failures(instance: dg.DagsterInstance, specs: Sequence[TableSpec], since: str | None) -> set[str]:
    """Return tables with a run that failed since a time (ISO; None: ever)."""
    failed = dg.RunsFilter(statuses=list(window_state.FAILED), updated_after=datetime.fromisoformat(since) if since else None)
    assets = {key for run in instance.get_runs(failed) for key in run.asset_selection or ()}
    return {spec.name for spec in specs if assets & set(window_state.window_assets(spec))}


def _stopped_result(spec: TableSpec, statuses: Sequence[WindowStatus]) -> dg.AssetCheckResult:
    failed = [s for s in statuses if s.failed_tries]
    stopped = [s.window.key for s in failed if s.next_step == "stopped"]
    retried = len(failed) - len(stopped)
    metadata: dict[str, Any] = {"windows_left": len(stopped), "windows_tried_again": retried}
    if failed:
        cells = [(row["windows"], row["is"], row["next"]) for row in status_rows({spec.name: failed}, full=False)]
        metadata["windows"] = dg.MetadataValue.md(markdown_table(("windows", "is", "next"), cells, SHOWN))
    text = f"stopped after {spec.extraction.retries + 1} failed tries: {first_of(stopped, 10)}" if stopped else (
        "no window has used up its tries"
    )  # fmt: skip
    text += f"; {retried} that failed are tried again" if retried else ""
    shown = escape_controls(text)
    return dg.AssetCheckResult(passed=not stopped, severity=dg.AssetCheckSeverity.ERROR, description=shown, metadata=metadata)


def stopped_evaluation(spec: TableSpec, statuses: Sequence[WindowStatus]) -> dg.AssetCheckEvaluation:
    """Return the result of `no_window_left_failed` as an event."""
    return evaluation(asset_key(spec, f"silver_{spec.name}"), CHECK, _stopped_result(spec, statuses))


def stopped_windows_check(settings: Settings, spec: TableSpec) -> dg.AssetChecksDefinition:
    """Return `no_window_left_failed` of silver. It runs after silver and in the UI; in between, the sensor reports it."""

    def result(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        return _stopped_result(spec, window_state.read_statuses(context.instance, settings, spec, datetime.now(UTC)))

    description = f"No window has stopped after {spec.extraction.retries + 1} failed tries: `lakehouse heal status`."
    return masked_check(asset_key(spec, f"silver_{spec.name}"), CHECK, description, bool(spec.pii_columns), result)


def stale_gold_requests(instance: dg.DagsterInstance, settings: Settings, golds: Golds) -> list[dg.RunRequest]:
    """Return requests for gold that is stale and has no run queued: an input changed during gold's run, or that run was
    cancelled. The same inputs are requested once; a failed run is retried by its condition.
    """
    if not golds or not automation_is_on(instance):
        return []
    busy = {key for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED)) for key in run.asset_selection or ()}
    requests = []
    for gold, query in golds:
        key, inputs = asset_key(gold, f"gold_{gold.name}"), inputs_of(gold, query)
        if busy & {key, *(input_key(gold, name) for name in inputs)} or gold_is_current(settings, instance, gold, query):
            continue
        now = inputs_now(settings, gold, inputs)
        versions = " ".join(f"{name} {version} {now.tables[name]}" for name, version in now.versions.items())
        # With the decisions so far: a table that is lost twice is requested twice.
        number = ledger.last_number(logs.decisions(settings, f"gold_{gold.name}"))
        run_key = _after_cancelled(instance, f"gold_{gold.name} {ruleset_hash(gold, query)} {versions} {number}")
        requests.append(dg.RunRequest(run_key=run_key, asset_selection=[key]))
    return requests


def _after_cancelled(instance: dg.DagsterInstance, run_key: str) -> str:
    """Return this run key, or one that follows from it where its run was cancelled: Dagster starts no second run of a key."""
    while runs := instance.get_runs(dg.RunsFilter(tags={RUN_KEY: run_key}, statuses=[dg.DagsterRunStatus.CANCELED]), limit=1):
        run_key = f"{run_key} {runs[0].run_id}"
    return run_key


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
