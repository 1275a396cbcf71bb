"""Requests for ranges of windows, one run each.

Belongs here: the tags of a range, and merging requests of single windows. Does not: which windows are requested, or gaps that
share a run (source_sensor).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window, contiguous
from lakehouse_assets.orchestration.assets.partitions import partition_key
from lakehouse_assets.orchestration.dagster_internals import PARTITION_TAG, RANGE_END_TAG, RANGE_START_TAG
from lakehouse_assets.orchestration.healing.reading_attempts import reading_tags


def range_tags(spec: TableSpec, windows: Sequence[Window]) -> dict[str, str]:
    """Return the tags of a run of these windows or partitions, which must be unbroken."""
    first, last = (partition_key(spec.extraction, window) for window in (windows[0], windows[-1]))
    return {RANGE_START_TAG: first, RANGE_END_TAG: last}


def partitions_of_ranges(spec: TableSpec, ranges: Iterable[Sequence[Window]]) -> list[list[Window]]:
    """Return the ranges of partitions that have these ranges of windows. Where windows share a partition, it is in one range
    only: a run has all of its windows, and passes over those that are done.
    """
    if not spec.extraction.shares_partitions:
        return [list(windows) for windows in ranges]
    return contiguous({spec.extraction.partition(window) for windows in ranges for window in windows})


def merge_windows(requests: Iterable[dg.RunRequest], tables: Mapping[dg.AssetKey, TableSpec]) -> list[dg.RunRequest]:
    """Return the requests, with one for each unbroken range of windows of a table's same assets.

    Dagster puts the tables of equal windows into one request, and would make a backfill of several windows. The runs of a
    backfill start a tick later and lose their run config. ``tables``: by those of their assets that have windows. The tags say
    by which keys of `source:` the run is to read them.
    """
    merged: list[dg.RunRequest] = []
    groups: dict[tuple[Any, ...], dict[Window, dg.RunRequest]] = {}
    for request in requests:
        selection = request.asset_selection or ()
        if request.partition_key is None or not tables.keys() >= set(selection):
            merged.append(request)
            continue
        for spec in {tables[key].name: tables[key] for key in selection}.values():
            assets = sorted(key for key in selection if tables[key].name == spec.name)
            checks = request.asset_check_keys
            if checks is not None:
                checks = sorted((key for key in checks if key.asset_key in assets), key=str)
            tags = {**request.tags, **reading_tags(spec)}
            of_table = request._replace(asset_selection=assets, asset_check_keys=checks, tags=tags)
            group = groups.setdefault((spec.name, str(assets), str(checks)), {})
            group[spec.extraction.partition_window(request.partition_key)] = of_table
    for group in groups.values():
        merged += [_request(partitions, group[partitions[0]]) for partitions in contiguous(group)]
    return merged


def _request(partitions: Sequence[Window], first: dg.RunRequest) -> dg.RunRequest:
    """Return the request for these partitions. ``first``: that for the first of them."""
    if len(partitions) == 1:
        return first
    tags = {name: value for name, value in first.tags.items() if name != PARTITION_TAG}
    return first._replace(
        partition_key=None, tags=tags | {RANGE_START_TAG: partitions[0].key, RANGE_END_TAG: partitions[-1].key}
    )
