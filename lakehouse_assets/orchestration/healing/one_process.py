"""Requests whose run is one process with one JVM, where the project's executor lets each run choose.

Belongs here: the run config. Does not: which executor a project has (project_definitions), or what is requested.
"""

from collections.abc import Iterable

import dagster as dg

# Dagster's default executor. It starts a process for each step, unless a run's config says otherwise.
CHOOSES = dg.multi_or_in_process_executor.name
CONFIG = {"execution": {"config": {"in_process": {}}}}


def in_one_process(requests: Iterable[dg.RunRequest] | None, repository: dg.RepositoryDefinition | None) -> list[dg.RunRequest]:
    """Return the requests with the config that makes each run one process; unchanged under an executor without that choice.

    Bronze and silver of one run then share one JVM. ``repository``: the code location; None: nothing is known of its executor.
    """
    if repository is None or not repository.has_implicit_global_asset_job_def():
        return list(requests or ())
    if repository.get_implicit_global_asset_job_def().executor_def.name != CHOOSES:
        return list(requests or ())
    return [request._replace(run_config=CONFIG) for request in requests or ()]
