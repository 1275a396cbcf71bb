"""The data versions of `source_<table>` that the instance has on record.

Belongs here: reading them. Does not: polling a source (source_state), which loads every kind of source.
"""

from collections.abc import Mapping

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.orchestration.asset_keys import asset_key

VERSION_TAG = "dagster/data_version"


def source_key(spec: TableSpec) -> dg.AssetKey:
    """Return the key of the table's external asset."""
    return asset_key(spec, f"source_{spec.name}")


def recorded_versions(instance: dg.DagsterInstance, spec: TableSpec) -> Mapping[str, str]:
    """Return the recorded data version of each of the source's partitions, in one query."""
    tags = instance.event_log_storage.get_latest_tags_by_partition(
        source_key(spec), dg.DagsterEventType.ASSET_MATERIALIZATION, [VERSION_TAG]
    )
    return {partition: own_tags[VERSION_TAG] for partition, own_tags in tags.items() if VERSION_TAG in own_tags}
