"""The baseline of a frame: from the log of earlier judgements, from another frame, or from the versions of a Delta table.

Belongs here: which rows are a window of the baseline. Does not: measuring windows, or merging them (operations, decisions).
"""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.batch import SEQUENCE, WINDOW
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.contracts.frame_rules import FrameRules
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.pseudonyms import name_mask
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.frames.added_rows import rows_of_versions
from lakehouse_assets.frames.destination import Destination
from lakehouse_assets.frames.log import FrameLog, is_log
from lakehouse_assets.frames.session import require_frame
from lakehouse_assets.measures.frames import EPOCH, local_frame
from lakehouse_assets.operations.baseline import judge_in_order, measure_windows

HOUR = timedelta(hours=1)
MOST_WINDOWS = 10_000


def read_baseline_of(
    rules: FrameRules, source: DataFrame | str | Path, spark: SparkSession | None, by: str | None = None
) -> BaselineState:
    """Return the baseline of a source. The source is a frame (split by the column ``by``, or as one window), the folder of a
    log, or a Delta table. Of a table, each version that added rows is a window.

    Raises RefusedError for rules without `drift`, and for a source that is none of these or has no row.
    """
    drift = rules.drift_in_units
    if drift is None:
        raise RefusedError(f"{rules.name}: the rules declare no `drift:`, so that there is nothing to compare")
    if isinstance(source, DataFrame):
        frame = require_frame(source)
        return _learn(rules, drift, _windows_of(frame, drift, by), "the baseline's frame")
    if by is not None:
        raise RefusedError("`by` splits a frame; read the table first, and pass the frame")
    if is_log(source):
        return FrameLog.read(source, rules).baseline() or BaselineState(drift)
    if spark is None:
        raise RefusedError(f"baseline={source}: there is no log in this folder, and no session to read a table with")
    versions = rows_of_versions(Destination.of(spark, source), drift.remember)
    if versions is None:
        raise RefusedError(
            f"baseline={source}: this is neither the folder of a log nor a Delta table with a version that added rows"
        )
    return _learn(rules, drift, _columns_used(versions, drift), str(source))


def _learn(rules: FrameRules, drift: DriftSpec, windows: DataFrame, name: str) -> BaselineState:
    state = BaselineState(drift)
    measured = measure_windows(windows, drift, name, name_mask(rules), personal=bool(rules.pii_columns))
    if not measured:
        raise RefusedError(f"{name} has no row to learn from")
    newest = dict(list(measured.items())[-drift.remember :])
    judge_in_order(state, newest, 0)
    return state


def _columns_used(rows: DataFrame, drift: DriftSpec) -> DataFrame:
    """Return the columns of the features, and those of the batch."""
    has = {name.lower(): name for name in rows.columns}
    used = sorted(set().union(*(feature.columns_used for feature in drift.features)))
    if missing := [name for name in used if name.lower() not in has]:
        raise RefusedError(f"the baseline has no column {missing[0]!r}; it has {', '.join(rows.columns)}")
    plain = [F.col(identifier(has[name.lower()])) for name in used]
    return rows.select(WINDOW, F.lit(0).alias(SEQUENCE), F.lit(True).alias("_newest"), *plain)


def _windows_of(frame: DataFrame, drift: DriftSpec, by: str | None) -> DataFrame:
    if by is None:
        return _columns_used(frame.drop(WINDOW).withColumn(WINDOW, F.lit(EPOCH)), drift)
    kinds: Mapping[str, T.DataType] = {field.name.lower(): field.dataType for field in frame.schema}
    if by.lower() not in kinds:
        raise RefusedError(f"the baseline has no column {by!r}; it has {', '.join(frame.columns)}")
    label = F.col(identifier(by))
    if isinstance(kinds[by.lower()], T.TimestampType | T.DateType):
        return _columns_used(frame.where(label.isNotNull()).withColumn(WINDOW, label.cast("timestamp")), drift)
    # Any other label names a window; the windows are in the order of their labels.
    labels = frame.select(label.alias("v")).where("v IS NOT NULL").distinct().orderBy("v").limit(MOST_WINDOWS + 1)
    names = [str(row["v"]) for row in labels.select(F.col("v").cast("string").alias("v")).collect()]
    if len(names) > MOST_WINDOWS:
        raise RefusedError(f"{by} has more than {MOST_WINDOWS} values; split the baseline by a coarser column")
    starts = [(name, EPOCH + index * HOUR) for index, name in enumerate(names)]
    windows = local_frame(frame.sparkSession, [("_label", pa.string()), ("_start", pa.timestamp("us", "UTC"))], starts)
    joined = frame.join(F.broadcast(windows), label.cast("string") == F.col("_label"))
    return _columns_used(joined.withColumn(WINDOW, F.col("_start")), drift)
