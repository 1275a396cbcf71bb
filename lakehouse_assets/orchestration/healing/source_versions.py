"""The data versions of `source_<table>` that the instance has on record.

Belongs here: what is stored for a partition, and reading it. Does not: polling a source (source_state), which loads every kind
of source.
"""

import re
from collections.abc import Mapping

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.orchestration.asset_keys import asset_key

VERSION_TAG = "dagster/data_version"
# Of a window that shares its partition: so many digits of its fingerprint are stored. A day of 15 minutes is 96 windows, and a
# database's index takes 2,700 bytes.
DIGITS = 12
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
    # A version of before, when each partition was one window of a longer cadence, names none of today's windows.
    return {
        f"{partition[:10]}-{window[:2]}:{window[2:4]}": window[5:]
        for partition, version in versions.items()
        for window in version.split()
        if OF_WINDOW.match(window)
    }


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
