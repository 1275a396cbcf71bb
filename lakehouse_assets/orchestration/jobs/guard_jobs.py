"""Jobs that a person starts on a guarded table: release and discard a version, pin, reset and seed its baseline.

Belongs here: their requests, and reporting the effect to the instance. Does not: how it is done (guards).
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.windows import Cadence
from lakehouse_assets.decisions.decide import JudgementRequest
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.guards.guard_run import GuardRun
from lakehouse_assets.guards.run import JudgedVersions, hold_lock
from lakehouse_assets.guards.seed import seed_guard
from lakehouse_assets.guards.settlement import chosen_batch, settle_version
from lakehouse_assets.operations import baseline_request
from lakehouse_assets.orchestration.assets.guard_assets import guard_check_results, guard_run, guarded_key, job_name
from lakehouse_assets.orchestration.assets.metadata import evaluation
from lakehouse_assets.orchestration.dagster_internals import BlockingCheckFailed
from lakehouse_assets.orchestration.jobs.operation_job import QUIET, SignedRequest
from lakehouse_assets.orchestration.jobs.operations import PinRequest, SeedRequest
from lakehouse_assets.orchestration.own_process import process_tags
from lakehouse_assets.orchestration.spark import SPARK, failed_attempts
from lakehouse_assets.orchestration.step_boundary import step_of
from lakehouse_assets.settings import Settings

# By the job's name: its op's name and function.
Requests = dict[str, tuple[str, Any]]


class VersionRequest(SignedRequest):
    """Which version to decide on, or which window of a guard with `windows`."""

    version: int | None = Field(default=None, description="the version of the Delta table")
    window: str | None = Field(default=None, description="instead, the start of a window, as 2024-05-01 or 2024-05-01-07:00")


class VersionRelease(VersionRequest):
    """``override``: checks that lose their effect (``*``: all that can)."""

    override: list[str]


class GuardSeedRequest(SeedRequest):
    """Which data to learn from, and which part of it is like one batch of the guard."""

    window_column: str = Field(default="", description="its timestamp that names the window; empty: that of `windows`")
    cadence: Literal["", Cadence] = Field(
        default="", description="of a guard of versions: the length of what is like one appended version"
    )


def guard_jobs(settings: Settings, specs: list[GuardSpec]) -> list[dg.JobDefinition]:
    """Return the jobs on versions, and on baselines."""
    by_name = {spec.name: spec for spec in specs}

    def find_guard(name: str) -> GuardSpec:
        if name not in by_name:
            raise RefusedError(f"there is no guard {name!r}; there are {', '.join(sorted(by_name))}")
        return by_name[name]

    personal = any(spec.pii_columns for spec in specs)
    requests = {**_version_requests(settings, find_guard), **_baseline_requests(settings, find_guard)}
    return [_job(name, op, function, personal) for name, (op, function) in requests.items()]


def _job(name: str, op: str, function: Any, personal: bool) -> dg.JobDefinition:
    single_op = dg.op(name=op, required_resource_keys={SPARK})(step_of(personal)(function))

    @dg.job(name=name, description=function.__doc__, executor_def=dg.in_process_executor)
    def operation() -> None:
        single_op()

    return operation


def _version_requests(settings: Settings, find_guard: Callable[[str], GuardSpec]) -> Requests:
    def settle(context: dg.OpExecutionContext, config: VersionRequest, request: dict[str, Any]) -> None:
        spec = find_guard(config.table)
        signed = JudgementRequest(by=config.by, because=config.because, operation=_operation(context), **request)
        settle_version(guard_run(spec, settings, context), chosen_batch(spec, config.version, config.window), signed)
        for result in guard_check_results(spec, settings, JudgedVersions()):
            event = evaluation(context.instance, guarded_key(spec), str(result.check_name), result)
            context.instance.report_runless_asset_event(event)

    def release_version(context: dg.OpExecutionContext, config: VersionRelease) -> None:
        """Accept a quarantined version of a guarded table, overriding checks by name."""
        if not config.override:
            raise RefusedError(
                f"{config.table}: name the checks to override; the recorded results alone quarantine the version"
            )
        settle(context, config, {"kind": "released", "waived": tuple(config.override)})

    def discard_version(context: dg.OpExecutionContext, config: VersionRequest) -> None:
        """Close a quarantined version of a guarded table without accepting it."""
        settle(context, config, {"kind": "discarded"})

    return {
        "release_guarded_version": ("release_version", release_version),
        "discard_guarded_version": ("discard_version", discard_version),
    }


def _baseline_requests(settings: Settings, find_guard: Callable[[str], GuardSpec]) -> Requests:
    def run_of(context: dg.OpExecutionContext, config: SignedRequest) -> GuardRun:
        return replace(guard_run(find_guard(config.table), settings, context), attempts=failed_attempts(context))

    def pin_baseline(context: dg.OpExecutionContext, config: PinRequest) -> dict[str, Any]:
        """Pin a guard's current baseline as the one it must stay near; or remove the pin."""
        request = baseline_request.unpin if config.clear else baseline_request.pin
        return dict(request(run_of(context, config), hold_lock, by=config.by, because=config.because).details)

    def reset_baseline(context: dg.OpExecutionContext, config: SignedRequest) -> dict[str, Any]:
        """Forget the versions of a guard's baseline; a pinned baseline stays."""
        return dict(baseline_request.forget(run_of(context, config), hold_lock, by=config.by, because=config.because).details)

    def seed_baseline(context: dg.OpExecutionContext, config: GuardSeedRequest) -> dict[str, Any]:
        """Learn a guard's baseline from an existing Delta table."""
        part = config.window_column or None, config.cadence or None
        event = seed_guard(run_of(context, config), config.source, *part, by=config.by, because=config.because)
        return dict(event.details)

    return {
        "pin_guard_baseline": ("pin_guard", pin_baseline),
        "reset_guard_baseline": ("reset_guard", reset_baseline),
        "seed_guard_baseline": ("seed_guard", seed_baseline),
    }


def run_guard(definitions: dg.Definitions, instance: dg.DagsterInstance, spec: GuardSpec) -> None:
    """Run a guard's job in this process. Raises what the step raises; a failed check is no error here, but a result."""
    job = definitions.resolve_job_def(job_name(spec))
    with suppress(BlockingCheckFailed):
        job.execute_in_process(instance=instance, run_config=QUIET, tags=process_tags())


def _operation(context: dg.OpExecutionContext) -> str:
    """Return the id of the request: that of the first run, which a retry of a killed one shares."""
    return context.run.root_run_id or context.run.run_id
