"""`python -m benchmarks.pages`: what the quality pages cost. Processor seconds of a process each, imports included; no JVM.

Belongs here: logs of many made-up decisions, and three makings of the pages. Does not: pages of a real lake.
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from lakehouse_assets.contracts.decision import Counts, Decision, ExtractionRecord, Reason
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

START = datetime(2023, 1, 1, tzinfo=UTC)
CHECKS, FEATURES, BATCH = 23, 9, 2_000
COLUMNS = ("id", *(f"value_{index}" for index in range(FEATURES)))
MAKE = """
import sys
from pathlib import Path
from lakehouse_assets.storage.arrow_alone import load_arrow_alone
load_arrow_alone()
from lakehouse_assets.pages.site import make_site
from lakehouse_assets.settings import Settings
folder = Path(sys.argv[1])
print(make_site(Settings(root=f"{folder}/lake", landing=f"{folder}/landing", dagster_home=folder)).written)
"""


def settings_of(folder: Path) -> Settings:
    """Return the settings of a lake in a folder; `MAKE` has the same."""
    return Settings(root=f"{folder}/lake", landing=f"{folder}/landing", dagster_home=folder)


def rules(table: str) -> str:
    """Return the rules of a daily table, as a decision keeps them."""
    checks = [
        {"check": "in_range", "name": f"check_{n}", "column": COLUMNS[1 + n % FEATURES], "min": 0, "max": 9}
        for n in range(CHECKS)
    ]
    return json.dumps(
        {
            "name": table,
            "source": {"kind": "files", "path": f"{table}/{{window:%Y-%m-%d}}.csv", "format": "csv"},
            "extraction": {"cadence": "daily", "start": f"{START:%Y-%m-%d}", "mode": "upsert"},
            "key": ["id"],
            "last_modified": "id",
            "columns": {name: {"type": "string" if name == "id" else "double"} for name in COLUMNS},
            "checks": checks,
            "drift": {"features": [{"name": name} for name in COLUMNS[1:]], "hold_at": 0.01, "warn_at": 0.05},
        }
    )


def drift(rng: random.Random, message: str) -> dict[str, Any]:
    """Return a drift verdict over all features, with figures of this window's own."""
    results = [feature(rng, name) for name in COLUMNS[1:]]
    return {
        "status": "calibrated", "action": "hold" if message else "pass", "message": message, "p_value": rng.random(),
        "score": rng.random(), "windows_known": 99, "learns": not message, "windows_until_warn": 0, "windows_until_hold": 0,
        "results": results, "worst": results[0],
    }  # fmt: skip


def feature(rng: random.Random, name: str) -> dict[str, Any]:
    """Return one feature's result, with figures of this window's own."""
    distances = {"ks": rng.random(), "tail": rng.random()}
    return {
        "feature": name, "stratum": None, "rows": 24, **distances, "statistics": distances, "effects": distances,
        "score": rng.random(), "statistic": "tail", "p_value": rng.random(), "windows": 99, "naive_p_value": rng.random(),
        "corrected": 1.0, "silent": False, "quantiles": sorted(rng.gauss(0, 1) for _ in range(5)),
        "baseline_quantiles": sorted(rng.gauss(0, 1) for _ in range(5)), "median_shift": rng.random(),
        "missing": rng.random() / 50, "baseline_missing": 0.01, "unit": "kPa", "changed": [], "new": [], "vanished": [],
        "correlations": [], "effect": rng.random(),
    }  # fmt: skip


def decision(table: str, number: int) -> Decision:
    """Return the decision of a table's window of this number: one of twenty is quarantined."""
    rng = random.Random(f"{table} {number}")  # noqa: S311 (made-up figures)
    is_bad = rng.random() < 0.05
    rows, failed = rng.randint(1_000, 2_000), rng.randint(1, 50) if is_bad else 0
    outcomes = [
        {
            "check": f"check_{n}", "kind": "in_range", "severity": "critical", "waived": False,
            "status": "failed" if is_bad and not n else "passed", "effect": "batch" if is_bad and not n else "none",
            "failed_rows": 0 if n else failed, "message": f"{failed} of {rows} rows fail" if is_bad and not n else "",
            "observed": {"rows": rows, "failing": 0 if n else failed, "share_passed": 1 - failed / rows},
        }
        for n in range(CHECKS)
    ]  # fmt: skip
    reasons = (Reason("check_0", "critical", "failed", "batch", failed, f"{failed} of {rows} rows fail"),) if is_bad else ()
    window = START + timedelta(days=number - 1)
    return Decision(
        table=table, p_extracted_at=window, extraction_seq=1, number=number, kind="judged",
        verdict="quarantined" if is_bad else "published", reasons=reasons, ruleset_hash="0123456789abcdef",
        counts=Counts(rows, 0, 0, rows, 0) if is_bad else Counts(rows, rows), ruleset=rules(table), bronze_version=number,
        baseline_version=None, run_id=f"run-{number}", decided_at=window + timedelta(days=1), checks=tuple(outcomes),
        drift=drift(rng, "value_0 is higher" if is_bad else ""), drift_p_value=0.5,
    )  # fmt: skip


def log_windows(settings: Settings, table: str, first: int, last: int) -> None:
    """Log the extractions and decisions of a table's windows, first to last, as runs of many windows do."""
    for start in range(first, last + 1, BATCH):
        decisions = [decision(table, number) for number in range(start, min(start + BATCH, last + 1))]
        logs.record_extractions(settings, [extraction(each) for each in decisions])
        logs.log_decisions(settings, decisions)
        logs.mark_applied(settings, decisions, decisions[-1].number + 1, decisions[-1].decided_at)


def extraction(decided: Decision) -> ExtractionRecord:
    """Return the extraction that was decided."""
    return ExtractionRecord(
        decided.table, decided.decided_at - timedelta(days=1), extraction_seq=1, fingerprint="f", rows=decided.counts.rows_in,
        columns=COLUMNS, bronze_version=decided.number, run_id=decided.run_id, extracted_at=decided.decided_at,
    )  # fmt: skip


def make_pages(settings: Settings) -> tuple[int, float, float]:
    """Make the pages in a process of its own; return files written, processor seconds and seconds."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    arguments = [sys.executable, "-c", MAKE, str(settings.dagster_home)]
    compiled = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # as users have it: modules are compiled once
    written = int(subprocess.run(arguments, check=True, capture_output=True, text=True, env=compiled).stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return written, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - started


def main(
    tables: Annotated[int, typer.Option(help="Tables.")] = 50,
    windows: Annotated[int, typer.Option(help="Windows of each.")] = 400,
    work: Annotated[Path | None, typer.Option(help="Where the scratch folder is made.")] = None,
) -> None:
    """Pages of many tables, then again with one new window, then of no change."""
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-", dir=work) as folder:
        settings = settings_of(Path(folder))
        names = [f"table_{index:02}" for index in range(tables)]
        for name in names:
            log_windows(settings, name, 1, windows)
        print(f"{tables} tables of {windows} windows, {CHECKS} checks, {FEATURES} features")  # noqa: T201
        for what in ("all", "one new window", "nothing new"):
            if what == "one new window":
                log_windows(settings, names[0], windows + 1, windows + 1)
            print("{:16} {:6} files, {:5.1f} s of processor, {:5.1f} s".format(what, *make_pages(settings)))  # noqa: T201


if __name__ == "__main__":
    typer.run(main)
