"""What the jobs that a person starts share: one op with Spark under `step_of`, tables and windows by name, and their run.

Belongs here: the form of such a job. Does not: any operation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import Field

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.orchestration.own_process import process_tags
from lakehouse_assets.orchestration.spark import SPARK, table_run
from lakehouse_assets.orchestration.step_boundary import any_personal, step_of
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.table_windows import table_windows

# The instance keeps each run's log; on the terminal it would hide the command's own output.
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class TableRequest(dg.Config):
    """The table of a job."""

    table: str


class SignedRequest(TableRequest):
    """A request that is recorded: who makes it, and why."""

    by: str = Field(pattern=r"\S")
    because: str = Field(pattern=r"\S")


@dataclass(frozen=True)
class OperationJobs:
    """The tables of the jobs. ``readers``: by table, what reads each of its columns downstream."""

    settings: Settings
    specs: Sequence[TableSpec]
    readers: Mapping[str, Mapping[str, Sequence[str]]]

    def job(self, name: str, op: str, function: Callable[..., Any]) -> dg.JobDefinition:
        """Return a job of one op, which calls ``function(context, config)`` under `step_of`. Its docstring describes it."""
        single_op = dg.op(name=op, required_resource_keys={SPARK})(step_of(any_personal(self.specs))(function))

        @dg.job(name=name, description=function.__doc__, executor_def=dg.in_process_executor)
        def operation() -> None:
            single_op()

        return operation

    def spec(self, name: str) -> TableSpec:
        """Return the table of this name. Raises RefusedError, which lists the tables."""
        by_name = {spec.name: spec for spec in self.specs}
        if name not in by_name:
            raise RefusedError(f"there is no table {name!r}; there are {', '.join(sorted(by_name))}")
        return by_name[name]

    def run(self, context: dg.OpExecutionContext, name: str) -> Run:
        """Return a run of this table's flow within the op."""
        return table_run(self.spec(name), self.settings, context, self.readers.get(name))


def find_window(spec: TableSpec, key: str) -> Window:
    """Return the window of this key. Raises RefusedError, which shows the form of a key."""
    try:
        return spec.extraction.window(key)
    except ValueError:
        raise RefusedError(f"{spec.name}: {key!r} is no window's key; keys look like {spec.extraction.first.key}") from None


def find_windows(settings: Settings, spec: TableSpec, first: str, last: str) -> list[Window]:
    """Return the closed windows from the key ``first`` (empty: the beginning) to the key ``last`` (empty: now)."""
    start = find_window(spec, first).start if first else spec.extraction.start
    end = find_window(spec, last).start if last else datetime.now(UTC)
    return [window for window in table_windows(settings, spec, datetime.now(UTC)) if start <= window.start <= end]


def run_job(definitions: dg.Definitions, instance: dg.DagsterInstance, name: str, config: Mapping[str, Any]) -> Any:
    """Run a job of one op in this process and return the op's output. Raises what the op raised."""
    job = definitions.resolve_job_def(name)
    (op,) = job.nodes
    run_config = {"ops": {op.name: {"config": dict(config)}}, **QUIET}
    result = job.execute_in_process(instance=instance, run_config=run_config, tags=process_tags())
    return result.output_for_node(op.name)
