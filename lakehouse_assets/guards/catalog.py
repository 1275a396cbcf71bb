"""A guarded table by its name in Spark's catalog: where it lies now, or the newest metadata file of an Iceberg one. What a run
finds of a Delta table is recorded, for polls without a JVM.

Belongs here: name → location. Does not: reading the table, or when a poll asks (catalog_poll).
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


def with_table_path(spec: GuardSpec, spark: SparkSession) -> GuardSpec:
    """Return the guard with the path of its table, which the session's catalog has for a name. It is a folder, or the newest
    metadata file of an Iceberg table. Raises SourceError for an unknown name, a table of another format, and a catalog that
    cannot be reached.
    """
    if spec.table is None:
        return spec
    label, name = f"{spec.name}: table: {spec.table}", quoted_name(spec.table)
    if spec.is_of_catalog:
        return located_at(spec, _metadata_file(label, name, spark))
    try:
        # Most catalogs give the reason here; Delta's description takes what they refuse for a missing table.
        spark.sql(f"DESCRIBE TABLE {name}").collect()
        detail = Destination(spark, spec.table, False, name).detail()
    except RefusedError as error:
        raise SourceError(f"{label}: {error}") from error
    except SCAN_ERRORS as error:
        raise _unanswered(label, error) from error
    if detail is None:
        raise SourceError(f"{label}: Spark's catalog has no Delta table of this name")
    return located_at(spec, str(detail["location"]))


def quoted_name(table: str) -> str:
    """Return a name in the catalog, as SQL has it."""
    return ".".join(map(identifier, table.split(".")))


def _metadata_file(label: str, name: str, spark: SparkSession) -> str:
    """Return the newest metadata file of an Iceberg table."""
    try:
        # The session keeps what a catalog answered for half a minute: others may have written since.
        spark.sql(f"REFRESH TABLE {name}").collect()
        spark.sql(f"DESCRIBE TABLE {name}").collect()
    except SCAN_ERRORS as error:
        raise _unanswered(label, error) from error
    try:
        files = spark.table(f"{name}.metadata_log_entries").select("file").collect()
    except SCAN_ERRORS as error:
        if isinstance(error, AnalysisException):
            raise SourceError(f"{label}: the table of this name in Spark's catalog is not of Iceberg") from error
        raise _unanswered(label, error) from error
    # One row for each file that the table's properties let stay, 100 by default; the last is the current one.
    return str(files[-1]["file"])


def _unanswered(label: str, error: Exception) -> SourceError:
    if isinstance(error, AnalysisException) and ABSENT.search(str(error)):
        return SourceError(f"{label}: Spark's catalog has no table of this name")
    return SourceError(f"{label}: the catalog cannot be asked: {plain_text(error)}")


def located_by_log(spec: GuardSpec, state: GuardState) -> GuardSpec | None:
    """Return the guard with the path of its table as its last run found it; None for a name before the first run, and for a
    table whose newest version only the catalog knows. No JVM.
    """
    if spec.table is None:
        return spec
    if spec.is_of_catalog:
        return None
    last = max(state.records.values(), key=lambda record: record.extracted_at, default=None)
    location = json.loads(last.position or "{}").get("location") if last else None
    return located_at(spec, location) if location else None


def located_at(spec: GuardSpec, location: str) -> GuardSpec:
    """Return the guard with a path of its table, as a catalog gives it: it may begin with `file:`."""
    path = location if "://" in location.removeprefix("file:/") else "/" + location.removeprefix("file:").lstrip("/")
    return spec.model_copy(update={"path": path.removeprefix("file://")})
