"""The lazy Spark resource, and a pipeline run from a Dagster context.

Belongs here: a JVM starts in the run that first uses it, and nowhere else. Does not: Spark's settings (storage.session).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.orchestration.assets.evidence_check import report_findings
from lakehouse_assets.orchestration.dagster_internals import RETRIED_RUN_TAGS
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.session import build_session

# The key of the resource. A project may have a resource `spark` of its own.
SPARK = "lakehouse_spark"


def spark_resource(settings: Settings) -> LazyPySparkResource:
    """Return the resource `lakehouse_spark`. The session reads its properties when it starts, so that a file with credentials
    is never stored with a run or shown in the UI.
    """

    class LakehouseSpark(LazyPySparkResource):
        """Spark with Delta, as this project configures it."""

        spark_config: dict[str, Any] = {}

        def _init_session(self) -> None:
            if self._spark_session is None:
                self._spark_session = build_session(settings)

    return LakehouseSpark()


def table_run(spec: TableSpec, settings: Settings, context: Any, readers: Mapping[str, Sequence[str]] | None = None) -> Run:
    """Return a pipeline run from the context of a step that has the resource. ``readers``: as `Run` has them."""
    alarm = partial(report_findings, context, settings, spec)
    values = run_values(settings, spec.name, context)
    return Run(spec=spec, readers=readers or {}, attempts=failed_attempts(context), alarm=alarm, **values)


def run_values(settings: Settings, table: str, context: Any) -> dict[str, Any]:
    """Return what every run of a table takes from a step's context."""
    return {
        "settings": settings,
        "session": lambda: session_of(context),
        "run_id": context.run.run_id,
        "step": lambda name: context.log.info(f"{table}: {name.replace('_', ' ')}"),
    }


def session_of(context: Any) -> Any:
    """Return the Spark session of a step's resource. It starts the JVM."""
    return getattr(context.resources, SPARK).spark_session


def failed_attempts(context: Any) -> set[str]:
    """Return the ids of the failed runs that this run retries. A run that succeeded and is executed again is a new request."""
    tags = context.run.tags
    runs = {run_id: context.instance.get_run_by_id(run_id) for run_id in {tags.get(t) for t in RETRIED_RUN_TAGS} - {None}}
    return {run_id for run_id, run in runs.items() if run is None or run.status != dg.DagsterRunStatus.SUCCESS}
