"""The job `run_checks`: checks asked of a table's data on demand, in the UI, without any consequence.

Belongs here: the op and what it shows, and a run of gold for it. Does not: how a check is tried (layers/trial).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.history import HistoryCheck
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.layers.gold_batch import GoldRun
from lakehouse_assets.layers.gold_trial import try_gold_checks
from lakehouse_assets.layers.trial import Trial, try_checks
from lakehouse_assets.orchestration.component import LakehouseTable, personal_columns
from lakehouse_assets.orchestration.jobs import spec_named
from lakehouse_assets.orchestration.metadata import samples_markdown
from lakehouse_assets.orchestration.spark import table_run
from lakehouse_assets.reports.markdown import table
from lakehouse_assets.settings import Settings

SHOWN = 200


class Asked(dg.Config):
    """Which checks, of which data."""

    table: str = Field(description="a table, or a gold table as gold_NAME")
    checks: list[str] = Field(default=[], description="names; none: all (of silver, all that do not look back)")
    first: str = Field(default="", description="key of the first window; none: from the beginning; not of gold")
    last: str = Field(default="", description="key of the last window; none: up to now")
    on: Literal["source", "bronze", "silver"] = Field(
        default="silver", description="what is looked at: silver is what was published; gold is always that"
    )


def gold_named(tables: Sequence[LakehouseTable], name: str) -> tuple[LakehouseTable, GoldSpec]:
    """The gold table that is called so (`gold_<name>`), and whose it is. Raises RefusedError, naming those that there are."""
    golds = {f"gold_{gold.name}": (table, gold) for table in tables for gold in table.spec.gold}
    if name not in golds:
        raise RefusedError(f"there is no gold table {name!r}; there are {', '.join(sorted(golds)) or 'none'}")
    return golds[name]


def gold_run(tables: Sequence[LakehouseTable], name: str, settings: Settings, session: Any, run_id: str) -> GoldRun:
    """A run of this gold table for a layer that writes nothing."""
    table, gold = gold_named(tables, name)
    specs = [other.spec for other in tables]
    query = table.query_of(gold, specs)
    return GoldRun(settings, gold, query, session, run_id, lambda: datetime.now(UTC), personal_columns(query, specs))


def trial_job(settings: Settings, tables: Sequence[LakehouseTable]) -> dg.JobDefinition:
    """The job. Its result is an observation of `silver_<table>` (or `gold_<name>`), so that it stands in the asset's history;
    no check's own history and no window changes.
    """

    @dg.op(name="ask", required_resource_keys={"spark"})
    def ask(context: dg.OpExecutionContext, config: Asked) -> dict[str, int]:
        spark = context.resources.spark
        if gold := config.table.startswith("gold_"):
            if config.first or config.last:
                raise RefusedError(f"{config.table}: gold has no windows; leave out first and last")
            run = gold_run(tables, config.table, settings, lambda: spark.spark_session, context.run.run_id)
            tried = try_gold_checks(run, _wanted(config, run.spec.checks, run.spec.checks))
        else:
            spec = spec_named([table.spec for table in tables], config.table)
            all_of = [check for check in spec.checks if config.on != "silver" or not isinstance(check, HistoryCheck)]
            wanted = _wanted(config, spec.checks, all_of)
            tried = try_checks(table_run(spec, settings, context, spark), wanted, _windows(config, spec), config.on)
        bad = [trial for trial in tried.trials if trial.outcome.status != "passed"]
        counts = {
            status: sum(t.outcome.status == status for t in tried.trials) for status in ("passed", "failed", "error", "skipped")
        }
        shown: dict[str, dg.MetadataValue | str | int] = {
            "looked_at": "gold" if gold else config.on,
        }
        shown |= {} if gold else {"windows": len({t.window for t in tried.trials})}
        shown |= {**counts, "not_passed": dg.MetadataValue.md(_markdown(bad))}
        for name, values in tried.samples.items():
            shown[f"sample_{name}"] = samples_markdown(values)
        context.log_event(dg.AssetObservation(config.table if gold else f"silver_{config.table}", metadata=shown))
        context.add_output_metadata(shown)
        return counts

    @dg.job(name="run_checks", description="Ask checks of a table's data, published or not. Nothing is held or changed.")
    def run_checks() -> None:
        ask()

    return run_checks


def _wanted(config: Asked, checks: Sequence[Check], all_of: Sequence[Check]) -> list[Check]:
    """Those that are named, or all. Raises RefusedError for a name that there is not."""
    if unknown := sorted(set(config.checks) - {check.id for check in checks}):
        names = ", ".join(check.id for check in checks) or "none"
        raise RefusedError(f"{config.table} has no check {', '.join(unknown)}; there are {names}")
    return [check for check in checks if check.id in config.checks] if config.checks else list(all_of)


def _windows(config: Asked, spec: TableSpec) -> list[Window]:
    try:
        first = spec.extraction.window(config.first).start if config.first else spec.extraction.start
        last = spec.extraction.window(config.last).start if config.last else datetime.max.replace(tzinfo=UTC)
    except ValueError:
        raise RefusedError(f"{spec.name}: windows' keys look like {spec.extraction.first.key}") from None
    return [window for window in spec.extraction.windows(datetime.now(UTC)) if first <= window.start <= last]


def _markdown(trials: Sequence[Trial]) -> str:
    rows = [(t.outcome.check, t.of, t.outcome.status, t.outcome.failed_rows, t.would_hold, t.outcome.message) for t in trials]
    return table(("check", "window", "status", "rows", "would hold", "why"), rows, SHOWN) if rows else "every check passed"
