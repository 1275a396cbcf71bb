"""Running some assets in this process, with the checks that go with them and no others.

Belongs here: that the run has on record what it was of. Does not: which assets, or what comes of a failure.
"""

from collections.abc import Collection, Mapping
from typing import Any

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.execute_in_process import core_execute_in_process

from lakehouse_assets.orchestration.audits import CHECK as AUDIT


def execute_assets(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    assets: Collection[dg.AssetKey],
    tags: Mapping[str, str],
    run_config: Mapping[str, Any] | None = None,
    *,
    raise_on_error: bool = True,
) -> bool:
    """Whether the run succeeded. Raises what a step raised, unless told not to.

    An audit looks at the whole table, and has a time of its own: it does not run each time that its asset is made.
    """
    known = definitions.resolve_asset_graph().asset_check_keys
    checks = {key for key in known if key.asset_key in assets and key.name != AUDIT}
    job = definitions.resolve_implicit_global_asset_job_def()
    chosen = job.get_subset(asset_selection=set(assets), asset_check_selection=checks)
    # `execute_in_process` either knows nothing of checks, or puts the run on record as one of no asset.
    done = core_execute_in_process(
        job=InMemoryJob(chosen.as_ephemeral_job({}, {})),
        run_config=dict(run_config or {}),
        instance=instance,
        output_capturing_enabled=False,
        raise_on_error=raise_on_error,
        run_tags=dict(tags),
        asset_selection=frozenset(assets),
    )
    return done.success
