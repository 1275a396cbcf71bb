"""The rows of some extractions in bronze.

Belongs here: reading them with few files and without the log. Does not: what becomes of them (staging, fold, silver_write).
"""

from collections.abc import Collection

from pyspark.sql import DataFrame

from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.measures.batches import select_batches
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.storage.delta_reads import read_windows


def bronze_rows(run: Run, batches: Collection[Batch]) -> DataFrame:
    """Return all columns of bronze for the rows of these extractions."""
    bronze = read_windows(run.spark, run.path("bronze"), [start_of(batch) for batch in batches])
    return select_batches(bronze, batches)
