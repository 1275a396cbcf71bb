"""The counts and checks of one batch, taken while its rows are stored: no second reading.

Belongs here: observing a write, and whether what it gave can be believed. Does not: the aggregates themselves (scan).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyarrow import fs, parquet
from pyspark.sql import DataFrame, Observation

from lakehouse_assets.checks.sql.filters import without_filters
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.measures.batch_numbers import MeasurePlan
from lakehouse_assets.measures.scan import aggregates_of, read_numbers
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage.disk_errors import find_disk_fault
from lakehouse_assets.storage.file_systems import open_filesystem

# Between the end of a write and its event.
MOST_SECONDS = 2.0


@dataclass
class ObservedScan:
    """``numbers``: those of the batch, once its rows are stored; None: they have to be scanned."""

    batch: Batch
    plan: MeasurePlan
    numbers: dict[Batch, BatchNumbers] | None = field(init=False, default=None)

    def store(self, write: Callable[[DataFrame], DataFrame], frame: DataFrame, path: str) -> DataFrame:
        """Store the rows by ``write``, in Parquet files at ``path``, and count them."""
        self.numbers, observation, rules = None, Observation(), self.plan.rules
        metrics = self._metrics()
        if metrics is None:
            return write(frame)
        frame = frame.drop("_absent")  # which Spark would compute to observe the rows
        try:
            stored = write(frame.observe(observation, *aggregates_of(rules, metrics)))
        except SCAN_ERRORS as error:
            if find_disk_fault(error):
                raise
            return write(frame)  # whatever stops without an aggregate is no fault of a batch's check
        row = _row_of(observation)
        # A task that Spark tries again is counted again.
        if row is not None and row["rows_in"] == _count_stored_rows(path):
            self.numbers = {self.batch: read_numbers(row, rules, metrics)} if row["rows_in"] else {}
        return stored

    def _metrics(self) -> dict[str, dict[str, str]] | None:
        """The metrics of the scan, as Spark observes them; None if there is one that it does not."""
        metrics: dict[str, dict[str, str]] = {}
        for check, own in self.plan.metrics.items():
            for name, sql in own.items():
                plain = without_filters(sql)
                if plain is None:
                    return None
                metrics.setdefault(check, {})[name] = plain
            metrics.setdefault(check, {})
        return metrics


def _row_of(observation: Observation) -> dict[str, Any] | None:
    """Return what was observed; None if Spark does not say it soon: it forgets an observation of no rows, and `get` would wait
    for ever.
    """
    observed: Any = observation._jo
    end = time.monotonic() + MOST_SECONDS
    while not observed.future().isCompleted():
        if time.monotonic() > end:
            return None
        time.sleep(0.005)
    return observation.get


def _count_stored_rows(path: str) -> int:
    """Return the rows of the Parquet files in a folder, by their footers."""
    filesystem, base = open_filesystem(path)
    infos = filesystem.get_file_info(fs.FileSelector(base, recursive=True))
    files = [info.path for info in infos if info.path.endswith(".parquet")]
    return sum(parquet.read_metadata(file, filesystem=filesystem).num_rows for file in files)
