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
from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets.sources.jdbc import JdbcReader
from lakehouse_assets.sources.kafka import KafkaReader
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
    declared = [spec.source_column(name) for name in spec.columns]
    recorded, personal = (recorded_positions, recorded_fingerprints), bool(spec.pii_columns)
    if isinstance(spec.source, JdbcSource):
        return JdbcReader(spec.source, settings, declared, *recorded, timeout_seconds, personal=personal)
    if isinstance(spec.source, KafkaSource):
        return KafkaReader(spec.source, settings, spec.extraction.windows, declared, *recorded)
    if isinstance(spec.source, DeltaSource):
        key, snapshots = [spec.source_column(name) for name in spec.key], spec.extraction.mode == "snapshot"
        calendar = spec.extraction.windows
        return DeltaReader(
            spec.source, settings, calendar, declared, key, recorded_positions, snapshots=snapshots, personal=personal
        )
    if isinstance(spec.source, FilesSource):
        return FilesReader(spec.source, settings.landing, declared)
    opening = SourceOpening(settings, declared, spec.extraction.windows, *recorded, timeout_seconds, personal)
    if isinstance(spec.source, SparkTableSource):
        return TableReader(spec.source, opening)
    return spec.source.open_source(opening)


__all__ = ["SCAN_ERRORS", "Extraction", "FilesReader", "Source", "open_source"]
