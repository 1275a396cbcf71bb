"""Profiles of numbers of one staged batch, read from its files by Arrow, in this process.

Belongs here: columns as they are, and their relations. Does not: texts, expressions, strata or several batches (profile).

Spark updates a sketch row by row, in code that it does not compile: that takes several times as long as to read the values.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from datasketches import kll_doubles_sketch  # pyright: ignore[reportAttributeAccessIssue] (a compiled module)
from numpy.typing import NDArray
from pyarrow import parquet
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from sqlglot import exp

from lakehouse_assets.checks.sql.text import identifier, parse_expression
from lakehouse_assets.contracts.drift import MOST_RELATED, DriftSpec, FeatureSpec
from lakehouse_assets.decisions.drift.profiles import MOST_CATEGORIES, Profile
from lakehouse_assets.decisions.drift.relations import Measurement, Relations
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.measures.distinct_values import DistinctValues
from lakehouse_assets.object_store import is_url
from lakehouse_assets.storage.file_systems import open_filesystem
from lakehouse_assets.storage.footers import path_of, read_footer
from lakehouse_assets.storage.java import is_connect

Floats = NDArray[np.float64]

# Values of a batch; a larger one is left to Spark, which may have more processors. Those of so many rows are
# in memory at once; from a store, those of a row group.
MOST_VALUES, AT_ONCE = 60_000_000, 1 << 18
# Digits of a decimal that a double has exactly.
MOST_DIGITS = 15
NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType)


class StoredRows(NamedTuple):
    """The files of a staged batch, as Spark names them, and how many rows were counted in them. ``newest``: the column that
    says which rows are published, and ``published`` how many.
    """

    files: Sequence[str]
    rows: int
    published: int
    newest: str = "_newest"


def find_stored_rows(staged: DataFrame, numbers: BatchNumbers) -> StoredRows | None:
    """Return the files of a staged batch that reads Parquet files as they are; None for any other frame."""
    if is_connect(staged.sparkSession):
        return None
    frame: Any = staged
    plan = frame._jdf.queryExecution().analyzed()
    while plan.nodeName() == "Repartition":
        plan = plan.child()
    if plan.getClass().getSimpleName() != "LogicalRelation" or "_newest" not in staged.columns:
        return None
    return StoredRows(list(staged.inputFiles()), numbers.rows_in, numbers.newest)


class NumberColumn(NamedTuple):
    """A feature that is a column of numbers as it is."""

    feature: str
    column: str
    kind: T.DataType


def choose_numbers(staged: DataFrame, drift: DriftSpec) -> list[NumberColumn]:
    """Return the features without `by` that are numbers, if each of them is a column that Arrow reads as Spark does; else none:
    their relations are measured together.
    """
    types = {field.name: field.dataType for field in staged.schema}
    numbers = []
    for feature in drift.features:
        column = _column_of(feature)
        kind = types.get(column or "")
        if feature.by is not None or (column and isinstance(kind, T.StringType | T.BooleanType)):
            continue
        if column is None or kind is None or not _is_exact(kind):
            return []
        numbers.append(NumberColumn(feature.name, column, kind))
    return numbers


def _column_of(feature: FeatureSpec) -> str | None:
    """The column that the feature is; None for an expression. A literal, such as `null`, is one."""
    tree = parse_expression(feature.expr, feature.name, allow_windows=True)
    if not isinstance(tree, exp.Column) or tree.table:
        return None
    is_name = feature.expr == identifier(tree.name) or (feature.expr == tree.name and feature.expr.isascii())
    return tree.name if is_name else None


def _is_exact(kind: T.DataType) -> bool:
    return isinstance(kind, NUMBERS) or (isinstance(kind, T.DecimalType) and kind.precision <= MOST_DIGITS)


def profile_files(
    staged: DataFrame, stored: StoredRows, drift: DriftSpec, numbers: Sequence[NumberColumn]
) -> list[Measurement] | None:
    """Return profiles and relations of these numbers as `measure_profiles` does. None where the files cannot be read, or have
    other rows than were counted: then Spark has to measure them.
    """
    if not stored.files or not stored.published or stored.rows * len(numbers) > MOST_VALUES:
        return None
    columns = [_Column(each.feature, each.kind, drift.sketch_k) for each in numbers]
    related = numbers[:MOST_RELATED] if drift.relations and len(numbers) > 1 else []
    relations = _Relations([each.feature for each in related])
    rows = 0
    try:
        # Of numbers too large for their squares, the moments are not finite, as Spark's.
        with np.errstate(over="ignore", invalid="ignore"):
            for part in _read(stored, [each.column for each in numbers]):
                values = [_as_doubles(array) for array in part.columns]
                rows += part.num_rows
                for column, array, doubles in zip(columns, part.columns, values, strict=True):
                    column.add(doubles, array.null_count)
                relations.add(values)
    except (OSError, ValueError, LakehouseError, pa.ArrowException):
        return None
    if rows != stored.published:
        return None
    profiles = [each.profile(staged.sparkSession.sparkContext._jvm) for each in columns]
    return [*profiles, *relations.result()]


def _read(stored: StoredRows, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The published rows, in parts. Raises ValueError if the files have other rows than were counted, or other columns."""
    files = {file: path_of(file) for file in stored.files}
    if sum(read_footer(path).num_rows for path in files.values()) != stored.rows:
        raise ValueError("other rows")
    for file, path in files.items():
        if f"/{stored.newest}=false/" in file:
            continue
        all_published = stored.published == stored.rows or f"/{stored.newest}=true/" in file
        for part in _read_file(path, [*names, *([] if all_published else [stored.newest])]):
            chosen = part if all_published else part.filter(part[stored.newest])
            yield pa.RecordBatch.from_arrays([chosen[name] for name in names], list(map(str, range(len(names)))))


def _read_file(location: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    filesystem, path = open_filesystem(location)
    # From a store, the columns of a row group are asked for at once.
    with parquet.ParquetFile(path, filesystem=filesystem, pre_buffer=is_url(location)) as file:
        for group in range(file.num_row_groups):
            for part in file.iter_batches(AT_ONCE, row_groups=[group], columns=list(dict.fromkeys(names))):
                if not set(names) <= set(part.schema.names):
                    raise ValueError("other columns")
                yield part


def _as_doubles(array: pa.Array) -> Floats:
    """These numbers, with NaN for NULL; an integer or a decimal becomes the double that is nearest to it, as in Java."""
    if pa.types.is_decimal(array.type):
        # The lower half of 16 bytes: it has all digits of so small a number. A quotient of two exact doubles is the nearest.
        halves = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array)) : 2]
        values = halves / 10.0**array.type.scale
        return np.where(array.is_null().to_numpy(zero_copy_only=False), np.nan, values) if array.null_count else values
    if array.null_count and pa.types.is_integer(array.type):
        values = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
        values[array.is_null().to_numpy(zero_copy_only=False)] = np.nan
        return values
    return array.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)


class _Column:
    """What has been read of one number."""

    def __init__(self, feature: str, kind: T.DataType, k: int) -> None:
        self._feature = feature
        self._rows = self._nulls = self._nans = 0
        self._ends = (np.inf, -np.inf)
        self._moments = Relations(None, None, (feature,), 0, (0.0,), (0.0,))
        self._sketch = kll_doubles_sketch(k)
        self._distinct = DistinctValues()
        # Of whole and decimal numbers; None: they have too many values.
        self._counts: dict[float, int] | None = {} if isinstance(kind, T.IntegralType | T.DecimalType) else None

    def add(self, values: Floats, nulls: int) -> None:
        # A sketch takes sorted numbers in a third of the time, which spares more than numpy's sort takes.
        ordered = np.sort(_finite(values))
        self._rows += values.size
        self._nulls += nulls
        self._nans += int(np.isnan(values).sum()) - nulls
        if not ordered.size:
            return
        self._ends = (min(self._ends[0], ordered[0]), max(self._ends[1], ordered[-1]))
        self._moments = self._moments.plus(_moments((self._feature,), [ordered]))
        self._sketch.update(ordered)
        firsts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        self._distinct.add(ordered[firsts])
        if self._counts is not None:
            self._counts = _plus(self._counts, ordered[firsts], np.diff(firsts, append=ordered.size))

    def profile(self, jvm: Any) -> Profile:
        valid, counts = self._moments.rows, self._counts or None
        variance = self._moments.comoments[0] / (valid - 1) if valid > 1 else None
        return Profile(
            feature=self._feature,
            stratum=None,
            rows=self._rows,
            nulls=self._nulls,
            nans=self._nans,
            infinities=self._rows - self._nulls - self._nans - valid,
            mean=self._moments.mean[0] if valid else None,
            std=None if variance is None else variance**0.5,
            minimum=float(self._ends[0]) if valid else None,
            maximum=float(self._ends[1]) if valid else None,
            sketch=self._sketch.serialize() if valid and counts is None else None,
            distinct=float(len(counts)) if counts else self._distinct.estimate(jvm),
            counts=None if counts is None else tuple(sorted(counts.items())),
        )


def _finite(values: Floats) -> Floats:
    is_finite = np.isfinite(values)
    return values if is_finite.all() else values[is_finite]


def _plus(counts: dict[float, int], values: Floats, rows: NDArray[np.intp]) -> dict[float, int] | None:
    """The counts with these values, none of them twice, and the rows of each; None for too many values."""
    if values.size > MOST_CATEGORIES:
        return None
    added = dict(zip(values.tolist(), rows.tolist(), strict=True))
    both = {value: counts.get(value, 0) + added.get(value, 0) for value in {**counts, **added}}
    return both if len(both) <= MOST_CATEGORIES else None


class _Relations:
    """What has been read of how these numbers vary together; of none, nothing."""

    def __init__(self, features: Sequence[str]) -> None:
        size = len(features)
        self._sum = Relations(None, None, tuple(features), 0, (0.0,) * size, (0.0,) * (size * (size + 1) // 2))

    def add(self, values: Sequence[Floats]) -> None:
        """Add rows, of which those count that have all these numbers."""
        if not self._sum.features:
            return
        own = values[: len(self._sum.features)]
        complete = np.logical_and.reduce([np.isfinite(each) for each in own])
        if complete.any():
            rows = own if complete.all() else [each[complete] for each in own]
            self._sum = self._sum.plus(_moments(self._sum.features, rows))

    def result(self) -> list[Relations]:
        return [self._sum] if self._sum.features else []


def _moments(features: tuple[str, ...], values: Sequence[Floats]) -> Relations:
    """The moments of these rows."""
    means = [float(each.mean()) for each in values]
    apart = [each - mean for each, mean in zip(values, means, strict=True)]
    products = [float(one @ other) for index, one in enumerate(apart) for other in apart[index:]]
    return Relations(None, None, features, values[0].size, tuple(means), tuple(products))
