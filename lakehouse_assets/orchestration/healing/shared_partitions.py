"""Requests for partitions that several windows share. Dagster's conditions see whole partitions: a window that arrives while
its hour is running would count as done with it, and be found only hours later.

Belongs here: which partitions are requested in a tick. Does not: windows with a partition of their own (automation), or those
that failed (retries).
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import contiguous
from lakehouse_assets.orchestration.assets.partitions import windows_by_partition
from lakehouse_assets.orchestration.healing.retries import run_request
from lakehouse_assets.orchestration.healing.source_versions import VERSION_TAG, recorded_versions, source_key, version_tags
from lakehouse_assets.orchestration.healing.window_state import read_statuses
from lakehouse_assets.settings import Settings


def partition_requests(
    instance: dg.DagsterInstance, settings: Settings, spec: TableSpec, events: Sequence[dg.AssetMaterialization], now: datetime
) -> list[dg.RunRequest]:
    """Return a request for each unbroken range of partitions with a window that has arrived and is not in silver. ``events``:
    of the source in this tick, which are not stored yet. A partition that runs now is requested by a later tick; the same
    versions of its windows are requested once.
    """
    extraction, key = spec.extraction, source_key(spec)
    statuses = read_statuses(instance, settings, spec, now)
    recorded = recorded_versions(instance, spec)
    by_key = windows_by_partition(extraction, [extraction.window(each) for each in recorded])
    versions = {
        part: version_tags(spec, {window.key: recorded[window.key] for window in windows})[VERSION_TAG]
        for part, windows in by_key.items()
    }
    reported = {str(e.partition): (e.tags or {})[VERSION_TAG] for e in events if e.asset_key == key}
    versions |= reported
    busy = {extraction.partition(status.window).key for status in statuses if status.next_step == "running"}
    pending = {extraction.partition(status.window).key for status in statuses if status.next_step == "daemon"}
    beyond = {extraction.partition(status.window).key for status in statuses if status.next_step == "lookback"}
    wanted = (pending | (reported.keys() - beyond)) - busy
    requests = []
    for partitions in contiguous(extraction.partition_window(part) for part in wanted):
        text = "\0".join(f"{partition.key} {versions.get(partition.key, '')}" for partition in partitions)
        requests.append(run_request(spec, partitions, hashlib.sha256(text.encode()).hexdigest()[:16], {}))
    return requests
