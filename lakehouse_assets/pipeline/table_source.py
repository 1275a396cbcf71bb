"""A table's source, opened with what the lake has on record of it.

Belongs here: which kinds need a record, reading and writing it. Does not: what a source is (sources), extracting (bronze).
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import ledger
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import Source, open_source
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.source_positions import read_positions, record_positions


def remembers(spec: TableSpec) -> bool:
    """Whether the offsets of a window are recorded before the read, since the source cannot repeat them."""
    return spec.source.records_positions or spec.extraction.stream is not None


def only_in_bronze(spec: TableSpec) -> bool:
    """Whether the source keeps no history, so that bronze has the only copy of a window."""
    return not spec.source.keeps_history


def source_of(spec: TableSpec, settings: Settings, seconds: int | None = None) -> Source:
    """The source as of now. Needs no JVM, and opens no connection yet. ``seconds``: as `open_source`."""
    if isinstance(spec.source, FilesSource) and not spec.extraction.stream:
        return open_source(spec, settings, {})
    fingerprints = _last_fingerprints(spec, settings)
    recorded = recorded_positions(spec, settings) if remembers(spec) else dict.fromkeys(fingerprints, "")
    return open_source(spec, settings, recorded, fingerprints, seconds)


def recorded_positions(spec: TableSpec, settings: Settings) -> Mapping[datetime, str]:
    """The positions on record by window start; none for a source that can repeat its windows."""
    return read_positions(settings, spec.name) if remembers(spec) else {}


def _last_fingerprints(spec: TableSpec, settings: Settings, starts: Collection[datetime] | None = None) -> dict[datetime, str]:
    records = logs.extractions(settings, spec.name)
    newest = ledger.latest_extractions(records if starts is None else records.of_windows(starts))
    return {start: record.fingerprint for start, record in newest.items()}


def settled_source(run: Run, windows: Sequence[Window]) -> tuple[Source, list[Window]]:
    """The source for reading these windows, and those of them that it may be asked for. Their offsets are recorded from now
    on. Data that comes a moment later belongs to later windows. The caller holds the table's lock. Raises SourceError.
    """
    spec, settings = run.spec, run.settings
    if not remembers(spec):
        return source_of(spec, settings), list(windows)
    if spec.extraction.stream:
        return _stream_source(spec, settings, windows)
    if fresh := source_of(spec, settings).positions(windows):
        record_positions(settings, spec.name, fresh, run.run_id, run.clock())
        run.step("positions_recorded")
    recorded = recorded_positions(spec, settings)
    return source_of(spec, settings), [window for window in windows if window.start in recorded]


def _stream_source(spec: TableSpec, settings: Settings, windows: Sequence[Window]) -> tuple[Source, list[Window]]:
    """The source of a stream, opened for these windows, whose positions are on record; it knows no others."""
    recorded = recorded_positions(spec, settings)
    fingerprints = _last_fingerprints(spec, settings, {window.start for window in windows})
    on_record = [window for window in windows if window.start in recorded]
    positions = {window.start: recorded[window.start] for window in on_record}
    return open_source(
        spec, settings, positions, {start: fingerprints[start] for start in positions if start in fingerprints}
    ), on_record
