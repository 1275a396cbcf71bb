"""Jobs on a table's baseline: pin it, forget it, seed it. In the UI or through the CLI.

Belongs here: ops that call a layer and tell the instance. Does not: how it is done (layers), or other acts (jobs).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import dagster as dg
from pydantic import Field

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.layers import baseline as acts
from lakehouse_assets.orchestration.jobs import spec_named
from lakehouse_assets.orchestration.spark import table_run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.baseline_log import BaselineEvent


class OnBaseline(dg.Config):
    """Whose baseline, who says so, and why."""

    table: str
    by: str
    because: str


class Pin(OnBaseline):
    """``clear``: let go of what is pinned."""

    clear: bool = False


class Seed(OnBaseline):
    """Where to learn from."""

    source: str = Field(description="a Delta table: a folder or a URL")
    window_column: str = Field(default="", description="its timestamp that tells the window; empty: p_extracted_at")


def baseline_jobs(settings: Settings, specs: Sequence[TableSpec]) -> list[dg.JobDefinition]:
    """The jobs `pin_baseline`, `reset_baseline` and `seed_baseline`."""
    spec_of = partial(spec_named, specs)

    def report(context: dg.OpExecutionContext, event: BaselineEvent) -> dict[str, Any]:
        told = {"event": event.kind, "after_decision": event.after, "by": event.by, "because": event.because, **event.told}
        # Not a materialization: no window was made anew, and nothing has to follow.
        context.log_event(dg.AssetObservation(f"baseline_{event.table}", metadata=told))
        return told

    @dg.op(name="pin", required_resource_keys={"spark"})
    def pin_op(context: dg.OpExecutionContext, config: Pin) -> dict[str, Any]:
        run = table_run(spec_of(config.table), settings, context, context.resources.spark)
        act = acts.unpin if config.clear else acts.pin
        return report(context, act(run, by=config.by, because=config.because))

    @dg.op(name="reset", required_resource_keys={"spark"})
    def reset_op(context: dg.OpExecutionContext, config: OnBaseline) -> dict[str, Any]:
        run = table_run(spec_of(config.table), settings, context, context.resources.spark)
        return report(context, acts.reset(run, by=config.by, because=config.because))

    @dg.op(name="seed", required_resource_keys={"spark"})
    def seed_op(context: dg.OpExecutionContext, config: Seed) -> dict[str, Any]:
        run = table_run(spec_of(config.table), settings, context, context.resources.spark)
        column = config.window_column or None
        return report(context, acts.seed(run, config.source, column, by=config.by, because=config.because))

    @dg.job(name="pin_baseline", description="What a table's baseline is now becomes what it must stay near; or is let go.")
    def pin_baseline() -> None:
        pin_op()

    @dg.job(name="reset_baseline", description="Forget the windows of a table's baseline; what is pinned stays.")
    def reset_baseline() -> None:
        reset_op()

    @dg.job(name="seed_baseline", description="Learn a table's baseline from an existing Delta table.")
    def seed_baseline() -> None:
        seed_op()

    return [pin_baseline, reset_baseline, seed_baseline]
