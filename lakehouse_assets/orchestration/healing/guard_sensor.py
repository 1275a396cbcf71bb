"""The sensor `watch_guards`: it reads the logs of guarded tables and requests a run where versions wait. No JVM.

Belongs here: when a guard runs, and what a table that cannot be read reports. Does not: judging (guards).
"""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.guarded_table import HISTORY, GuardSpec
from lakehouse_assets.errors import SourceError
from lakehouse_assets.guards.catalog import located_by_log
from lakehouse_assets.guards.catalog_poll import forget_answer, located_for_poll
from lakehouse_assets.guards.observed_table import GuardState, observe, waits_by_windows
from lakehouse_assets.measures.error_text import plain_text
from lakehouse_assets.orchestration.assets.guard_assets import guarded_key, job_name
from lakehouse_assets.orchestration.assets.metadata import evaluation
from lakehouse_assets.orchestration.dagster_internals import UNFINISHED
from lakehouse_assets.reports.markdown import escape_controls
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import AnswerPending

GUARD_TAG = "lakehouse/guard"


def guard_sensor(settings: Settings, specs: Sequence[GuardSpec], jobs: Sequence[Any]) -> dg.SensorDefinition:
    """Return the sensor, on by default. A tick costs a listing of each table's log, and the commits that are new in it: at most
    200 of a table. A table that cannot be read holds up no other. ``jobs``: those of the guards.
    """

    @dg.sensor(
        name="watch_guards",
        jobs=list(jobs),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Requests a run of each guard whose table has versions that nobody has judged.",
    )
    def watch_guards(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        before: dict[str, Any] = json.loads(context.cursor) if context.cursor else {}
        after: dict[str, Any] = {}
        requests: list[dg.RunRequest] = []
        events: list[dg.AssetCheckEvaluation] = []
        for spec in specs:
            own = before.get(spec.name, {})
            try:
                request, after[spec.name] = _poll(context.instance, settings, spec, own, datetime.now(UTC))
                requests += [request] if request else []
            except AnswerPending:
                after[spec.name] = own
            except Exception as error:
                text = plain_text(error)
                context.log.warning(escape_controls(text))
                after[spec.name] = {**own, "error": text}
                if text != own.get("error"):
                    events.append(evaluation(context.instance, guarded_key(spec), HISTORY, _unreadable(text)))
        cursor = json.dumps(after, sort_keys=True)
        if not requests and not events and cursor == context.cursor:
            return dg.SkipReason("no new version in any guarded table")
        return dg.SensorResult(run_requests=requests, asset_events=events, cursor=cursor)

    return watch_guards


def _poll(
    instance: dg.DagsterInstance, settings: Settings, spec: GuardSpec, before: dict[str, Any], now: datetime
) -> tuple[dg.RunRequest | None, dict[str, Any]]:
    """Return the request for a guard with versions that wait, and what the next poll must know of it."""
    state = GuardState.read(settings, spec)
    unchanged = {"passed": before.get("passed", -1)}
    at_path = located_by_log(spec, state)
    if spec.windows and at_path:
        waits = waits_by_windows(at_path, settings, state, now)
        return (_request(instance, spec, state, (waits, ""), now) if waits else None), unchanged
    if spec.is_of_catalog:
        return _poll_catalog(instance, settings, spec, state, unchanged["passed"], now)
    # Where a table lies that is known by its name, a run asks the catalog: the first one, and after the table moved.
    try:
        observation = observe(at_path, settings, state, unchanged["passed"]) if at_path else None
    except SourceError:
        if spec.table is None:
            raise
        observation = None
    if observation and observation.batch is None:
        return None, {"passed": observation.up_to}
    waits = (observation.batch.version, observation.digest) if observation and observation.batch else ("", spec.table)
    return _request(instance, spec, state, waits, now), unchanged


def _poll_catalog(
    instance: dg.DagsterInstance, settings: Settings, spec: GuardSpec, state: GuardState, passed: int, now: datetime
) -> tuple[dg.RunRequest | None, dict[str, Any]]:
    """The same of a table whose newest version a catalog names: a Spark of its own asks it, a later poll has the answer."""
    at_path = located_for_poll(spec, settings, state, now)
    try:
        observation = observe(at_path, settings, state, passed)
    except SourceError:
        forget_answer(spec, settings)
        raise
    if observation.batch is None:
        return None, {"passed": observation.up_to}
    waits = (observation.batch.version, observation.digest)
    return _request(instance, spec, state, waits, now), {"passed": passed}


def _request(
    instance: dg.DagsterInstance, spec: GuardSpec, state: GuardState, waits: tuple[Any, Any], now: datetime
) -> dg.RunRequest | None:
    """Return the request of a run; None while one is on its way. ``waits``: what it is for."""
    if instance.get_runs_count(dg.RunsFilter(tags={GUARD_TAG: spec.name}, statuses=list(UNFINISHED))):
        return None
    # A failed run of the same versions is tried again in the next hour.
    parts = (spec.name, state.last.version if state.last else -1, *waits, f"{now:%Y-%m-%dT%H}")
    run_key = hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:24]
    return dg.RunRequest(run_key=run_key, job_name=job_name(spec), tags={GUARD_TAG: spec.name})


def _unreadable(text: str) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.ERROR, description=escape_controls(text))
