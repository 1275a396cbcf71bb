"""One new day of weather against a bare Spark session that MERGEs the same rows.

A is `lakehouse run --table weather`, a process of its own, in a lake that holds all days of the example but the last, whose
file has just landed: from the start of the command (the request) to the mark *applied* in the log of decisions. What the
command does after that (gold, above all) is reported as a step of its own. B (`bare_merge.py`) starts Spark with the same
properties, reads that file, casts it by the same expressions, MERGEs the rows into a copy of silver and stops: from its start
to the MERGE's commit. Each run has a copy of the same lake.
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

TABLE, LIMIT = "weather", 2.5
COMMAND = [str(Path(sys.executable).with_name("lakehouse")), "run", "--table", TABLE]
# The project's commits of one run, in their order: the last of each is the one that this run made.
COMMITS = {"extracted": "bronze/weather", "silver committed": "silver/weather", "profiles committed": "baseline/weather"}


def benchmark(lab: Lab) -> Iterator[Result]:
    """The size is that of the example, whatever the scale; below 0.5 the lake holds a month only."""
    files = sorted(
        path for part in ("on_time", "late") for path in (PROJECT_ROOT / "data/examples/weather" / part).glob("*.csv")
    )
    files = sorted(files, key=lambda path: path.name)[0 if lab.scale >= 0.5 else -31 :]
    spec = next(table.spec for table in load_tables() if table.spec.name == TABLE)
    last, window = files[-1], spec.extraction.window(files[-1].stem)
    template, work = lab.folder / "template", lab.folder / "incremental"
    lab.say("incremental: a lake of all days but the last")
    landing = template / "landing" / TABLE
    landing.mkdir(parents=True)
    for file in files[:-1]:
        shutil.copy2(file, landing / file.name)
    _command(own_instance(template))

    def copy_lake() -> None:
        lab.clear(str(work))
        shutil.copytree(template, work)  # keeps times, by which the landed files are known
        own_instance(work)
        shutil.copy2(last, work / "landing" / TABLE / last.name)

    def copy_silver() -> None:
        lab.clear(str(work))
        shutil.copytree(template / "lake" / "silver" / TABLE, work / "silver")

    a = Side("lakehouse run, request to applied", lambda: _incremental(work, window), copy_lake)
    b = Side("bare Spark, start to MERGE committed", lambda: _bare(work / "silver", last, window, spec), copy_silver)
    a_samples, b_samples = run_pairs(a, b, lab.pairs, lambda text: lab.say(f"incremental: {text}"))
    sizes = {"rows": len(last.read_text().splitlines()) - 1, "windows": 1, "windows before": len(files) - 1}
    settings = public_properties(_defaults(work))
    yield Result("incremental", a.label, tuple(a_samples), b.label, tuple(b_samples), LIMIT, sizes, settings)
    lab.clear(str(template), str(work))


def _defaults(home: Path) -> Settings:
    return Settings(root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home)


def _command(env: dict[str, str]) -> None:
    process = subprocess.run(COMMAND, env=env, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"{' '.join(COMMAND)} ended with {process.returncode}: {process.stderr[-2000:]}")


def _incremental(home: Path, window: Window) -> Sample:
    began = time.time()
    _command(own_instance(home))
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
