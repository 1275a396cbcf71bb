"""The recorded facts of a table's windows, in Dagster and in the lake, and the status that follows. No JVM.

Belongs here: reading the records. Does not: the judgement (decisions.healing), or requesting runs (retries).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import ledger, log_parts
from lakehouse_assets.decisions.extraction_log import ExtractionLog
from lakehouse_assets.decisions.healing import WindowFacts, WindowStatus, window_statuses
from lakehouse_assets.decisions.reading import windows_to_read_again
from lakehouse_assets.orchestration import dagster_internals as internals
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.partitions import partition_key, windows_by_partition
from lakehouse_assets.orchestration.healing.reading_attempts import reading_tags, without_attempted
from lakehouse_assets.orchestration.healing.source_versions import (
    comparable,
    digits_of,
    read_reports,
    recorded_versions,
    source_key,
)
from lakehouse_assets.orchestration.own_process import was_killed
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.kept_missing import kept_missing
from lakehouse_assets.storage.source_positions import read_positions
from lakehouse_assets.storage.table_windows import table_windows

LAYERS = ("bronze", "silver", "baseline")
# A cancelled run has not ingested its windows either.
FAILED = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
# Runs in which one command tried windows in ever smaller ranges count as one try.
ONE_TRY = "lakehouse/one_try"
# Of a stream's window that is on record and not in bronze yet.
UNREAD = "unread"


def window_assets(spec: TableSpec) -> list[dg.AssetKey]:
    """Return the assets that one run of a window materializes."""
    return [asset_key(spec, f"{layer}_{spec.name}") for layer in LAYERS]


def window_asset_selection(specs: Iterable[TableSpec]) -> dg.AssetSelection:
    """Return the assets that these tables' sensors may request."""
    return dg.AssetSelection.assets(*(key for spec in specs for key in window_assets(spec)))


def read_statuses(instance: dg.DagsterInstance, settings: Settings, spec: TableSpec, now: datetime) -> list[WindowStatus]:
    """Return the status of each closed window of a table, oldest first; of a stream, of those that may need a step."""
    facts = read_facts(instance, settings, spec, now)
    statuses = window_statuses(facts, now, spec.extraction.retries, spec.extraction.lookback)
    if spec.extraction.stream:  # a window of a millisecond is always read after its end
        return [status._replace(states=tuple(state for state in status.states if state != "late")) for status in statuses]
    return statuses


def read_facts(instance: dg.DagsterInstance, settings: Settings, spec: TableSpec, now: datetime) -> list[WindowFacts]:
    """Return the recorded facts of each closed window of a table; of a stream, those that may need a step."""
    arrived = {} if spec.extraction.stream else recorded_versions(instance, spec)
    records, decisions = logs.extractions(settings, spec.name), logs.decisions(settings, spec.name)
    current, digits = ledger.current_decisions(decisions), digits_of(spec)
    newest = {} if spec.extraction.stream else ledger.latest_extractions(records)  # its windows are read once
    again = without_attempted(instance, spec, windows_to_read_again(spec, newest, decisions))
    quarantined = _quarantined_rows(decisions)
    materialized = instance.get_materialized_partitions(asset_key(spec, f"bronze_{spec.name}"))
    materialized = materialized & instance.get_materialized_partitions(asset_key(spec, f"silver_{spec.name}"))
    facts = dict[Window, WindowFacts]()
    for window in _windows(settings, spec, now, records, decisions, materialized):
        of_window, fingerprint = records.by_window.get(window.start, ()), arrived.get(window.key)
        record = of_window[-1] if of_window else None
        if spec.extraction.stream:  # what it took is on record, and never changes
            fingerprint = record.fingerprint[:digits] if record is not None else UNREAD
        if record is None and fingerprint is None and window.start not in quarantined:
            facts[window] = WindowFacts(window)  # nothing is on record: most windows of a calendar with gaps
            continue
        is_fresh = record is not None and record.fingerprint[:digits] == fingerprint and window.start not in again
        # The last decision counts: a release that was killed half way is still to be applied.
        last = current.get(record.batch) if record is not None else None
        is_applied = last is not None and last.applied_at is not None
        facts[window] = WindowFacts(
            window,
            has_arrived=fingerprint is not None,
            is_fresh=is_fresh,
            is_current=is_fresh and is_applied and partition_key(spec.extraction, window) in materialized,
            first_extracted_at=min((each.extracted_at for each in of_window), default=None),
            rows_quarantined=quarantined.get(window.start),
        )
    pending = [window for window, of_window in facts.items() if of_window.has_arrived and not of_window.is_current]
    return [*(_with_tries(instance, spec, facts, pending, again) if pending else facts).values()]


def _windows(
    settings: Settings,
    spec: TableSpec,
    now: datetime,
    records: ExtractionLog,
    decisions: Sequence[Decision],
    materialized: Collection[str],
) -> list[Window]:
    """Return the table's closed windows, oldest first. Of a stream, these are windows that are not in bronze, not judged, not
    applied, quarantined, or in a partition that Dagster does not know. It has a hundred thousand others.
    """
    extraction = spec.extraction
    if not extraction.stream or extraction.lookback:
        return table_windows(settings, spec, now)
    recorded, name = read_positions(settings, spec.name), (settings.root, spec.name)
    starts: set[datetime | None] = {*kept_missing(("unread", *name), recorded, records.by_window)}
    undecided = kept_missing(("undecided", *name), records.by_batch, ledger.current_decisions(decisions))
    starts |= {start for start, _ in undecided}
    starts |= {d.p_extracted_at for d in ledger.unapplied_decisions(decisions)}
    starts |= {d.p_extracted_at for d in ledger.quarantined_decisions(decisions)}
    for first, last in log_parts.decided_ranges(decisions, lambda start: extraction.partition(extraction.window_at(start)).end):
        if partition_key(extraction, extraction.window_at(first)) not in materialized:
            starts |= {d.p_extracted_at for d in log_parts.decided_between(decisions, first, last)}
    windows = [extraction.window_at(start) for start in starts if start in recorded and start is not None]
    return sorted(window for window in windows if window.end <= now)


def _quarantined_rows(decisions: Sequence[Decision]) -> dict[datetime, int]:
    """Return the quarantined rows of each window whose newest judged extraction has some, or is quarantined without any."""
    quarantined = {d.batch: d.counts.rows_quarantined for d in ledger.quarantined_decisions(decisions)}
    current = ledger.current_decisions(decisions)
    by_window = ledger.of_windows(decisions, {start for start, _ in quarantined if start is not None})
    newest = {
        start: max((d.batch for d in own if current[d.batch].superseded_by is None), key=lambda batch: batch[1])
        for start, own in by_window.items()
    }
    return {start: quarantined[batch] for start, batch in newest.items() if batch in quarantined}


def _with_tries(
    instance: dg.DagsterInstance,
    spec: TableSpec,
    facts: dict[Window, WindowFacts],
    pending: Sequence[Window],
    again: Collection[datetime],
) -> dict[Window, WindowFacts]:
    """Return the facts with the runs of the pending windows' partitions. ``again``: windows that are to be read by other keys
    of `source:`, by start; of them only runs that were requested with today's keys count.
    """
    by_key = windows_by_partition(spec.extraction, pending)
    reported_at = read_report_times(instance, spec, list(by_key))
    failures: dict[str, list[tuple[dg.DagsterRun, datetime]]] = {key: [] for key in by_key}
    since = min(reported_at.values(), default=None)
    for record in instance.get_run_records(dg.RunsFilter(statuses=list(FAILED), created_after=since)):
        for key in windows_of_run(spec, record.dagster_run, by_key):
            # A try before the source changed says nothing about what it has now.
            if record.create_timestamp.replace(tzinfo=UTC) >= reported_at.get(key, datetime.max.replace(tzinfo=UTC)):
                failures[key].append((record.dagster_run, ended_at(record)))
    # The run of a killed command stays unfinished until somebody reports it as failed.
    unfinished = [run for run in instance.get_runs(dg.RunsFilter(statuses=internals.UNFINISHED)) if not was_killed(run)]
    running = {key for run in unfinished for key in windows_of_run(spec, run, by_key)}
    backfills = internals.unfinished_backfills(instance)
    if any(set(window_assets(spec)) & set(backfill.asset_selection or ()) for backfill in backfills):
        # Its runs may not exist yet. All windows wait for it: it is over soon, and nothing is requested twice.
        running |= set(by_key)
    tags = reading_tags(spec).items()
    tries = {key: _tries_of(runs) for key, runs in failures.items()}
    of_today = {key: _tries_of([each for each in runs if tags <= each[0].tags.items()]) for key, runs in failures.items()}
    return facts | {
        window: facts[window]._replace(
            **(of_today if window.start in again else tries)[key],
            is_running=key in running,
            reported_at=reported_at.get(key),
        )
        for key, windows in by_key.items()
        for window in windows
    }


def _tries_of(failures: Iterable[tuple[dg.DagsterRun, datetime]]) -> dict[str, Any]:
    """Return the tries that these failed runs were (with their ends), as `WindowFacts` has them."""
    ends: dict[str, datetime] = {}
    has_failed_alone = False
    for run, ended in failures:
        name = run.tags.get(ONE_TRY, run.run_id)
        ends[name] = max(ended, ends.get(name, ended))
        has_failed_alone = has_failed_alone or _has_one_window(run)
    return {"failed_at": tuple(sorted(ends.values())), "has_failed_alone": has_failed_alone}


def ended_at(record: dg.RunRecord) -> datetime:
    """Return when a finished run ended."""
    return datetime.fromtimestamp(record.end_time, UTC) if record.end_time else record.update_timestamp.replace(tzinfo=UTC)


def windows_of_run(spec: TableSpec, run: dg.DagsterRun, keys: Collection[str]) -> Iterator[str]:
    """Yield those of these partitions that a run should materialize of this table."""
    if not set(window_assets(spec)) & set(run.asset_selection or ()):
        return
    if internals.PARTITION_TAG in run.tags:
        if run.tags[internals.PARTITION_TAG] in keys:
            yield run.tags[internals.PARTITION_TAG]
    elif internals.RANGE_START_TAG in run.tags:
        first, last = run.tags[internals.RANGE_START_TAG], run.tags[internals.RANGE_END_TAG]
        # Keys sort as their windows do.
        yield from (key for key in keys if first <= key <= last)


def _has_one_window(run: dg.DagsterRun) -> bool:
    first = run.tags.get(internals.RANGE_START_TAG)
    return internals.PARTITION_TAG in run.tags or (first is not None and first == run.tags.get(internals.RANGE_END_TAG))


def may_be_overlooked(instance: dg.DagsterInstance, settings: Settings, spec: TableSpec) -> bool:
    """Whether some window may need a run that nobody requested. Reads the instance and the logs.

    True where a source was reported after its window was last materialized, or has another version than was last extracted
    (it may have changed while a run passed over it); where a decision is not applied; where a quarantined window is to be read
    by other keys of `source:`; and where the lake lacks what the instance has on record (it is new, or an older copy).
    """
    if spec.extraction.stream:
        return False  # its own process finishes what is on record
    reported, materialized = (
        instance.event_log_storage.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION)
        for key in (source_key(spec), asset_key(spec, f"silver_{spec.name}"))
    )
    if any(storage_id > materialized.get(key, -1) for key, storage_id in reported.items()):
        return True
    newest = ledger.latest_extractions(logs.extractions(settings, spec.name))
    window_at = spec.extraction.window_at
    extracted = {window_at(start).key: comparable(spec, record.fingerprint) for start, record in newest.items()}
    for key, fingerprint in recorded_versions(instance, spec).items():
        # A window of silver without a record is judged by `read_statuses`, which knows today's calendar.
        part = partition_key(spec.extraction, spec.extraction.window(key)) if spec.extraction.shares_partitions else key
        if (part in materialized) if key not in extracted else fingerprint != extracted[key]:
            return True
    decisions = logs.decisions(settings, spec.name)
    decided = {decision.batch for decision in decisions}
    undecided = any((record.p_extracted_at, record.extraction_seq) not in decided for record in newest.values())
    again = without_attempted(instance, spec, windows_to_read_again(spec, newest, decisions))
    return undecided or bool(again or ledger.unapplied_decisions(decisions))


def read_report_times(instance: dg.DagsterInstance, spec: TableSpec, keys: Sequence[str]) -> dict[str, datetime]:
    """Return when each of these partitions was last reported with a new version, by key."""
    times: dict[str, datetime] = {}
    for key, record in read_reports(instance, spec, keys):
        at = datetime.fromtimestamp(record.timestamp, UTC)
        times[key] = max(at, times.get(key, at))
    return times
