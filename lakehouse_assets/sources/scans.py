"""Scans of many files: listed without a job, and found out which file stops one.

Belongs here: what any file format needs of Spark. Does not: formats, windows.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, overload
from urllib.parse import unquote

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.sources.base import SCAN_ERRORS

LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"
SCHEME = "^[A-Za-z0-9+.-]+:/+|^/+"


@contextmanager
def listed_on_driver(spark: SparkSession) -> Iterator[None]:
    """Beyond 32 paths Spark would start a job only to look at them (1.5 s for 364 files, against 0.1 s)."""
    before = spark.conf.get(LISTING, None)
    spark.conf.set(LISTING, str(2**31 - 1))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(LISTING)
        else:
            spark.conf.set(LISTING, before)


@overload
def file_key(file: str) -> str: ...
@overload
def file_key(file: Column) -> Column: ...
def file_key(file: Any) -> Any:
    """Spark's name of a file, decoded and without scheme: of a value or, given a Column, as an expression of it."""
    if isinstance(file, str):
        return re.sub(SCHEME, "", unquote(file))
    decoded = F.url_decode(F.replace(file, F.lit("+"), F.lit("%2B")))  # in a path + is a plus
    return F.regexp_replace(decoded, SCHEME, "")


def unscannable(paths: Sequence[str], rows: Callable[[Sequence[str]], DataFrame], names: Mapping[str, str]) -> dict[str, str]:
    """The paths whose scan fails, and why: scan all, take out the file that Spark's error names, halve the rest, again.

    ``names``: paths by `file_key`. Raises what the scan raised where it names none of these files: no guess at a culprit.
    """
    found: dict[str, str] = {}
    waiting = [list(paths)]
    while waiting:
        part = waiting.pop()
        if not part:
            continue
        try:
            rows(part).write.format("noop").mode("overwrite").save()
        except SCAN_ERRORS as error:
            path, reason = _blamed(error, names)
            if path not in part:
                raise
            found[path] = reason
            rest = [other for other in part if other != path]
            waiting += [rest[: len(rest) // 2], rest[len(rest) // 2 :]]
    return found


def _blamed(error: Exception, names: Mapping[str, str]) -> tuple[str | None, str]:
    """The file that a failed scan names, and the first line of what was wrong with it."""
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    path, reason = None, ""
    while cause is not None:
        names_itself = is_instance_of(SparkContext._gateway, cause, "org.apache.spark.SparkThrowable")
        if path is None and names_itself and str(cause.getCondition()).startswith(("FAILED_READ_FILE", "PATH_NOT_FOUND")):
            named = str(cause.getMessageParameters().get("path"))
            path = names.get(re.sub(SCHEME, "", named)) or names.get(file_key(named))
        message = str(cause.getMessage() or cause.getClass().getSimpleName())
        reason = message.splitlines()[0][:300]
        cause = cause.getCause()
    return path, reason
