"""A version of a Delta table as an Arrow dataset, made in a hundredth of a second.

Belongs here: files and their bounds → dataset, and reading rows of one by a filter. Does not: which ones (delta), or keeping
it (log_files).

`deltalake` makes one, too: with the bounds of every column of every file, whether a filter reads them or not. For a log of 60
files that takes 0.2 s, and a run reads its logs forty times.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import fs

from lakehouse_assets.storage.file_systems import open_filesystem

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset, Expression

# Of a value of any other type, its bounds in the log may not be its own: a text is cut off, NaN is left out.
BOUNDED = (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_date)

# Spark's bounds of moments are cut off at it.
RESOLUTION = timedelta(milliseconds=1)

# A path from the root, or an address; a colon within a name is escaped.
ELSEWHERE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")


def make_dataset(
    table: DeltaTable, filesystem: fs.FileSystem, bounds: Collection[str] = (), only: Sequence[int] | None = None
) -> "Dataset":
    """Return the table as a dataset. ``filesystem``: its root is the table's folder. ``bounds``: columns by whose bounds files
    are left out, besides the partition columns: those that a filter compares. ``only``: numbers of files, by their order in the
    log, beside which there are no others; None: all. A table with deletion vectors or renamed columns has no numbers.
    """
    from pyarrow.dataset import FileSystemDataset, ParquetFileFormat, ParquetFragmentScanOptions  # noqa: PLC0415 (a tenth)

    files = pa.table(table.get_add_actions(flatten=True))
    paths = files["path"].to_pylist()
    if table.protocol().min_reader_version > 1:
        return table.to_pyarrow_dataset(filesystem=filesystem)
    schema = pa.schema(table.schema().to_arrow())
    file_format = ParquetFileFormat(default_fragment_scan_options=ParquetFragmentScanOptions(pre_buffer=True))
    by_column = _partition_values(table, schema, files) | _bounds_of(schema, files, bounds)
    fragments = [
        file_format.make_fragment(*_place_of(path, filesystem), partition_expression=_of_file(by_column, index))
        for index, path in enumerate(paths)
        if only is None or index in only
    ]
    return FileSystemDataset(fragments, schema, file_format, filesystem)


def is_elsewhere(name: str) -> bool:
    """Whether a log's name of a file is no path within the table's folder: of a shallow clone, they are those of its source.

    >>> is_elsewhere("day=2024-01-01/part-0.parquet"), is_elsewhere("file:/lake/t/part-0.parquet"), is_elsewhere("a%3Ab")
    (False, True, False)
    """
    return bool(ELSEWHERE.match(name))


def _place_of(name: str, filesystem: fs.FileSystem) -> tuple[str, fs.FileSystem]:
    """Return a file's path, and the file system that has it. ``filesystem``: its root is the table's folder."""
    if not is_elsewhere(name):
        return unquote(name), filesystem
    other, path = open_filesystem(unquote(name).removeprefix("file:") if name.startswith("file:/") else name)
    return path, other


def read_rows(dataset: "Dataset", columns: Sequence[str] | None = None, wanted: "Expression | None" = None) -> pa.Table:
    """Return the rows that ``wanted`` selects; all columns without ``columns``.

    `deltalake` leaves files in which texts have another type of Arrow (views) when it deletes or updates rows of them. Arrow
    cannot compare the bounds of such texts with a text of a filter: then each file is read whole, and filtered after that.
    """
    try:
        return dataset.to_table(columns=None if columns is None else list(columns), filter=wanted)
    except pa.ArrowNotImplementedError:
        if wanted is None:
            raise
    parts = list(_filter_each(dataset, columns, wanted))
    return pa.concat_tables(parts) if parts else dataset.schema.empty_table().select(columns or dataset.schema.names)


def read_first_rows(
    dataset: "Dataset", rows: int, columns: Sequence[str] | None = None, wanted: "Expression | None" = None
) -> pa.Table:
    """Return at most so many of these rows, reading no more of the files than needed."""
    # By small batches, one after another: a table may be far larger than what is asked for.
    reading = {"batch_size": min(rows, 4096), "batch_readahead": 1, "fragment_readahead": 1}
    try:
        return dataset.scanner(columns=None if columns is None else list(columns), filter=wanted, **reading).head(rows)
    except pa.ArrowNotImplementedError:
        if wanted is None:
            raise
    first = dataset.schema.empty_table().select(columns or dataset.schema.names)
    for part in _filter_each(dataset, columns, wanted):
        first = pa.concat_tables([first, part])
        if len(first) >= rows:
            break
    return first.slice(0, rows)


def _filter_each(dataset: "Dataset", columns: Sequence[str] | None, wanted: "Expression") -> Iterator[pa.Table]:
    for fragment in dataset.get_fragments(filter=wanted):
        yield read_file(fragment, dataset.schema, columns or dataset.schema.names, wanted)


def read_file(file: Any, schema: pa.Schema, columns: Sequence[str], wanted: "Expression | None") -> pa.Table:
    """Return the same of one of a dataset's files. ``schema``: the dataset's."""
    try:
        return file.to_table(schema=schema, columns=list(columns), filter=wanted)
    except pa.ArrowNotImplementedError:
        if wanted is None:
            raise
    return file.to_table(schema=schema).filter(wanted).select(columns)


def without_views(rows: pa.Table) -> pa.Table:
    """Return rows whose texts and bytes have Arrow's usual types: many of its functions do not take the other ones."""
    usual: dict[pa.DataType, pa.DataType] = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return rows.cast(pa.schema([field.with_type(usual.get(field.type, field.type)) for field in rows.schema]))


FileExpressions = Mapping[str, list["Expression | None"]]


def _of_file(by_column: FileExpressions, index: int) -> "Expression | None":
    parts = [expressions[index] for expressions in by_column.values() if expressions[index] is not None]
    return reduce(and_, parts) if parts else None


def _partition_values(table: DeltaTable, schema: pa.Schema, files: pa.Table) -> dict[str, list["Expression | None"]]:
    names = table.metadata().partition_columns
    return {name: [*map(_equal(schema.field(name)), files[f"partition.{name}"])] for name in names}


def _equal(field: pa.Field) -> Any:
    from pyarrow.dataset import field as column  # noqa: PLC0415 (as above)

    def equal(value: pa.Scalar) -> "Expression":
        return column(field.name) == value.cast(field.type) if value.is_valid else column(field.name).is_null()

    return equal


def _bounds_of(schema: pa.Schema, files: pa.Table, names: Collection[str]) -> dict[str, list["Expression | None"]]:
    bounded = [name for name in names if name in schema.names and any(test(schema.field(name).type) for test in BOUNDED)]
    present = [name for name in bounded if {f"min.{name}", f"max.{name}", f"null_count.{name}"} <= set(files.column_names)]
    return {f"bounds of {name}": [*_between(schema.field(name), files)] for name in present}


def _between(field: pa.Field, files: pa.Table) -> Iterator["Expression | None"]:
    from pyarrow.dataset import field as column  # noqa: PLC0415 (as above)

    name = field.name
    for least, most, nulls in zip(*(files[f"{kind}.{name}"] for kind in ("min", "max", "null_count")), strict=True):
        if not (least.is_valid and most.is_valid and nulls.is_valid):
            yield None
            continue
        greatest = pa.scalar(most.as_py() + RESOLUTION) if pa.types.is_timestamp(field.type) else most
        within = (column(name) >= least.cast(field.type)) & (column(name) <= greatest.cast(field.type))
        yield within if nulls.as_py() == 0 else within | column(name).is_null()
