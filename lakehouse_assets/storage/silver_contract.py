"""What silver's own properties say of the contract that it was made by.

Belongs here: recording and reading them. Does not: what a contract is (contracts), or when silver is made anew (pipeline).
"""

import json

from pyspark.sql import SparkSession

from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.storage import delta

# The columns that silver was made with and no source brought, as JSON.
COMPUTED = "lakehouse.computed"


def record_contract(spark: SparkSession, path: str, spec: TableContract) -> None:
    """Record the contract by which silver has been made, and the columns that no source brought."""
    values, computed = {delta.MEANING: spec.meaning}, spec.computed_columns
    if computed or recorded_computed_columns(path):
        values[COMPUTED] = json.dumps(computed)
    delta.set_properties(spark, path, values)


def recorded_computed_columns(path: str) -> list[str]:
    """Return the columns that silver was made with and no source brought; none without a table. No JVM."""
    return json.loads(delta.properties(path).get(COMPUTED, "[]")) if delta.exists(path) else []
