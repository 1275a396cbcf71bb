"""A Spark of its own for one poll of a table: it starts, answers and ends, so that a process that polls keeps no Java.

Belongs here: the other process, what it is told and what it answers. Does not: the query (table_scan), when to ask (table), or
which question is next (poll_queue).
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, Any

from lakehouse_assets.contracts.spark_table import SparkTableSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.table_scan import TableScan
from lakehouse_assets.storage.session import build_session, require_java

ANSWER = "lakehouse answers "
# A process that nobody waits for any more ends by itself.
LIMIT_SECONDS = 1800.0
# More than that, so that the one who asked can say why.
SPARE_SECONDS = 60.0


@dataclass
class SparkPoll:
    """A question that a Spark of its own is answering. ``keys``: of the windows that it is about."""

    source: SparkTableSource
    keys: frozenset[str]
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

    def wait(self) -> dict[str, list[str]]:
        """Return the answer once it is there, or raise as `numbers`."""
        try:
            self.process.wait(self.limit_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return self.numbers()

    def numbers(self) -> dict[str, list[str]]:
        """Return `TableScan.numbers`, once it is over. Raises SourceError, EnvironmentMissing."""
        self.output.seek(0)
        answers = [line.removeprefix(ANSWER) for line in self.output.read().splitlines() if line.startswith(ANSWER)]
        self.output.close()
        if not answers and self.process.returncode < 0 and self.limit_seconds is not None:
            raise SourceError(
                f"{self.source.location}: Spark took longer than {self.limit_seconds:g} s to start and to answer the poll;"
                f" partition or cluster the table by {self.source.modified}, or use fingerprint: modified"
            )
        if not answers:
            raise SourceError(f"{self.source.location}: Spark ended with code {self.process.returncode} before it answered")
        answer: dict[str, Any] = json.loads(answers[-1])
        if "environment" in answer:
            raise EnvironmentMissing(answer["environment"])
        if "error" in answer:
            raise SourceError(answer["error"])
        return answer["numbers"]


def start_poll(
    source: SparkTableSource,
    path: str | None,
    options: Mapping[str, str],
    settings: Settings,
    windows: Sequence[Window],
    personal: bool,
    limit_seconds: float | None,
) -> SparkPoll:
    """Start a process that answers with `TableScan.numbers`, and is told everything by its standard input. Raises
    EnvironmentMissing without Java.
    """
    require_java()
    question = {
        "source": source.model_dump(mode="json"), "path": path, "options": dict(options), "personal": personal,
        "windows": [[window.start.isoformat(), window.end.isoformat(), window.key] for window in windows],
        "settings": settings.model_dump(mode="json", include={"root", "landing", "dagster_home", "spark_conf", "spark_master"}),
        "limit_seconds": limit_seconds,
    }  # fmt: skip
    output = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (it is read when the process has ended)
    # Files, and no pipes: nobody reads or writes while the process starts.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as question_file:
        json.dump(question, question_file)
        question_file.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=question_file, stdout=output, stderr=subprocess.DEVNULL, text=True
        )
    return SparkPoll(source, frozenset(window.key for window in windows), process, output, limit_seconds)


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers, or the error, for a question of `start_poll`."""
    master = question["settings"]["spark_master"]
    settings = Settings.model_validate(
        question["settings"] | {"spark_master": "local[1]" if master.startswith("local") else master}
    )
    source = SparkTableSource.model_validate(question["source"])
    windows = [
        Window(datetime.fromisoformat(start), datetime.fromisoformat(end), key) for start, end, key in question["windows"]
    ]
    try:
        spark = build_session(settings, "lakehouse poll")
        scan = TableScan(spark, source, question["path"], question["options"], question["personal"])
        return {"numbers": scan.numbers(windows)}
    except EnvironmentMissing as error:
        return {"environment": str(error)}
    except SourceError as error:
        return {"error": str(error)}


def main() -> None:
    """Answer the question of the standard input on the standard output."""
    question = json.load(sys.stdin)
    if (limit := question["limit_seconds"]) is not None:
        # Whoever asked may be gone. Its Java ends with this process.
        watch = threading.Timer(limit + SPARE_SECONDS, os._exit, (1,))
        watch.daemon = True
        watch.start()
    sys.stdout.write(f"\n{ANSWER}{json.dumps(answer(question))}\n")


if __name__ == "__main__":
    main()
