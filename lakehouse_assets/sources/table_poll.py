"""A Spark of its own for one poll of a table: it starts, answers and ends, so that a process that polls keeps no Java.

Belongs here: the other process, what it is told and what it answers. Does not: the query (table_scan), or when to ask (table).
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lakehouse_assets.contracts.spark_table import SparkTableSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.table_scan import TableScan
from lakehouse_assets.storage.session import build_session, require_java

ANSWER = "lakehouse answers "


def poll_by_own_spark(
    source: SparkTableSource,
    path: str | None,
    options: Mapping[str, str],
    settings: Settings,
    windows: Sequence[Window],
    personal: bool,
    timeout_seconds: int | None,
) -> dict[str, list[str]]:
    """Return `TableScan.numbers` by a process of its own, which is told everything by its standard input. Raises SourceError,
    EnvironmentMissing.
    """
    require_java()
    question = {
        "source": source.model_dump(mode="json"), "path": path, "options": dict(options), "personal": personal,
        "windows": [[window.start.isoformat(), window.end.isoformat(), window.key] for window in windows],
        "settings": settings.model_dump(mode="json", include={"root", "landing", "dagster_home", "spark_conf", "spark_master"}),
    }  # fmt: skip
    try:
        process = subprocess.run(
            [sys.executable, "-m", __name__], input=json.dumps(question), capture_output=True, text=True, check=False,
            timeout=timeout_seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SourceError(
            f"{source.location}: Spark took longer than {timeout_seconds} s to start and to answer the poll; partition or"
            f" cluster the table by {source.modified}, or use fingerprint: modified"
        ) from None
    answers = [line.removeprefix(ANSWER) for line in process.stdout.splitlines() if line.startswith(ANSWER)]
    if not answers:
        raise SourceError(f"{source.location}: Spark ended with code {process.returncode} before it answered the poll")
    answer: dict[str, Any] = json.loads(answers[-1])
    if "environment" in answer:
        raise EnvironmentMissing(answer["environment"])
    if "error" in answer:
        raise SourceError(answer["error"])
    return answer["numbers"]


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers, or the error, for a question of `poll_by_own_spark`."""
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


if __name__ == "__main__":
    sys.stdout.write(f"\n{ANSWER}{json.dumps(answer(json.load(sys.stdin)))}\n")
