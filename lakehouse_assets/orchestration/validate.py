"""What can be said of a contract by looking at the newest landed file: columns that no source has. No JVM.

Belongs here: `check validate` beyond the YAML itself. Does not: the YAML's own errors (contracts).
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from lakehouse_assets.errors import SourceError
from lakehouse_assets.orchestration.component import LakehouseTable
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import open_source


def unused_packs(tables: Sequence[LakehouseTable]) -> list[str]:
    """One line per pack that no table uses: it promises nothing."""
    used = {source.pack for table in tables for sources in table.places.sources.values() for source in sources}
    lines = set()
    for table in tables:
        files = table.places.files
        if files.packs:
            unused = (name for name in files.values.packs if name not in used)
            lines |= {f"{files.packs.at([name])}: {name}: no table uses this pack" for name in unused}
    return sorted(lines)


def source_mistakes(tables: Sequence[LakehouseTable], settings: Settings) -> list[str]:
    """One line per declared column that the newest landed window lacks, with file, line and key; none where nothing landed."""
    mistakes = []
    for table in tables:
        spec = table.spec
        source = open_source(spec, settings.landing)
        try:
            arrived = source.fingerprints(spec.extraction.windows(datetime.now(UTC)))
        except SourceError:
            continue  # nothing has landed yet: nothing to compare with
        if not arrived:
            continue
        newest = max(arrived)
        has = source.columns(newest)
        for name in spec.columns:
            wanted = spec.source_column(name)
            if has and wanted not in has:
                place, key = table.places.told(["columns", name])
                mistakes.append(f"{place}: {key}: {newest.key} has no column {wanted!r}; it has {', '.join(has)}")
    return mistakes
