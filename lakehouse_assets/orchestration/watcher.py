"""The watcher: looks at every table's source and reports windows that arrived or changed as versions of `source_<table>`.

Belongs here: comparing what is at the source with what the instance has on record. Does not: the sensor (watching), or reading
any data (no JVM).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import dagster as dg
from dagster import DagsterEventType

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError, EnvironmentMissing, SourceError
from lakehouse_assets.layers.source import source_of
from lakehouse_assets.settings import Settings

VERSION_TAG = "dagster/data_version"
Looked = dict[str, dict[str, str]]


def look(
    instance: dg.DagsterInstance, settings: Settings, specs: Sequence[TableSpec], before: Looked, now: datetime
) -> tuple[list[dg.AssetMaterialization], Looked, list[str]]:
    """One look at all sources. Returns the events to report, what was seen and is not yet settled, and troubles.

    A window is reported once two looks in a row saw the same fingerprint, and it is not the one on record.
    """
    events: list[dg.AssetMaterialization] = []
    seen: Looked = {}
    troubles: list[str] = []
    for spec in specs:
        key = dg.AssetKey(f"source_{spec.name}")
        recorded = recorded_versions(instance, key)
        try:
            windows = spec.extraction.windows(now)
            prints = source_of(spec, settings).fingerprints(windows)
        except (SourceError, EnvironmentMissing, ConfigError) as error:
            # One unreachable source must not keep the others from being watched.
            troubles.append(f"{spec.name}: {error}")
            continue
        for window, print_ in sorted(prints.items()):
            if recorded.get(window.key) == print_:
                continue
            if before.get(spec.name, {}).get(window.key) == print_:
                events.append(
                    dg.AssetMaterialization(
                        key,
                        description="changed at the source" if window.key in recorded else "arrived",
                        partition=window.key,
                        tags={VERSION_TAG: print_},
                    )
                )
            else:
                seen.setdefault(spec.name, {})[window.key] = print_
    return events, seen, troubles


def recorded_versions(instance: dg.DagsterInstance, key: dg.AssetKey) -> Mapping[str, str]:
    """The data version on record of every partition of a source, in one query."""
    found = instance.event_log_storage.get_latest_tags_by_partition(key, DagsterEventType.ASSET_MATERIALIZATION, [VERSION_TAG])
    return {partition: tags[VERSION_TAG] for partition, tags in found.items() if VERSION_TAG in tags}
