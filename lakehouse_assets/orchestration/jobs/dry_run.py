"""The job `run_checks`: evaluates checks on a table's data in the UI, without any effect on the data.

Belongs here: the op and what it shows, and gold's run for it. Does not: how a check is evaluated (operations/dry_run).
"""

from collections.abc import Sequence
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.families import HistoryCheck
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import personal_columns, reads_personal
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations.dry_run import try_checks
from lakehouse_assets.operations.dry_run_gold import try_gold_checks
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.described_table import DescribedTable
from lakehouse_assets.orchestration.assets.metadata import samples_markdown
from lakehouse_assets.orchestration.jobs.operation_job import OperationJobs, find_windows
from lakehouse_assets.orchestration.spark import run_values
from lakehouse_assets.pipeline.run import GoldRun
from lakehouse_assets.reports.markdown import table

SHOWN = 200


class DryRunRequest(dg.Config):
    """Which checks to evaluate, and on which data."""

    table: str = Field(description="a table, or a gold table as gold_NAME")
    checks: list[str] = Field(default=[], description="names; none: all (of silver, all that do not look back)")
    first: str = Field(default="", description="key of the first window; none: from the beginning; not of gold")
    last: str = Field(default="", description="key of the last window; none: up to now")
    on: Literal["source", "bronze", "silver"] = Field(
        default="silver", description="the layer to read: silver is what was published; gold is always that"
    )


def find_gold(tables: Sequence[DescribedTable], name: str) -> tuple[DescribedTable, GoldSpec]:
    """Return the gold table `gold_<name>` and the table that declares it. Raises RefusedError, which lists the gold tables."""
    golds = {f"gold_{gold.name}": (table, gold) for table in tables for gold in table.spec.gold}
    if name not in golds:
        raise RefusedError(f"there is no gold table {name!r}; there are {', '.join(sorted(golds)) or 'none'}")
    return golds[name]


def gold_run(tables: Sequence[DescribedTable], name: str, **values: Any) -> GoldRun:
    """Return a run of this gold table for an operation that writes nothing. ``values``: as `run_values`."""
    table, gold = find_gold(tables, name)
    specs = [other.spec for other in tables]
    query = table.query_of(gold, specs)
    hidden, personal = personal_columns(query, specs), reads_personal(query, specs)
    return GoldRun(spec=gold, query=query, pii=hidden, reads_personal=personal, **values)


def dry_run_job(jobs: OperationJobs, tables: Sequence[DescribedTable]) -> dg.JobDefinition:
    """Return the job. It reports an observation of `silver_<table>` (or `gold_<name>`), so that the asset's history shows it;
    the checks' own history and the windows stay as they are.
    """

    def ask(context: dg.OpExecutionContext, config: DryRunRequest) -> dict[str, int]:
        """Evaluate checks on a table's data, published or not. Nothing is changed."""
        is_gold = config.table.startswith("gold_")
        if is_gold:
            if config.first or config.last:
                raise RefusedError(f"{config.table}: gold has no windows; leave out first and last")
            run = gold_run(tables, config.table, **run_values(jobs.settings, config.table, context))
            asset = asset_key(run.spec, config.table)
            tried = try_gold_checks(run, _select(config, run.spec.checks, run.spec.checks))
        else:
            spec = jobs.spec(config.table)
            asset = asset_key(spec, f"silver_{spec.name}")
            default = [check for check in spec.checks if config.on != "silver" or not isinstance(check, HistoryCheck)]
            selected = _select(config, spec.checks, default)
            windows = find_windows(jobs.settings, spec, config.first, config.last)
            tried = try_checks(jobs.run(context, config.table), selected, windows, config.on)
        outcomes = [trial.outcome.status for trial in tried.outcomes]
        counts = {status: outcomes.count(status) for status in ("passed", "failed", "error", "skipped")}
        rows = [
            (t.outcome.check, t.of, t.outcome.status, t.outcome.failed_rows, t.would_quarantine, t.outcome.message)
            for t in tried.outcomes
            if t.outcome.status != "passed"
        ]
        header = ("check", "window", "status", "rows", "would hold", "why")
        not_passed = table(header, rows, SHOWN) if rows else "every check passed"
        metadata: dict[str, Any] = {"looked_at": "gold" if is_gold else config.on}
        metadata |= {} if is_gold else {"windows": len({t.window for t in tried.outcomes})}
        metadata |= {**counts, "not_passed": dg.MetadataValue.md(not_passed)}
        metadata |= {f"sample_{name}": samples_markdown(values) for name, values in tried.samples.items()}
        context.log_event(dg.AssetObservation(asset, metadata=metadata))
        context.add_output_metadata(metadata)
        return counts

    return jobs.job("run_checks", "ask", ask)


def _select(config: DryRunRequest, checks: Sequence[Check], default: Sequence[Check]) -> list[Check]:
    """Return the checks that are named, or the default. Raises RefusedError for an unknown name."""
    if unknown := sorted(set(config.checks) - {check.id for check in checks}):
        names = ", ".join(check.id for check in checks) or "none"
        raise RefusedError(f"{config.table} has no check {', '.join(unknown)}; there are {names}")
    return [check for check in checks if check.id in config.checks] if config.checks else list(default)
