"""Requests for partitions that several windows share. Dagster's conditions see whole partitions. A window that arrives while
its hour is running would count as done with it, and be detected only hours later.

Belongs here: which partitions are requested in a tick. Does not: windows with a partition of their own (automation), or those
that failed (retries).
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window, contiguous
from lakehouse_assets.orchestration.healing.retries import run_request
from lakehouse_assets.orchestration.healing.source_versions import (
    VERSION_TAG,
    earlier_reports,
    recorded_versions,
    source_key,
    version_tags,
)
from lakehouse_assets.orchestration.healing.window_state import read_statuses
from lakehouse_assets.settings import Settings


def partition_requests(
    instance: dg.DagsterInstance, settings: Settings, spec: TableSpec, events: Sequence[dg.AssetMaterialization], now: datetime
) -> list[dg.RunRequest]:
    """Return a request for each unbroken range of partitions with a window that has arrived and is not in silver. ``events``:
    of the source in this tick, which are not stored yet. A partition that runs now is requested by a later tick; the same
    report of its windows is requested once.
    """
    extraction, recorded = spec.extraction, recorded_versions(instance, spec)
    steps: dict[Window, set[str]] = {}
    fingerprints: dict[Window, dict[str, str]] = {}
    for status in read_statuses(instance, settings, spec, now):
        partition, key = extraction.partition(status.window), status.window.key
        steps.setdefault(partition, set()).add(status.next_step)
        if key in recorded:
            fingerprints.setdefault(partition, {})[key] = recorded[key]
    reported = {
        extraction.partition_window(str(event.partition)): (event.tags or {})[VERSION_TAG]
        for event in events
        if event.asset_key == source_key(spec)
    }
    wanted = {partition for partition, of_windows in steps.items() if "daemon" in of_windows}
    wanted |= {partition for partition in reported if "lookback" not in steps.get(partition, ())}
    waiting = [partition for partition in wanted if "running" not in steps.get(partition, ())]
    versions = {each.key: reported.get(each) or version_tags(spec, fingerprints.get(each, {}))[VERSION_TAG] for each in waiting}
    # A source may return to the versions of an earlier report.
    earlier = earlier_reports(instance, spec, versions)
    requests = []
    for partitions in contiguous(waiting):
        text = "\0".join(f"{each.key} {versions[each.key]} {earlier.get(each.key, 0)}" for each in partitions)
        requests.append(run_request(spec, partitions, hashlib.sha256(text.encode()).hexdigest()[:16], {}))
    return requests
