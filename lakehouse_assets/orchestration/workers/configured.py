"""The workers that `dagster.yaml` configures, read without Dagster: a command asks before it loads anything.

Belongs here: the file → the pool. Does not: the launcher that Dagster builds from the same section (launcher).
"""

from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from lakehouse_assets.orchestration.workers.folder import WorkerLimits
from lakehouse_assets.orchestration.workers.pool import MOST_SLOTS, POOL_FOLDER, WorkerPool
from lakehouse_assets.settings import Settings

LAUNCHER = "WorkerLauncher"
# Between two ticks of the sensors that a window waits for. Without workers, a run's start takes longer than the wait.
TICK_SECONDS, TICK_SECONDS_WITH_WORKERS = 30, 10


def configured_pool(settings: Settings) -> WorkerPool | None:
    """Return the pool of this instance; None if it starts a process for each run, or its file cannot be read here."""
    try:
        data = yaml.safe_load((settings.dagster_home / "dagster.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None
    launcher = _section(data, "run_launcher")
    if launcher.get("class") != LAUNCHER:
        return None
    config = _section(launcher, "config")
    if any(isinstance(value, dict | list) for value in config.values()):
        return None  # such as `env: …`, with which Dagster refuses the file
    if not keeps_sessions(settings, bool(config.get("on_cluster"))):
        return None
    runs = _section(_section(data, "concurrency"), "runs").get("max_concurrent_runs")
    slots = config.get("slots") or (runs if isinstance(runs, int) and runs > 0 else MOST_SLOTS)
    limits = {f.name: config[f.name] for f in fields(WorkerLimits) if f.name in config}
    base = Path(config.get("base_dir") or POOL_FOLDER)
    return WorkerPool((settings.project or Path.cwd()) / base, slots, WorkerLimits(**limits))


def keeps_sessions(settings: Settings, on_cluster: bool) -> bool:
    """Whether a Spark session may stay between runs. One of a cluster keeps the cluster's cores: only where that is wanted."""
    return on_cluster or settings.spark_master.startswith("local")


def tick_seconds(settings: Settings) -> int:
    """Return the seconds between two ticks of the sensors that a window waits for."""
    return TICK_SECONDS if configured_pool(settings) is None else TICK_SECONDS_WITH_WORKERS


def _section(data: Any, name: str) -> dict[str, Any]:
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}
