"""Launched runs in Dagster: their code location, their execution, and the code server that started them.

Belongs here: what launchers and workers need beyond Dagster's public API. Does not: the private imports (dagster_private), or
what commands and sensors need (dagster_internals).
"""

import json
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import dagster as dg

from lakehouse_assets.orchestration.dagster_private import (
    GRPC_INFO_TAG,
    CodePointer,
    DagsterGrpcClient,
    DagsterUserCodeUnreachableError,
    GetCurrentRunsResult,
    GrpcServerCodeLocationOrigin,
    LazyDefinitions,
    ModuleCodePointer,
    ReconstructableJob,
    ReconstructableRepository,
    core_execute_run,
    recon_job_from_origin,
)

_dagsters_own = ReconstructableRepository.get_definition
_loaded: set[CodePointer] = set()


@lru_cache(maxsize=1)
def _definitions(repository: ReconstructableRepository) -> dg.RepositoryDefinition:
    _loaded.add(repository.pointer)
    return _dagsters_own(repository)


def keep_definitions() -> None:
    """Let this process load a code location's definitions once. Dagster loads them again for each run and each selection."""
    ReconstructableRepository.get_definition = _definitions  # type: ignore[method-assign]


def forget_definitions() -> bool:
    """Load the definitions again before the next run. Return whether they are then made anew: those that a module makes when it
    is imported (no `@dg.definitions`) are made once in a process.
    """
    _definitions.cache_clear()
    ReconstructableJob.get_repository_definition.cache_clear()
    ReconstructableJob.get_definition.cache_clear()
    return all(_is_made_anew(pointer) for pointer in _loaded)


def _is_made_anew(pointer: CodePointer) -> bool:
    return isinstance(pointer, ModuleCodePointer) and isinstance(pointer.load_target(), LazyDefinitions)


def code_location(run: dg.DagsterRun) -> str | None:
    """Return the name and the folder of a run's code location; None if this Python cannot execute it by itself: it is in an
    image, or of another Python.
    """
    origin = run.job_code_origin
    if origin is None or origin.repository_origin.container_image is not None:
        return None
    repository = origin.repository_origin
    return f"{repository.executable_path}\n{repository.code_pointer.describe()}\n{_folder(repository.code_pointer)}"


def _folder(pointer: object) -> str:
    return str(getattr(pointer, "working_directory", ""))


def executable(run: dg.DagsterRun) -> str | None:
    """Return the Python of a run's code location."""
    return run.job_code_origin.repository_origin.executable_path if run.job_code_origin else None


def is_of_code_server(run: dg.DagsterRun) -> bool:
    """Whether the run's code location is a code server on a port, which may be on another host. That of `dagster dev` is on a
    socket of this machine.
    """
    if run.remote_job_origin is None:
        return False
    location = run.remote_job_origin.repository_origin.code_location_origin
    return isinstance(location, GrpcServerCodeLocationOrigin) and location.port is not None


def runs_of_code_server(run: dg.DagsterRun) -> Collection[str] | None:
    """Return the ids of the runs that the code server executes which started this one. None if it does not answer, or if no
    code server on a port started the run.
    """
    server = json.loads(run.tags.get(GRPC_INFO_TAG, "{}"))
    if server.get("port") is None:
        return None
    client = DagsterGrpcClient(host=server.get("host"), port=server["port"], use_ssl=bool(server.get("use_ssl")))
    try:
        return dg.deserialize_value(client.get_current_runs(), GetCurrentRunsResult).current_runs
    except DagsterUserCodeUnreachableError:
        return None


def executes_in_process(run: dg.DagsterRun) -> bool:
    """Whether the run's steps are executed in the process that executes the run. Loads the definitions."""
    origin = run.job_code_origin
    if origin is None:
        return False
    job = recon_job_from_origin(origin).get_definition()
    config: Any = run.run_config
    chosen = dict(config.get("execution", {}).get("config") or {})
    return job.executor_def.name == "in_process" or "in_process" in chosen


def execute_launched_run(run: dg.DagsterRun, instance: dg.DagsterInstance) -> None:
    """Execute a run that was launched, as Dagster's own run worker does. Its errors are in its log; an interrupt is raised."""
    origin = run.job_code_origin
    if origin is None:
        raise ValueError(f"run {run.run_id} does not say where its code is")
    for _ in core_execute_run(recon_job_from_origin(origin), run, instance, inject_env_vars=True):
        pass
