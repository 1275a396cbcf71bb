"""Two hundred runs of two tables by turns on one worker: what each decided, and the memory that its Python takes.

Belongs here: that runs leave nothing to those after them, and that nothing grows. Does not: what one may leave (test_worker).
"""

import statistics
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakehouse_assets.storage import delta, logs
from lakehouse_assets_tests.orchestration.workers.project import Project, project
from lakehouse_assets_tests.support import rows_of

DAYS, FIRST = 100, datetime(2024, 1, 1, tzinfo=UTC)
# Names, types and rules that would show in the other table if a view, a conf or a baseline stayed.
TABLES: dict[str, dict[str, Any]] = {
    "readings": {
        "checks": [
            {"check": "in_range", "column": "value", "min": -100, "max": 100},
            {"check": "sql", "name": "odd", "sql": "select * from batch where value > 99"},
        ],
        "drift": {"features": ["value"], "cold_start": "learn"},
    },
    "others": {
        "checks": [
            {"check": "in_range", "column": "value", "min": 0, "max": 5000},
            {"check": "sql", "name": "odd", "sql": "select * from batch where value < 100"},
        ],
        "drift": {"features": ["value"], "cold_start": "learn"},
    },
}
MEANS, SHIFTED = {"readings": 20, "others": 1000}, {"readings": (60, 61), "others": (45, 90)}
# Two hundred windows more in the logs, of which a process keeps up to 64 MB: that took 90 MB in all.
MOST_GROWTH = 1.25


def land(landing: str, table: str, day: int) -> None:
    """Write a day's file: an eighth of the days has rows that rules quarantine, two are shifted."""
    random, mean = Random(f"{table}{day}"), MEANS[table] * (1.5 if day in SHIFTED[table] else 1)
    values = [f"{random.gauss(mean, MEANS[table] / 20):.3f}" for _ in range(24)]
    values[:1] = ["-500"] if day % 8 == 0 else values[:1]
    date = FIRST + timedelta(days=day - 1)
    lines = [f"s{day % 5},{hour},{value},{date:%Y-%m-%d}T00:00:00Z" for hour, value in enumerate(values)]
    path = Path(landing) / table / f"{date:%Y-%m-%d}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["sensor,hour,value,updated", *lines]) + "\n")


def write_tables(shop: Project) -> None:
    """Write both tables, each with its own source."""
    for table, changes in TABLES.items():
        source = {"kind": "files", "path": f"{table}/{{window:%Y-%m-%d}}.csv", "format": "csv"}
        shop.write_table(table, source=source, **changes)


def lake_of(shop: Project, table: str) -> dict[str, Any]:
    """What is in silver, and of each decision all that does not name its run."""
    decisions = logs.decisions(shop.settings, table, evidence=True)
    facts = [
        (d.p_extracted_at, d.extraction_seq, d.number, d.verdict, d.counts, d.reasons, d.checks, d.drift, d.profiles)
        for d in decisions
        if d.superseded_by is None
    ]
    silver = shop.settings.path("silver", table)
    return {"silver": rows_of(silver), "types": delta.schema_types(silver), "decisions": facts}


def resident(pid: int) -> int:
    """The megabytes that a process has in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS"))


@pytest.mark.exhaustive(seconds=900)
@pytest.mark.timeout(3600)
def test_two_hundred_runs_by_turns_are_those_of_fresh_processes_and_nothing_grows(tmp_path, monkeypatch):
    sizes = list[int]()
    with project(tmp_path / "warm", monkeypatch, max_runs=1000) as shop:
        write_tables(shop)
        workers = set[int]()
        for day in range(1, DAYS + 1):
            for table in TABLES:
                land(shop.settings.landing, table, day)
                shop.run(day, table)
                (pid,) = shop.processes()
                workers.add(pid)
                sizes.append(resident(pid))
        assert len(workers) == 1, shop.logs()
        by_turns = {table: lake_of(shop, table) for table in TABLES}
    with project(tmp_path / "fresh", monkeypatch) as shop:
        write_tables(shop)
        for table in TABLES:
            for day in range(1, DAYS + 1):
                land(shop.settings.landing, table, day)
            shop.run_in_new_process(table)
        afresh = {table: lake_of(shop, table) for table in TABLES}
    assert by_turns == afresh
    for table, days in SHIFTED.items():
        quarantined = [start for start, _, _, verdict, *_ in by_turns[table]["decisions"] if verdict == "quarantined"]
        assert quarantined == [FIRST + timedelta(days=day - 1) for day in days]
    assert statistics.median(sizes[-20:]) <= MOST_GROWTH * statistics.median(sizes[20:40]), sizes
