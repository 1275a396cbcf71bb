"""What a layout means for a MERGE, and for a reader without Spark: `python -m benchmarks.layout [rows [layout …]]`.

Belongs here: one table of 100 days in three layouts, its MERGE and its readers. Does not: the gate around the MERGE (gate).

The files are made small, so that there are a hundred of them, as a large table has. The rows lie in the order of a hash, as
a rebuild leaves them. A MERGE changes half a day's rows and adds as many. Each is done with the bounds that silver's MERGE
has, and without them, by turns on the same version.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.console import Console

from benchmarks.lab import Lab
from lakehouse_assets.contracts.layout import LayoutSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.pipeline.merge_bounds import bounded_columns, bounds_of, extents_of, skipping_extents
from lakehouse_assets.pipeline.silver_write import SILVER_PROPERTIES
from lakehouse_assets.storage import delta, delta_writes
from lakehouse_assets.storage.layout import create

DAYS, FIRST = 100, date(2024, 1, 1)
DERIVED = {"day": {"type": "date", "expr": "to_date(at)"}}
LAYOUTS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "partition_by": {"partition_by": ["day"], "derived": DERIVED},
    "cluster_by": {"cluster_by": ["day"], "derived": DERIVED},
}
FILE_SIZES = ("spark.databricks.delta.optimize.maxFileSize", "spark.databricks.delta.optimize.minFileSize")
out = Console(width=400, highlight=False, markup=False)


def spec_of(layout: dict[str, Any] | None) -> TableSpec:
    """Return a table of events with a key of two columns, the second of which gives the day."""
    return TableSpec.model_validate({
        "name": "events", "source": {"kind": "files", "path": "{window:%Y-%m-%d}.csv", "format": "csv"},
        "extraction": {"cadence": "daily", "start": datetime(2024, 1, 1, tzinfo=UTC), "mode": "upsert"},
        "key": ["id", "at"], "columns": {"id": "string", "at": "timestamp", "value": "double"}, "layout": layout,
    })  # fmt: skip


def events(lab: Lab, first: int, last: int, rows: int) -> DataFrame:
    """Return the events of these numbers, in the order of a hash. ``rows``: of the table; later ones are of its last day."""
    numbers = lab.spark.range(first, last).repartition(4, F.hash("id"))
    day = f"least({DAYS - 1}, cast(id * {DAYS} div {rows} as int))"
    return numbers.selectExpr(
        "md5(cast(id as string)) as id",
        f"timestamp'{FIRST} 00:00:00Z' + make_dt_interval({day}, 0, 0, id % 86400) as at",
        "rand(1) as value",
        f"date_add(date'{FIRST}', {day}) as day",
    ).sortWithinPartitions("id")


def measure(lab: Lab, path: str, layout: dict[str, Any] | None, rows: int, pairs: int) -> Iterator[dict[str, object]]:
    """Make the table, and read a day in the middle. Yield the figures of each MERGE into its last day."""
    spec, table = spec_of(layout), events(lab, 0, rows, rows)
    began, used = time.monotonic(), lab.cpu()
    create(table.limit(0), path, SILVER_PROPERTIES, LayoutSpec.model_validate(layout) if layout else None)
    lab.spark.conf.set("spark.sql.files.maxRecordsPerFile", str(rows // DAYS))
    delta_writes.append(table, path)
    lab.spark.conf.unset("spark.sql.files.maxRecordsPerFile")
    for size in FILE_SIZES:
        lab.spark.conf.set(size, str(sum(delta.row_counts(path)["size_bytes"].to_pylist()) // DAYS))
    DeltaTable.forPath(lab.spark, path).optimize().executeCompaction()
    creation = {"made s": time.monotonic() - began, "made cpu s": lab.cpu() - used, "files": delta.row_counts(path).num_rows}
    version, day = delta.version(path), FIRST + timedelta(days=DAYS // 2)
    began = time.monotonic()
    count = delta.read_arrow(path, ["id", "value"], [("day", "=", day)]).num_rows
    seconds = time.monotonic() - began
    light = {"light s": seconds, "light rows": count, "light MB": _bytes_of_day(path, day) / 1e6}
    batch = events(lab, rows - rows // DAYS // 2, rows + rows // DAYS // 2, rows).cache()
    batch.count()
    ways = (False, True) if layout else (False,)
    for number, bounded in enumerate([ways[-1], *ways * pairs]):
        DeltaTable.forPath(lab.spark, path).restoreToVersion(version)
        began, used = time.monotonic(), lab.cpu()
        bounds = _bounds(path, batch, spec) if bounded else []
        bounding = time.monotonic() - began
        metrics = _merge(lab, path, batch, bounds)
        times = {"s": time.monotonic() - began, "cpu s": lab.cpu() - used, "of which bounds s": bounding}
        if number:  # the first is to warm up
            yield {"bounds": bounded, **times, **metrics, **light, **creation}
    batch.unpersist()


def _bounds(path: str, batch: DataFrame, spec: TableSpec) -> list[str]:
    """Return the conditions that silver's MERGE adds (pipeline/silver_merge)."""
    extents = extents_of(batch, bounded_columns(batch, spec))
    return bounds_of(batch, spec, skipping_extents(path, extents))


def _merge(lab: Lab, path: str, batch: DataFrame, bounds: Sequence[str]) -> dict[str, int]:
    merge = DeltaTable.forPath(lab.spark, path).alias("t").merge(
        batch.alias("s"), " AND ".join(["t.id = s.id", "t.at = s.at", *bounds])
    )  # fmt: skip
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    metrics = DeltaTable.forPath(lab.spark, path).history(1).first()["operationMetrics"]
    return {"rewritten files": int(metrics["numTargetFilesRemoved"]), "copied rows": int(metrics["numTargetRowsCopied"])}


def _bytes_of_day(path: str, day: date) -> int:
    """Return the bytes of the files that a reader cannot skip, by partitions or by Delta's statistics."""
    files = delta.row_counts(path).to_pylist()

    def may_have(file: dict[str, Any]) -> bool:
        return file["partition.day"] == day if "partition.day" in file else file["min.day"] <= day <= file["max.day"]

    return sum(file["size_bytes"] for file in files if may_have(file))


def main() -> int:
    """Measure every layout and print a line for each MERGE."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), memory="2g")
        for name in sys.argv[2:] or LAYOUTS:
            for result in measure(lab, str(Path(folder) / name), LAYOUTS[name], rows, pairs=1):
                out.print(
                    f"{name:20}", {key: round(value, 2) if isinstance(value, float) else value for key, value in result.items()}
                )
        lab.spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
