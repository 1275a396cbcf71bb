"""The watcher: looks at every table's source and reports windows that arrived or changed as versions of `source_<table>`.

Belongs here: comparing what is at the source with what the instance has on record. Does not: the sensor (watching), or reading
any data (no JVM).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import dagster as dg
from dagster import DagsterEventType

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError, EnvironmentMissing, SourceError
from lakehouse_assets.layers.source import source_of
from lakehouse_assets.settings import Settings

VERSION_TAG = "dagster/data_version"
Unsettled = dict[str, dict[str, str]]
PROCESSOR_SECONDS, SECONDS = 0.5, 20.0
# Dagster gives a tick a minute, after which all that it saw is lost.
ANSWER_SECONDS = 30
TOO_LATE = 55.0


class Looked(NamedTuple):
    """``tables``: those whose source was looked at. ``next``: that which the next look begins with, where some were not.
    ``slowest``: the table whose source took longest.
    """

    tables: Sequence[TableSpec]
    events: list[dg.AssetMaterialization]
    seen: Unsettled
    troubles: list[str]
    next: str | None = None
    slowest: str | None = None


def look(
    instance: dg.DagsterInstance,
    settings: Settings,
    specs: Sequence[TableSpec],
    before: Unsettled,
    now: datetime,
    tired: Callable[[], bool] = lambda: False,
    start: str | None = None,
    seconds: int | None = None,
) -> Looked:
    """One look at the sources, at that of ``start`` first, until all were looked at or ``tired``; at one at least. A database
    has so many ``seconds`` for each of its answers.

    Returns the events to report, what was seen and is not settled yet, by table and window, and the troubles. A window is
    reported once two looks at its source in a row saw the same fingerprint, and it is not the one on record.
    """
    events: list[dg.AssetMaterialization] = []
    seen: Unsettled = {}
    troubles: list[str] = []
    first = next((place for place, spec in enumerate(specs) if spec.name == start), 0)
    turn = [*specs[first:], *specs[:first]]
    took: dict[str, float] = {}
    for place, spec in enumerate(turn):
        if place and tired():
            later = {each.name for each in turn[place:]}
            kept = {name: prints for name, prints in before.items() if name in later}
            return Looked(turn[:place], events, seen | kept, troubles, spec.name, _most(took))
        key = dg.AssetKey(f"source_{spec.name}")
        recorded, began = recorded_versions(instance, key), time.monotonic()
        try:
            windows = spec.extraction.windows(now)
            prints = source_of(spec, settings, seconds).fingerprints(windows)
        except (SourceError, EnvironmentMissing, ConfigError) as error:
            # One unreachable source must not keep the others from being watched.
            troubles.append(f"{spec.name}: {error}")
            continue
        except Exception as error:
            # Nor one that fails in a way that nobody thought of, whose words may hold an address.
            troubles.append(f"{spec.name}: its source could not be looked at ({type(error).__name__})")
            continue
        finally:
            took[spec.name] = time.monotonic() - began
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
    return Looked(turn, events, seen, troubles, slowest=_most(took))


def _most(took: Mapping[str, float]) -> str | None:
    return max(took, key=lambda name: took[name], default=None)


def patience(processor: float = PROCESSOR_SECONDS, seconds: float = SECONDS) -> Callable[[], bool]:
    """What is true once so much has been spent from now on: a tick is short, however many windows its sources have."""
    spent, began = time.thread_time(), time.monotonic()
    return lambda: time.thread_time() - spent > processor or time.monotonic() - began > seconds


def recorded_versions(instance: dg.DagsterInstance, key: dg.AssetKey) -> Mapping[str, str]:
    """The data version on record of every partition of a source, in one query."""
    found = instance.event_log_storage.get_latest_tags_by_partition(key, DagsterEventType.ASSET_MATERIALIZATION, [VERSION_TAG])
    return {partition: tags[VERSION_TAG] for partition, tags in found.items() if VERSION_TAG in tags}
