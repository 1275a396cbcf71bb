"""By which keys of `source:` runs were to read their windows, and those that could not, since their files are gone.

Belongs here: the tags of runs, and what bronze's materializations note. Does not: which windows are to be read so
(unread_windows).
"""

import hashlib
import json
from datetime import datetime

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.partitions import partition_key
from lakehouse_assets.orchestration.healing.source_versions import PAGE_SIZE

NOT_READ_BY = "lakehouse/not_read_by"
RUN_TAG = "lakehouse/reads_by"


def reading_tags(spec: TableSpec) -> dict[str, str]:
    """Return the tags of a requested run: today's keys, which a try of a window that is to be read by them is recognised by."""
    return {RUN_TAG: hash_of_keys(spec)}


def attempt_metadata(spec: TableSpec) -> dict[str, str]:
    """Return the metadata of a partition of which a run could not read a window by today's keys."""
    return {NOT_READ_BY: hash_of_keys(spec)}


def without_attempted(instance: dg.DagsterInstance, spec: TableSpec, again: set[datetime]) -> set[datetime]:
    """Return these windows without those whose last run had today's keys: it found no files of them, nor will the next one."""
    keys = {start: partition_key(spec.extraction, spec.extraction.window_at(start)) for start in again}
    todays_keys = hash_of_keys(spec)
    bronze, attempted, partitions = asset_key(spec, f"bronze_{spec.name}"), set[str | None](), sorted(set(keys.values()))
    for index in range(0, len(partitions), PAGE_SIZE):
        some = set(partitions[index : index + PAGE_SIZE])
        ids = instance.event_log_storage.get_latest_storage_id_by_partition(
            bronze, dg.DagsterEventType.ASSET_MATERIALIZATION, some
        )
        latest = dg.AssetRecordsFilter(asset_key=bronze, storage_ids=[*ids.values()])
        for record in instance.fetch_materializations(latest, limit=PAGE_SIZE).records if ids else ():
            event = record.asset_materialization
            noted = event.metadata.get(NOT_READ_BY) if event else None
            if noted is not None and noted.value == todays_keys:
                attempted.add(record.partition_key)
    return {start for start, key in keys.items() if key not in attempted}


def hash_of_keys(spec: TableSpec) -> str:
    """Return a hash of today's keys of `source:`."""
    return hashlib.sha256(json.dumps(spec.source.reading(), sort_keys=True).encode()).hexdigest()[:16]
