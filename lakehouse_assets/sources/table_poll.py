"""A Spark of its own for one poll of a table.

Belongs here: what it is asked, and what it answers. Does not: the process (spark_process), the query (table_scan), when to ask
(table), or which question is next (poll_queue).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from lakehouse_assets.contracts.spark_table import SparkTableSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.spark_process import SparkQuestion, answer_question, ask_process
from lakehouse_assets.sources.table_scan import TableScan

# A process that nobody waits for any more ends by itself.
LIMIT_SECONDS = 1800.0


@dataclass
class SparkPoll:
    """A question that a Spark of its own is answering. ``keys``: of the windows that it is about."""

    keys: frozenset[str]
    question: SparkQuestion

    @property
    def began(self) -> float:
        """When it was asked."""
        return self.question.began

    def is_over(self) -> bool:
        """Whether there is an answer, or will be none."""
        return self.question.is_over()

    def wait(self) -> dict[str, list[str]]:
        """Return the answer once it is there, or raise as `numbers`."""
        return self.question.wait()["numbers"]

    def numbers(self) -> dict[str, list[str]]:
        """Return `TableScan.numbers`, once it is over. Raises SourceError, EnvironmentMissing."""
        return self.question.answer()["numbers"]


def start_poll(
    source: SparkTableSource,
    path: str | None,
    options: Mapping[str, str],
    settings: Settings,
    windows: Sequence[Window],
    personal: bool,
    limit_seconds: float | None,
) -> SparkPoll:
    """Start a process that answers with `TableScan.numbers`. Raises EnvironmentMissing without Java."""
    asks = {
        "source": source.model_dump(mode="json"), "path": path, "options": dict(options), "personal": personal,
        "windows": [[window.start.isoformat(), window.end.isoformat(), window.key] for window in windows],
    }  # fmt: skip
    advice = f"partition or cluster the table by {source.modified}, or use fingerprint: modified"
    question = ask_process("lakehouse_assets.sources.table_poll", asks, settings, source.location, advice, limit_seconds)
    return SparkPoll(frozenset(window.key for window in windows), question)


def answer(spark: SparkSession, question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers for a question of `start_poll`. Raises SourceError, EnvironmentMissing."""
    windows = [
        Window(datetime.fromisoformat(start), datetime.fromisoformat(end), key) for start, end, key in question["windows"]
    ]
    source = SparkTableSource.model_validate(question["source"])
    scan = TableScan(spark, source, question["path"], question["options"], question["personal"])
    return {"numbers": scan.numbers(windows)}


if __name__ == "__main__":
    answer_question(answer)
