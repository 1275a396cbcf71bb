"""Jobs a person starts, in the UI or through the CLI: release, discard, rebuild; and the housekeeping schedule.

Belongs here: ops that call a layer and report what they changed to the instance. Does not: how it is done (layers).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.layers import release as acts
from lakehouse_assets.layers.rejudge import rejudge
from lakehouse_assets.layers.run import Run
from lakehouse_assets.layers.upkeep import sweep
from lakehouse_assets.orchestration import metadata as show
from lakehouse_assets.orchestration.assets import silver_check_results
from lakehouse_assets.orchestration.maintenance import forget_evaluations, forget_runs
from lakehouse_assets.orchestration.schema import Readers
from lakehouse_assets.orchestration.spark import table_run
from lakehouse_assets.settings import Settings


class Act(dg.Config):
    """What to act on, who says so, and why."""

    table: str
    window: str = Field(description="the window's partition key, e.g. 2013-09-09")
    extraction_seq: int = Field(default=0, description="which extraction of the window; 0: the newest")
    by: str
    because: str


class Release(Act):
    """``override``: checks that lose their effect (``*``: all that can); empty: judged by today's rules alone."""

    override: list[str] = []
    teach: Literal["unless_overridden", "yes", "no"] = Field(
        default="unless_overridden", description="whether it joins the baseline; by itself it does unless drift is overridden"
    )


class Rejudge(dg.Config):
    """Which windows to judge again, who says so, and why."""

    table: str
    first: str = Field(description="the first window's partition key, e.g. 2013-09-09")
    last: str = Field(default="", description="the last one's; empty: the first alone")
    by: str
    because: str


class Rebuild(dg.Config):
    """Which table to fold anew."""

    table: str


def spec_named(specs: Sequence[TableSpec], name: str) -> TableSpec:
    """The table of this name. Raises RefusedError, naming those that there are."""
    by_name = {spec.name: spec for spec in specs}
    if name not in by_name:
        raise RefusedError(f"there is no table {name!r}; there are {', '.join(sorted(by_name))}")
    return by_name[name]


def report_check(context: dg.OpExecutionContext, spec: TableSpec, check: str, result: dg.AssetCheckResult) -> None:
    """Say on silver's asset what a check found, outside a run of it."""
    context.instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(f"silver_{spec.name}"),
            check_name=check,
            passed=result.passed,
            metadata=result.metadata,
            severity=result.severity,
            description=result.description,
        )
    )


def once(
    context: dg.OpExecutionContext, run: Run, window: Window, config: Act, act: Callable[..., Decision], kind: str, **more: Any
) -> Decision:
    """What an act on a held window decides. Where it is refused since it has been done, but by a process that was killed before
    it could tell Dagster, what it decided then.
    """
    seq, said = config.extraction_seq or None, {"by": config.by, "because": config.because}
    try:
        return act(run, window.start, seq, **said, **more)
    except RefusedError:
        before = acts.done_before(run, window.start, seq, kind, waived=more.get("waived"), **said)
        if before is None or _is_told(context.instance, run.spec, window.key, before):
            raise
        context.log.info(f"{run.spec.name} {window.key} was {kind} before, and nobody was told")
        return before


def _is_told(instance: dg.DagsterInstance, spec: TableSpec, key: str, decision: Decision) -> bool:
    """Whether silver's window was reported after the decision was carried out."""
    asked = dg.AssetRecordsFilter(asset_key=dg.AssetKey(f"silver_{spec.name}"), asset_partitions=[key])
    found = instance.fetch_materializations(asked, limit=1).records
    return bool(found) and decision.applied_at is not None and found[0].timestamp > decision.applied_at.timestamp()


def act_jobs(
    settings: Settings, specs: Sequence[TableSpec], readers: Mapping[str, Readers] | None = None
) -> list[dg.JobDefinition]:
    """The jobs `release_quarantine`, `discard_quarantine`, `rejudge_windows`, `rebuild_silver`.

    ``readers``: by table, what reads its columns downstream.
    """
    spec_of = partial(spec_named, specs)

    def run_of(context: dg.OpExecutionContext, spec: TableSpec) -> Run:
        return table_run(spec, settings, context, context.resources.spark, (readers or {}).get(spec.name))

    def report(context: dg.OpExecutionContext, spec: TableSpec, key: str, decision: Decision) -> None:
        # The window's silver changed outside its asset's run: said on the same assets, so that gold follows.
        metadata = show.decision_metadata(decision)
        context.log_event(dg.AssetMaterialization(f"silver_{spec.name}", partition=key, metadata=metadata))
        context.log_event(
            dg.AssetMaterialization(f"baseline_{spec.name}", partition=key, metadata={"teaches": decision.teaches})
        )
        for result in silver_check_results(spec, settings, [_window(spec, key)], {}):
            report_check(context, spec, str(result.check_name), result)

    @dg.op(name="release", required_resource_keys={"spark"})
    def release_op(context: dg.OpExecutionContext, config: Release) -> None:
        spec = spec_of(config.table)
        window = _window(spec, config.window)
        run = run_of(context, spec)
        decision = once(
            context, run, window, config, acts.release, "released", waived=config.override,
            teach={"yes": True, "no": False}.get(config.teach),
        )  # fmt: skip
        report(context, spec, window.key, decision)

    @dg.op(name="discard", required_resource_keys={"spark"})
    def discard_op(context: dg.OpExecutionContext, config: Act) -> None:
        spec = spec_of(config.table)
        window = _window(spec, config.window)
        run = table_run(spec, settings, context, context.resources.spark)
        report(context, spec, window.key, once(context, run, window, config, acts.discard, "discarded"))

    @dg.op(name="rejudge", required_resource_keys={"spark"})
    def rejudge_op(context: dg.OpExecutionContext, config: Rejudge) -> dict[str, str]:
        spec = spec_of(config.table)
        first, last = _window(spec, config.first), _window(spec, config.last or config.first)
        windows = [w for w in spec.extraction.windows(datetime.now(UTC)) if first.start <= w.start <= last.start]
        run = run_of(context, spec)
        made = {d.p_extracted_at: d for d in rejudge(run, windows, by=config.by, because=config.because)}
        for window in windows:
            if decision := made.get(window.start):
                report(context, spec, window.key, decision)
        return {window.key: made[window.start].verdict for window in windows if window.start in made}

    @dg.op(name="rebuild", required_resource_keys={"spark"})
    def rebuild_op(context: dg.OpExecutionContext, config: Rebuild) -> dict[str, int]:
        spec = spec_of(config.table)
        rebuilt = acts.rebuild(table_run(spec, settings, context, context.resources.spark))
        found = {"rows": rebuilt.rows, "gained": rebuilt.gained, "lost": rebuilt.lost, "version": rebuilt.version}
        context.add_output_metadata(found)
        return found

    @dg.job(name="release_quarantine", description="Judge a held window again, by today's rules or with an override.")
    def release_quarantine() -> None:
        release_op()

    @dg.job(name="discard_quarantine", description="Give up what is held of a window; the rows stay as evidence.")
    def discard_quarantine() -> None:
        discard_op()

    @dg.job(name="rejudge_windows", description="Judge windows again by today's rules and baseline, on the same bronze.")
    def rejudge_windows() -> None:
        rejudge_op()

    @dg.job(name="rebuild_silver", description="Fold silver anew from bronze and the accepted decisions, and compare.")
    def rebuild_silver() -> None:
        rebuild_op()

    return [release_quarantine, discard_quarantine, rejudge_windows, rebuild_silver]


def _window(spec: TableSpec, key: str) -> Window:
    try:
        return spec.extraction.window(key)
    except ValueError:
        raise RefusedError(f"{spec.name}: {key!r} is no window's key; keys look like {spec.extraction.first.key}") from None


def housekeeping(settings: Settings, specs: Sequence[TableSpec]) -> list[dg.ScheduleDefinition]:
    """`sweep_staging`, daily, on by default: it needs no JVM. It also forgets old runs that made nothing."""

    @dg.op(name="sweep")
    def sweep_op(context: dg.OpExecutionContext) -> None:
        for name in sweep(settings, [name for s in specs for name in (s.name, *(f"gold_{gold.name}" for gold in s.gold))]):
            context.log.info(f"removed the staging that a killed run of {name} had left")

        if gone := forget_runs(context.instance, settings, specs, datetime.now(UTC)):
            context.log.info(f"forgot {gone} runs that ended 90 days ago and made nothing")
        forget_evaluations(context.instance, datetime.now(UTC))

    @dg.job(name="sweep_staging", description="Remove scratch folders of killed runs, and old runs that made nothing.")
    def sweep_staging() -> None:
        sweep_op()

    return [
        dg.ScheduleDefinition(job=sweep_staging, cron_schedule="0 3 * * *", default_status=dg.DefaultScheduleStatus.RUNNING)
    ]


def proofs(jobs: Sequence[dg.JobDefinition], specs: Sequence[TableSpec]) -> list[dg.ScheduleDefinition]:
    """A weekly rebuild of each table, off by default: it proves law 1 at the price of reading all of bronze."""
    job = next(job for job in jobs if job.name == "rebuild_silver")
    return [
        dg.ScheduleDefinition(
            name=f"prove_{spec.name}_weekly",
            job=job,
            cron_schedule="0 4 * * 0",
            run_config={"ops": {"rebuild": {"config": {"table": spec.name}}}},
        )
        for spec in specs
    ]
