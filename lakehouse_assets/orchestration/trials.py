"""The job `run_checks`: checks asked of a table's data on demand, in the UI, without any consequence.

Belongs here: the op and what it shows. Does not: how a check is tried (layers/trial).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import dagster as dg
from pydantic import Field

from lakehouse_assets.checks.history import HistoryCheck
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.layers.trial import Trial, try_checks
from lakehouse_assets.orchestration.assets import table_run
from lakehouse_assets.orchestration.jobs import spec_named
from lakehouse_assets.orchestration.metadata import samples_markdown
from lakehouse_assets.reports.markdown import table
from lakehouse_assets.settings import Settings

SHOWN = 200


class Asked(dg.Config):
    """Which checks, of which data."""

    table: str
    checks: list[str] = Field(default=[], description="names; none: all (of silver, all that do not look back)")
    first: str = Field(default="", description="key of the first window; none: from the beginning")
    last: str = Field(default="", description="key of the last window; none: up to now")
    on: Literal["source", "bronze", "silver"] = Field(
        default="silver", description="what is looked at: silver is what was published"
    )


def trial_job(settings: Settings, specs: Sequence[TableSpec]) -> dg.JobDefinition:
    """The job. Its result is an observation of `silver_<table>`, so that it stands in the asset's history; no check's own
    history and no window changes.
    """

    @dg.op(name="ask", required_resource_keys={"spark"})
    def ask(context: dg.OpExecutionContext, config: Asked) -> dict[str, int]:
        spec = spec_named(specs, config.table)
        all_of = [check for check in spec.checks if config.on != "silver" or not isinstance(check, HistoryCheck)]
        wanted = [check for check in spec.checks if check.id in config.checks] if config.checks else all_of
        if unknown := sorted(set(config.checks) - {check.id for check in wanted}):
            raise RefusedError(
                f"{spec.name} has no check {', '.join(unknown)}; there are {', '.join(c.id for c in spec.checks)}"
            )
        try:
            first = spec.extraction.window(config.first).start if config.first else spec.extraction.start
            last = spec.extraction.window(config.last).start if config.last else datetime.max.replace(tzinfo=UTC)
        except ValueError:
            raise RefusedError(f"{spec.name}: windows' keys look like {spec.extraction.first.key}") from None
        windows = [window for window in spec.extraction.windows(datetime.now(UTC)) if first <= window.start <= last]
        tried = try_checks(table_run(spec, settings, context, context.resources.spark), wanted, windows, config.on)
        bad = [trial for trial in tried.trials if trial.outcome.status != "passed"]
        counts = {
            status: sum(t.outcome.status == status for t in tried.trials) for status in ("passed", "failed", "error", "skipped")
        }
        shown: dict[str, dg.MetadataValue | str | int] = {
            "looked_at": config.on,
            "windows": len({t.window for t in tried.trials}),
        }
        shown |= {**counts, "not_passed": dg.MetadataValue.md(_markdown(bad))}
        for name, values in tried.samples.items():
            shown[f"sample_{name}"] = samples_markdown(values)
        context.log_event(dg.AssetObservation(f"silver_{spec.name}", metadata=shown))
        context.add_output_metadata(shown)
        return counts

    @dg.job(name="run_checks", description="Ask checks of a table's data, published or not. Nothing is held or changed.")
    def run_checks() -> None:
        ask()

    return run_checks


def _markdown(trials: Sequence[Trial]) -> str:
    rows = [
        (t.outcome.check, t.window.key, t.outcome.status, t.outcome.failed_rows, t.would_hold, t.outcome.message)
        for t in trials
    ]
    return table(("check", "window", "status", "rows", "would hold", "why"), rows, SHOWN) if rows else "every check passed"
