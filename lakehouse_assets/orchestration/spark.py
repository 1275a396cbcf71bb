"""The lazy Spark resource: a JVM starts in the run that first uses it, and nowhere else; and a layer's run on it.

Belongs here: handing the project's session to dagster-pyspark and to the layers. Does not: its settings (storage.session).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dagster_pyspark import LazyPySparkResource

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.layers.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.session import build_session


def spark_resource(settings: Settings) -> LazyPySparkResource:
    """The resource `spark`. Its properties are read when the session starts, so that a file of properties with
    credentials is never stored with a run or shown in the UI.
    """

    class LakehouseSpark(LazyPySparkResource):
        """Spark with Delta, as this project configures it."""

        spark_config: dict[str, Any] = {}

        def _init_session(self) -> None:
            if self._spark_session is None:
                self._spark_session = build_session(settings)

    return LakehouseSpark()


def table_run(
    spec: TableSpec, settings: Settings, context: Any, spark: Any, readers: Mapping[str, Sequence[str]] | None = None
) -> Run:
    """A layer's run out of a Dagster execution context and the lazy Spark resource. ``readers``: as `Run` has them."""
    return Run(
        settings=settings,
        spec=spec,
        session=lambda: spark.spark_session,
        run_id=context.run.run_id,
        clock=lambda: datetime.now(UTC),
        step=lambda name: context.log.info(f"{spec.name}: {name.replace('_', ' ')}"),
        readers=readers or {},
    )
