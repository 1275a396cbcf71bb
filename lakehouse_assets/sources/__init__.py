"""Outside → DataFrame of one or more windows. A new source kind is one file here, and one line in `open_source`."""

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.sources.base import SCAN_ERRORS, Extraction, Source
from lakehouse_assets.sources.files import FilesReader


def open_source(spec: TableSpec, landing: str) -> Source:
    """The source of a table. ``landing``: the landing folder, a path or an object-store URL."""
    declared = [spec.source_column(name) for name in spec.columns]
    return FilesReader(spec.source, landing, declared)


__all__ = ["SCAN_ERRORS", "Extraction", "FilesReader", "Source", "open_source"]
