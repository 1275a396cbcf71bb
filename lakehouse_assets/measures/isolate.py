"""Which batches an expression fails in, and which expressions fail: one bad value is no other batch's or check's trouble.

Belongs here: halving until the culprits stand alone, and the line of an error that a person needs. Does not: what is tried.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from pyspark.sql import DataFrame

from lakehouse_assets.sources.base import SCAN_ERRORS

Batch = tuple[datetime, int]


def culprits(batches: Sequence[Batch], attempt: Callable[[Sequence[Batch]], object]) -> dict[Batch, str]:
    """The batches by themselves for which ``attempt`` fails, each with its error, by halving: good ones cost little."""
    if not batches:
        return {}
    try:
        attempt(batches)
    except SCAN_ERRORS as error:
        if len(batches) == 1:
            return {batches[0]: plain(error)}
        half = len(batches) // 2
        return culprits(batches[:half], attempt) | culprits(batches[half:], attempt)
    return {}


def errors_of(attempts: Mapping[str, Callable[[], object]]) -> dict[str, str]:
    """The attempts that fail, by name, each with its error."""
    found = {}
    for name, attempt in attempts.items():
        try:
            attempt()
        except SCAN_ERRORS as error:
            found[name] = plain(error)
    return found


def evaluate(frame: DataFrame) -> None:
    """Compute every row, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def plain(error: Exception) -> str:
    """The line of a Spark error that says what went wrong, without the stack of the JVM."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in lines if re.search(r"\[[A-Z_.]{6,}\]", line)), lines[0] if lines else type(error).__name__)
    return re.sub(r"^.*?(?=\[[A-Z_.]{6,}\])", "", told)[:300]
