"""What can be said of a contract by looking at the newest landed file: columns that no source has. No JVM.

Belongs here: `check validate` beyond the YAML itself. Does not: the YAML's own errors (contracts).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from lakehouse_assets.errors import SourceError
from lakehouse_assets.orchestration.component import LakehouseTable
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import open_source


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
        file = table.folder / "defs.yaml"
        for name in spec.columns:
            wanted = spec.source_column(name)
            if has and wanted not in has:
                line = _line(file, name, wanted)
                mistakes.append(
                    f"{file}:{line}: columns.{name}: {newest.key} has no column {wanted!r}; it has {', '.join(has)}"
                )
    return mistakes


def _line(file: Path, name: str, wanted: str) -> int:
    lines = file.read_text(encoding="utf-8").splitlines()
    for number, text in enumerate(lines, 1):
        if text.strip().startswith((f"{name}:", f'"{name}":')):
            return number
    return next((number for number, text in enumerate(lines, 1) if wanted in text), 1)
