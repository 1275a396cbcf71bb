"""The asset of a guard, or its checks on the asset that writes the table: one step, which judges the versions that wait.

Belongs here: Dagster's step and its call of the guard. Does not: judging versions (guards), or when it runs (healing).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.guarded_table import COLUMNS, HISTORY, WINDOWS, GuardSpec
from lakehouse_assets.decisions import gate, ledger
from lakehouse_assets.decisions.frame import KEY_CHECK
from lakehouse_assets.decisions.guard_decision import batch_name
from lakehouse_assets.guards.guard_run import GuardRun
from lakehouse_assets.guards.observed_table import table_path
from lakehouse_assets.guards.run import JudgedVersions, judge_versions
from lakehouse_assets.guards.trial import try_check
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets import metadata as show
from lakehouse_assets.orchestration.assets.checks import check_results
from lakehouse_assets.orchestration.spark import SPARK, run_values, session_of
from lakehouse_assets.orchestration.step_boundary import step_of
from lakehouse_assets.reports.check_text import BUILT_IN, DRIFT, describe_check
from lakehouse_assets.reports.markdown import escape_controls
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

OWN = {
    HISTORY: "Every version could be read as it was written: the table was not replaced, rewound or cleaned up too early.",
    COLUMNS: "Each version has the columns of the contract.",
}


def guarded_key(spec: GuardSpec) -> dg.AssetKey:
    """Return the key of the asset that has the checks: the user's own, or `guard_<name>`."""
    return dg.AssetKey.from_user_string(spec.asset) if spec.asset else asset_key(spec, f"guard_{spec.name}")


def job_name(spec: GuardSpec) -> str:
    """Return the name of the job that judges what waits."""
    return f"guard_{spec.name}_job"


def guard_job(spec: GuardSpec) -> Any:
    """Return the job that judges what waits."""
    checks = dg.AssetSelection.checks(*[check.key for check in guard_check_specs(spec)])
    selection = checks if spec.asset else dg.AssetSelection.assets(guarded_key(spec))
    description = f"Judges the versions of {spec.name} that nobody has judged."
    return dg.define_asset_job(
        job_name(spec), selection=selection, executor_def=dg.in_process_executor, description=description
    )


def guard_definitions(spec: GuardSpec, settings: Settings) -> dg.Definitions:
    """Return what one guard defines: its asset, or the checks of the asset that writes the table."""
    specs = guard_check_specs(spec)
    if spec.asset:
        return dg.Definitions(asset_checks=[_checks_of_their_asset(spec, settings, specs)])
    return dg.Definitions(assets=[_own_asset(spec, settings, guarded_key(spec), specs)])


def guard_check_specs(spec: GuardSpec) -> list[dg.AssetCheckSpec]:
    """Return the checks: what only a guard has, the key, the declared ones, drift. Critical ones block what is downstream."""
    named = [(name, text, True) for name, text in OWN.items()]
    named += [(WINDOWS, "Every row of the table lies in a window.", True)] if spec.windows else []
    named += [(KEY_CHECK, BUILT_IN[KEY_CHECK], True)] if spec.key else []
    named += [(check.id, describe_check(check), check.severity == "critical") for check in spec.checks]
    named += [("drift", DRIFT, True)] if spec.drift else []
    key = guarded_key(spec)
    return [
        dg.AssetCheckSpec(name, asset=key, description=text, blocking=spec.blocking and is_critical)
        for name, text, is_critical in named
    ]


def _own_asset(spec: GuardSpec, settings: Settings, key: dg.AssetKey, specs: Sequence[dg.AssetCheckSpec]) -> Any:
    @dg.multi_asset(
        name=key.to_python_identifier(),
        specs=[
            dg.AssetSpec(
                key,
                description=f"{spec.description} The versions of a table that others write, checked and decided on.".strip(),
                metadata={"dagster/uri": spec.table or table_path(spec, settings)},
                kinds={"guard", "delta"},
                group_name=spec.group or spec.name,
                owners=list(spec.owners) or None,
                tags={**spec.tags, "layer": "guard", "table": spec.name},
            )
        ],
        check_specs=specs,
        pool=f"table_{spec.name}",
        can_subset=True,
        required_resource_keys={SPARK},
    )
    @step_of(bool(spec.pii_columns))
    def guard(context: dg.AssetExecutionContext) -> Iterator[Any]:
        selected = {check.name for check in context.selected_asset_check_keys}
        if key not in context.selected_asset_keys:
            yield from _try_checks(context, spec, settings, selected)
            return
        judgement = judge_versions(guard_run(spec, settings, context))
        yield dg.MaterializeResult(asset_key=key, metadata=_metadata(settings, spec, judgement))
        yield from (result for result in guard_check_results(spec, settings, judgement) if result.check_name in selected)

    return guard


def _checks_of_their_asset(spec: GuardSpec, settings: Settings, specs: Sequence[dg.AssetCheckSpec]) -> Any:
    pool = f"table_{spec.name}"

    @dg.multi_asset_check(name=f"guard_{spec.name}", specs=specs, pool=pool, required_resource_keys={SPARK}, can_subset=True)
    @step_of(bool(spec.pii_columns))
    def guard(context: dg.AssetCheckExecutionContext) -> Iterator[Any]:
        selected = {check.name for check in context.selected_asset_check_keys}
        if selected == {check.name for check in specs}:
            yield from guard_check_results(spec, settings, judge_versions(guard_run(spec, settings, context)))
        else:
            yield from _try_checks(context, spec, settings, selected)

    return guard


def _try_checks(context: Any, spec: GuardSpec, settings: Settings, selected: Collection[str]) -> Iterator[dg.AssetCheckResult]:
    """Yield the results of some checks alone: a declared one is tried on the table as it is, and nothing is decided. Any other
    is as the last run left it.
    """
    declared = {check.id for check in spec.checks}
    for result in guard_check_results(spec, settings, JudgedVersions()):
        name = str(result.check_name)
        if name in selected and name not in declared:
            yield result
        elif name in selected:
            outcome = try_check(spec, settings, session_of(context), name)
            is_severe = outcome.severity == "critical"
            yield dg.AssetCheckResult(
                check_name=name,
                asset_key=guarded_key(spec),
                passed=outcome.status == "passed",
                severity=dg.AssetCheckSeverity.ERROR if is_severe else dg.AssetCheckSeverity.WARN,
                description=escape_controls(f"tried alone on the table as it is: {outcome.message or outcome.status}"),
                metadata={"failed_rows": outcome.failed_rows},
            )


def guard_run(spec: GuardSpec, settings: Settings, context: Any) -> GuardRun:
    """Return a guard's run within a step that has the Spark resource."""
    path = spec.table or table_path(spec, settings)
    return GuardRun(spec=spec, guard=spec, published_path=path, **run_values(settings, spec.name, context))


def guard_check_results(spec: GuardSpec, settings: Settings, judgement: JudgedVersions) -> Iterator[dg.AssetCheckResult]:
    """Yield results over this run's versions and those in quarantine: a check stays red while it quarantines something. Without
    a new version, the last one's result stands.
    """
    decisions = logs.decisions(settings, spec.name)
    current = ledger.current_decisions(decisions)
    batches = {d.batch for d in judgement.new} | {d.batch for d in ledger.quarantined_decisions(decisions)}
    live = [d for d in current.values() if d.superseded_by is None and d.verdict != "discarded"]
    if not judgement.new and live:
        batches.add(max(live, key=lambda d: d.number).batch)
    chosen = [d for d in sorted(live, key=lambda d: d.batch) if d.batch in batches]
    shown = [gate.masked_now(d, spec.checks, spec.pii_columns) for d in logs.with_evidence(settings, spec.name, chosen)]
    by_version = {batch_name(spec, d): d for d in shown}
    yield from check_results(
        guard_check_specs(spec),
        by_version,
        judgement.samples,
        _advice(spec, by_version),
        unit="window(s)" if spec.windows else "version(s)",
    )


def _advice(spec: GuardSpec, by_version: Mapping[str, Decision]) -> Any:
    def advice(check: str, versions: Sequence[str]) -> str:
        kind, _, name = batch_name(spec, by_version[versions[-1]]).partition(" ")
        of_version = f"{spec.name} --{kind} {name}"
        return (
            f"1. See why: `lakehouse guard show {of_version}`\n"
            "2. If the table is wrong: its owner corrects it. The next version that rewrites rows is judged as a whole.\n"
            f'3. If the data is right: `lakehouse guard release {of_version} --override {check} --because "…"`'
            f'\n4. If its rows are of no use to anyone: `lakehouse guard discard {of_version} --because "…"`'
        )

    return advice


def _metadata(settings: Settings, spec: GuardSpec, judgement: JudgedVersions) -> dict[str, Any]:
    last = judgement.new[-1] if judgement.new else None
    metadata: dict[str, Any] = show.decision_metadata(last) if last else {"verdict": "no new version"}
    metadata.pop("dagster/partition_row_count", None)
    quarantined = ledger.quarantined_decisions(logs.decisions(settings, spec.name))
    if spec.publish and last:
        metadata |= {"published_to": spec.publish.to, "rows_published": sum(d.counts.rows_published for d in judgement.new)}
    metadata |= {"versions_judged": len(judgement.new), "versions_in_quarantine": len(quarantined)}
    return metadata | ({"version": last.bronze_version} if last else {}) | ({"behind": True} if judgement.is_behind else {})
