"""The lazy Spark resource: a JVM starts in the run that first uses it, and nowhere else.

Belongs here: handing the project's session to dagster-pyspark. Does not: Spark's settings (storage.session).
"""

from typing import Any

from dagster_pyspark import LazyPySparkResource

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
