"""A Spark of its own for one question: it starts, answers and ends, so that a process that polls keeps no Java.

Belongs here: the other process, its questions and answers. Does not: any question (table_poll, guards/catalog_poll), or which
one is next (poll_queue).
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from pyspark.sql import SparkSession

from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.java import require_java
from lakehouse_assets.storage.session import build_session

ANSWER = "lakehouse answers "
# More than the limit, so that the one who asked can say why.
SPARE_SECONDS = 60.0
_OF_SETTINGS = {"root", "landing", "dagster_home", "spark_conf", "spark_master"}


@dataclass
class SparkQuestion:
    """A question that a Spark of its own is answering. ``label``: what errors begin with. ``advice``: what to do if it takes
    too long. ``limit_seconds``: None: whoever asks waits.
    """

    label: str
    advice: str
    process: subprocess.Popen[str]
    output: IO[str]
    limit_seconds: float | None
    clock: Callable[[], float] = time.monotonic
    began: float = field(default_factory=time.monotonic)

    def is_over(self) -> bool:
        """Whether there is an answer, or will be none. A process that took too long is ended."""
        if self.process.poll() is not None:
            return True
        if self.limit_seconds is None or self.clock() - self.began < self.limit_seconds:
            return False
        self.process.kill()
        self.process.wait()
        return True

    def wait(self) -> dict[str, Any]:
        """Return the answer once it is there, or raise as `answer`."""
        try:
            self.process.wait(self.limit_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Return the answer, once it is over. Raises SourceError, EnvironmentMissing."""
        self.output.seek(0)
        answers = [line.removeprefix(ANSWER) for line in self.output.read().splitlines() if line.startswith(ANSWER)]
        self.output.close()
        if not answers and self.process.returncode < 0 and self.limit_seconds is not None:
            raise SourceError(
                f"{self.label}: Spark took longer than {self.limit_seconds:g} s to start and to answer the poll; {self.advice}"
            )
        if not answers:
            raise SourceError(f"{self.label}: Spark ended with code {self.process.returncode} before it answered")
        answer: dict[str, Any] = json.loads(answers[-1])
        if "environment" in answer:
            raise EnvironmentMissing(answer["environment"])
        if "error" in answer:
            raise SourceError(answer["error"])
        return answer


def ask_process(
    module: str, question: Mapping[str, Any], settings: Settings, label: str, advice: str, limit_seconds: float | None
) -> SparkQuestion:
    """Start a process of a module whose main function calls `answer_question`. It reads everything from its standard input.
    Raises EnvironmentMissing without Java.
    """
    require_java()
    own = {"settings": settings.model_dump(mode="json", include=_OF_SETTINGS), "limit_seconds": limit_seconds}
    output = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (it is read when the process has ended)
    # Files, and no pipes: nobody reads or writes while the process starts.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as question_file:
        json.dump({**question, **own}, question_file)
        question_file.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-m", module], stdin=question_file, stdout=output, stderr=subprocess.DEVNULL, text=True
        )
    return SparkQuestion(label, advice, process, output, limit_seconds)


def answer_question(answer: Callable[[SparkSession, Mapping[str, Any]], dict[str, Any]]) -> None:
    """Answer the question of the standard input on the standard output."""
    question = json.load(sys.stdin)
    if (limit := question["limit_seconds"]) is not None:
        # Whoever asked may be gone. Its Java ends with this process.
        watch = threading.Timer(limit + SPARE_SECONDS, os._exit, (1,))
        watch.daemon = True
        watch.start()
    sys.stdout.write(f"\n{ANSWER}{json.dumps(_answer(answer, question))}\n")


def _answer(answer: Callable[[SparkSession, Mapping[str, Any]], dict[str, Any]], question: Mapping[str, Any]) -> dict[str, Any]:
    master = question["settings"]["spark_master"]
    settings = Settings.model_validate(
        question["settings"] | {"spark_master": "local[1]" if master.startswith("local") else master}
    )
    try:
        return answer(build_session(settings, "lakehouse poll"), question)
    except EnvironmentMissing as error:
        return {"environment": str(error)}
    except SourceError as error:
        return {"error": str(error)}
