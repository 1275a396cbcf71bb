"""Polls of a guarded Iceberg table whose newest version only a catalog knows. One poll asks a Spark of its own, and a later
one has the answer.

Belongs here: when to ask, and how long an answer counts. Does not: the question itself (catalog), or reading the file.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.guards.catalog import located_at, with_table_path
from lakehouse_assets.guards.observed_table import GuardState
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import hash_parts
from lakehouse_assets.sources.poll_queue import QUEUE
from lakehouse_assets.sources.spark_process import SparkQuestion, answer_question, ask_process

# To start, and to ask a catalog for one name. While one catalog does not answer, questions of other tables wait.
LIMIT_SECONDS = 300.0
Answer = str | SourceError | EnvironmentMissing
# By guard and lake: when the catalog was asked, and what it answered. An error counts as long.
_ANSWERS: dict[str, tuple[datetime, Answer]] = {}


def located_for_poll(spec: GuardSpec, settings: Settings, state: GuardState, now: datetime) -> GuardSpec:
    """Return the guard with the newest metadata file of its table, as the catalog named it at most `poll_minutes` ago, and
    after the last run.

    In a process with a session, that session asks now. Elsewhere this returns at once: raises AnswerPending while there is no
    answer. Raises SourceError as `with_table_path`, and EnvironmentMissing without Java.
    """
    if SparkContext._active_spark_context is not None:
        return with_table_path(spec, SparkSession.builder.getOrCreate())
    key = _key(spec, settings)
    asked_at, answer = _ANSWERS.get(key, (datetime.fromtimestamp(0, UTC), ""))
    last = max((record.extracted_at for record in state.records.values()), default=asked_at)
    if now - asked_at > timedelta(minutes=spec.poll_minutes) or last > asked_at:
        asked_at, answer = _ask(key, spec, settings, now)
        _ANSWERS[key] = asked_at, answer
    if isinstance(answer, Exception):
        raise type(answer)(str(answer))
    return located_at(spec, answer)


def forget_answer(spec: GuardSpec, settings: Settings) -> None:
    """Let the next poll ask the catalog: what it named cannot be read."""
    _ANSWERS.pop(_key(spec, settings), None)


def _key(spec: GuardSpec, settings: Settings) -> str:
    return hash_parts(settings.root, spec.name, spec.table or "")


def _ask(key: str, spec: GuardSpec, settings: Settings, now: datetime) -> tuple[datetime, Answer]:
    def ask() -> SparkQuestion:
        label, advice = f"{spec.name}: table: {spec.table}", "does the catalog's address answer?"
        return ask_process(
            "lakehouse_assets.guards.catalog_poll", {"guard": _question_of(spec)}, settings, label, advice, LIMIT_SECONDS
        )

    try:
        question = QUEUE.next_answer(f"guard {key}", ask)
        # When it was asked, by the caller's clock: the table may have moved on since.
        return now - timedelta(seconds=question.clock() - question.began), question.answer()["metadata_file"]
    except (SourceError, EnvironmentMissing) as error:
        return now, error


def _question_of(spec: GuardSpec) -> dict[str, Any]:
    return {"name": spec.name, "table": spec.table, "format": spec.format}


def answer(spark: SparkSession, question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata file for a question of `located_for_poll`. Raises SourceError."""
    return {"metadata_file": with_table_path(GuardSpec.model_validate(question["guard"]), spark).path}


if __name__ == "__main__":
    answer_question(answer)
