"""One new day of weather against a bare Spark session that MERGEs the same rows.

A is `lakehouse run --table weather` in a lake that holds the days of the example up to the one whose file has just landed: from
the start of the command (the request) to the mark *applied* in the log of decisions. Once the command finds a worker that has
had some runs; once there is none, so that it is a process of its own. What the command does after that mark (gold, above all)
is reported as a step of its own. B (`bare_merge.py`) starts Spark with the same properties, reads the last day's file,
casts it by the same expressions, MERGEs the rows into a copy of silver and stops: from its start to the MERGE's commit.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from benchmarks import PROJECT_ROOT
from benchmarks.harness import Result, Sample, Side, run_pairs
from benchmarks.lab import Lab, own_instance, public_properties
from lakehouse_assets.checks.sql.text import literal
from lakehouse_assets.contracts.silver import silver_columns
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.measures.typed import typed_columns
from lakehouse_assets.orchestration.assets.project_tables import load_tables
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.session import spark_properties

TABLE, WARM_LIMIT, COLD_LIMIT = "weather", 0.5, 2.5
LAKEHOUSE = str(Path(sys.executable).with_name("lakehouse"))
COMMAND = [LAKEHOUSE, "run", "--table", TABLE]
# Runs of a worker until Java has compiled what each of them runs.
UNTIL_WARM = 12
# The project's commits of one run, in their order: the last of each is the one that this run made.
COMMITS = {"extracted": "bronze/weather", "silver committed": "silver/weather", "profiles committed": "baseline/weather"}


def benchmark(lab: Lab) -> Iterator[Result]:
    """The size is that of the example, whatever the scale; below 0.5 the lake holds a month only."""
    files = sorted(
        path for part in ("on_time", "late") for path in (PROJECT_ROOT / "data/examples/weather" / part).glob("*.csv")
    )
    files = sorted(files, key=lambda path: path.name)[0 if lab.scale >= 0.5 else -31 :]
    days, last = files[:-1], files[-1]
    # What lands one by one: for the worker's runs, the round to warm up and the pairs.
    later = days[len(days) - UNTIL_WARM - lab.pairs - 1 :]
    template, work = lab.folder / "template", lab.folder / "incremental"
    lab.say("incremental: a lake of the days before")
    for file in days[: len(days) - len(later)]:
        _land(template, file)
    _command(COMMAND, own_instance(template))
    shutil.copytree(template, work)  # keeps times, by which the landed files are known
    _command([LAKEHOUSE, "worker", "start"], own_instance(work))
    try:
        for number, file in enumerate(later[:UNTIL_WARM], 1):
            lab.say(f"incremental: run {number} of {UNTIL_WARM} of a new worker")
            _land(work, file)
            _command(COMMAND, own_instance(work))
        yield _warm(lab, work, later[UNTIL_WARM:], last, len(days) - lab.pairs - 1)
    finally:
        _command([LAKEHOUSE, "worker", "stop", "--now"], own_instance(work))
    yield _cold(lab, template, work, last, len(days) - len(later))
    lab.clear(str(template), str(work))


def _warm(lab: Lab, home: Path, days: list[Path], last: Path, before: int) -> Result:
    """The command with a warm worker: a day of ``days`` for each run."""
    next_days, spec, bare = iter(days), _spec(), lab.folder / "bare"
    landed_files: list[Path] = []

    def land_next() -> None:
        lab.clear()
        landed_files.append(next(next_days))
        _land(home, landed_files[-1])

    def run() -> Sample:
        return _incremental(home, spec.extraction.window(landed_files[-1].stem))

    a, b = Side("lakehouse run with a warm worker, request to applied", run, land_next), _bare_side(lab, home, bare, last)
    return _result(lab, "incremental", (a, b), WARM_LIMIT, last, before)


def _cold(lab: Lab, template: Path, home: Path, last: Path, before: int) -> Result:
    """The command without a worker: each run has a copy of the same lake."""
    bare = lab.folder / "bare"

    def copy_lake() -> None:
        lab.clear(str(home))
        shutil.copytree(template, home)
        own_instance(home)
        _land(home, last)

    a = Side("lakehouse run, request to applied", lambda: _incremental(home, _spec().extraction.window(last.stem)), copy_lake)
    return _result(lab, "incremental, no worker", (a, _bare_side(lab, template, bare, last)), COLD_LIMIT, last, before)


def _bare_side(lab: Lab, home: Path, bare: Path, file: Path) -> Side:
    """B: this file into a copy of silver."""

    def copy_silver() -> None:
        lab.clear(str(bare))
        shutil.copytree(home / "lake" / "silver" / TABLE, bare / "silver")

    spec = _spec()
    return Side(
        "bare Spark, start to MERGE committed",
        lambda: _bare(bare / "silver", file, spec.extraction.window(file.stem), spec),
        copy_silver,
    )


def _result(lab: Lab, name: str, sides: tuple[Side, Side], limit: float, file: Path, before: int) -> Result:
    a, b = sides
    a_samples, b_samples = run_pairs(a, b, lab.pairs, lambda text: lab.say(f"{name}: {text}"))
    sizes = {"rows": len(file.read_text().splitlines()) - 1, "windows": 1, "windows before": before}
    settings = public_properties(_defaults(lab.folder))
    return Result(name, a.label, tuple(a_samples), b.label, tuple(b_samples), limit, sizes, settings)


def _spec() -> TableSpec:
    return next(table.spec for table in load_tables() if table.spec.name == TABLE)


def _land(home: Path, file: Path) -> None:
    landing = home / "landing" / TABLE
    landing.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, landing / file.name)


def _defaults(home: Path) -> Settings:
    return Settings(root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home)


def _command(command: list[str], env: dict[str, str]) -> None:
    process = subprocess.run(command, env=env, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {process.stderr[-2000:]}")


def _incremental(home: Path, window: Window) -> Sample:
    began = time.time()
    _command(COMMAND, own_instance(home))
    ended = time.time()
    lake = home / "lake"
    decisions = [d for d in logs.decisions(_defaults(home), TABLE) if d.p_extracted_at == window.start]
    if not decisions or not decisions[-1].accepted or decisions[-1].applied_at is None:
        raise RuntimeError(f"{window.key} was not published: {decisions[-1:]}")
    moments = {name: _last_commit(lake / relative) for name, relative in COMMITS.items()}
    decided, applied = _last_two_decisions(lake / "ops" / "decisions")
    moments |= {"decided": decided, "applied": applied, "ended": ended}
    return Sample(applied - began, _differences(began, moments))


def _last_commit(path: Path) -> float:
    return max((path / "_delta_log").glob("*.json")).stat().st_mtime


def _last_two_decisions(path: Path) -> tuple[float, float]:
    """When the table's last two commits in the log of decisions were made: the decision, and its mark. Gold has its own."""
    results = []
    for commit in sorted((path / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        if any(action.get("add", {}).get("partitionValues", {}).get("table") == TABLE for action in actions):
            results.append(commit.stat().st_mtime)
    return results[-2], results[-1]


def _differences(began: float, moments: dict[str, float]) -> dict[str, float]:
    steps, before = {}, began
    for name, moment in sorted(moments.items(), key=lambda entry: entry[1]):
        steps[name] = moment - before
        before = moment
    return steps


def bare_plan(silver: Path, file: Path, window: Window, spec: TableSpec) -> dict[str, Any]:
    """The plan for `bare_merge.py`, as SQL text: it knows nothing of the project."""
    header = file.read_text().splitlines()[0].split(",")
    values = {column.name: column.value for column in typed_columns(spec, set(header))}
    cells = ", ".join(f"concat('{name}=', {name})" for name in sorted(header))
    values |= {
        "p_extracted_at": f"TIMESTAMP {literal(f'{window.start:%Y-%m-%d %H:%M:%S}Z')}",
        "extraction_seq": "1",
        "_content_hash": f"md5(concat_ws('\x1f', {cells}))",
    }
    return {
        "properties": spark_properties(_defaults(silver.parent)),
        "master": _defaults(silver.parent).spark_master,
        "csv": str(file),
        "silver": str(silver),
        "columns": [f"{values[name]} AS {name}" for name in silver_columns(spec)],
        "same": " AND ".join(f"t.{name} = s.{name}" for name in spec.key),
    }


def _bare(silver: Path, file: Path, window: Window, spec: TableSpec) -> Sample:
    plan = json.dumps(bare_plan(silver, file, window, spec))
    before = _rows(silver)
    script = Path(__file__).with_name("bare_merge.py")
    began = time.time()
    process = subprocess.run([sys.executable, str(script)], input=plan, capture_output=True, text=True, check=False)
    ended = time.time()
    if process.returncode or _rows(silver) <= before:
        raise RuntimeError(f"{script.name} ended with {process.returncode}: {process.stderr[-2000:]}")
    moments = json.loads(process.stdout.splitlines()[-1])
    return Sample(moments["merged"] - began, _differences(began, {**moments, "ended": ended}))


def _rows(silver: Path) -> int:
    return sum(DeltaTable(str(silver)).get_add_actions(flatten=True)["num_records"].to_pylist())
