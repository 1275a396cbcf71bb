"""A table's source, opened with what the lake has on record of it.

Belongs here: which kinds need a record, reading and writing it. Does not: what a source is (sources), extracting (bronze).
"""

from collections.abc import Sequence
from datetime import datetime

from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import ledger
from lakehouse_assets.layers.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import Source, open_source
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.positions import positions, record_positions


def remembers(spec: TableSpec) -> bool:
    """Whether what a window took is kept on record, since the source cannot tell it twice."""
    return not isinstance(spec.source, FilesSource) and not (
        isinstance(spec.source, JdbcSource) and spec.source.history == "window"
    )


def only_in_bronze(spec: TableSpec) -> bool:
    """Whether the source has the present only, so that bronze is the only copy of what a window took."""
    return isinstance(spec.source, JdbcSource) and spec.source.history == "watermark"


def source_of(spec: TableSpec, settings: Settings, seconds: int | None = None) -> Source:
    """The source as of now. Needs no JVM; raises nothing, since nothing is opened yet. ``seconds``: as `open_source`."""
    if isinstance(spec.source, FilesSource):
        return open_source(spec, settings, {})
    taken = _taken(spec, settings)
    recorded = positions(settings, spec.name) if remembers(spec) else dict.fromkeys(taken, "")
    return open_source(spec, settings, recorded, taken, seconds)


def _taken(spec: TableSpec, settings: Settings) -> dict[datetime, str]:
    """The fingerprint under which each window was last read."""
    newest = ledger.latest_extractions(logs.extractions(settings, spec.name))
    return {start: record.fingerprint for start, record in newest.items()}


def settled_source(run: Run, windows: Sequence[Window]) -> tuple[Source, list[Window]]:
    """The source for reading these windows, and those of them that it may be asked for: what they take is on record from now
    on, and what has come a moment later is not theirs. The table's lock must be held. Raises SourceError.
    """
    if not remembers(run.spec):
        return source_of(run.spec, run.settings), list(windows)
    taken = _taken(run.spec, run.settings)
    source = open_source(run.spec, run.settings, positions(run.settings, run.spec.name), taken)
    if fresh := source.positions(windows):
        record_positions(run.settings, run.spec.name, fresh, run.run_id, run.clock())
        run.step("positions_recorded")
    recorded = positions(run.settings, run.spec.name)
    return open_source(run.spec, run.settings, recorded, taken), [window for window in windows if window.start in recorded]
