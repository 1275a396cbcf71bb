"""Jobs that a person starts on one table, in the UI or through the CLI: one op each, which calls an operation.

Belongs here: their requests, and what else an operation reports to the instance. Does not: how it is done (operations), or how
decisions are reported (decision_report).
"""

from dataclasses import asdict
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations import baseline, baseline_request, release
from lakehouse_assets.operations.rebuild import migrate
from lakehouse_assets.operations.rebuild import rebuild as rebuild_table
from lakehouse_assets.operations.restore_logs import AcceptedLoss, restore_logs
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.evidence_check import report_findings
from lakehouse_assets.orchestration.assets.partitions import partition_key
from lakehouse_assets.orchestration.jobs import operation_job
from lakehouse_assets.orchestration.jobs.check_report import (
    report_checks_job,
    report_every_window,
    report_table_checks,
    report_window_checks,
)
from lakehouse_assets.orchestration.jobs.decision_report import report_decisions
from lakehouse_assets.pipeline.evidence import findings_of
from lakehouse_assets.pipeline.mend import mend
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.baseline import BaselineEvent


class QuarantineRequest(operation_job.SignedRequest):
    """Which batch to decide on again."""

    window: str = Field(description="the window's partition key, e.g. 2013-09-09")
    extraction_seq: int = Field(default=0, description="which extraction of the window; 0: the newest")


class ReleaseRequest(QuarantineRequest):
    """``override``: checks that lose their effect (``*``: all that can); empty: today's rules alone decide."""

    override: list[str] = []
    teach: Literal["unless_overridden", "yes", "no"] = Field(
        default="unless_overridden", description="whether the batch joins the baseline; by default unless drift is overridden"
    )


class RejudgeRequest(operation_job.SignedRequest):
    """Which windows to judge again."""

    first: str = Field(description="the first window's partition key, e.g. 2013-09-09")
    last: str = Field(default="", description="the last one's; empty: the first alone")


class PinRequest(operation_job.SignedRequest):
    """``clear``: remove the pin."""

    clear: bool = False


class SeedRequest(operation_job.SignedRequest):
    """Which data to learn from."""

    source: str = Field(description="a Delta table: a folder or a URL")
    window_column: str = Field(default="", description="its timestamp that names the window; empty: p_extracted_at")


class RestoreRequest(operation_job.TableRequest):
    """``accept_loss``: give up entries that no commit has; ``by`` and ``because`` are recorded with it."""

    accept_loss: bool = False
    by: str = ""
    because: str = ""


class MigrateRequest(operation_job.TableRequest):
    """Which table to bring to its contract. ``renames``: old column → new. ``lose``: columns whose values may be lost."""

    renames: dict[str, str] = {}
    lose: list[str] = []


def operation_definitions(jobs: operation_job.OperationJobs) -> dg.Definitions:
    """Return the jobs; and a weekly rebuild of each table, off by default: it proves law 1, and reads all of bronze."""
    rebuild = _rebuild_job(jobs)
    schedules = [
        dg.ScheduleDefinition(
            name=f"prove_{spec.name}_weekly",
            job=rebuild,
            cron_schedule="0 4 * * 0",
            run_config={"ops": {"rebuild": {"config": {"table": spec.name}}}},
        )
        for spec in jobs.specs
    ]
    listed = [*_decision_jobs(jobs), *_baseline_jobs(jobs), *_evidence_jobs(jobs), _migrate_job(jobs), rebuild]
    listed.append(report_checks_job(jobs))
    return dg.Definitions(jobs=listed, schedules=schedules)


def _decision_jobs(jobs: operation_job.OperationJobs) -> list[dg.JobDefinition]:
    def release_batch(context: dg.OpExecutionContext, config: ReleaseRequest) -> None:
        """Judge a quarantined window again, by today's rules or with an override."""
        teach = {"yes": True, "no": False}.get(config.teach)
        decide(context, config, release.release, waived=config.override, teach=teach)

    def discard_batch(context: dg.OpExecutionContext, config: QuarantineRequest) -> None:
        """Discard a window's quarantined rows; they are kept as evidence."""
        decide(context, config, release.discard)

    def decide(context: dg.OpExecutionContext, config: QuarantineRequest, operation: Any, **options: Any) -> None:
        run, window = jobs.run(context, config.table), operation_job.find_window(jobs.spec(config.table), config.window)
        seq, signed = config.extraction_seq or None, {"by": config.by, "because": config.because}
        report_decisions(context, run, {window: operation(run, window.start, seq, **signed, **options)})

    def judge_again(context: dg.OpExecutionContext, config: RejudgeRequest) -> dict[str, str]:
        """Judge windows again by today's rules and baseline, on the same bronze."""
        run, spec = jobs.run(context, config.table), jobs.spec(config.table)
        windows = operation_job.find_windows(jobs.settings, spec, config.first, config.last or config.first)
        decisions = {d.p_extracted_at: d for d in release.rejudge(run, windows, by=config.by, because=config.because)}
        by_window = {window: decisions[window.start] for window in windows if window.start in decisions}
        report_decisions(context, run, by_window)
        return {window.key: decision.verdict for window, decision in by_window.items()}

    return [
        jobs.job("release_quarantine", "release", release_batch),
        jobs.job("discard_quarantine", "discard", discard_batch),
        jobs.job("rejudge_windows", "rejudge", judge_again),
    ]


def _baseline_jobs(jobs: operation_job.OperationJobs) -> list[dg.JobDefinition]:
    def pin(context: dg.OpExecutionContext, config: PinRequest) -> dict[str, Any]:
        """Pin a table's current baseline as the one it must stay near; or remove the pin."""
        operation = baseline_request.unpin if config.clear else baseline_request.pin
        return report(context, operation(jobs.run(context, config.table), by=config.by, because=config.because))

    def reset(context: dg.OpExecutionContext, config: operation_job.SignedRequest) -> dict[str, Any]:
        """Forget the windows of a table's baseline; a pinned baseline stays."""
        return report(context, baseline.reset(jobs.run(context, config.table), by=config.by, because=config.because))

    def seed(context: dg.OpExecutionContext, config: SeedRequest) -> dict[str, Any]:
        """Learn a table's baseline from an existing Delta table."""
        run = jobs.run(context, config.table)
        windows = baseline.SeedWindows.of_table(run.spec, config.window_column or None)
        return report(context, baseline.seed(run, config.source, windows, by=config.by, because=config.because))

    def report(context: dg.OpExecutionContext, event: BaselineEvent) -> dict[str, Any]:
        values = {"event": event.kind, "after_decision": event.after, "by": event.by, "because": event.because, **event.details}
        # An observation, not a materialization: no window changed, and nothing has to follow.
        context.log_event(dg.AssetObservation(asset_key(jobs.spec(event.table), f"baseline_{event.table}"), metadata=values))
        return values

    return [
        jobs.job("pin_baseline", "pin", pin),
        jobs.job("reset_baseline", "reset", reset),
        jobs.job("seed_baseline", "seed", seed),
    ]


def _evidence_jobs(jobs: operation_job.OperationJobs) -> list[dg.JobDefinition]:
    """Return two jobs, each of which reports the check `evidence_complete` at its end."""

    def mend_table(context: dg.OpExecutionContext, config: operation_job.TableRequest) -> dict[str, Any]:
        """Write again what the remaining evidence allows: see `lakehouse verify --mend`."""
        return report(context, config.table, mend(jobs.run(context, config.table)))

    def restore(context: dg.OpExecutionContext, config: RestoreRequest) -> dict[str, Any]:
        """Restore lost entries of ops/: see `lakehouse verify --restore-logs`."""
        if config.accept_loss and not (config.by.strip() and config.because.strip()):
            raise RefusedError("to accept a loss, say who accepts it and why: `by` and `because`")
        accepted = AcceptedLoss(config.by, config.because) if config.accept_loss else None
        return report(context, config.table, restore_logs(jobs.run(context, config.table), accepted))

    def report(context: dg.OpExecutionContext, table: str, outcome: Any) -> dict[str, Any]:
        spec = jobs.spec(table)
        # Decisions that were restored, or given up, change what the log says of their windows.
        report_every_window(context, jobs.settings, spec)
        findings = findings_of(jobs.settings, spec)
        report_findings(context, jobs.settings, spec, findings)
        values = {**asdict(outcome), "findings": len(findings)}
        context.add_output_metadata(values)
        return values

    return [jobs.job("mend_evidence", "mend", mend_table), jobs.job("restore_logs", "restore", restore)]


def _migrate_job(jobs: operation_job.OperationJobs) -> dg.JobDefinition:
    def migrate_silver(context: dg.OpExecutionContext, config: MigrateRequest) -> dict[str, int]:
        """Bring silver to its contract, in one commit: see `lakehouse schema migrate`."""
        settings, spec = jobs.settings, jobs.spec(config.table)
        silver = asset_key(spec, f"silver_{spec.name}")
        steps = migrate(jobs.run(context, config.table), config.renames, config.lose)
        values = {"steps": len(steps), "version": delta.version(settings.path("silver", spec.name))}
        context.add_output_metadata(values)
        accepted = [start for start, _ in ledger.accepted_decisions(logs.decisions(settings, spec.name)) if start]
        if steps and accepted:
            # Silver changed, though no window did: reported on the last window, so that gold follows.
            window = spec.extraction.window_at(max(accepted))
            context.log_event(
                dg.AssetMaterialization(silver, partition=partition_key(spec.extraction, window), metadata=values)
            )
            report_window_checks(context, settings, spec, [window])
        report_table_checks(context, settings, spec, jobs.readers.get(spec.name, {}))
        return values

    return jobs.job("migrate_schema", "migrate", migrate_silver)


def _rebuild_job(jobs: operation_job.OperationJobs) -> dg.JobDefinition:
    def rebuild(context: dg.OpExecutionContext, config: operation_job.TableRequest) -> dict[str, int]:
        """Rebuild silver from bronze and the accepted decisions, and count the differences."""
        counts = asdict(rebuild_table(jobs.run(context, config.table)))
        context.add_output_metadata(counts)
        return counts

    return jobs.job("rebuild_silver", "rebuild", rebuild)
