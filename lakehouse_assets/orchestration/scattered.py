"""Windows that arrive scattered: asked for in few runs, which pass over what lies between them and has not changed.

Belongs here: requests for ranges that have more than one gap. Does not: single gaps, which the conditions ask for (automation),
since Dagster makes a run of each unbroken range of what they ask for; or what failed (retries).
"""

import hashlib
from collections.abc import Collection, Sequence
from datetime import datetime

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import contiguous
from lakehouse_assets.decisions.healing import SCATTERED, at_rest, bridged
from lakehouse_assets.layers.others import tables_read
from lakehouse_assets.orchestration.healing import healing_of
from lakehouse_assets.orchestration.retries import request_of
from lakehouse_assets.orchestration.watcher import VERSION_TAG
from lakehouse_assets.settings import Settings


def scattered(
    instance: dg.DagsterInstance,
    settings: Settings,
    spec: TableSpec,
    events: Sequence[dg.AssetMaterialization],
    now: datetime,
    unsettled: Collection[str] = (),
) -> list[dg.RunRequest]:
    """Runs for windows that these events of sources report, where they take several gaps together. None of them passes over an
    ``unsettled`` window (by key).

    The conditions see that these windows are on their way. None for a table that has to wait for others.
    """
    source = dg.AssetKey(f"source_{spec.name}")
    versions = {event.partition: (event.tags or {})[VERSION_TAG] for event in events if event.asset_key == source}
    windows = spec.extraction.windows(now)
    heeded = windows[-spec.extraction.lookback :] if spec.extraction.lookback else windows
    wanted = {window for window in heeded if window.key in versions}
    if tables_read(spec.checks) or len(contiguous(wanted)) <= SCATTERED:
        return []
    found = []
    between = at_rest(healing_of(instance, settings, spec, now), unsettled)
    for unbroken in bridged(wanted, between):
        taken = [window for window in unbroken if window in wanted]
        if len(taken) == len(unbroken):
            continue
        prints = hashlib.sha256("\0".join(versions[window.key] for window in taken).encode()).hexdigest()[:16]
        found.append(
            # The same versions of the same windows are asked for once, even if a tick is repeated.
            request_of(spec, unbroken, prints, {"lakehouse/gaps": str(len(contiguous(taken)))})
        )
    return found
