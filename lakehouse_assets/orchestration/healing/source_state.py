"""Polls of the sources: which windows have arrived or changed, as data versions of `source_<table>`.

Belongs here: comparing a source's fingerprints with those recorded by the instance. Does not: the sensor (source_sensor), or
reading data (no JVM).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.errors import ConfigError, EnvironmentMissing, SourceError
from lakehouse_assets.orchestration.assets.partitions import partition_key
from lakehouse_assets.orchestration.healing.source_versions import comparable, recorded_versions, source_key, version_tags
from lakehouse_assets.pipeline.table_source import source_of
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import FilesReader, Source
from lakehouse_assets.sources.base import AnswerPending
from lakehouse_assets.sources.observation import Observation

# Fingerprints by table and window key.
Fingerprints = dict[str, dict[str, str]]
CPU_SECONDS, SECONDS = 0.5, 20.0
# Dagster ends a tick after a minute, and everything that it observed is lost.
ANSWER_SECONDS = 30
TOO_LATE = 55.0
# Waiting windows that a reason names.
SHOWN = 5


@dataclass
class Poll:
    """What one poll observed: the polled ``tables``, ``events`` to report, fingerprints that are new and ``unsettled``, and
    ``warnings``. ``waiting``: tables whose answer a later poll has, and windows that their source does not show as whole, each
    with the reason. ``changing_windows``: by table, the keys of those that this poll observed first, or otherwise than the one
    before. ``next_table``: where the next poll starts, if time ran out. ``seconds``: each table's time.
    """

    tables: list[TableSpec] = field(default_factory=list)
    events: list[dg.AssetMaterialization] = field(default_factory=list)
    unsettled: Fingerprints = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    changing_windows: dict[str, list[str]] = field(default_factory=dict)
    next_table: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)


def poll_sources(
    instance: dg.DagsterInstance,
    settings: Settings,
    specs: Sequence[TableSpec],
    before: Fingerprints,
    now: datetime,
    out_of_time: Callable[[], bool] = lambda: False,
    first_table: str | None = None,
    answer_seconds: int | None = None,
) -> Poll:
    """Poll the sources, from that of ``first_table`` on, until all were polled or time is up; at least one. A database has
    ``answer_seconds`` for each answer. With them, a source that only Spark can read is asked in one poll, and answers in a
    later one.

    A window is reported once two polls in a row observe the same fingerprint, and it is not the recorded one. ``before``: the
    unsettled fingerprints of the earlier poll. Where the source shows that it is whole (`settled`), one poll is enough.
    """
    poll = Poll()
    first = next((index for index, spec in enumerate(specs) if spec.name == first_table), 0)
    turn = [*specs[first:], *specs[:first]]
    for index, spec in enumerate(turn):
        if index and out_of_time():
            poll.unsettled |= {each.name: before[each.name] for each in turn[index:] if each.name in before}
            poll.next_table = spec.name
            break
        poll.tables.append(spec)
        if spec.extraction.stream:
            continue  # its own process reads it
        recorded, began = recorded_versions(instance, spec), time.monotonic()
        try:
            observed = _observe(spec, source_of(spec, settings, answer_seconds), now)
            _sort_windows(poll, spec, observed, recorded, before.get(spec.name, {}))
        except AnswerPending as reason:
            poll.waiting.append(f"{spec.name}: {reason}")
            if spec.name in before:
                poll.unsettled[spec.name] = before[spec.name]
        except (SourceError, EnvironmentMissing, ConfigError) as error:
            # One unreachable source must not block the others.
            poll.warnings.append(f"{spec.name}: {error}")
        except Exception as error:
            # Nor may an unforeseen error, whose text may quote an address.
            poll.warnings.append(f"{spec.name}: its source could not be polled ({type(error).__name__})")
        finally:
            poll.seconds[spec.name] = time.monotonic() - began
    return poll


def _observe(spec: TableSpec, source: Source, now: datetime) -> Observation:
    windows = spec.extraction.windows(now)
    return source.observe(windows, now) if isinstance(source, FilesReader) else Observation(source.fingerprints(windows))


def _sort_windows(
    poll: Poll, spec: TableSpec, observed: Observation, recorded: Mapping[str, str], before: Mapping[str, str]
) -> None:
    """Add this table's new fingerprints to the poll: reported, or unsettled."""
    reasons: dict[str, list[str]] = {}
    fresh: dict[str, dict[str, str]] = {}
    for window, fingerprint in sorted(observed.fingerprints.items()):
        key = window.key
        if recorded.get(key) == comparable(spec, fingerprint):
            continue
        settled = observed.settlements.get(window, "unchanged")
        if settled == "whole" or (settled == "unchanged" and before.get(key) == fingerprint):
            fresh.setdefault(partition_key(spec.extraction, window), {})[key] = fingerprint
        else:
            poll.unsettled.setdefault(spec.name, {})[key] = fingerprint
        if settled == "waits":
            reasons.setdefault(observed.reasons[window], []).append(key)
        elif key in poll.unsettled.get(spec.name, {}):
            poll.changing_windows.setdefault(spec.name, []).append(key)
    poll.events += _events(spec, fresh, recorded)
    poll.waiting += [f"{spec.name}: {first_of(keys, SHOWN)}: {reason}" for reason, keys in reasons.items()]


def _events(
    spec: TableSpec, fresh: Mapping[str, Mapping[str, str]], recorded: Mapping[str, str]
) -> list[dg.AssetMaterialization]:
    """Return an event for each partition with ``fresh`` fingerprints, by window key. Its other windows keep their own."""
    beside: dict[str, dict[str, str]] = {}
    if spec.extraction.shares_partitions and fresh:
        for key, fingerprint in recorded.items():
            beside.setdefault(partition_key(spec.extraction, spec.extraction.window(key)), {})[key] = fingerprint
    events = []
    for part, fingerprints in fresh.items():
        description = "changed at the source" if fingerprints.keys() & recorded.keys() else "arrived"
        tags = version_tags(spec, {**beside.get(part, {}), **fingerprints})
        metadata = {"windows": len(fingerprints)} if spec.extraction.shares_partitions else {}
        event = dg.AssetMaterialization(source_key(spec), description=description, partition=part, tags=tags, metadata=metadata)
        events.append(event)
    return events


def time_budget(cpu_seconds: float = CPU_SECONDS, seconds: float = SECONDS) -> Callable[[], bool]:
    """Return a function that is true once so much time has passed from now: a tick is short, however many windows there are."""
    cpu_began, began = time.thread_time(), time.monotonic()
    return lambda: time.thread_time() - cpu_began > cpu_seconds or time.monotonic() - began > seconds
