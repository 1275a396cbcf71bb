"""Scans of many files: list them without a job, find the file that stops a scan, and distinguish bad data from a bad
environment.

Belongs here: scans of any format, and the causes of their errors. Does not: formats, windows (measures/batches).

Bad data becomes a corrupt row. A fault of the machine, the network, the storage or Spark must fail the run: it would mark good
files as unreadable.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.errors import java_causes
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage.session_properties import set_session_property

LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"
# Of every format: a file's name is no pattern (`a[1].csv`), and a folder's (`day=1/`) is no column.
SCAN_OPTIONS = {
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
}
SCHEME = "^[A-Za-z0-9+.-]+:/+|^/+"
# By the class of any of an error's causes: memory, network, object stores, an interrupted or dead Spark.
CLASSES = re.compile(
    r"OutOfMemory|java\.net\.(?!URI|Malformed)|javax\.net\.ssl\.|UnknownHost|ConnectException|Timeout"
    r"|Interrupted|RejectedExecution|TaskKilled"
    r"|awssdk|\.s3a\.AWS|Throttl|\.azure\.|com\.google\.cloud|FetchFailed|BlockMissing|SafeMode|RemoteException"
)
# By the innermost message: the operating system's (which reach Java as plain IOExceptions), and Spark's about its own end.
MESSAGES = re.compile(
    r"No space left on device|Disk quota exceeded|Read-only file system|Too many open files|Input/output error"
    r"|Stale file handle|Transport endpoint|Connection (refused|reset|timed out)|Cannot allocate memory|Java heap space"
    r"|SparkContext (was|is|has been) (shut|stopped)|stopped SparkContext|ExecutorLostFailure|executor \d+ (exited|lost)",
    re.IGNORECASE,
)


@contextmanager
def list_files_on_driver(spark: SparkSession) -> Iterator[None]:
    """Beyond 32 paths Spark starts a job to list them (1.5 s for 364 files, against 0.1 s): list on the driver instead."""
    with set_session_property(spark, LISTING, str(2**31 - 1)):
        yield


def file_key(file: str) -> str:
    """Return Spark's name of a file, decoded and without scheme."""
    return re.sub(SCHEME, "", unquote(file))


def file_key_column(file: Column) -> Column:
    """Return `file_key` as an expression, without a regular expression, which takes half as long as to read a row."""
    decoded = F.url_decode(F.replace(file, F.lit("+"), F.lit("%2B")))  # in a path + is a plus
    name = F.when(F.contains(file, F.lit("%")), decoded).otherwise(file)
    after_scheme = F.when(F.startswith(file, F.lit("/")), name).otherwise(F.substr(name, F.locate(":/", name) + 1))
    return F.ltrim(after_scheme, F.lit("/"))


def find_unscannable_files(
    paths: Sequence[str],
    rows: Callable[[Sequence[str]], DataFrame],
    names: Mapping[str, str],
    intact: Callable[[str], bool] = lambda _: True,
) -> dict[str, str]:
    """Return the paths whose scan fails, at planning or at run time, with the reason.

    Scans all files, removes the one that Spark's error names, halves the rest and repeats. If an error names none, halves until
    the failing file is alone.

    ``names``: paths by `file_key`. ``intact``: whether the storage returns the file's bytes and Spark works. Raises the scan's
    error if no file is at fault (`is_environmental`), or if a file that is not named fails only once.
    """
    reasons: dict[str, str] = {}
    groups = [list(paths)]
    while groups:
        group = groups.pop()
        error = _failure(rows, group)
        if error is None:
            continue
        if is_environmental(error):
            raise error
        path, reason = _blamed(error, names)
        if path not in group:
            if len(group) > 1:
                groups += [group[: len(group) // 2], group[len(group) // 2 :]]
                continue
            path = group[0]
            retry = _failure(rows, group)
            if retry is None or is_environmental(retry) or not intact(path):
                raise error
            reason = innermost_reason(retry)
        reasons[path] = reason
        rest = [other for other in group if other != path]
        groups += [rest[: len(rest) // 2], rest[len(rest) // 2 :]]
    return reasons


def _failure(rows: Callable[[Sequence[str]], DataFrame], paths: Sequence[str]) -> Exception | None:
    if not paths:
        return None
    try:
        rows(paths).write.format("noop").mode("overwrite").save()
    except SCAN_ERRORS as error:
        return error
    return None


def _blamed(error: Exception, names: Mapping[str, str]) -> tuple[str | None, str]:
    path, reason = None, ""
    for cause in java_causes(error):
        is_spark_error = is_instance_of(SparkContext._gateway, cause, "org.apache.spark.SparkThrowable")
        if path is None and is_spark_error and str(cause.getCondition()).startswith(("FAILED_READ_FILE", "PATH_NOT_FOUND")):
            raw_path = str(cause.getMessageParameters().get("path"))
            path = names.get(re.sub(SCHEME, "", raw_path)) or names.get(file_key(raw_path))
        reason = cause_message(cause)
    return path, reason


def cause_message(cause: Any) -> str:
    """Return one cause's message as a line of at most 300 characters."""
    kind, text = str(cause.getClass().getSimpleName()), str(cause.getMessage() or "").strip()
    if not text:
        return kind
    line = text.splitlines()[0][:300]
    return line if " " in line else f"{kind}: {line}"


def innermost_reason(error: Exception) -> str:
    """Return the innermost cause's message as one line."""
    innermost = list(java_causes(error))[-1:]
    return cause_message(innermost[0]) if innermost else (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def is_environmental(error: Exception) -> bool:
    """Whether the causes of a failed scan point at the environment rather than at the data."""
    messages = [(str(cause.getClass().getName()), str(cause.getMessage() or "")) for cause in java_causes(error)]
    if not messages:
        return bool(MESSAGES.search(str(error)))
    # Spark's own messages quote causes and file names: only the innermost message is reliable.
    return any(CLASSES.search(name) for name, _ in messages) or bool(MESSAGES.search(messages[-1][1]))


def spark_works(spark: SparkSession) -> bool:
    """Whether Spark still runs a query that reads nothing."""
    try:
        spark.range(2).write.format("noop").mode("overwrite").save()
    except SCAN_ERRORS:
        return False
    return True
