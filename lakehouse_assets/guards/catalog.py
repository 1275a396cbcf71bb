"""A guarded table by its name in Spark's catalog: where it lies now. What a run finds is recorded, for polls without a JVM.

Belongs here: name → location. Does not: reading the table.
"""

import json

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.errors import RefusedError, SourceError
from lakehouse_assets.frames.destination import ABSENT, Destination
from lakehouse_assets.guards.observed_table import GuardState
from lakehouse_assets.measures.error_text import plain_text
from lakehouse_assets.sources.base import SCAN_ERRORS


def located(spec: GuardSpec, spark: SparkSession) -> GuardSpec:
    """Return the guard with the path of its table, which the session's catalog gives for a name. Raises SourceError for an
    unknown name, a table that is not Delta's, and a catalog that cannot be reached.
    """
    if spec.table is None:
        return spec
    label = f"{spec.name}: table: {spec.table}"
    name = ".".join(map(identifier, spec.table.split(".")))
    try:
        # Most catalogs give the reason here; Delta's description takes what they refuse for a missing table.
        spark.sql(f"DESCRIBE TABLE {name}").collect()
        detail = Destination(spark, spec.table, False, name).detail()
    except RefusedError as error:
        raise SourceError(f"{label}: {error}") from error
    except SCAN_ERRORS as error:
        if isinstance(error, AnalysisException) and ABSENT.search(str(error)):
            raise SourceError(f"{label}: Spark's catalog has no table of this name") from error
        raise SourceError(f"{label}: the catalog cannot be asked: {plain_text(error)}") from error
    if detail is None:
        raise SourceError(f"{label}: Spark's catalog has no Delta table of this name")
    return _at(spec, str(detail["location"]))


def located_by_log(spec: GuardSpec, state: GuardState) -> GuardSpec | None:
    """Return the guard with the path of its table as its last run found it; None for a name before the first run. No JVM."""
    if spec.table is None:
        return spec
    last = max(state.records.values(), key=lambda record: record.extracted_at, default=None)
    location = json.loads(last.position or "{}").get("location") if last else None
    return _at(spec, location) if location else None


def _at(spec: GuardSpec, location: str) -> GuardSpec:
    path = location if "://" in location.removeprefix("file:/") else "/" + location.removeprefix("file:").lstrip("/")
    return spec.model_copy(update={"path": path.removeprefix("file://")})
