"""The data versions of `source_<table>` that the instance has on record.

Belongs here: what is stored for a partition, and reading it. Does not: polling a source (source_state), which loads every kind
of source.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.orchestration.asset_keys import asset_key

VERSION_TAG = "dagster/data_version"
# Of a window that shares its partition: so many digits of its fingerprint are stored. A day of 15 minutes is 96 windows, and a
# database's index takes 2,700 bytes.
DIGITS = 12
PAGE_SIZE = 500  # partitions named in one query
OF_WINDOW = re.compile(r"([01][0-9]|2[0-3])[0-5][0-9]:")


def source_key(spec: TableSpec) -> dg.AssetKey:
    """Return the key of the table's external asset."""
    return asset_key(spec, f"source_{spec.name}")


def recorded_versions(instance: dg.DagsterInstance, spec: TableSpec) -> Mapping[str, str]:
    """Return the recorded fingerprint (`comparable`) of each of the source's windows by its key, in one query."""
    tags = instance.event_log_storage.get_latest_tags_by_partition(
        source_key(spec), dg.DagsterEventType.ASSET_MATERIALIZATION, [VERSION_TAG]
    )
    versions = {partition: own_tags[VERSION_TAG] for partition, own_tags in tags.items() if VERSION_TAG in own_tags}
    if not spec.extraction.shares_partitions:
        return versions
    # A version of before, when each partition was one window of a longer cadence, names none of today's windows. Nor does a
    # partition of before, when windows of another cadence shared one: an hour's would count in place of the day's.
    length = len(spec.extraction.partition(spec.extraction.window_at(spec.extraction.start)).key)
    return {
        f"{partition[:10]}-{window[:2]}:{window[2:4]}": window[5:]
        for partition, version in versions.items()
        if len(partition) == length
        for window in version.split()
        if OF_WINDOW.match(window)
    }


def earlier_reports(instance: dg.DagsterInstance, spec: TableSpec, versions: Mapping[str, str]) -> Mapping[str, int]:
    """Return the storage id of each partition's newest report of another version than its own in ``versions``; none without
    one. It is the same before and after that version is stored, and another one when a source returns to a version.
    """
    ids: dict[str, int] = {}
    for key, record in read_reports(instance, spec, list(versions)):
        event = record.asset_materialization
        if event is not None and (event.tags or {}).get(VERSION_TAG) != versions[key]:
            ids[key] = max(record.storage_id, ids.get(key, 0))
    return ids


def read_reports(instance: dg.DagsterInstance, spec: TableSpec, keys: Sequence[str]) -> Iterator[tuple[str, dg.EventLogRecord]]:
    """Yield all reports of these partitions of the source, each with its partition's key."""
    for index in range(0, len(keys), PAGE_SIZE):
        filters = dg.AssetRecordsFilter(asset_key=source_key(spec), asset_partitions=list(keys[index : index + PAGE_SIZE]))
        cursor, has_more = None, True
        while has_more:
            page = instance.fetch_materializations(filters, limit=1000, cursor=cursor)
            cursor, has_more = page.cursor, page.has_more
            yield from ((record.partition_key, record) for record in page.records if record.partition_key is not None)


def comparable(spec: TableSpec, fingerprint: str) -> str:
    """Return a window's fingerprint as it is recorded."""
    return fingerprint[: digits_of(spec)]


def digits_of(spec: TableSpec) -> int | None:
    """Return how many digits of a window's fingerprint are recorded; None for all."""
    return DIGITS if spec.extraction.shares_partitions else None


def version_tags(spec: TableSpec, fingerprints: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of a partition whose windows (keys) have these fingerprints. The data version names each window by its
    hour and minute, and so changes with any of them.
    """
    if not spec.extraction.shares_partitions:
        [fingerprint] = fingerprints.values()
        return {VERSION_TAG: fingerprint}
    windows = [f"{key[11:13]}{key[14:16]}:{comparable(spec, text)}" for key, text in sorted(fingerprints.items())]
    return {VERSION_TAG: " ".join(windows)}
