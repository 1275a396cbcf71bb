"""Retries: the sensor `retry_failed` for failed windows and stale gold, and the check of windows whose tries are used up.

Belongs here: when a failed window runs again. Does not: a first run (automation), whether gold is stale (stale_gold), or the
judgement of windows (decisions.healing).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.healing import WindowStatus, due_ranges, is_due
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.decisions.retry_policy import OVERLOOKED
from lakehouse_assets.measures.error_text import plain_text
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.metadata import evaluation
from lakehouse_assets.orchestration.assets.window_checks import silver_check_specs
from lakehouse_assets.orchestration.healing import window_state
from lakehouse_assets.orchestration.healing.automation import automation_is_on
from lakehouse_assets.orchestration.healing.one_process import in_one_process
from lakehouse_assets.orchestration.healing.ranges import partitions_of_ranges, range_tags
from lakehouse_assets.orchestration.healing.reading_attempts import reading_tags
from lakehouse_assets.orchestration.healing.run_keys import FINISHED, next_run_key
from lakehouse_assets.orchestration.healing.stale_gold import Golds, stale_gold_requests
from lakehouse_assets.orchestration.step_boundary import masked_check
from lakehouse_assets.reports.healing_status import status_rows
from lakehouse_assets.reports.markdown import escape_controls
from lakehouse_assets.reports.markdown import table as markdown_table
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

CHECK = "no_window_left_failed"
SHOWN = 50
# The end of a run is recorded late, and clocks differ.
SLACK = timedelta(minutes=5)


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
        tags={**range_tags(spec, windows), **reading_tags(spec), **tags},
    )


@dataclass
class RetryPlan:
    """The requests and check results of one tick. ``cursor``: since when failed runs count as new, and the hour of the last
    search for overlooked windows. Also the tables with failed windows, each with those whose tries are used up. ``warnings``:
    tables that cannot be read, which stop no other table. ``requests_windows``: False while `heal_and_follow` is off; windows
    then wait.
    """

    cursor: str = ""
    requests: list[dg.RunRequest] = field(default_factory=list)
    evaluations: list[dg.AssetCheckEvaluation] = field(default_factory=list)
    waiting: int = 0
    warnings: list[str] = field(default_factory=list)
    requests_windows: bool = True

    @property
    def why_nothing_is_requested(self) -> str:
        """What a tick without a request has to report, besides warnings."""
        if not self.waiting:
            return "nothing to try again"
        off = "" if self.requests_windows else "; heal_and_follow is off"
        return f"{self.waiting} failed windows wait for their next try{off}"


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
    hour = f"{now:%Y-%m-%dT%H}"
    # Where the clock was set back, nothing has been searched for from now on.
    since = min(before["since"], (now - SLACK).isoformat()) if before["since"] else None
    names = {*before["left"], *_tables_with_failures(instance, specs, since)} & set(by_name)
    if hour != before["hour"]:
        names |= {name for name, spec in by_name.items() if _may_be_overlooked(instance, settings, spec)}
        plan.requests += stale_gold_requests(instance, settings, golds, plan.warnings)
    plan.requests_windows = not names or automation_is_on(instance)
    left: dict[str, list[str]] = {}
    for name in sorted(names):
        stopped_before = before["left"].get(name, [])
        try:
            stopped = _plan_table(plan, instance, settings, by_name[name], now, stopped_before)
        except Exception as error:
            plan.warnings.append(f"{name}: a later tick looks for its retries: {plain_text(error)}")
            stopped = stopped_before
        if stopped is not None:
            left[name] = stopped
    state = {"since": (now - SLACK).isoformat(), "hour": hour, "left": left}
    plan.cursor = json.dumps(state, sort_keys=True)
    return plan


def _may_be_overlooked(instance: dg.DagsterInstance, settings: Settings, spec: TableSpec) -> bool:
    """Whether some window may need a run. Of a table that cannot be read, the plan gives the reason."""
    try:
        return window_state.may_be_overlooked(instance, settings, spec)
    except Exception:
        return True


def _plan_table(
    plan: RetryPlan,
    instance: dg.DagsterInstance,
    settings: Settings,
    spec: TableSpec,
    now: datetime,
    stopped_before: Sequence[str],
) -> list[str] | None:
    """Add what a table needs to the plan. Return the windows whose tries are used up; None without a failed window."""
    statuses = window_state.read_statuses(instance, settings, spec, now)
    failed = [s for s in statuses if s.failed_tries]
    stopped = [s.window.key for s in failed if s.next_step == "stopped"]
    due = partitions_of_ranges(spec, due_ranges(statuses, now)) if plan.requests_windows else []
    plan.requests += [_request(instance, settings, spec, windows, statuses, now) for windows in due]
    plan.waiting += len(failed) - len(stopped)
    if stopped != stopped_before:
        plan.evaluations.append(stopped_evaluation(instance, spec, statuses))
    return stopped if failed else None


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
        for warning in plan.warnings:
            context.log.warning(escape_controls(warning))
        if not plan.requests and not plan.evaluations:
            context.update_cursor(plan.cursor)
            return dg.SkipReason("; ".join([*map(escape_controls, plan.warnings), plan.why_nothing_is_requested]))
        requests = in_one_process(plan.requests, context.repository_def)
        return dg.SensorResult(run_requests=requests, asset_events=plan.evaluations, cursor=plan.cursor)

    return retry_failed


def _request(
    instance: dg.DagsterInstance,
    settings: Settings,
    spec: TableSpec,
    windows: Sequence[Window],
    statuses: Sequence[WindowStatus],
    now: datetime,
) -> dg.RunRequest:
    """Return a request for these windows or partitions, the first of which is due."""
    of_first = [s for s in statuses if is_due(s, now) and spec.extraction.partition(s.window) == windows[0]]
    status = max(of_first, key=lambda s: s.failed_tries)
    # The same try of the same windows is requested once, even if a tick is repeated.
    why, tags = f"{status.failed_tries} {status.due_at}", {"lakehouse/try": str(status.failed_tries + 1)}
    if status.failed_tries:
        return run_request(spec, windows, why, tags)
    # An overlooked window follows a decision that was not applied, or a change: there may be several of these.
    request = run_request(spec, windows, f"{why} {ledger.last_number(logs.decisions(settings, spec.name))}", tags)
    # A lake that is lost twice, or restored twice, has the same decisions: its last run was as long ago as a first report.
    return request._replace(run_key=next_run_key(instance, str(request.run_key), FINISHED, now - OVERLOOKED))


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


def stopped_evaluation(
    instance: dg.DagsterInstance, spec: TableSpec, statuses: Sequence[WindowStatus]
) -> dg.AssetCheckEvaluation:
    """Return the result of `no_window_left_failed` as an event."""
    return evaluation(instance, asset_key(spec, f"silver_{spec.name}"), CHECK, _stopped_result(spec, statuses))


def stopped_windows_check(settings: Settings, spec: TableSpec) -> dg.AssetChecksDefinition:
    """Return `no_window_left_failed` of silver. It runs after silver and in the UI; in between, the sensor reports it."""

    def result(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        return _stopped_result(spec, window_state.read_statuses(context.instance, settings, spec, datetime.now(UTC)))

    description = f"No window has stopped after {spec.extraction.retries + 1} failed tries: `lakehouse heal status`."
    return masked_check(asset_key(spec, f"silver_{spec.name}"), CHECK, description, bool(spec.pii_columns), result)
