"""By which keys of `source:` runs were to read their windows, and those that could not, since their files are gone.

Belongs here: the tags of runs and of bronze's materializations. Does not: which windows are to be read so (decisions.reading).
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime

import dagster as dg

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.reading import windows_to_read_again
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.partitions import partition_key
from lakehouse_assets.orchestration.healing.source_versions import PAGE_SIZE
from lakehouse_assets.pipeline.extraction_records import find_written_again
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.storage import logs

TAG = "lakehouse/not_read_by"
RUN_TAG = "lakehouse/reads_by"


def attempt_tags(run: Run, windows: Iterable[Window]) -> dict[str, str]:
    """Return the tags of bronze after this run of these windows: none, unless one is still to be read again."""
    records, decisions = logs.extractions(run.settings, run.table), logs.decisions(run.settings, run.table)
    again = windows_to_read_again(run.spec, ledger.latest_extractions(records), decisions)
    again |= _find_written_again(run, ledger.undecided_extractions(records, decisions))
    return {TAG: _hash_of_keys(run.spec)} if any(window.start in again for window in windows) else {}


def reading_tags(spec: TableSpec) -> dict[str, str]:
    """Return the tags of a requested run: today's keys, which a try of a window that is to be read by them is recognised by."""
    return {RUN_TAG: _hash_of_keys(spec)}


def unread_windows(instance: dg.DagsterInstance, run: Run) -> set[datetime]:
    """Return the windows that bronze is to read before they are judged: by today's keys, or since a killed run left other rows
    than are on record. Windows whose files are gone are not among them: their rows are judged as they were read.
    """
    records, decisions = logs.extractions(run.settings, run.table), logs.decisions(run.settings, run.table)
    undecided = ledger.undecided_extractions(records, decisions)
    again = windows_to_read_again(run.spec, ledger.latest_extractions(records), decisions)
    again &= {record.p_extracted_at for record in undecided}
    return without_attempted(instance, run.spec, again | _find_written_again(run, undecided))


def _find_written_again(run: Run, undecided: Sequence[ExtractionRecord]) -> set[datetime]:
    """As `find_written_again`, without what this run itself has recorded: that is what it read."""
    return find_written_again(run, [record for record in undecided if record.run_id != run.run_id])


def without_attempted(instance: dg.DagsterInstance, spec: TableSpec, again: set[datetime]) -> set[datetime]:
    """Return these windows without those whose last run had today's keys: it found no files of them, nor will the next one."""
    keys = {start: partition_key(spec.extraction, spec.extraction.window_at(start)) for start in again}
    todays_keys = _hash_of_keys(spec)
    bronze, attempted, partitions = asset_key(spec, f"bronze_{spec.name}"), set[str | None](), sorted(set(keys.values()))
    for index in range(0, len(partitions), PAGE_SIZE):
        some = set(partitions[index : index + PAGE_SIZE])
        ids = instance.event_log_storage.get_latest_storage_id_by_partition(
            bronze, dg.DagsterEventType.ASSET_MATERIALIZATION, some
        )
        latest = dg.AssetRecordsFilter(asset_key=bronze, storage_ids=[*ids.values()])
        for record in instance.fetch_materializations(latest, limit=PAGE_SIZE).records if ids else ():
            event = record.asset_materialization
            if event is not None and (event.tags or {}).get(TAG) == todays_keys:
                attempted.add(record.partition_key)
    return {start for start, key in keys.items() if key not in attempted}


def _hash_of_keys(spec: TableSpec) -> str:
    return hashlib.sha256(json.dumps(spec.source.reading(), sort_keys=True).encode()).hexdigest()[:16]
