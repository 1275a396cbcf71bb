"""What is on record of a table's windows, in Dagster and in the lake, as the facts that `decisions.healing` judges. No JVM.

Belongs here: reading the record. Does not: the judgement, or asking for a run (retries).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import dagster as dg
from dagster import DagsterRun
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES, RunRecord
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    PARTITION_NAME_TAG,
)

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window, window_at
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.healing import Facts, Healing, healing
from lakehouse_assets.orchestration.watcher import recorded_versions
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

LAYERS = ("bronze", "silver", "baseline")
# A run that somebody ended has not brought its windows in either.
FAILED = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
MOST_ASKED = 500  # partitions named in one query


def healing_of(instance: dg.DagsterInstance, settings: Settings, spec: TableSpec, now: datetime) -> list[Healing]:
    """What is to become of each window of a table, oldest first."""
    return healing(facts_of(instance, settings, spec, now), now, spec.extraction.retries, spec.extraction.lookback)


def facts_of(instance: dg.DagsterInstance, settings: Settings, spec: TableSpec, now: datetime) -> list[Facts]:
    """What is on record of each window of a table that is over."""
    arrived = recorded_versions(instance, _source(spec))
    records = logs.extractions(settings, spec.name)
    newest = ledger.latest_extractions(records)
    first: dict[datetime, datetime] = {}
    for record in records:
        first[record.p_extracted_at] = min(record.extracted_at, first.get(record.p_extracted_at, record.extracted_at))
    known = logs.decisions(settings, spec.name, evidence=False)
    standing = ledger.standing(known)
    # What was decided last counts: a release that was killed half way is still to be carried out.
    done = {batch for batch, decision in standing.items() if decision.applied_at}
    held: dict[datetime, int | None] = {}
    for decision in sorted(standing.values(), key=lambda d: d.extraction_seq):
        if decision.p_extracted_at is not None and decision.superseded_by is None:
            holds = decision.verdict == "quarantined" or decision.counts.rows_quarantined > 0
            held[decision.p_extracted_at] = decision.counts.rows_quarantined if holds else None
    on_record = instance.get_materialized_partitions(dg.AssetKey(f"bronze_{spec.name}"))
    on_record = on_record & instance.get_materialized_partitions(dg.AssetKey(f"silver_{spec.name}"))
    found: dict[Window, Facts] = {}
    for window in spec.extraction.windows(now):
        record, print_ = newest.get(window.start), arrived.get(window.key)
        fresh = record is not None and record.fingerprint == print_
        found[window] = Facts(
            window,
            arrived=print_ is not None,
            fresh=fresh,
            current=fresh and (window.start, record.extraction_seq) in done and window.key in on_record if record else False,
            taken=first.get(window.start),
            held=held.get(window.start),
        )
    todo = [window for window, facts in found.items() if facts.arrived and not facts.current]
    return [*_with_tries(instance, spec, found, todo).values()] if todo else [*found.values()]


def _with_tries(
    instance: dg.DagsterInstance, spec: TableSpec, found: dict[Window, Facts], todo: Sequence[Window]
) -> dict[Window, Facts]:
    """The facts with the runs of those windows that are not done."""
    reported = reported_at(instance, spec, [window.key for window in todo])
    since = min(reported.values(), default=None)
    wanted = {window.key: window for window in todo}
    failed: dict[Window, list[datetime]] = {window: [] for window in todo}
    for record in instance.get_run_records(dg.RunsFilter(statuses=list(FAILED), created_after=since)):
        for key in windows_of(spec, record.dagster_run, wanted):
            # What was tried before the source changed says nothing of what it has now.
            if record.create_timestamp.replace(tzinfo=UTC) >= reported.get(key, datetime.max.replace(tzinfo=UTC)):
                failed[wanted[key]].append(_ended(record))
    running = {
        key for run in instance.get_runs(dg.RunsFilter(statuses=NOT_FINISHED_STATUSES)) for key in windows_of(spec, run, wanted)
    } | _in_backfills(instance, spec, wanted)
    for window in todo:
        facts = found[window]
        found[window] = replace(
            facts, failed=tuple(sorted(failed[window])), running=window.key in running, reported=reported.get(window.key)
        )
    return found


def _ended(record: RunRecord) -> datetime:
    return datetime.fromtimestamp(record.end_time, UTC) if record.end_time else record.update_timestamp.replace(tzinfo=UTC)


def assets_of(spec: TableSpec) -> list[dg.AssetKey]:
    """What one run of a window makes."""
    return [dg.AssetKey(f"{layer}_{spec.name}") for layer in LAYERS]


def selection_of(specs: Iterable[TableSpec]) -> dg.AssetSelection:
    """What the sensors of these tables may ask for."""
    return dg.AssetSelection.assets(*(key for spec in specs for key in assets_of(spec)))


def windows_of(spec: TableSpec, run: DagsterRun, keys: Collection[str]) -> Iterator[str]:
    """Those of these windows that a run was to make of this table."""
    if not set(assets_of(spec)) & set(run.asset_selection or ()):
        return
    if PARTITION_NAME_TAG in run.tags:
        if run.tags[PARTITION_NAME_TAG] in keys:
            yield run.tags[PARTITION_NAME_TAG]
    elif ASSET_PARTITION_RANGE_START_TAG in run.tags:
        first, last = run.tags[ASSET_PARTITION_RANGE_START_TAG], run.tags[ASSET_PARTITION_RANGE_END_TAG]
        # Keys sort as the windows that they name.
        yield from (key for key in keys if first <= key <= last)


def _in_backfills(instance: dg.DagsterInstance, spec: TableSpec, keys: Iterable[str]) -> set[str]:
    """Those of these windows that a backfill which is not over has been asked for: its runs may not be there yet."""
    found: set[str] = set()
    open_ = [BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING, BulkActionStatus.FAILING]
    for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=open_)):
        if set(assets_of(spec)) & set(backfill.asset_selection or ()):
            found |= set(keys)  # of all of them: it is over soon, and nothing is asked for twice
    return found


def perhaps_overlooked(instance: dg.DagsterInstance, settings: Settings, spec: TableSpec) -> bool:
    """Whether the source of some window was reported after the window was last made, or is not what was last taken of it (it
    may have changed while a run passed over it), or something was decided and not carried out. Asks the instance, and reads
    the logs.
    """
    ids = [
        instance.event_log_storage.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION)
        for key in (_source(spec), dg.AssetKey(f"silver_{spec.name}"))
    ]
    if any(reported > ids[1].get(key, -1) for key, reported in ids[0].items()):
        return True
    arrived = recorded_versions(instance, _source(spec))
    for start, taken in ledger.latest_extractions(logs.extractions(settings, spec.name)).items():
        key = window_at(start, spec.extraction.cadence).key
        if key in arrived and arrived[key] != taken.fingerprint:
            return True
    return bool(ledger.unapplied(logs.decisions(settings, spec.name, evidence=False)))


def _source(spec: TableSpec) -> dg.AssetKey:
    return dg.AssetKey(f"source_{spec.name}")


def reported_at(instance: dg.DagsterInstance, spec: TableSpec, keys: Sequence[str]) -> dict[str, datetime]:
    """When the source was last seen to have another version of these windows."""
    found: dict[str, datetime] = {}
    for place in range(0, len(keys), MOST_ASKED):
        asked = dg.AssetRecordsFilter(asset_key=_source(spec), asset_partitions=list(keys[place : place + MOST_ASKED]))
        cursor, more = None, True
        while more:
            page = instance.fetch_materializations(asked, limit=1000, cursor=cursor)
            cursor, more = page.cursor, page.has_more
            for record in page.records:
                if record.partition_key is not None:
                    at = datetime.fromtimestamp(record.timestamp, UTC)
                    found[record.partition_key] = max(at, found.get(record.partition_key, at))
    return found
