"""Sources: outside data → DataFrame of one or more windows.

A new source kind is one file in this room and one line in `open_source` below; its YAML shape is a file under contracts/.
"""

from collections.abc import Mapping
from datetime import datetime

from lakehouse_assets.contracts.delta_source import DeltaSource
from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.kafka_source import KafkaSource
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.source_kind import SourceOpening
from lakehouse_assets.contracts.spark_table import SparkTableSource
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import SCAN_ERRORS, Extraction, Source
from lakehouse_assets.sources.delta import DeltaReader
from lakehouse_assets.sources.delta_feed import DeltaFeed
from lakehouse_assets.sources.feed import Feed
from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets.sources.files_feed import FilesFeed, RecordedFiles
from lakehouse_assets.sources.jdbc import JdbcReader
from lakehouse_assets.sources.kafka import KafkaReader
from lakehouse_assets.sources.kafka_feed import KafkaFeed
from lakehouse_assets.sources.table import TableReader


def open_source(
    spec: TableSpec,
    settings: Settings,
    recorded_positions: Mapping[datetime, str],
    recorded_fingerprints: Mapping[datetime, str] | None = None,
    timeout_seconds: int | None = None,
) -> Source:
    """Return the source of a table. ``recorded_positions``: the text (`Source.positions`) of each window that was read before,
    by its start. ``recorded_fingerprints``: of those windows. ``timeout_seconds``: for one answer of the source.
    """
    declared = spec.all_source_columns
    recorded, personal = (recorded_positions, recorded_fingerprints), bool(spec.pii_columns)
    if isinstance(spec.source, JdbcSource):
        return JdbcReader(spec.source, settings, declared, *recorded, timeout_seconds, personal=personal)
    if isinstance(spec.source, KafkaSource):
        stream = spec.extraction.stream
        passes_lost = stream is not None and stream.lost_messages == "continue"
        return KafkaReader(spec.source, settings, spec.extraction.windows, declared, *recorded, passes_lost=passes_lost)
    if isinstance(spec.source, DeltaSource):
        key, snapshots = [spec.source_columns(name) for name in spec.key], spec.extraction.mode == "snapshot"
        calendar = spec.extraction.windows
        if spec.extraction.stream:  # its windows are those on record
            calendar = lambda _: [spec.extraction.window_at(start) for start in sorted(recorded_positions)]  # noqa: E731
        return DeltaReader(
            spec.source, settings, calendar, declared, key, recorded_positions, snapshots=snapshots, personal=personal
        )
    if isinstance(spec.source, FilesSource) and spec.extraction.stream:
        return RecordedFiles(spec.source, settings.landing, declared, recorded_positions)
    if isinstance(spec.source, FilesSource):
        return FilesReader(spec.source, settings.landing, declared)
    opening = SourceOpening(settings, declared, spec.extraction.windows, *recorded, timeout_seconds, personal)
    if isinstance(spec.source, SparkTableSource):
        return TableReader(spec.source, opening)
    return spec.source.open_source(opening)


def open_feed(spec: TableSpec, settings: Settings) -> Feed:
    """Return what `extraction.stream` of a table reads. Opens no connection yet."""
    source, stream = spec.source, spec.extraction.stream
    if stream is None:
        raise ValueError(f"{spec.name} is no stream")
    if isinstance(source, KafkaSource):
        return KafkaFeed(source, stream, spec.extraction.start, settings)
    if isinstance(source, FilesSource):
        return FilesFeed(source, stream, settings.landing)
    if isinstance(source, DeltaSource):
        return DeltaFeed(source, stream, settings)
    raise ValueError(f"{spec.name}: a source of kind {source.kind} is no stream")


__all__ = ["SCAN_ERRORS", "Extraction", "FilesReader", "Source", "open_feed", "open_source"]
