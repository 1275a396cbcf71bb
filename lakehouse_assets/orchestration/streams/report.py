"""The reports on a stream to Dagster: its windows' partitions and check results, and how far it is behind.

Belongs here: what is new since the last report, which the instance remembers. Does not: when it is reported (service), or what
a partition shows (assets/partition_report).
"""

from datetime import datetime

import dagster as dg

from lakehouse_assets.events.outbox import Cursor
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.partition_report import report_partitions
from lakehouse_assets.orchestration.dagster_internals import read_cursor, write_cursors
from lakehouse_assets.orchestration.streams.recorded_report import record_lag
from lakehouse_assets.orchestration.streams.table_stream import TableStream
from lakehouse_assets.queries.stream_lag import StreamLag, read_lag
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs


def report_windows(instance: dg.DagsterInstance, settings: Settings, stream: TableStream, now: datetime) -> int:
    """Report the partitions whose windows were decided since the last report, and how much waits. Returns the number of those
    windows. They are reported again if this process is killed before it is remembered.
    """
    spec, key = stream.spec, f"lakehouse_stream/{stream.spec.name}"
    decisions = logs.decisions(settings, spec.name)
    reported = Cursor.from_text(read_cursor(instance, key) or "")
    # A log without the last decision that was reported is another one, or an older copy.
    new = [each for each in decisions if each.number > reported.number or not reported.is_of(decisions)]
    windows = sorted({spec.extraction.window_at(d.p_extracted_at) for d in new if d.p_extracted_at})
    if windows:
        report_partitions(instance, settings, spec, windows)
        write_cursors(instance, {key: Cursor.at(max(new, key=lambda decision: decision.number)).as_text()})
    # Gold follows the partitions, so they are first: whatever the source answers is no reason to wait.
    lag = read_lag(settings, spec, now, stream.feed)
    record_lag(instance, spec, lag, now)
    if windows or lag.waiting != 0:  # of a source that is silent, the last observation stays true
        instance.report_runless_asset_event(_progress(stream, lag, len(windows)))
    return len(windows)


def _progress(stream: TableStream, lag: StreamLag, windows: int) -> dg.AssetObservation:
    """Return an observation of bronze: what waits at the source. Dagster draws its numbers over time."""
    metadata: dict[str, dg.MetadataValue] = {
        "windows_reported": dg.MetadataValue.int(windows),
        "seconds_since_newest_window": dg.MetadataValue.float(lag.since.total_seconds()),
        "lag": dg.MetadataValue.text(lag.describe()),
    }
    if lag.oldest is not None:
        metadata["seconds_waiting"] = dg.MetadataValue.float(lag.oldest.total_seconds())
    if lag.waiting is not None:
        metadata[f"{lag.unit}_waiting"] = dg.MetadataValue.int(lag.waiting)
    return dg.AssetObservation(asset_key(stream.spec, f"bronze_{stream.spec.name}"), metadata=metadata)
