"""The protocol of a source: fingerprints of its windows, a lazy read, and a probe for what stopped a read.

Belongs here: the protocol, the extraction, column names, and conversions that several kinds share. Does not: any one kind.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.spark_types import Array, Map, SparkType, Struct, common_type, sql_type, type_of_json
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import java_causes

# What an action on an extraction's frame may raise. A failed scan is a Py4JJavaError in PySpark 4.1, and no PySparkException.
SCAN_ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JJavaError)
MOMENT = pa.timestamp("us", "UTC")
# The columns of an extraction before those of the source.
OWN: dict[str, pa.DataType] = {
    "p_extracted_at": MOMENT,
    "_source_file": pa.string(),
    "_columns": pa.list_(pa.string()),
    "_corrupt_record": pa.string(),
}
MAX_COLUMNS = 5_000
FETCH_JARS = "python -m lakehouse_assets.storage.session"


class AnswerPending(Exception):
    """A poll has no answer yet. The message says what it waits for."""


@dataclass(frozen=True)
class Extraction:
    """``frame``: ``p_extracted_at``, ``_source_file``, ``_columns``, ``_corrupt_record``, then the source's columns as strings.

    A good record has ``_corrupt_record`` NULL. A bad one has its text there, and NULL in all other columns. ``_columns`` and
    ``columns`` hold safe names. The single row of an unreadable file has an empty ``_columns``.

    By window: ``problems``: unreadable parts. ``columns``: in order. ``lacking``: columns that some readable file lacks.
    ``types``: Spark types, if the source has types. ``respelled``: columns in another letter case than in bronze, with the
    source's spelling. ``control``: control totals, if the table asks for them.

    ``held_frames``: frames in Spark's cache that ``frame`` is read from, until `release`.
    """

    frame: DataFrame
    problems: Mapping[Window, list[str]]
    columns: Mapping[Window, tuple[str, ...]]
    lacking: Mapping[Window, tuple[str, ...]] = field(default_factory=dict)
    types: Mapping[Window, Mapping[str, str]] = field(default_factory=dict)
    respelled: Mapping[Window, Mapping[str, str]] = field(default_factory=dict)
    control: Mapping[Window, ControlTotals] = field(default_factory=dict)
    held_frames: tuple[DataFrame, ...] = ()

    def release(self) -> None:
        """Give back what is held: the rows are stored."""
        for frame in self.held_frames:
            frame.unpersist()


class Source(Protocol):
    """One table's source. Its methods raise SourceError if it cannot be reached; only `read` and `probe` need Spark."""

    def fingerprints(self, windows: Iterable[Window]) -> dict[Window, str]:
        """Return a fingerprint for each of these windows that has arrived. It changes when the window's data does."""
        ...

    def columns(self, window: Window) -> tuple[str, ...]:
        """Return the window's columns as the source spells them; empty if only a scan shows them."""
        ...

    def positions(self, windows: Sequence[Window]) -> dict[Window, str]:
        """Return the unrecorded offsets that the source cannot repeat, as text by window. Record them before these windows are
        read, and open the source with them. Other windows may be among them.
        """
        ...

    def read(self, spark: SparkSession, windows: Sequence[Window], unreadable: Mapping[str, str] | None = None) -> Extraction:
        """Read exactly these windows. ``unreadable``: unreadable parts (by name) with the reason. Bad data raises nothing here:
        a scan that cannot go on fails the caller's action with one of SCAN_ERRORS. Then call `probe`, and read again with its
        result.
        """
        ...

    def probe(self, spark: SparkSession, windows: Sequence[Window]) -> dict[str, str]:
        """Return the parts of these windows that stop a scan, each with its reason. Reads everything."""
        ...


@runtime_checkable
class ReadsInOnePass(Protocol):
    """A source that can read a window without looking for its columns first, where its first rows have all of them."""

    def read_in_one_pass(self, spark: SparkSession, window: Window, last_columns: Collection[str]) -> Extraction | None:
        """Return the window as `Source.read`, if its first rows have these columns, else None. ``last_columns``: those of the
        window before; without one, empty: any columns. The scan fails with one of SCAN_ERRORS at a row that has others. Write
        ``_columns``: computing it is what looks at each row's.
        """
        ...


def type_text(kind: DataType) -> str:
    """Return a type of Spark as SQL text, with quotes around odd names of fields: `simpleString` has none."""
    return sql_type(_type_tree(kind))


def _type_tree(kind: DataType) -> SparkType:
    match kind:
        case StructType():
            return Struct(tuple((field.name, _type_tree(field.dataType)) for field in kind.fields))
        case ArrayType():
            return Array(_type_tree(kind.elementType))
        case MapType():
            return Map(_type_tree(kind.keyType), _type_tree(kind.valueType))
    # Of a text the JSON has the collation only if it is not within a struct.
    return type_of_json(kind.jsonValue())


def small_frame(spark: SparkSession, types: Mapping[str, pa.DataType], rows: Sequence[Sequence[Any]]) -> DataFrame:
    """Return a frame of these rows without a job or a Python worker. ``types``: of the columns, in order."""
    arrays = [pa.array([row[index] for row in rows], kind) for index, kind in enumerate(types.values())]
    return spark.createDataFrame(pa.table(dict(zip(types, arrays, strict=True))))


def hash_parts(*parts: object) -> str:
    """Return 32 hex digits over the parts' texts."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]


def innermost_message(error: Exception) -> str:
    """Return the message of a Java error's innermost cause, or the text of any other error. It may name addresses."""
    causes = list(java_causes(error))
    return str(causes[-1].getMessage() or causes[-1].getClass().getSimpleName()) if causes else str(error)


def first_line(error: Exception) -> str:
    """Return the first line of a failed scan's innermost message, at most 300 characters; without any, the error's class."""
    return (innermost_message(error).strip().splitlines() or [type(error).__name__])[0][:300]


def probe_whole(read: Callable[[], Extraction], as_source_error: Callable[[Exception], Exception]) -> dict[str, str]:
    """Read all of a source without parts, and return no part. Raises what ``as_source_error`` makes of a scan's error."""
    try:
        read().frame.write.format("noop").mode("overwrite").save()
    except SCAN_ERRORS as error:
        raise as_source_error(error) from None
    return {}


def one_line_base64(value: Column) -> Column:
    """Return binary as base64 text. Spark's own breaks it into lines of 76 characters."""
    return F.replace(F.base64(value), F.lit("\r\n"), F.lit(""))


def find_name_problem(names: Sequence[str]) -> str | None:
    """Return why a file with these columns cannot be bound by name; ``None`` if it can."""
    if len(names) > MAX_COLUMNS:
        return f"it has more than {MAX_COLUMNS:,} columns"
    spellings: dict[str, str] = {}
    for number, name in enumerate(names, 1):
        if not name:
            return f"column {number} has no name"
        if "\0" in name:
            return f"the name of column {number} has a NUL character: is the file UTF-16, or binary?"
        if "\ufffd" in name:
            return f"the name of column {number} cannot be decoded: the file has another encoding"
        twin = spellings.setdefault(name.lower(), name)
        if number > len(spellings):
            return f"two columns are called {name!r}" if twin == name else f"columns {twin!r} and {name!r} differ only in case"
    return None


def common_types(schemas: Sequence[Mapping[str, str]], bound: Mapping[str, str]) -> dict[str, str]:
    """Return each column's type, by its bronze name; for a column with several types, their common type."""
    kinds: dict[str, dict[str, None]] = {}
    for types in schemas:
        for name, kind in types.items():
            kinds.setdefault(bound[name], {})[kind] = None
    return {name: common_type(list(several)) for name, several in kinds.items()}


class ColumnNames:
    """Bronze's names of source columns. Spark ignores letter case: the declared spelling wins, then the first seen."""

    def __init__(self, declared: Iterable[str]) -> None:
        self._by_lower_case: dict[str, str] = {}
        for name in declared:
            self.bind(name)

    def bind(self, name: str) -> str:
        """Return the bronze name of a source's column, and keep it for other spellings."""
        return self._by_lower_case.setdefault(name.lower(), safe_name(name))

    def respelled_columns(self, names: Iterable[str]) -> dict[str, str]:
        """Return the bronze names among these that the source spells otherwise, each with the source's spelling."""
        return {bound: name for name in names if (bound := self.bind(name)) != safe_name(name)}
