"""The bars of partitioned checks, computed in one pass, for Dagster's storage in any SQL database.

Belongs here: rows of planned checks, and the states of checks by partition from stored rows. Does not: storing results
(partition_results), what a result says (assets/window_checks), or a database's connections (dagster_storage, postgres_storage).

Dagster's own way merges a check's partitions one by one: of 8,760 windows that takes 12 to 49 seconds a check. The list of an
asset's checks and the graph ask for all checks at once, again and again. The mixin overrides private methods of Dagster: check
them when Dagster is upgraded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice, pairwise
from operator import itemgetter
from typing import Any

import dagster as dg
from sqlalchemy import and_, case, not_, select

from lakehouse_assets.orchestration.dagster_private import (
    NOT_FINISHED_STATUSES,
    AssetCheckExecutionsTable,
    AssetCheckState,
    EventLogEntry,
    PersistedTimeWindow,
    SerializableEntitySubset,
    SqlEventLogStorage,
    TimestampWithTimezone,
    TimeWindowPartitionsSubset,
    serialize_value,
)
from lakehouse_assets.orchestration.dagster_private import AssetCheckExecutionResolvedStatus as Status

Keys = Sequence[tuple[dg.AssetCheckKey, Any]]
# How many values one statement may carry.
MOST_VALUES = 10_000
# The index and last materialization of a partition that the definition does not have.
NO_PARTITION = (None, 0)


class ChecksInOnePass(SqlEventLogStorage):
    """A mixin for the event storage of any SQL database: plans and states of checks whose partitions are windows of time."""

    def get_asset_check_state(self, keys: Keys) -> Mapping[dg.AssetCheckKey, AssetCheckState]:
        """Return the state of each check: as Dagster, but that no plan of a deleted run is in progress for ever."""
        others = [(key, partitions) for key, partitions in keys if not _has_plain_windows(partitions)]
        states = dict(super().get_asset_check_state(others)) if others else {}
        by_asset: dict[Any, _Windows] = {}
        for key, partitions in keys:
            if key not in states:
                of_asset = (key.asset_key, partitions)
                if of_asset not in by_asset:
                    windows = _windows_of(partitions, partitions.get_last_partition_key())
                    by_asset[of_asset] = replace(windows, partitions=self._partitions(key.asset_key, windows))
                states[key] = self._state(key, by_asset[of_asset])
        return states

    def _store_asset_check_evaluation_planned(self, event: EventLogEntry, event_id: int | None) -> None:
        """Store a row for each partition that a run plans to check. Dagster encodes the event again for each: 5 s of a year."""
        planned: Any = event.get_dagster_event().event_specific_data
        row = {
            "asset_key": planned.asset_key.to_string(),
            "check_name": planned.check_name,
            "run_id": event.run_id,
            "execution_status": "PLANNED",
            "evaluation_event": serialize_value(event),
            "evaluation_event_timestamp": self._event_insert_timestamp(event),
            "evaluation_event_storage_id": event_id,
        }
        keys = planned.partitions_subset.get_partition_keys() if planned.partitions_subset else [None]
        if rows := [{**row, "partition": key} for key in keys]:
            with self.index_connection() as connection:
                connection.execute(AssetCheckExecutionsTable.insert(), rows)

    def _partitions(self, asset: dg.AssetKey, windows: "_Windows") -> dict[str, tuple[int, int]]:
        """Return each partition's index, and the id of its last materialization, or 0."""
        kind = dg.DagsterEventType.ASSET_MATERIALIZATION
        last = self.get_latest_storage_id_by_partition(asset, kind)
        unpartitioned = self._get_latest_unpartitioned_materialization_storage_ids([asset]).get(asset, 0)
        return {key: (index, max(last.get(key, 0), unpartitioned)) for index, key in enumerate(windows.keys)}

    def _state(self, key: dg.AssetCheckKey, windows: "_Windows") -> AssetCheckState:
        rows = self._rows(key)
        indexes: dict[str, list[int]] = {status.value: [] for status in Status}
        planned: dict[str, list[int]] = {}
        # A partition's newest row counts.
        for partition, status, materialization, run, _ in {row[0]: row for row in rows}.values():
            index, last = windows.partitions.get(partition, NO_PARTITION)
            if index is None:
                continue
            if status == "PLANNED":
                planned.setdefault(run, []).append(index)
            elif last in (0, materialization):
                indexes[status].append(index)
        outcomes = self._outcomes(list(planned))
        for run, some in planned.items():
            indexes[outcomes.get(run, Status.IN_PROGRESS).value] += some
        return AssetCheckState(
            latest_storage_id=0,  # Nothing is computed from this state later.
            subsets={status: windows.subset(key, indexes[status.value]) for status in Status},
            in_progress_runs={run: windows.subset(key, some) for run, some in planned.items() if run not in outcomes},
        )

    def _rows(self, key: dg.AssetCheckKey) -> Sequence[Any]:
        """Return a check's rows, oldest first: partition, status, materialization's id, run of a plan, row's id."""
        table = AssetCheckExecutionsTable.c
        # Older versions of Dagster stored plans without an event.
        is_plan = table.execution_status == "PLANNED"
        no_event = and_(is_plan, table.evaluation_event_storage_id.is_(None))
        query = select(
            table.partition,
            table.execution_status,
            table.materialization_event_storage_id,
            case((is_plan, table.run_id)),
            table.id,
        ).where(table.asset_key == key.asset_key.to_string(), table.check_name == key.name, not_(no_event))
        with self.index_connection() as connection, connection.execute(query) as result:
            # The driver's tuples: rows of SQLAlchemy take a fifth more. Sorted here: the database would copy the rows for that.
            cursor: Any = result.cursor
            return sorted(cursor.fetchall(), key=itemgetter(4))

    def _outcomes(self, runs: Sequence[str]) -> dict[str, Status]:
        """Return what a plan means that has no result, for those of these runs that have ended, or were deleted since."""
        outcomes = dict.fromkeys(runs, Status.SKIPPED)
        for start in range(0, len(runs), MOST_VALUES):
            some = runs[start : start + MOST_VALUES]
            failed = dg.RunsFilter(run_ids=some, statuses=[dg.DagsterRunStatus.FAILURE])
            outcomes |= dict.fromkeys(self._instance.get_run_ids(failed), Status.EXECUTION_FAILED)
            unfinished = dg.RunsFilter(run_ids=some, statuses=list(NOT_FINISHED_STATUSES))
            for run in self._instance.get_run_ids(unfinished):
                outcomes.pop(run, None)
        return outcomes


def _has_plain_windows(partitions: Any) -> bool:
    return isinstance(partitions, dg.TimeWindowPartitionsDefinition) and not partitions.exclusions


class _WindowsOnRecord(dg.TimeWindowPartitionsDefinition):
    """A definition that knows the partitions of the ranges that are asked for: Dagster computes each from its schedule."""

    ranges: dict[tuple[float, float], dg.PartitionKeyRange]

    def get_partition_key_range_for_time_window(
        self, time_window: dg.TimeWindow, respect_bounds: bool = True
    ) -> dg.PartitionKeyRange:
        """Return the first and last partition of a window of time."""
        bounds = (time_window.start.timestamp(), time_window.end.timestamp())
        if (key_range := self.ranges.get(bounds)) is not None:
            return key_range
        return super().get_partition_key_range_for_time_window(time_window, respect_bounds)


@dataclass(frozen=True)
class _Windows:
    """A definition's partitions in their order, and the start of each. ``partitions``: see `ChecksInOnePass._partitions`."""

    definition: _WindowsOnRecord
    keys: Sequence[str]
    bounds: Sequence[tuple[float, float]]
    partitions: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def subset(self, key: dg.AssetCheckKey, indexes: list[int]) -> SerializableEntitySubset[dg.AssetCheckKey]:
        """Return these partitions, neighbours as one window. Sorts ``indexes``."""
        indexes.sort()
        ends = [i for i, (one, next_one) in enumerate(pairwise(indexes)) if next_one != one + 1]
        firsts = [indexes[i] for i in (0, *(end + 1 for end in ends))] if indexes else []
        lasts = [indexes[i] for i in (*ends, len(indexes) - 1)] if indexes else []
        windows = [self._window(first, last) for first, last in zip(firsts, lasts, strict=True)]
        return SerializableEntitySubset(key, TimeWindowPartitionsSubset(self.definition, len(indexes), windows))

    def _window(self, first: int, last: int) -> PersistedTimeWindow:
        start, end, zone = self.bounds[first][0], self.bounds[last][1], self.definition.timezone
        self.definition.ranges[start, end] = dg.PartitionKeyRange(self.keys[first], self.keys[last])
        return PersistedTimeWindow(TimestampWithTimezone(start, zone), TimestampWithTimezone(end, zone))


@lru_cache(maxsize=50)
def _windows_of(partitions: dg.TimeWindowPartitionsDefinition, last: str | None) -> _Windows:
    """Return the windows of a definition whose ``last`` partition is this one: it changes as time goes on."""
    definition = _WindowsOnRecord(
        start=partitions.start_ts,
        end=partitions.end_ts,
        timezone=partitions.timezone,
        fmt=partitions.fmt,
        end_offset=partitions.end_offset,
        cron_schedule=partitions.cron_schedule,
    )
    definition.ranges = {}
    keys = partitions.get_partition_keys()
    windows = islice(partitions._iterate_time_windows(partitions.start_timestamp), len(keys))
    return _Windows(definition, keys, [(window.start.timestamp(), window.end.timestamp()) for window in windows])
