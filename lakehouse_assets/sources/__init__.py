"""Outside → DataFrame of one or more windows. A new source kind is one file here, and one line in `open_source`."""

from collections.abc import Mapping
from datetime import datetime

from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.kafka_source import KafkaSource
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import SCAN_ERRORS, Extraction, Source
from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets.sources.jdbc import JdbcReader
from lakehouse_assets.sources.kafka import KafkaReader


def open_source(
    spec: TableSpec,
    settings: Settings,
    recorded: Mapping[datetime, str],
    taken: Mapping[datetime, str] | None = None,
    seconds: int | None = None,
) -> Source:
    """The source of a table. ``recorded``: windows that were read before, by their start, each with what
    is on record of it (`Source.positions`). ``taken``: their fingerprints. ``seconds``: what an answer of it may take at most.
    """
    declared = [spec.source_column(name) for name in spec.columns]
    if isinstance(spec.source, JdbcSource):
        return JdbcReader(spec.source, settings, declared, recorded, taken, seconds)
    if isinstance(spec.source, KafkaSource):
        return KafkaReader(spec.source, settings, spec.extraction.windows, declared, recorded, taken)
    return FilesReader(spec.source, settings.landing, declared)


__all__ = ["SCAN_ERRORS", "Extraction", "FilesReader", "Source", "open_source"]
